"""Why an answer was not taken, in the words that every door tells whoever gave it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Self

from django.http import Http404
from django.utils.translation import gettext, gettext_lazy

from checkpoints.text import dates
from hitl.decisions import revisions
from hitl.models import Decision
from hitl.rendering.own_words import own
from runs.models import Pause
from runs.services import PauseClosed
from runs.states import PauseStatus
from runs.workflows.refusals import FieldsRefused, as_text
from runs.workflows.sequence import APPROVE, CANCEL, REVISE

PAST = {APPROVE: "approved", REVISE: "sent back for revision", CANCEL: "cancelled"}


class NotFound(Http404):
    """There is nothing of that id, or nothing that this person may see: the two cannot be told
    apart. Every page answers it with 404, as Django does.
    """

    code = "not_found"


OF_DATA = "input."
"""How the names of fields of the data begin: a sentence about one says which."""


class AnswerInvalid(FieldsRefused):
    """The answer cannot be taken as it is; the pause stays open."""

    code = "answer_invalid"

    def __init__(self, errors: Mapping[str, list[str]], code: str = "answer_invalid") -> None:
        super().__init__(errors)
        self.code = code

    @classmethod
    def of(cls, field: str, *sentences: str, code: str = "answer_invalid") -> Self:
        """Refuse one field."""
        return cls({field: [*sentences]}, code)

    def told(self, errors: Mapping[str, list[str]]) -> str:
        said = (
            as_text({field.removeprefix(OF_DATA) if field.startswith(OF_DATA) else "": texts})
            for field, texts in errors.items()
        )
        return " ".join([gettext("Nothing was decided; the question is still open."), *said])


class AlreadyAnswered(PauseClosed):
    """Somebody answered first, or the run ended: a calm truth for the one who came second."""

    def __init__(self, pause: Pause, decision: Decision | None) -> None:
        super().__init__(who_won(pause, decision))
        self.pause = pause
        self.decision = decision


class DeadlinePassed(AlreadyAnswered):
    """The answer came after the deadline: nothing of it was taken.

    The question's rules have acted, as they say.
    """

    code = "deadline_passed"

    def __init__(
        self, pause: Pause, decision: Decision | None, *, at: dt.datetime, outcome: str
    ) -> None:
        super().__init__(pause, decision)
        self.at = at
        self.outcome = outcome
        """What the rules say: `expire`, `cancel`, `approve` or `escalate`."""

    def __str__(self) -> str:
        outcome = str(OUTCOMES[self.outcome])
        if (
            self.outcome == "escalate"
            and self.pause.status == PauseStatus.OPEN
            and self.pause.deadline_at is not None
        ):
            outcome = gettext(
                "%(outcome)s, until %(told)s. Look at it again if you are still asked"
            ) % {"outcome": outcome, "told": dates.told(self.pause.deadline_at, exact=True)}
        return gettext(
            "The time to answer was over at %(told)s, so nothing of your answer was "
            "taken. %(outcome)s."
        ) % {"told": dates.told(self.at, exact=True), "outcome": outcome}


OUTCOMES = {
    "expire": gettext_lazy(
        "By its rules the question expires: its run ends without an answer, and the question "
        "can be reopened"
    ),
    "cancel": gettext_lazy("By its rules silence cancels"),
    "approve": gettext_lazy("By its rules silence approves, and the run goes on"),
    "escalate": gettext_lazy("By its rules further people are asked"),
}
"""What the rules say of a question at its deadline, in words."""


class RevisionMismatch(Exception):
    """The answer was given to another revision than the one that is open now."""

    code = "revision_mismatch"

    def __init__(
        self, pause: Pause, seen: int | None = None, *, decision: Decision | None = None
    ) -> None:
        self.pause, self.seen = pause, seen
        self.decision = decision or answer_to_revision(pause, seen)
        """Of whoever was first: what the revision that was seen was answered with."""
        super().__init__(moved_on(pause, self.decision))


class NotPaused(Exception):
    """The work order asks nothing at the moment."""

    code = "not_paused"


class SeveralQuestions(Exception):
    """Child runs of the work order ask more than one question, and the answer does not say which it
    is for.
    """

    code = "several_questions"

    def __init__(self, pauses: list[Pause]) -> None:
        super().__init__(
            gettext(
                "Several questions are open here; name one of them as pause_id. Nothing "
                "was decided."
            )
        )
        self.pauses = pauses


def who_won(pause: Pause, decision: Decision | None) -> str:
    """What is said to whoever answers a question that is closed."""
    if pause.status == PauseStatus.EXPIRED and pause.closed_at is not None:
        return gettext(
            "It expired at %(told)s: nobody had answered in time. Your answer was not recorded."
        ) % {"told": dates.told(pause.closed_at, exact=True)}
    if decision is None:
        return gettext("This question is closed (%(pause)s), so your answer was not recorded.") % {
            "pause": pause.get_status_display().lower()
        }
    return gettext("%(pause)s Your answer was not recorded; nothing ran twice.") % {
        "pause": _already(pause, decision)
    }


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
    now = gettext(
        "The question is at revision %(revision)s by now. Look at the new content "
        "before you answer; nothing was decided."
    ) % {"revision": pause.revision}
    if decision is None or decision.pause is None:
        return now
    return f"{_already(decision.pause, decision)} {now}"


def _already(pause: Pause, decision: Decision) -> str:
    said = {
        APPROVE: gettext("Already approved by %(who)s at %(told)s."),
        REVISE: gettext("Already sent back for revision by %(who)s at %(told)s."),
        CANCEL: gettext("Already cancelled by %(who)s at %(told)s."),
    }.get(decision.action, gettext("Already answered with “%(answer)s” by %(who)s at %(told)s."))
    return said % {
        "answer": own(pause.labels.get(decision.action, decision.action)),
        "who": decision.who,
        "told": dates.told(decision.decided_at, exact=True),
    }
