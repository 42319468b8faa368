"""What counts as approved: a decision as the machine is told of it (`DecisionRecord`), and the
engine's own judgement of one, for whoever looks for what went past it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkpoints.models import Checkpoint
from runs.engine import approvals
from runs.engine.approvals import DecisionRecord, approving, counts, material_of
from runs.engine.start import following
from runs.models import Run

__all__ = [
    "EDITED",
    "KEY",
    "RELIED",
    "SKIPPED",
    "UNASKED",
    "DecisionRecord",
    "approving",
    "counts",
    "flaw",
    "following",
    "material_of",
    "named",
]

KEY, EDITED, RELIED = approvals.KEY, approvals.EDITED, approvals.RELIED
SKIPPED, UNASKED = approvals.SKIPPED, approvals.UNASKED
"""Keys of a checkpoint's metadata: see `runs.engine.approvals`."""


def flaw(record: DecisionRecord, run: Run, head: Checkpoint, step: str) -> str:
    """Why a decision is no approval of what `step` came to, for a run that stands behind `head`; ""
    where it is one.
    """
    return approvals.flaw(record, run, head, step)


def named(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Step → id of the decision that its approval is; "" for one that does not count any more."""
    return approvals.named(metadata)
