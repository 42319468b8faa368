"""Who is on a question: a claim keeps others from answering for `WAYSTATION_CLAIM_SECONDS`, and
ends by itself.

Two columns of the pause, moved by compare-and-set: a claim past its time is none, so nothing has to
end it, and two that are live cannot be.
"""

from __future__ import annotations

import datetime as dt
import uuid

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext

from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.events import log
from checkpoints.models import EventKind
from hitl.decisions import services, visibility
from hitl.decisions.reviewers import policy, turns
from hitl.decisions.reviewers.policy import ReviewContext
from runs.definitions import due_times
from runs.models import Pause
from runs.services import PauseClosed


def claim(pause_id: uuid.UUID, *, by: User, take_over: bool = False) -> Pause:
    """Keep others from answering for a while; once more by the same person begins that time anew.

    Gives the pause as it is then.

    Args:
        take_over: end somebody else's claim: for superusers, and told in the log. The rules on who
            answers bind them all the same.
    Raises:
        services.NotFound, services.AlreadyAnswered, services.DeadlinePassed.
        policy.Refused: the person could not approve it, somebody else has it, or its review has
            stages.
    """
    pause = visibility.find_shown(pause_id, by=by)
    services.check_open(pause)
    if turns.staged(pause):
        raise policy.NotAllowed(
            "not_claimable",
            gettext("A review in stages is not claimed: the other stages would have to wait."),
        )
    standing = ReviewContext(pause, by)
    standing.check_may_approve()
    if take_over and not by.is_superuser:
        raise policy.NotAllowed(
            "not_allowed", gettext("Only a superuser takes over what somebody else has claimed.")
        )
    try:
        _claim(pause, by=by, over=standing.holder if take_over else None)
    except PauseClosed as lost:
        pause.refresh_from_db()
        services.check_open(pause)
        ReviewContext(pause, by).check_claim()
        raise policy.NotNow(
            "claimed", gettext("Somebody else was quicker by a moment. Nothing was claimed.")
        ) from lost
    return visibility.find_shown(pause_id, by=by)


@transaction.atomic(durable=True)
def _claim(pause: Pause, *, by: User, over: User | None) -> None:
    now = clock.now()
    until = now + dt.timedelta(seconds=settings.WAYSTATION_CLAIM_SECONDS)
    free = policy.free_for(by, now=now)
    mine = Pause.objects.open().filter(
        free if over is None else free | policy.free_for(over, now=now),
        due_times.in_time(),
        pk=pause.pk,
    )
    if not mine.change(claimed_by=by, claimed_until=until):
        raise PauseClosed(
            gettext("%(shown_id)s was answered, claimed, or is over") % {"shown_id": pause.shown_id}
        )
    more = {"until": until.isoformat(), **({"from": policy.name_of(over)} if over else {})}
    _tell(pause, "taken_over" if over else "claimed", by, **more)


@transaction.atomic(durable=True)
def release(pause_id: uuid.UUID, *, by: User) -> Pause:
    """Let others answer again; where the claim is none any more, nothing changes.

    Raises services.NotFound.
    """
    pause = visibility.find_shown(pause_id, by=by)
    if (
        Pause.objects.open()
        .filter(pk=pause.pk, claimed_by=by)
        .change(claimed_by=None, claimed_until=None)
    ):
        _tell(pause, "released", by)
    return visibility.find_shown(pause_id, by=by)


def _tell(pause: Pause, change: str, by: User, **more: str) -> None:
    event = {"what": change, "pause_id": pause.shown_id, "by": policy.name_of(by), **more}
    log.append(pause.run.thread_id, pause.run_id, [(EventKind.PAUSE_UPDATED, event)])
