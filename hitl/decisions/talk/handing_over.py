"""Handing a question over: a colleague answers it in one's own place.

It is a delegation of that one question, so all that holds for delegations holds for it: both names
are recorded, it goes no further, and the rules on who answers stay as they are.
"""

from __future__ import annotations

import datetime as dt
import uuid

from django.db import transaction
from django.utils.translation import gettext

from checkpoints.database import clock
from checkpoints.database.people import User, called
from checkpoints.events import log
from checkpoints.models import EventKind
from checkpoints.state import codec
from hitl.decisions import notifications, visibility
from hitl.decisions.reviewers import delegations, policy
from hitl.decisions.reviewers.delegations import DelegationRefused
from hitl.decisions.reviewers.policy import ReviewContext
from hitl.decisions.services.pauses import check_open
from hitl.models import Delegation, Snooze
from hitl.models.outbound import Occasion
from runs import keyed
from runs.models import Pause
from runs.services import PauseClosed

LONGEST = 200
"""Characters of the reason."""


def hand_over(pause_id: uuid.UUID, *, by: User, to: str, reason: str) -> Pause:
    """Let a colleague answer an open question in one's place, until it is closed or taken back.

    It leaves the own inbox; to answer it stays possible. Handed to somebody else it is taken from
    the first. Gives the pause.

    Args:
        to: the username of somebody of one of the own teams.
        reason: told to the colleague, and in the log.
    Raises:
        services.NotFound, services.AlreadyAnswered, services.DeadlinePassed.
        policy.Refused: the person could not approve it in their own right.
        DelegationRefused: not to this person, or without a reason.
    """
    pause = visibility.find_pause(Pause.objects.answerable(), pause_id, by=by)
    check_open(pause)
    standing = ReviewContext(pause, by)
    standing.check_may_approve()
    if by not in standing.seats:
        raise policy.NotAllowed(
            "not_a_reviewer",
            gettext("You stand in for somebody at this question: that goes no further."),
        )
    reason = reason.strip()
    _hand_over(pause, by=by, to=_checked(pause, by, to.strip(), reason), reason=reason)
    pause.refresh_from_db()
    return pause


def _checked(pause: Pause, by: User, to: str, reason: str) -> User:
    if not reason:
        raise DelegationRefused("reason", gettext("Say why: your colleague and the log are told."))
    if len(reason) > LONGEST or reason != codec.readable(reason):
        raise DelegationRefused(
            "reason",
            gettext("The reason has up to %(longest)s readable characters.") % {"longest": LONGEST},
        )
    colleague = delegations.colleagues(by).filter(called(to)).first()
    if colleague is None:
        raise DelegationRefused("to", gettext("Choose somebody of one of your teams."))
    asked = policy.askers(pause)
    if not pause.review.get("self_approval", True) and colleague.pk in asked:
        raise DelegationRefused(
            "to", gettext("They asked for this work, so somebody else must approve it.")
        )
    if pause.votes.filter(voter=colleague).exists():
        raise DelegationRefused("to", gettext("They have voted on it already."))
    return colleague


@transaction.atomic(durable=True)
def _hand_over(pause: Pause, *, by: User, to: User, reason: str) -> None:
    # also tells the inboxes; of two at once the second ends what the first began
    if not Pause.objects.open().filter(pk=pause.pk).change():
        raise PauseClosed(
            gettext("%(pause)s was settled meanwhile: it was not handed over.")
            % {"pause": pause.shown_id}
        )
    keyed.made(pause.shown_id)
    now = clock.now()
    _end(pause, by, now=now)
    handed = Delegation.objects.create(
        pause=pause,
        from_user=by,
        to_user=to,
        starts_at=now,
        ends_at=now + delegations.LONGEST,
        reason=reason,
        created_by=by,
    )
    Snooze.objects.update_or_create(
        pause=pause, person=by, defaults={"until": now + delegations.LONGEST}
    )
    notifications.plan(
        pause,
        Occasion.ASKED,
        to=[to],
        mark=f"handed over {handed.pk}",
        words=f"{policy.name_of(by)} asks you to answer in their place: {reason}",
    )
    _tell(pause, "handed_over", by, to=policy.name_of(to), reason=reason)


def take_back(pause_id: uuid.UUID, *, by: User) -> Pause:
    """Answer oneself again what was handed over; where it was not, nothing changes. Gives the
    pause. Raises services.NotFound.
    """
    pause = visibility.find_shown(pause_id, by=by)
    _take_back(pause, by)
    pause.refresh_from_db()
    return pause


@transaction.atomic(durable=True)
def _take_back(pause: Pause, by: User) -> None:
    Pause.objects.open().filter(pk=pause.pk).change()
    if _end(pause, by, now=clock.now()):
        Snooze.objects.filter(pause=pause, person=by).delete()
        _tell(pause, "took_back", by)


def _end(pause: Pause, by: User, *, now: dt.datetime) -> int:
    return Delegation.objects.filter(pause=pause, from_user=by, ends_at__gt=now).update(ends_at=now)


def _tell(pause: Pause, change: str, by: User, **more: str) -> None:
    event = {"what": change, "pause_id": pause.shown_id, "by": policy.name_of(by), **more}
    log.append(pause.run.thread_id, pause.run_id, [(EventKind.PAUSE_UPDATED, event)])
