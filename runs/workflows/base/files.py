"""Files that steps make."""

from __future__ import annotations

import hashlib
from typing import Any

from runs import limits
from runs.workflows.base.outcomes import StepFailed

LONGEST = 80
"""Signs of a name."""


def told(name: str, content: bytes) -> dict[str, Any]:
    """What a state holds of a file: `name`, `bytes` and `sha256`, the fields of File. Raises
    StepFailed (`file_refused`).
    """
    if not name.isprintable() or not 0 < len(name.strip()) == len(name) <= LONGEST or "/" in name:
        words = f"{name[:LONGEST]!r} cannot be the name of a file: 1 to {LONGEST} signs, no slash."
        raise StepFailed(words, code="file_refused")
    if not 0 < len(content) <= limits.FILE_BYTES:
        words = f"The file {name} has {len(content):,} bytes; 1 to {limits.FILE_BYTES:,} are kept."
        raise StepFailed(f"{words} Nothing of it was.", code="file_refused")
    digest = hashlib.sha256(content).hexdigest()
    return {"name": name, "bytes": len(content), "sha256": digest}
