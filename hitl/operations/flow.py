"""What people and machines did lately: questions by age and by whom they wait for, answers by day,
and where the time of finished runs went. Reads only, in a fixed number of queries.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import dataclass
from typing import Any

from django.db.models import Case, Count, Exists, F, OuterRef, Q, Sum, Value, When
from django.db.models.functions import TruncDate
from django.utils import timezone
from django.utils.translation import gettext_noop

from checkpoints import ids
from checkpoints.database.people import NAME
from hitl.find.answers import PASSED
from hitl.models import UNDO, Decision, Via
from hitl.models.decisions import NOBODYS
from runs.models import Pause, Run
from runs.models.pauses import PanelMember
from runs.states import PauseStatus

AGES = (
    (gettext_noop("under an hour"), dt.timedelta(0), dt.timedelta(hours=1)),
    (gettext_noop("under a day"), dt.timedelta(hours=1), dt.timedelta(days=1)),
    (gettext_noop("under three days"), dt.timedelta(days=1), dt.timedelta(days=3)),
    (gettext_noop("under a week"), dt.timedelta(days=3), dt.timedelta(days=7)),
    (gettext_noop("a week or more"), dt.timedelta(days=7), None),
)
SPEEDS = (
    (gettext_noop("under ten minutes"), dt.timedelta(minutes=10)),
    *((words, old) for words, _, old in AGES),
)
"""Of each, the answers that took no longer and are in none before."""
DAYS, WEEK = 14, dt.timedelta(days=7)
NAMED = 20
"""Reviewers that are listed, those with the most open questions first."""


@dataclass(frozen=True, kw_only=True)
class Awaited:
    """Whom open questions wait for: a person or a group that their rules name."""

    name: str
    group: bool
    open: int
    late: int
    answered: int
    """By this person in the last week; 0 for a group."""


@dataclass(frozen=True, kw_only=True)
class Day:
    """One day of answers, in the server's zone."""

    day: dt.date
    answers: dict[str, int]
    """Answer → how often."""
    expired: int

    @property
    def count(self) -> int:
        return sum(self.answers.values())

    @property
    def parts(self) -> list[tuple[str, int]]:
        """Answers with how often, the most frequent first."""
        return sorted(self.answers.items(), key=lambda part: (-part[1], part[0]))


@dataclass(frozen=True, kw_only=True)
class Spent:
    """Where the time went of runs that began within the last week and have ended; those with child
    runs are left out, since the children's time counts for itself.
    """

    runs: int
    people: dt.timedelta
    rest: dt.timedelta
    """Steps, timers, tries and queues."""


@dataclass(frozen=True, kw_only=True)
class Flow:
    ages: list[tuple[str, int]]
    asked: list[Awaited]
    open_to_all: int
    """Open questions whose rules name nobody: whoever takes part answers."""
    days: list[Day]
    speeds: list[tuple[str, int]]
    """How long people took for the answers of the last days."""
    spent: Spent

    @property
    def quiet(self) -> bool:
        """Whether on none of the days something was answered or expired."""
        return not any(one.count or one.expired for one in self.days)

    @property
    def answered(self) -> bool:
        """Whether people answered at all on these days."""
        return any(count for _, count in self.speeds)


def lately(*, now: dt.datetime) -> Flow:
    return Flow(
        ages=_ages(now),
        asked=_asked(now),
        open_to_all=Pause.objects.open().filter(Q(panel=None) | Q(panel__open_to_all=True)).count(),
        days=_days(now),
        speeds=_speeds(now),
        spent=_spent(now),
    )


def _ages(now: dt.datetime) -> list[tuple[str, int]]:
    counts = Pause.objects.open().aggregate(
        **{
            f"a{at}": Count(
                "pk",
                filter=Q(opened_at__lte=now - young)
                & (Q() if old is None else Q(opened_at__gt=now - old)),
            )
            for at, (_, young, old) in enumerate(AGES)
        }
    )
    return [(words, counts[f"a{at}"]) for at, (words, _, _) in enumerate(AGES)]


