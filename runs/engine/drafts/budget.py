"""What a run may write: counted in its checkpoints' metadata, so that counting costs no statement;
a warning first, then a clear stop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkpoints.models import Checkpoint
from runs.engine.context.claimed_run import ClaimedRun
from runs.engine.drafts.events import Events, line
from runs.workflows.base import StepFailed

SPENT = "bytes"
"""Metadata key: what the run has written so far, from its own first checkpoint on."""
WARN_AT = 0.8


class Spent(StepFailed):
    """The run has written as much as it may.

    What it wrote before is kept, and a retry gets a budget of its own.
    """

    def __init__(self, spent: int, budget: int) -> None:
        message = (
            f"The run would have written {spent:,} bytes of checkpoints; its budget is "
            f"{budget:,}. The state before this step is kept. "
        )
        super().__init__(
            message
            + (
                "Keep less in the state, or raise the template's size_budget; a retry begins to "
                "count anew."
            ),
            code="size_budget",
        )


def carried(held: ClaimedRun, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata that counts nothing more than what was counted before."""
    return {**metadata, SPENT: held.progress.metadata.get(SPENT, 0)}


def spend(held: ClaimedRun, checkpoint: Checkpoint, *, more: int = 0) -> Events:
    """Count an unsaved checkpoint, its chunks and `more` bytes that came with it; gives the warning
    where that is due. Raises Spent.
    """
    budget, before = held.run.frozen.size_budget, held.progress.metadata.get(SPENT, 0)
    spent = before + checkpoint.size + checkpoint.chunked + more
    if budget and spent > budget:
        raise Spent(spent, budget)
    checkpoint.metadata[SPENT] = spent
    if budget and before < WARN_AT * budget <= spent:
        message = (
            f"This run has written {spent:,} of the {budget:,} bytes of checkpoints that it "
            "may. At the limit it is stopped."
        )
        return [line(message, held.progress.at, level="warning", bytes=spent, budget=budget)]
    return []
