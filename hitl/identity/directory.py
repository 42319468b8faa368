"""Groups by what the identity provider says of somebody, at each of their logins."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import transaction

from checkpoints.database import clock
from checkpoints.database.people import User
from hitl.identity import sessions
from hitl.models import ApiToken, ClaimedGroup, Connection, MembershipChange

LONGEST = 200
MOST = 500
"""Values of a claim that are read."""


def values_of(given: Any) -> list[str]:
    """The values of the groups claim, or attribute; a single one may be text. What is neither is
    left out.
    """
    listed: Sequence[Any] = given if isinstance(given, list) else [given]
    found = (value for value in listed[:MOST] if isinstance(value, str) and len(value) <= LONGEST)
    return sorted(set(found))


def lets_in(values: Collection[str]) -> bool:
    """Whether whoever has these values may log in."""
    allowed = settings.WAYSTATION_SSO_ALLOWED_GROUPS
    return not allowed or bool(set(allowed) & set(values))


@transaction.atomic
def bring(
    user: User, values: Sequence[str], *, provider: str, connection: Connection | None = None
) -> None:
    """Give somebody the groups of these values, and take those that are for other values alone;
    note what changed, and how their account was connected.

    A group that no value stands for is left as operators gave it.
    """
    table = list(ClaimedGroup.objects.select_related("group"))
    told = {row.group for row in table}
    wanted = {row.group for row in table if row.claim in values}
    had = set(user.groups.filter(pk__in=[group.pk for group in told]))
    _change(user, values, provider, added=wanted - had, removed=had - wanted, connection=connection)


@transaction.atomic
def refuse(user: User, values: Sequence[str], *, provider: str) -> None:
    """Note that somebody may not log in any more: they lose the groups that the provider gave,
    their tokens, their sessions, and their password, unless it is kept for the day on which the
    provider is away.
    """
    had = set(user.groups.filter(pk__in=ClaimedGroup.objects.values("group")))
    ApiToken.objects.filter(user=user, revoked_at=None).update(revoked_at=clock.now())
    if user.get_username() in settings.WAYSTATION_BREAK_GLASS:
        sessions.end(user)
    else:
        user.set_unusable_password()  # another one, by which no session is valid any more
        user.save(update_fields=["password"])
    _change(user, values, provider, added=set(), removed=had, refused=True)


def _change(
    user: User,
    values: Sequence[str],
    provider: str,
    *,
    added: set[Group],
    removed: set[Group],
    refused: bool = False,
    connection: Connection | None = None,
) -> None:
    user.groups.add(*added)
    user.groups.remove(*removed)
    if added or removed or refused or connection:
        MembershipChange.objects.create(
            user=user,
            added=sorted(group.name for group in added),
            removed=sorted(group.name for group in removed),
            claims=list(values),
            refused=refused,
            provider=provider,
            connection=connection or "",
        )
