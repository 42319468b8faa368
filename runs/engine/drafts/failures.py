"""What is said of a step's failure: to people, to programs, and to the steps that follow it."""

from __future__ import annotations

from typing import Any

from checkpoints import store
from checkpoints.state import codec, reducers
from runs.engine.context.claimed_run import ClaimedRun, loop_num
from runs.engine.drafts.events import EventDraft, line
from runs.states import FAILED_OVER, FAILURE, FailureCode
from runs.workflows.base import StepFailed
from runs.workflows.schemas import SchemaRefused

KNOWN = (StepFailed, codec.NotJson, reducers.MergeFailed, store.CheckpointDamaged, SchemaRefused)
"""Errors whose words are for people, and that bring a code."""
LONGEST_ERROR = 10_000
"""Characters of a failure that are kept; lists and pages show it."""
LONGEST_CARRIED = 1_000
"""Those that each checkpoint after it takes along where the run goes on."""


def words_of(held: ClaimedRun, error: Exception) -> str:
    """The words of an error that are kept, without the secrets that the run was given."""
    kind = type(error).__name__
    try:
        said = str(error)
    except Exception:  # noqa: BLE001  # an author's __str__ may raise anything
        said = "it has no words that can be read; the server's log names the line"
    if not isinstance(error, KNOWN):
        said = f"{kind}: {said}" if said else kind
    text: str = codec.readable(held.scrub(said))
    if len(text) <= LONGEST_ERROR:
        return text
    return f"{text[:LONGEST_ERROR]} … The server's log has the whole of it."


def code_of(error: Exception) -> str:
    return error.code[:64] if isinstance(error, KNOWN) else FailureCode.STEP_ERROR.value


def tried(tries: int) -> str:
    return f"Tried {tries} time{'s' if tries > 1 else ''}; "


def leading_on(held: ClaimedRun, error: Exception, *, to: str) -> tuple[dict[str, Any], EventDraft]:
    """The metadata of a checkpoint whose step failed and leads to another one, and what the log
    says of that.
    """
    progress, text = held.progress, words_of(held, error)
    why = {
        "step": progress.at,
        "loop_num": loop_num(progress.head, progress.at),
        "message": text[:LONGEST_CARRIED],
        "type": type(error).__name__[:100],
        "code": code_of(error),
        "tries": (tries := progress.counts["attempts"] + 1),
    }
    words = f"{text} {tried(tries)}the run goes on at {to}."
    return {FAILURE: why}, line(words, progress.at, level="error", code=FAILED_OVER, to=to)
