"""How what is optional is installed here: by its file, or as an extra of the wheel."""

from __future__ import annotations

from pathlib import Path

BUILT = Path(__file__).resolve().parents[1] / "built.json"
"""What a wheel was made of: its version and commit. In a checkout there is none."""


def install(name: str, file: str = "") -> str:
    """Write the line that installs an optional part; `file` names its requirements where they are
    not beside the others.
    """
    if BUILT.exists():
        return f"pip install 'waystation[{name}]'"
    return f"pip install -r {file or f'requirements-{name}.txt'}"
