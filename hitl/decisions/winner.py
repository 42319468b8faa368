"""Who was first, in the words that whoever came second is told: by every door the same."""

from __future__ import annotations

from checkpoints.text import dates
from hitl.decisions import revisions
from hitl.models import Decision
from runs.models import Pause
from runs.states import PauseStatus
from runs.workflows.sequence import APPROVE, CANCEL, REVISE

PAST = {APPROVE: "approved", REVISE: "sent back for revision", CANCEL: "cancelled"}


def who_won(pause: Pause, decision: Decision | None) -> str:
    """What is said to whoever answers a question that is closed."""
    if pause.status == PauseStatus.EXPIRED and pause.closed_at is not None:
        return (
            f"It expired at {dates.told(pause.closed_at, exact=True)}: nobody had answered in "
            "time. Your answer was not recorded."
        )
    if decision is None:
        return (
            f"This question is closed ({pause.get_status_display().lower()}), so your answer "
            "was not recorded."
        )
    return f"{_already(pause, decision)} Your answer was not recorded; nothing ran twice."


def answer_to_revision(pause: Pause, seen: int | None) -> Decision | None:
    """Give what an earlier revision of an open question was answered with, where it was
    answered.
    """
    before = revisions.earlier(pause, seen) if seen is None or seen < pause.revision else None
    return Decision.objects.answer_to(before) if before is not None else None


def moved_on(pause: Pause, decision: Decision | None) -> str:
    """What is said to whoever answers what is no longer asked while another question, or revision
    of it, is open.
    """
    now = (
        f"The question is at revision {pause.revision} by now. Look at the new content before "
        "you answer; nothing was decided."
    )
    if decision is None or decision.pause is None:
        return now
    return f"{_already(decision.pause, decision)} {now}"


def _already(pause: Pause, decision: Decision) -> str:
    done = PAST.get(
        decision.action, f"answered with “{pause.labels.get(decision.action, decision.action)}”"
    )
    return f"Already {done} by {decision.who} at {dates.told(decision.decided_at, exact=True)}."
