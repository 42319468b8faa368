"""Imported work: where a run may go on from it, and with what.

A document is its importer's word, so nothing in it decides anything here.

Every run that goes on from an imported checkpoint passes `begun`, in `runs.engine.start.begin`: it
begins at or before the first step that asks, with none of the answers, approvals, recorded results
and places in a step that the document holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from checkpoints.export.thread_document import IMPORTED
from checkpoints.models import Checkpoint
from runs.workflows import owned
from runs.workflows.registry import asks_by_itself
from runs.workflows.sequence import FrozenStep

ANSWERS = owned.BY_ANSWERS | {owned.RESUME_CONTEXT}
"""State keys under which the engine keeps answers of people, and results of child runs."""
NOTHING_ANSWERED: Mapping[str, Any] = {"revision_feedback": "", "decided": {}}
"""What a state holds of these before anybody was asked."""


def is_imported(checkpoint: Checkpoint | None) -> bool:
    """Whether a checkpoint came with a document. One that cannot be read counts as imported."""
    metadata = checkpoint.metadata if checkpoint is not None else {}
    return IMPORTED in metadata if isinstance(metadata, Mapping) else True


def asks(step: FrozenStep) -> bool:
    """Whether a step may ask somebody: by the template's rules, by itself, or through its child
    runs.
    """
    ruled = step["pause_after"] or bool(step.get("review")) or bool(step.get("required_inputs"))
    return (
        ruled
        or asks_by_itself(step["function"])
        or any(asks(sub_step) for sub_step in step.get("sub_steps", []))
    )


def first_asking(steps: Sequence[FrozenStep], next_step: str) -> FrozenStep | None:
    """The first step before `next_step` ("" for the end) that asks; None where nobody is asked
    before it.
    """
    for step in steps:
        if step["name"] == next_step:
            return None
        if asks(step):
            return step
    return None


def place(steps: Sequence[FrozenStep], next_step: str) -> str:
    """Where a run begins that would go on with `next_step`: there, or at the first step before it
    that asks.
    """
    earlier = first_asking(steps, next_step)
    return earlier["name"] if earlier is not None else next_step


def cleaned(state: Mapping[str, Any]) -> dict[str, Any]:
    """A state without what people are said to have answered, and without what kinds of steps keep
    for themselves, such as the place of a step that was at work.
    """
    gone = ANSWERS.union(key for key, keeps in owned.kept().items() if not keeps.imported)
    return {
        **NOTHING_ANSWERED,
        **{key: value for key, value in state.items() if key not in gone},
    }
