"""Who stands in for whom: delegations with dates, looked up at the moment when somebody looks or
answers.
"""

from __future__ import annotations

import datetime as dt
import uuid

from django.db import transaction
from django.db.models import QuerySet
from django.utils.translation import gettext

from checkpoints.database import clock
from checkpoints.database.people import NAME, User
from checkpoints.state import codec
from checkpoints.store.prepared_queries import Prepared
from hitl.models import Delegation
from runs.models import Pause
from runs.workflows.refusals import FieldRefused

LONGEST = dt.timedelta(days=366)
MOST = 20
OFFERED = 100
"""Colleagues that a form offers; others are called by their username."""


class DelegationRefused(FieldRefused):
    """The delegation cannot be made. `field` names what is wrong."""

    code = "delegation_refused"


def active_to(key: int, *, now: dt.datetime) -> QuerySet[Delegation]:
    """The delegations by which a person stands in for others at that time."""
    return Delegation.objects.active(now=now).filter(to_user=key, from_user__service_account=None)


_to = Prepared(
    lambda now, key: active_to(key, now=now).select_related("from_user").order_by("pk"),
    dt.datetime,
    int,
)


def to(user: User, *, now: dt.datetime) -> list[Delegation]:
    """Those of `active_to`, with whom they are of."""
    return _to.get(now, user.pk)


_at = Prepared(
    lambda key: Delegation.objects.filter(pause=key).select_related("to_user").order_by("pk"),
    uuid.UUID,
)


def at(pause: Pause) -> list[Delegation]:
    """Who was asked to answer one question in somebody's place, at whatever time."""
    return _at.get(pause.pk) if getattr(pause, "has_handed_over", True) else []


def colleagues(user: User) -> QuerySet[User]:
    """Whom a person may name: people of the same teams.

    A delegate sees what is asked, so a stranger is named by an operator only.
    """
    return (
        User.objects.filter(groups__in=user.groups.all(), is_active=True, service_account=None)
        .exclude(pk=user.pk)
        .distinct()
        .order_by(NAME)
    )


_offered = Prepared(lambda key: colleagues(User(pk=key))[:OFFERED], int)


def offered(user: User) -> list[User]:
    """As many of them as forms offer."""
    return _offered.get(user.pk)


@transaction.atomic
def delegate(
    by: User, *, to_user: User, starts_at: dt.datetime, ends_at: dt.datetime, reason: str = ""
) -> Delegation:
    """Let a colleague answer for oneself between two times. Raises DelegationRefused."""
    now = clock.now()
    if not colleagues(by).filter(pk=to_user.pk).exists():
        raise DelegationRefused("to_user", gettext("Choose somebody of one of your teams."))
    check(starts_at=starts_at, ends_at=ends_at, reason=reason)
    if Delegation.objects.general().filter(from_user=by, ends_at__gt=now).count() >= MOST:
        raise DelegationRefused(
            "to_user",
            gettext("You have %(most)s delegations already; end one first.") % {"most": MOST},
        )
    return Delegation.objects.create(
        from_user=by,
        to_user=to_user,
        starts_at=starts_at,
        ends_at=ends_at,
        reason=reason.strip()[:200],
        created_by=by,
    )


def check(*, starts_at: dt.datetime, ends_at: dt.datetime, reason: str) -> None:
    """Raise DelegationRefused where nobody may delegate so, whoever to."""
    now = clock.now()
    if ends_at <= max(starts_at, now):
        raise DelegationRefused(
            "ends_at", gettext("The end lies before the beginning, or has passed already.")
        )
    if ends_at - max(starts_at, now) > LONGEST:
        raise DelegationRefused("ends_at", gettext("Up to %(days)s days.") % {"days": LONGEST.days})
    if reason != codec.readable(reason):
        raise DelegationRefused(
            "reason", gettext("The reason holds characters that cannot be kept.")
        )


@transaction.atomic
def end(delegation_id: int, *, by: User) -> bool:
    """End one's own delegation now; False where there is none that lasts.

    What was answered by it stays.
    """
    now = clock.now()
    mine = Delegation.objects.filter(pk=delegation_id, from_user=by)
    begun = mine.filter(starts_at__lte=now, ends_at__gt=now).update(ends_at=now)
    return bool(begun or mine.filter(starts_at__gt=now).update(starts_at=now, ends_at=now))
