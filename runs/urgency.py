"""Which runs go first where more wait than workers can take: the priority of a run's message, the
order in which the sweep sends, and whose turn it is for a place of a limit.

Begun work goes before new work. Of new work that which an operator raised goes first, then the
first few of each team (or person, where there is no team), then the rest, and what its own asker
lowered. What has waited for `AGED` goes with raised work, so nothing starves.
"""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import Group
from django.db.models import Case, F, Q, When, Window
from django.db.models.functions import Coalesce, RowNumber

from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.store.prepared_queries import Prepared
from runs.models import Run, RunQuerySet
from runs.states import PENDING

SHARE = 10
"""New runs of one team that wait beside everybody else's; further ones wait behind those of others.
"""
STEP = dt.timedelta(minutes=10)
"""What one step of priority is worth: so much waiting."""
AGED = dt.timedelta(hours=1)
"""New work that has waited so long goes with raised work."""
LATELY = 100
"""Runs that began last: whose they are had its turn."""

Share = tuple[str, Any]
"""A team, or a person: `("team", key)`, `("person", key)`."""


class Urgency(enum.IntEnum):
    """Priority of a message in its queue: workers take the lowest number first.

    The numbers are the steps that kombu keeps apart in Redis (0, 3, 6, 9).
    """

    GOING_ON = 0
    """The run has begun: a person has just answered, its child runs have ended, or its worker was
    lost.
    """
    RAISED = 3
    """The run waits for its first step, and an operator raised its priority."""
    NEW = 6
    """The run waits for its first step."""
    CROWDED = 9
    """The run waits for its first step, and its team has `SHARE` others that do; or its priority is
    below 0.
    """


def share_of(team: Any, owner: Any) -> Share:
    """Whose share a run is of: its team's, or its owner's where it has none."""
    return ("team", team) if team is not None else ("person", owner)


def of_new(owner: User, team: Group | None = None, *, priority: int = 0) -> Urgency:
    """Give the urgency of a run that a person begins now.

    One query by an index, of at most `SHARE` rows.
    """
    return _of_new(share_of(team.pk if team is not None else None, owner.pk), priority)


def _of_new(share: Share, priority: int) -> Urgency:
    if priority > 0:
        return Urgency.RAISED
    if priority < 0:
        return Urgency.CROWDED
    kind, key = share
    return Urgency.CROWDED if len(_waiting[kind].get(key)) == SHARE else Urgency.NEW


def _new_of(**theirs: Any) -> RunQuerySet:
    waiting = Run.objects.filter(status=PENDING, epoch=0, **theirs)
    return waiting.order_by().only("pk")[:SHARE]


_waiting = {
    "team": Prepared(lambda key: _new_of(thread__team=key), int),
    "person": Prepared(lambda key: _new_of(thread__team=None, thread__owner=key), int),
}


def in_order(overdue: RunQuerySet, *, most: int) -> list[tuple[uuid.UUID, Urgency]]:
    """Give the ids of runs that want a message, the most urgent first and of these the oldest
    first, at most `most` of each urgency.

    Runs that became due at one moment, as all do that waited for one limit, go by their ids, which
    grow with time: which run is crowded is the same at each sweep.
    """
    overdue = overdue.order_by("due_at", "pk")
    begun = overdue.filter(epoch__gt=0).values_list("pk", flat=True)[:most]
    new = overdue.filter(epoch=0).annotate(
        priority=Coalesce("work_order__priority", 0),
        owner=Case(When(thread__team=None, then=F("thread__owner"))),
    )
    first = Q(priority__gt=0) | Q(created_at__lte=clock.FromNow(-AGED.total_seconds()))
    raised = new.filter(first).order_by("-priority", "due_at", "pk")
    place = Window(
        RowNumber(),
        partition_by=[F("thread__team"), F("owner")],
        order_by=["-priority", "due_at", "pk"],
    )
    others = new.exclude(first).annotate(place=place)
    later = Q(place__gt=SHARE) | Q(priority__lt=0)
    return [
        *((pk, Urgency.GOING_ON) for pk in begun),
        *((pk, Urgency.RAISED) for pk in raised.values_list("pk", flat=True)[:most]),
        *((pk, Urgency.NEW) for pk in _keys(others.exclude(later), most)),
        *((pk, Urgency.CROWDED) for pk in _keys(others.filter(later), most)),
    ]


def _keys(runs: RunQuerySet, most: int) -> list[uuid.UUID]:
    return list(runs.values_list("pk", flat=True)[:most])


@dataclass(frozen=True)
class NewRun:
    """A run that has not begun, as its turn is judged."""

    run_id: uuid.UUID
    share: Share
    priority: int
    since: dt.datetime

    def rank(self, turns: Turns) -> tuple[Any, ...]:
        """The lowest goes first."""
        wanted_at = self.since - self.priority * STEP
        yields = self.priority < 0 and wanted_at > turns.now
        raised = self.priority > 0
        load = 0 if raised else turns.at_work[self.share]
        served = 0 if raised else turns.served.get(self.share, 0)
        return (yields, load, served, wanted_at, self.run_id)


@dataclass(frozen=True)
class Turns:
    """Who has had a turn: counted from rows, so that nothing can drift."""

    now: dt.datetime
    at_work: Counter[Share] = field(default_factory=Counter)
    """Share → runs that workers hold now, by leases that hold."""
    served: dict[Share, int] = field(default_factory=dict)
    """Share → the later its last run began the higher; none for whom nothing began lately."""

    @classmethod
    def read(cls, at_work: Iterable[Share]) -> Turns:
        """As the rows have it; one query by an index.

        Args:
            at_work: whose runs are at work there.
        """
        begun = Run.objects.filter(started_at__isnull=False).order_by("-started_at")
        shares = _shares(begun[:LATELY])
        # written from the earliest to the last, so the last turn of a share is what stays
        served = {share: place for place, share in enumerate(reversed(shares), start=1)}
        return cls(clock.now(), Counter(at_work), served)


def _shares(runs: RunQuerySet) -> list[Share]:
    return [share_of(*row) for row in runs.values_list("thread__team", "thread__owner")]
