"""Which runs go first where more wait than workers can take: the priority of a run's message, the
order in which the sweep sends, and whose first step a worker takes.

Messages only roughly keep an order: a broker has few priorities, and what it holds was judged when
it was sent. So a worker that is told of a new run looks at the rows: it takes the run whose turn it
is. Begun work is not judged; it goes on (P3).

Whose turn it is among new runs: teams (or persons, where there is no team) take turns, the one with
the fewest at work first, of these the one that had its last turn longest ago; of one team's the run
that has waited longest. A step of priority counts like `STEP` of waiting, so every run is the first
of its team one day. Work that an operator has raised waits for no team's turn. Work with a priority
below 0 lets others go first for so long.
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
from django.db.models import Case, F, When, Window
from django.db.models.functions import Coalesce, RowNumber

from checkpoints.database import clock
from checkpoints.database.people import User
from runs.models import Run, RunQuerySet
from runs.states import PENDING, RUNNING

SHARE = 10
"""New runs of one team that wait beside everybody else's; further ones wait behind those of
others (P12).
"""
STEP = dt.timedelta(minutes=10)
"""What one step of priority is worth: so much waiting."""
LINE = 250
"""New runs of a queue that are looked at: so many that wait longest, and so many that came last."""
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
    theirs = {"thread__team": key} if kind == "team" else {"thread__team": None}
    if kind == "person":
        theirs["thread__owner"] = key
    waiting = (
        Run.objects.filter(status=PENDING, epoch=0, **theirs)
        .order_by()
        .values_list("pk", flat=True)[:SHARE]
    )
    return Urgency.CROWDED if len(waiting) == SHARE else Urgency.NEW


def in_order(overdue: RunQuerySet, *, most: int) -> list[tuple[uuid.UUID, Urgency]]:
    """Give the ids of runs that want a message, the most urgent first and of these the oldest
    first, at most `most` of each urgency.
    """
    begun = overdue.filter(epoch__gt=0).order_by("due_at").values_list("pk", flat=True)[:most]
    new = overdue.filter(epoch=0).annotate(
        priority=Coalesce("work_order__priority", 0),
        owner=Case(When(thread__team=None, then=F("thread__owner"))),
    )
    raised = new.filter(priority__gt=0).order_by("-priority", "due_at")
    place = Window(
        RowNumber(), partition_by=[F("thread__team"), F("owner")], order_by=["-priority", "due_at"]
    )
    others = new.filter(priority__lte=0).annotate(place=place).order_by("due_at")
    return [
        *((pk, Urgency.GOING_ON) for pk in begun),
        *((pk, Urgency.RAISED) for pk in raised.values_list("pk", flat=True)[:most]),
        *((pk, Urgency.NEW) for pk in _keys(others.filter(place__lte=SHARE), most)),
        *((pk, Urgency.CROWDED) for pk in _keys(others.filter(place__gt=SHARE), most)),
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
    """Who has had a turn: counted from rows, so that nothing can drift (F12)."""

    now: dt.datetime
    at_work: Counter[Share] = field(default_factory=Counter)
    """Share → runs that workers hold now, by leases that hold."""
    served: dict[Share, int] = field(default_factory=dict)
    """Share → the later its last run began the higher; none for whom nothing began lately."""

    @classmethod
    def read(cls, at_work: Iterable[Share] | None = None) -> Turns:
        """As the rows have it; two queries by an index.

        Args:
            at_work: whose runs are at work, where another place than a worker is shared out.
        """
        if at_work is None:
            held = Run.objects.filter(status=RUNNING, lease_until__gt=clock.FromNow())
            at_work = _shares(held)
        begun = Run.objects.filter(started_at__isnull=False).order_by("-started_at")
        shares = _shares(begun[:LATELY])
        # written from the earliest to the last, so the last turn of a share is what stays
        served = {share: place for place, share in enumerate(reversed(shares), start=1)}
        return cls(clock.now(), Counter(at_work), served)


def _shares(runs: RunQuerySet) -> list[Share]:
    return [share_of(*row) for row in runs.values_list("thread__team", "thread__owner")]


@dataclass(frozen=True)
class Precedence:
    """Another new run goes before the one that a message named."""

    run_id: uuid.UUID
    """Of the run that goes first."""
    queue: str
    urgency: Urgency
    """Of the message that the other one gets again."""


def goes_before(run_id: uuid.UUID) -> Precedence | None:
    """Whose turn it is, where a message names a new run and the turn is another one's.

    None for what has begun, and where no other new run is due in the queue.
    """
    fields = ("pk", "thread__team", "thread__owner", "priority", "created_at")
    new = (
        Run.objects.filter(status=PENDING, epoch=0, parent=None)
        .annotate(priority=Coalesce("work_order__priority", 0))
        .order_by()
    )
    row = new.filter(pk=run_id).values_list(*fields, "queue").first()
    if row is None:
        return None
    mine, queue = _new_run(*row[:-1]), row[-1]
    due = new.filter(queue=queue, due_at__lte=clock.FromNow()).exclude(pk=run_id)
    found = list(due.order_by("due_at").values_list(*fields)[:LINE])
    if len(found) == LINE:  # who came last is behind them all, maybe the first of a team
        found += due.order_by("-due_at").values_list(*fields)[:LINE]
    line = [mine, *(_new_run(*values) for values in found)]
    alike = len({(run.share, run.priority) for run in line}) == 1
    turns = Turns(clock.now()) if alike else Turns.read()
    first = min(line, key=lambda run: run.rank(turns))
    if first is mine:
        return None
    return Precedence(first.run_id, queue, _of_new(mine.share, mine.priority))


def _new_run(run_id: uuid.UUID, team: Any, owner: Any, priority: int, since: dt.datetime) -> NewRun:
    return NewRun(run_id, share_of(team, owner), priority, since)
