"""Node's programs for checks and tests: which, in package.json; how they come onto this machine, in `install`."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
INSTALLED = ROOT / ".venv" / "node"


def program(name: str) -> Path | None:
    """A program of package.json, such as `spectral`; None where this machine has none."""
    path = INSTALLED / "node_modules" / ".bin" / name
    return path if path.exists() else None