def _asked(now: dt.datetime) -> list[Awaited]:
    theirs = PanelMember.objects.filter(
        panel__pauses__status=PauseStatus.OPEN, stage__lte=F("panel__pauses__stage")
    )
    late = Count("panel__pauses", distinct=True, filter=Q(panel__pauses__deadline_at__lt=now))
    counted: Any = (
        theirs.order_by()
        .values("username", "group")
        .annotate(open=Count("panel__pauses", distinct=True), late=late)
        .order_by("-open", "username", "group")[:NAMED]
    )
    rows = list(counted)
    names = [row["username"] for row in rows if row["username"]]
    answered = Counter(
        dict(
            Decision.objects.filter(
                pk__gte=ids.floor(now - WEEK), undoes=None, **{f"decided_by__{NAME}__in": names}
            )
            .order_by()
            .values_list(f"decided_by__{NAME}")
            .annotate(Count("pk"))
        )
    )
    return [
        Awaited(
            name=row["username"] or row["group"],
            group=bool(row["group"]),
            open=row["open"],
            late=row["late"],
            answered=answered[row["username"]],
        )
        for row in rows
    ]


def _days(now: dt.datetime) -> list[Day]:
    """The last days, the newest first, also those on which nothing was answered."""
    today = timezone.localdate(now)
    days = [today - dt.timedelta(days=back) for back in range(DAYS)]
    since = now - dt.timedelta(days=DAYS)
    answers: dict[dt.date, dict[str, int]] = {day: {} for day in days}
    given = Decision.objects.filter(pk__gte=ids.floor(since), decided_at__isnull=False)
    said = Case(When(via=Via.WORKFLOW, then=Value(PASSED)), default=F("action"))
    for day, action, count in (
        given.exclude(action=UNDO)
        .order_by()
        .values_list(TruncDate("decided_at"), said)
        .annotate(Count("pk"))
    ):
        if day in answers:
            answers[day][action] = count
    expired = dict(
        Pause.objects.filter(status=PauseStatus.EXPIRED, closed_at__gte=since)
        .order_by()
        .values_list(TruncDate("closed_at"))
        .annotate(Count("pk"))
    )
    return [Day(day=day, answers=answers[day], expired=expired.get(day, 0)) for day in days]


def _speeds(now: dt.datetime) -> list[tuple[str, int]]:
    """Of the answers that people gave, in one query, each counted where it belongs."""
    given = Decision.objects.filter(
        pk__gte=ids.floor(now - dt.timedelta(days=DAYS)),
        undoes=None,
        decided_at__isnull=False,
        pause__isnull=False,
    ).exclude(via__in=NOBODYS)
    within = given.aggregate(
        all=Count("pk"),
        **{
            f"s{at}": Count("pk", filter=Q(decided_at__lt=F("pause__opened_at") + longest))
            for at, (_, longest) in enumerate(SPEEDS)
            if longest is not None
        },
    )
    counts = [within[f"s{at}"] for at in range(len(SPEEDS) - 1)] + [within["all"]]
    return [
        (words, count - before)
        for (words, _), count, before in zip(SPEEDS, counts, [0, *counts], strict=False)
    ]


def _spent(now: dt.datetime) -> Spent:
    children = Run.objects.filter(parent=OuterRef("pk"))
    ended = Run.objects.filter(
        ~Exists(children),
        started_at__gte=now - WEEK,
        ended_at__isnull=False,
        imported_at__isnull=True,
    )
    whole = ended.aggregate(runs=Count("pk"), whole=Sum(F("ended_at") - F("started_at")))
    waited = Pause.objects.filter(run__in=ended, closed_at__isnull=False).aggregate(
        people=Sum(F("closed_at") - F("opened_at"))
    )
    none = dt.timedelta(0)
    people, total = waited["people"] or none, whole["whole"] or none
    return Spent(runs=whole["runs"], people=people, rest=max(none, total - people))
