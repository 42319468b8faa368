"""Taking an answer back within the time that its step's rules leave for that.

It is a second recorded act, in the same ledger.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable

from django.db import transaction
from django.utils.translation import gettext

from checkpoints.database import clock
from checkpoints.database.people import User
from hitl.decisions import receipts
from hitl.ledger import chain
from hitl.models import UNDO, Decision, Via
from runs.models import Run
from runs.services import undo as taking_back
from runs.services.undo import TooLate as TooLate
from runs.states import PENDING


class NotYourAnswer(Exception):
    """Only who gave an answer takes it back, or a superuser."""

    code = "undo_not_yours"


def undo(decision_id: uuid.UUID, *, by: User, via: Via) -> Decision:
    """Take an answer back: the question is open again as it was.

    Gives the decision that records it.

    Raises:
        services.NotFound: no such decision for this person.
        NotYours: somebody else gave the answer; nothing written.
        TooLate: the run has gone on with it, or it was taken back already; nothing written.
    """
    decision = receipts.find(decision_id, by=by)
    if why_not := _why_not(decision, by):
        raise NotYourAnswer(why_not)
    if decision.goes_on_at is None or decision.pause is None:
        raise TooLate(gettext("This answer cannot be undone: its step leaves no time for that."))
    if hasattr(decision, "undone_by"):
        raise TooLate(
            gettext("%(who)s undid this answer already.") % {"who": decision.undone_by.who}
        )
    return _undo(decision, until=decision.goes_on_at, by=by, via=via)


def _why_not(decision: Decision, user: User) -> str:
    if user.is_superuser or decision.decided_by_id == user.pk:
        return ""
    return gettext("Only %(name)s, who gave this answer, or an administrator can undo it.") % {
        "name": decision.name
    }


@transaction.atomic(durable=True)
def _undo(decision: Decision, *, until: dt.datetime, by: User, via: Via) -> Decision:
    assert decision.pause is not None
    undone = Decision(
        pause=decision.pause,
        undoes=decision,
        action=UNDO,
        decided_by=by,
        decided_at=clock.now(),
        via=via,
        revision=decision.revision,
        content_digest=decision.content_digest,
    )
    event = {"decision_id": undone.shown_id, "undoes": decision.shown_id, "via": str(via)}
    taking_back.take_back(decision.pause, until=until, by=undone.name, told=event)
    chain.append(undone)
    return undone


def waiting(runs: Iterable[Run | None], *, now: dt.datetime) -> Decision | None:
    """The answer that one of these runs waits to go on with, and that may still be taken back."""
    due = {
        run.pk: run.due_at
        for run in runs
        if run is not None and run.status == PENDING and run.due_at > now
    }
    if not due:
        return None
    given = Decision.objects.filter(pause__run__in=list(due), goes_on_at__gt=now).select_related(
        "decided_by", "pause__run"
    )
    return next(
        (
            decision
            for decision in given.order_by("-id")
            if decision.pause is not None and decision.goes_on_at == due[decision.pause.run_id]
        ),
        None,
    )
