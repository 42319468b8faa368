"""The files of optional packages: beside requirements.txt, and of an extension in its folder."""

from __future__ import annotations

from pathlib import Path

from tests.servers.stack import ROOT


def files() -> dict[str, Path]:
    """Name → file, as a path from the repository's folder."""
    found = {
        path.stem.removeprefix("requirements-"): path for path in ROOT.glob("requirements-*.txt")
    }
    found |= {path.parent.name: path for path in ROOT.glob("extensions/*/requirements.txt")}
    return {name: path.relative_to(ROOT) for name, path in found.items()}
