"""Which steps get a checkpoint of their own, by the template's frequency, and the count of those
that do not.
"""

from __future__ import annotations

from checkpoints.models import Checkpoint
from runs.engine.context.claimed_run import ClaimedRun
from runs.engine.drafts.events import MIDWAY
from runs.models.frequency import Frequency
from runs.workflows.base import Go


def wanted(held: ClaimedRun, outcome: Go) -> bool:
    """Whether a step that others follow gets a checkpoint.

    A join does, and a step with a commit: its code must be found again.
    """
    progress = held.progress
    if progress.joining:
        return True
    match held.run.frozen.frequency:
        case Frequency.STEP:
            return True
        case Frequency.LOOPS:
            looped = progress.head.node_id == progress.at  # the last round of a step that looped
            return outcome.to == progress.at or looped or outcome.commit is not None
        case Frequency.NODES:
            return outcome.to != progress.at or outcome.commit is not None
        case Frequency.FAILURE | Frequency.OFF:
            return outcome.commit is not None


def untraced(
    held: ClaimedRun, checkpoint: Checkpoint, *, told: int = 1, written: bool = True
) -> dict[str, int]:
    """The column that counts steps told as done of which the history holds no result, where it
    changes.

    Args:
        told: how many steps this commit tells as done; none where that was told with a question
            midway.
    """
    progress = held.progress
    if written and progress.is_written:
        return {}
    if MIDWAY in progress.metadata:
        told = 0
    traced = written and progress.written[0].next_step == checkpoint.node_id
    return {"untraced_steps": progress.counts["untraced_steps"] + told - int(traced)}
