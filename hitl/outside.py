"""How somebody without an account stands to a question: as `policy.Standing`, for whoever holds a link that was sent to a mail address.

They answer where the question itself says so (`Pause.outside`), in its words and with its answers, and never what is of high risk. Quorum,
claims and self-approval bind them like everybody: one address has one seat, and none where it is that of who asked for the work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User

from checkpoints.fields import demand
from hitl import policy
from hitl.outsiders import Outsider
from hitl.policy import NotAllowed, NotNow
from runs.models import Pause
from runs.workflows.sequence import REVISE


def asked(pause: Pause) -> list[str]:
    """The addresses that a question is put to outside; none where it is of high risk by now."""
    high = pause.review.get("risk") == "high" or any(call["risk"] == "high" for call in pause.calls)
    return [] if high else list(pause.outside.get("to", []))


def may_answer(pause: Pause, address: Any) -> bool:
    """Whether the link that was sent to this address takes an answer."""
    return bool(address) and str(demand(address)).lower() in asked(pause)


@dataclass(frozen=True)
class Shown:
    """All that somebody outside sees of a question, beside the form of what is asked for."""

    question: str
    content: str
    """Markdown."""
    ways: list[str]


def shown(pause: Pause) -> Shown:
    """Where only the rules name them, they see the question as its reviewers do, without its facts, effects and patch."""
    told = pause.outside
    content = pause.content if told.get("content") is None else told["content"]
    ways = [name for name in told.get("ways", []) if name in pause.ways and (name != REVISE or pause.may_revise)]
    return Shown(told.get("question") or pause.question, content, ways)


class Standing(policy.Place):
    """The pause has its run, thread and work order with it."""

    by: Outsider

    def __init__(self, pause: Pause, by: Outsider) -> None:
        super().__init__(pause, by)

    def seat_for(self, action: str) -> Outsider:
        """The only seat they have. Raises Refused."""
        if not may_answer(self.pause, self.by.address):
            raise NotAllowed("not_a_reviewer", "This question is not put to you, so nothing was decided.")
        if action not in shown(self.pause).ways:
            raise NotAllowed("not_a_reviewer", "This answer is for others to give; nothing was decided.")
        if policy.approves(action):
            self._check_may_approve()
        self.check_claim()
        return self.by

    def _check_may_approve(self) -> None:
        """Also an account has one voice: who could answer by it, and asked for the work or voted, does not answer from outside as well."""
        mine = set(User.objects.filter(email__iexact=self.by.address).values_list("pk", flat=True))
        if not self.pause.review.get("self_approval", True) and mine & policy.askers(self.pause):
            raise NotAllowed("self_approval", "You asked for this work, so somebody else must approve it.")
        voted = any(vote.external_key == self.by.key or {vote.voter_id, vote.seat_id} & mine for vote in self.votes)
        if voted:
            raise NotNow("already_voted", "Your answer was recorded before; it counts once.")
