"""How somebody without an account stands to a question: what `policy.ReviewContext` is for an
account, for whoever holds a link that was sent to a mail address.

They answer where the question itself says so (`Pause.outside`), in its words and with its answers,
and never what is of high risk.

An address that the step's frozen rules name answers as an account does: quorum, claims and
self-approval bind it like everybody; it has one seat, and none where it is that of who asked for
the work. Any other address may have been chosen by who asked for the work. It brings data
(`takes_data`), which approve nothing, are no vote, and let no run go on behind a step that somebody
must approve.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext

from checkpoints.database.people import User
from checkpoints.models.fields import demand
from hitl.decisions.reviewers import policy, turns
from hitl.decisions.reviewers.outsiders import Outsider
from hitl.decisions.reviewers.policy import NotAllowed, NotNow
from runs.models import Pause
from runs.workflows.external_reviewers import counts
from runs.workflows.reviews import stages
from runs.workflows.sequence import REVISE
from runs.workflows.wait_for_input import ANSWER


def asked(pause: Pause) -> list[str]:
    """The addresses that a question is put to outside: those that have an answer to give.

    None where it is of high risk by now.
    """
    return (
        []
        if pause.risk == "high"
        else [address for address in pause.outside.get("to", []) if _answers_of(pause, address)]
    )


def asked_now(pause: Pause) -> list[str]:
    """Those of them whose turn it is."""
    if not turns.staged(pause):
        return asked(pause)
    theirs = {
        address.lower() for stage in turns.open_now(pause) for address in stage.get("external", [])
    }
    return [address for address in asked(pause) if address in theirs]


def takes_data(pause: Pause) -> bool:
    """Whether data may come from an address that the rules do not name: the question is for data,
    no approval of several, and the step that asked looks at them itself, unless nobody must approve
    what it came to.
    """
    if (
        ANSWER not in pause.answers
        or not pause.wants_data(ANSWER)
        or pause.calls
        or policy.quorum(pause) > 1
    ):
        return False
    back = pause.answers[ANSWER] == pause.step
    step = next(
        (candidate for candidate in pause.run.frozen.steps if candidate["name"] == pause.step), None
    )
    approved = (
        not pause.review.get("self_approval", True)
        or not policy.open_to_all(pause)
        or (step is not None and step["pause_after"])
    )
    return back or not approved


def _answers_of(pause: Pause, address: str) -> list[str]:
    offered = pause.outside.get("answers", pause.outside.get("ways", []))  # older questions
    if counts(pause.review, address):
        return [name for name in offered if name in pause.answers]
    return [ANSWER] if ANSWER in offered and takes_data(pause) else []


def may_answer(pause: Pause, address: Any) -> bool:
    """Whether the link that was sent to this address takes an answer."""
    return bool(address) and str(demand(address)).lower() in asked(pause)


def may_answer_now(pause: Pause, address: str) -> bool:
    """The same, and whether it is their turn."""
    return address.lower() in asked_now(pause)


@dataclass(frozen=True)
class ExternalView:
    """All that somebody outside sees of a question, beside the form of what is asked for."""

    question: str
    content: str
    """Markdown."""
    answers: list[str]


def shown(pause: Pause, address: str) -> ExternalView:
    """Where only the rules name them, they see the question as its reviewers do, without its facts,
    effects and patch.
    """
    terms = pause.outside
    content = pause.content if terms.get("content") is None else terms["content"]
    answers = [name for name in _answers_of(pause, address) if name != REVISE or pause.may_revise]
    return ExternalView(terms.get("question") or pause.question, content, answers)


class ExternalReviewContext(policy.ReviewContextBase):
    """The pause has its run, thread and work order with it."""

    by: Outsider

    def __init__(self, pause: Pause, by: Outsider) -> None:
        super().__init__(pause, by)

    @property
    def stages(self) -> list[str]:
        address = self.by.address.lower()
        return [
            stage["name"]
            for stage in stages.of(self.pause.review)
            if address in {other.lower() for other in stage.get("external", [])}
        ]

    def seat_for(self, action: str) -> Outsider:
        """The only seat they have. Raises Refused."""
        if not may_answer(self.pause, self.by.address):
            raise NotAllowed(
                "not_a_reviewer",
                gettext("This question is not put to you, so nothing was decided."),
            )
        if action not in shown(self.pause, self.by.address).answers:
            raise NotAllowed(
                "not_a_reviewer", gettext("This answer is for others to give; nothing was decided.")
            )
        if turns.staged(self.pause) and not self.stage:
            raise self.not_asked()
        if policy.approves(action) and counts(self.pause.review, self.by.address):
            self._check_may_approve()
        self.check_claim()
        return self.by

    def _check_may_approve(self) -> None:
        """Also an account has one voice: who could answer by it, and asked for the work or voted,
        does not answer from outside as well.
        """
        mine = set(User.objects.filter(email__iexact=self.by.address).values_list("pk", flat=True))
        if not self.pause.review.get("self_approval", True) and mine & policy.askers(self.pause):
            raise NotAllowed(
                "self_approval",
                gettext("You asked for this work, so somebody else must approve it."),
            )
        voted = any(
            vote.external_key == self.by.key or {vote.voter_id, vote.seat_id} & mine
            for vote in self.votes
        )
        if voted:
            raise NotNow(
                "already_voted", gettext("Your answer was recorded before; it counts once.")
            )
