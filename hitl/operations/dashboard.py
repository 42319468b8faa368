"""What an operator looks at first: how much waits and works, in which queue, held by whom, and what
is stuck. Reads only.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import Count, Min, Q

from hitl.models.outbound import Delivery, DeliveryStatus
from hitl.operations import health, loads
from hitl.rendering import paging
from hitl.rendering.paging import ListAddress, ListPage
from hitl.wait_gate import lifecycles
from runs.models import Heartbeat, HeartbeatKind, HostClock, Pause, Place, Run, installation
from runs.states import LIVE, PENDING, RUNNING

SHOWN = 20
PROCESSES = 100
LATELY = dt.timedelta(days=1)
LONGEST = paging.ListOrder("due_at", timeless=True, prefix=Run.PREFIX)


@dataclass(frozen=True, kw_only=True)
class Queue:
    """One queue of workers, and what there is for it."""

    name: str
    waiting: int
    """Runs that are due and that no worker has taken."""
    later: int
    """Runs whose time is yet to come: a retry, or an answer that may be taken back until then."""
    working: int
    oldest: dt.datetime | None
    """When the one was due that waits longest."""
    workers: int
    """Workers that take it, seen lately."""
    free: int | None
    """Runs that they could take beside those that they hold; None where one does not say."""


@dataclass(frozen=True, kw_only=True)
class Process:
    """A process that was seen lately."""

    name: str
    version: str
    """With its commit; "" where neither is known."""
    since: dt.datetime
    is_other: bool
    """Whether it is of another version or commit than this one."""


@dataclass(frozen=True, kw_only=True)
class Dashboard:
    """All of the page but the invariants."""

    counts: dict[str, int]
    """Status of live runs → how many."""
    queues: list[Queue]
    processes: list[Process]
    workers: ListPage[dict[str, Any]]
    """Of each process that holds runs: `lease_owner`, `runs`, `until` (the first lease of them to
    end).
    """
    clocks: list[HostClock]
    """Hosts whose clock is off, as their workers found lately."""
    stuck: ListPage[Run]
    """Due for longer than the sweep's patience, or with a lease that has ended: longest first."""
    questions: dict[str, Any]
    """`open`, `late` (past their deadline), `oldest`."""
    lately: dict[str, int]
    """Of the last day's questions: `resumed`, whose answer let a run go on, and `expired`."""
    limited: int
    """Runs that wait for a place under a limit of work at once."""
    deliveries: dict[str, int]
    """`queued`, `late` and `dead`."""


def standing(*, now: dt.datetime, here: ListAddress) -> Dashboard:
    """How things stand, in a fixed number of queries; of each list the page that an address asks
    for.
    """
    live: dict[str, int] = dict.fromkeys(sorted(LIVE), 0)
    live |= dict(Run.objects.live().order_by().values_list("status").annotate(Count("pk")))
    return Dashboard(
        counts=live,
        queues=queues(now),
        processes=processes(),
        workers=_workers(here),
        clocks=list(HostClock.objects.now(now=now).order_by("host")[:SHOWN]),
        stuck=_stuck(now, here),
        questions=Pause.objects.open().aggregate(
            open=Count("pk"),
            late=Count("pk", filter=Q(deadline_at__lt=now)),
            oldest=Min("opened_at"),
        ),
        lately=lifecycles.lately(now - LATELY),
        limited=Place.objects.waiting().values("run").distinct().count(),
        deliveries={
            "queued": (queued := Delivery.objects.filter(status=DeliveryStatus.QUEUED)).count(),
            "late": queued.filter(next_at__lt=now - patience()).count(),
            "dead": Delivery.objects.filter(status=DeliveryStatus.DEAD).count(),
        },
    )


def patience() -> dt.timedelta:
    """For how long what is due may wait before it counts as late."""
    return dt.timedelta(seconds=settings.WAYSTATION_PATIENCE_SECONDS)


def queues(now: dt.datetime) -> list[Queue]:
    rows: Any = (
        Run.objects.filter(status__in=[PENDING, RUNNING])
        .order_by()
        .values("queue")
        .annotate(
            waiting=Count("pk", filter=Q(status=PENDING, due_at__lte=now)),
            later=Count("pk", filter=Q(status=PENDING, due_at__gt=now)),
            working=Count("pk", filter=Q(status=RUNNING)),
            oldest=Min("due_at", filter=Q(status=PENDING, due_at__lte=now)),
        )
    )
    seen: list[Any] = list(Heartbeat.objects.lately().filter(kind=HeartbeatKind.WORKER))
    loaded = {load.name: load for load in loads.read(seen, now=now).queues}
    by_queue = {row.pop("queue"): row for row in rows}
    none = {"waiting": 0, "later": 0, "working": 0, "oldest": None}
    names = sorted({*settings.WAYSTATION_QUEUES, *by_queue})
    return [
        Queue(
            name=name,
            **by_queue.get(name, none),
            workers=loaded[name].workers if name in loaded else 0,
            free=loaded[name].free if name in loaded else None,
        )
        for name in names
    ]


def processes() -> list[Process]:
    """Web servers, workers and beats that were seen lately, those of another version first."""
    mine = (installation.version(), installation.commit())
    seen = Heartbeat.objects.lately().filter(kind__in=health.PROCESSES).order_by("kind", "name")
    found = [
        Process(
            name=row.name,
            version=" · ".join(filter(None, [row.version, row.commit[:7]])),
            since=row.started_at,
            is_other=(row.version, row.commit) != mine,
        )
        for row in seen
    ]
    return sorted(found, key=lambda process: not process.is_other)[:PROCESSES]


def _stuck(now: dt.datetime, here: ListAddress) -> ListPage[Run]:
    late = Q(status=PENDING, due_at__lt=now - patience()) | Q(status=RUNNING, lease_until__lt=now)
    return paging.in_order(
        Run.objects.filter(late).select_related("thread"),
        LONGEST,
        here,
        "stuck",
        size=SHOWN,
        anchor="stuck",
    )


def _workers(here: ListAddress) -> ListPage[dict[str, Any]]:
    def read(after: str, limit: int) -> list[dict[str, Any]]:
        working = (
            Run.objects.filter(status=RUNNING, lease_owner__gt=after)
            if after
            else Run.objects.filter(status=RUNNING)
        )
        workers: Any = (
            working.order_by("lease_owner")
            .values("lease_owner")
            .annotate(runs=Count("pk"), until=Min("lease_until"))
        )
        return list(workers[:limit])

    return paging.paged(
        here,
        "workers",
        read,
        lambda worker: str(worker["lease_owner"]),
        size=SHOWN,
        anchor="workers",
    )
