"""Node's programs for checks and tests: which, in package.json; how they come onto this machine, in
`install`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
INSTALLED = HERE.parent.parent / ".venv" / "node"


def search_path() -> str:
    """PATH for Node's programs: they look for `node`, which stands beside Python where it came as a
    wheel.
    """
    own, usual = Path(sys.executable).parent, os.environ["PATH"]
    return f"{own}{os.pathsep}{usual}" if (own / "node").exists() else usual


def program(name: str) -> Path | None:
    """A program of package.json, such as `spectral`; None where this machine has none."""
    path = INSTALLED / "node_modules" / ".bin" / name
    return path if path.exists() else None
