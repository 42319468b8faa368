"""The same answer to several questions at once, with brakes: looked over first, by workflow and
risk; what wants a look of its own is left out, with the reason; and each answer goes through
`decide` with the revision that was looked at.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from django.db.models import Q
from django.utils.translation import gettext

from checkpoints.database.people import User
from checkpoints.store import CheckpointDamaged, StoreUnavailable
from hitl.decisions import services
from hitl.decisions.reviewers import policy
from hitl.decisions.services import Answer
from hitl.models import Decision, Vote
from runs import keyed
from runs.models import Pause
from runs.services import PauseClosed
from runs.states import PauseStatus
from runs.workflows.reviews.rules import RISKS
from runs.workflows.sequence import APPROVE, CANCEL

MOST = 100
ANSWERS = (APPROVE, CANCEL)
REFUSALS = (
    policy.Refused,
    services.NotFound,
    services.AnswerInvalid,
    services.RevisionMismatch,
    PauseClosed,
    CheckpointDamaged,
    StoreUnavailable,
)
"""What one of the answers may end with without stopping the others."""


class BulkInvalid(Exception):
    """Nothing was decided: the selection or the answer is none."""

    code = "bulk_invalid"


class NotInBulk(Exception):
    """This question is not answered in bulk."""

    code = "not_in_bulk"


@dataclass
class BulkGroup:
    """The chosen questions of one workflow and risk."""

    template: str
    risk: str
    pauses: list[Pause] = field(default_factory=list)


@dataclass(frozen=True)
class Preview:
    parts: list[BulkGroup]
    left_out: list[tuple[Pause, str]]
    """Questions that are not answered so, and why."""
    gone: int
    """Chosen ids under which this person sees nothing."""

    @property
    def count(self) -> int:
        return sum(len(part.pauses) for part in self.parts)


class Chosen(NamedTuple):
    """A question as it was looked at: by its revision, its content's digest, or both."""

    pause_id: uuid.UUID
    revision: int | None = None
    content_digest: str = ""


@dataclass(frozen=True)
class BulkResult:
    """What came of one of the questions."""

    pause_id: uuid.UUID
    pause: Pause | None
    decision: Decision | None
    code: str
    words: str


def preview(pause_ids: Sequence[uuid.UUID], *, by: User) -> Preview:
    """What would be answered. Raises BulkInvalid for none or too many."""
    _check(pause_ids)
    pauses = list(_seen(pause_ids, by))
    parts: dict[tuple[str, str], BulkGroup] = {}
    left_out = []
    for pause in pauses:
        if why_not := refused(pause, APPROVE):
            left_out.append((pause, why_not))
        else:
            key = (str(pause.run.definition), pause.risk)
            parts.setdefault(key, BulkGroup(*key)).pauses.append(pause)
    ordered = sorted(parts.values(), key=lambda part: (-RISKS.index(part.risk), part.template))
    return Preview(ordered, left_out, len(set(pause_ids)) - len(pauses))


def decide(chosen: Sequence[Chosen], answer: Answer, *, by: User) -> list[BulkResult]:
    """Give the answer to each question as it was looked at; one that cannot be answered stops none
    of the others.

    Raises BulkInvalid before anything is decided.
    """
    _check([each.pause_id for each in chosen])
    if answer.action not in ANSWERS:
        raise BulkInvalid(
            gettext("Several questions at once are answered with %(or)s. Nothing was decided.")
            % {"or": " or ".join(ANSWERS)}
        )
    pauses = {pause.pk: pause for pause in _seen([each.pause_id for each in chosen], by)}
    with keyed.at_work(None):
        return [
            _decide_one(
                each.pause_id,
                pauses.get(each.pause_id),
                replace(answer, revision=each.revision, content_digest=each.content_digest),
                by=by,
            )
            for each in chosen
        ]


def _decide_one(
    pause_id: uuid.UUID, pause: Pause | None, answer: Answer, *, by: User
) -> BulkResult:
    try:
        if (
            pause is not None
            and pause.status == PauseStatus.OPEN
            and (why_not := refused(pause, answer.action))
        ):
            raise NotInBulk(why_not)
        decision = services.decide(pause_id, answer, by=by)
    except (*REFUSALS, NotInBulk) as refusal:
        return BulkResult(
            pause_id, pause, None, str(getattr(refusal, "code", "refused")), str(refusal)
        )
    if isinstance(decision, Vote):
        return BulkResult(
            pause_id,
            pause,
            None,
            "voted",
            gettext("Your vote was taken; the question stays open until enough have approved."),
        )
    return BulkResult(pause_id, pause, decision, "", _done(answer.action))


def refused(pause: Pause, action: str) -> str:
    """Why a question is not answered in bulk; "" where it may be."""
    if pause.status != PauseStatus.OPEN:
        return gettext("It has been answered already.")
    if pause.overdue:
        return gettext("The time to answer it is over.")
    if pause.risk == "high":
        return gettext("Its risk is high: look at it by itself.")
    if pause.review.get("step_up"):
        return gettext("It wants a second factor: look at it by itself.")
    if action in pause.review.get("reason_required", []):
        return gettext("This answer needs a reason of its own.")
    if action == APPROVE and APPROVE not in pause.answers:
        return gettext("Can't be approved in bulk.")
    if pause.wants_data(action):
        return gettext("It asks for data.")
    return ""


def _seen(pause_ids: Iterable[uuid.UUID], by: User) -> Iterable[Pause]:
    shown = (
        Pause.objects.filter(pk__in=list(pause_ids))
        .shown()
        .select_related("run__definition", "run__thread__owner", "run__parent")
    )
    return shown.filter(
        Q(pk__in=Pause.objects.visible_to(by).values("pk"))
        | Q(pk__in=policy.asked_of(by).values("pk"))
    ).order_by("id")


def _check(pause_ids: Sequence[uuid.UUID]) -> None:
    if not pause_ids or len(pause_ids) > MOST:
        raise BulkInvalid(
            gettext("Choose between one and %(most)s questions. Nothing was decided.")
            % {"most": MOST}
        )
    if len(set(pause_ids)) < len(pause_ids):
        raise BulkInvalid(gettext("A question was chosen twice. Nothing was decided."))


def _done(action: str) -> str:
    return {APPROVE: gettext("Approved."), CANCEL: gettext("Cancelled.")}.get(
        action, gettext("Answered.")
    )
