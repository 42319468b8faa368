"""The states of a run that systems watch: `waiting_external`, `resumed` and `expired`, beside its
statuses; and their counters.

Derived from the run and its last question, never stored. A run of another engine is `resumed` from
its answer until that engine says that the run goes on or has ended, or asks again. A run of our own
is `resumed` while it goes on after an answer.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from django.db.models import Count, Exists, OuterRef, Q, QuerySet

from checkpoints import ids
from checkpoints.models import Thread
from hitl.models import Decision, Wait
from runs.models import Pause, Run, RunQuerySet
from runs.services import external_runs
from runs.states import COMPLETED, EXPIRED, LIVE, PAUSED, Lifecycle, PauseStatus

_ASKS = Q(status=PAUSED, awaited=0)
NOTHING = Wait()
"""Of a question that has none: an imported one."""
_ELSEWHERE = Q(definition__template_slug=external_runs.SLUG)


def of(run: Run, last: Pause | None) -> Lifecycle:
    """The state of a run whose newest question is `last`."""
    answered = last is not None and last.status == PauseStatus.ANSWERED
    elsewhere = run.frozen.template_slug == external_runs.SLUG
    if run.status == PAUSED and not run.awaited:
        return Lifecycle.WAITING
    if answered and elsewhere and (reported := getattr(last, "wait", NOTHING).reported):
        return Lifecycle(reported)
    if run.status in LIVE:
        return Lifecycle.RESUMED if answered else Lifecycle.RUNNING
    if run.status == COMPLETED:
        return Lifecycle.RESUMED if elsewhere else Lifecycle.COMPLETED
    return Lifecycle.EXPIRED if run.status == EXPIRED else Lifecycle.FAILED


def among(runs: RunQuerySet, state: Lifecycle) -> RunQuerySet:
    """Those of some runs that are in this state, as `of` tells it."""
    answered = Exists(Pause.objects.filter(run=OuterRef("pk"), status=PauseStatus.ANSWERED))
    works = Q(status__in=sorted(LIVE)) & ~_ASKS
    waits = Wait.objects.filter(pause__run=OuterRef("pk"))
    said = Exists(waits.filter(reported=state)) & _ELSEWHERE
    told = Exists(waits.exclude(reported=""))
    match state:
        case Lifecycle.WAITING:
            return runs.filter(_ASKS)
        case Lifecycle.RUNNING:
            return runs.filter(works & ~answered | said)
        case Lifecycle.RESUMED:
            return runs.filter(Q(answered) & works | Q(status=COMPLETED) & _ELSEWHERE).exclude(told)
        case Lifecycle.COMPLETED:
            return runs.filter(Q(status=COMPLETED) & ~_ELSEWHERE | said)
        case Lifecycle.EXPIRED:
            return runs.filter(status=EXPIRED)
        case Lifecycle.FAILED:
            return runs.filter(~Q(status__in=sorted({*LIVE, COMPLETED, EXPIRED})) | said)


def newest(runs: RunQuerySet) -> RunQuerySet:
    """Each run of another engine once, where it is now: every wait of such a run has a run of
    ours.
    """
    later = Run.objects.filter(thread=OuterRef("thread"), pk__gt=OuterRef("pk"))
    return runs.exclude(_ELSEWHERE & Exists(later))


@dataclass(frozen=True, kw_only=True)
class Counted:
    """How many questions wait now, and how many were answered or ran out of time since."""

    waiting_external: int
    resumed: int
    expired: int
    since: dt.datetime


def counted(threads: QuerySet[Thread], *, since: dt.datetime) -> Counted:
    """The counters of what is asked on some threads."""
    return Counted(
        waiting_external=Pause.objects.open().filter(run__thread__in=threads).count(),
        since=since,
        **lately(since, threads),
    )


def lately(since: dt.datetime, threads: QuerySet[Thread] | None = None) -> dict[str, int]:
    """Of the questions of these threads, or of all: `resumed`, whose answer let a run go on, and
    `expired`, since then.

    Both in one query, each by an index.
    """
    answered = Decision.objects.order_by().filter(
        pk__gte=ids.floor(since), pause__status=PauseStatus.ANSWERED
    )
    expired = Pause.objects.order_by().filter(status=PauseStatus.EXPIRED, closed_at__gte=since)
    if threads is not None:
        answered, expired = (
            answered.filter(pause__run__thread__in=threads),
            expired.filter(run__thread__in=threads),
        )
    resumed = answered.values_list("pause__status").annotate(found=Count("pause", distinct=True))
    counts = dict(
        resumed.union(expired.values_list("status").annotate(found=Count("pk")), all=True)
    )
    return {
        "resumed": counts.get(PauseStatus.ANSWERED, 0),
        "expired": counts.get(PauseStatus.EXPIRED, 0),
    }
