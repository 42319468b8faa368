"""As whom a person may answer: for himself, and for whom he stands in; and what names him."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, F, OuterRef, Q, QuerySet

from checkpoints.database import one_look
from checkpoints.database.people import NAME, User
from checkpoints.store.prepared_queries import Prepared
from hitl.decisions.reviewers import delegations
from runs.models import PanelMember


@dataclass(frozen=True)
class Seat:
    """One whom a person may answer as."""

    user: User
    teams: dict[int, str]
    named: bool
    """Whether any rules name them or a group of theirs: if not, no question is looked through."""
    since: dt.datetime | None
    """When the delegation began; None for the person himself."""
    only: uuid.UUID | None = None
    """The one question at which it is theirs; None where it is of all."""

    @property
    def groups(self) -> list[str]:
        return list(self.teams.values())


def seats_of(by: User, *, now: dt.datetime) -> list[Seat]:
    """The person himself first, then whom he stands in for: one query, and two more where he does
    so.
    """
    return one_look.once(("seats", by.pk), lambda: _look_up(by, now))


def _look_up(by: User, now: dt.datetime) -> list[Seat]:
    rows: list[Any] = [*_of_one.get(now, by.pk)]
    given = delegations.to(by, now=now) if any(row.stands_in for row in rows) else []
    others = {delegation.from_user_id for delegation in given} - {by.pk}
    if others:
        rows += _of_groups(others)
    teams: dict[int, dict[int, str]] = {by.pk: {}, **{key: {} for key in others}}
    named = set()
    for row in rows:
        if row.named:
            named.add(row.pk)
        if row.group is not None:
            teams[row.pk][row.group] = row.group_name
    return [
        Seat(by, teams[by.pk], by.pk in named, None),
        *(
            Seat(
                delegation.from_user,
                teams[delegation.from_user_id],
                delegation.from_user_id in named,
                delegation.starts_at,
                delegation.pause_id,
            )
            for delegation in given
        ),
    ]


def _of_groups(people: Iterable[int]) -> QuerySet[User]:
    """Each person with each group of theirs, or with none, and whether rules name one of both."""
    naming = PanelMember.objects.filter(
        Q(username=OuterRef(NAME)) | Q(group=OuterRef("groups__name"))
    )
    return (
        User.objects.filter(pk__in=people)
        .order_by()
        .only("pk")
        .annotate(group=F("groups"), group_name=F("groups__name"), named=Exists(naming))
    )


def _standing_in(now: dt.datetime, key: int) -> QuerySet[User]:
    """The same of one person, and whether they stand in for somebody."""
    return _of_groups([key]).annotate(stands_in=Exists(delegations.active_to(key, now=now)))


_of_one = Prepared(_standing_in, dt.datetime, int)
