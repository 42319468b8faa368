"""As whom a person may answer: for himself, and for whom he stands in; and what names him."""

from __future__ import annotations

import datetime as dt
import uuid
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import Group
from django.db.models import Q, QuerySet

from checkpoints.database.people import User
from checkpoints.store.prepared_queries import Prepared
from hitl.decisions.reviewers import delegations
from runs.models import PanelMember


@dataclass(frozen=True)
class Seat:
    """One whom a person may answer as."""

    user: User
    teams: dict[int, str]
    since: dt.datetime | None
    """When the delegation began; None for the person himself."""
    only: uuid.UUID | None = None
    """The one question at which it is theirs; None where it is of all."""


def seats_of(by: User, *, now: dt.datetime) -> list[Seat]:
    """The person himself first, then whom he stands in for."""
    given = delegations.to(by, now=now)
    if not given:  # nearly everybody
        return [Seat(by, {team.pk: team.name for team in _teams.get(by.pk)}, None)]
    teams: dict[int, dict[int, str]] = {
        user.pk: {} for user in [by, *(delegation.from_user for delegation in given)]
    }
    for user_id, key, name in Group.objects.filter(user__in=list(teams)).values_list(
        "user", "pk", "name"
    ):
        teams[user_id][key] = name
    return [
        Seat(by, teams[by.pk], None),
        *(
            Seat(
                delegation.from_user,
                teams[delegation.from_user_id],
                delegation.starts_at,
                delegation.pause_id,
            )
            for delegation in given
        ),
    ]


def group_names(user: User) -> QuerySet[Group, Any]:
    return Group.objects.filter(user=user.pk).values("name")


_naming = Prepared(
    lambda name, key: PanelMember.objects.filter(
        Q(username=name) | Q(group__in=group_names(User(pk=key)))
    )[:1],
    str,
    int,
)
_teams = Prepared(lambda key: Group.objects.filter(user=key), int)


def is_named(user: User) -> bool:
    """Whether any rules name them or a group of theirs: if not, no question is looked through."""
    return bool(_naming.get(user.get_username(), user.pk))


def teams_of(user: User) -> list[int]:
    """The keys of a person's teams."""
    return [team.pk for team in _teams.get(user.pk)]
