"""Whether work moves: for how long due runs of each queue wait, and how many more its workers could
take. By rows alone, in two statements.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import Count, Min

from runs.models import Run
from runs.models.heartbeats import bound
from runs.states import PENDING, RUNNING

ALWAYS = ("control", "steps", "outbound")
"""Queues without whose workers nothing moves, or nobody is told."""


@dataclass(frozen=True, kw_only=True)
class QueueLoad:
    """One queue as it is now."""

    name: str
    waiting: int
    """Runs that are due and that no worker has taken."""
    seconds: float
    """For how long the one waits that waits longest; 0 where none does."""
    workers: int
    free: int | None
    """Runs that its workers could take beside those that they hold; None where a worker does not
    say how many it takes.
    """

    @property
    def is_stuck(self) -> bool:
        """Whether workers are there, and a due run was not taken for too long."""
        return self.workers > 0 and self.seconds > bound()


@dataclass(frozen=True, kw_only=True)
class Standing:
    queues: list[QueueLoad]
    lost: float
    """Seconds since the first lease ended of those that nobody has taken back; 0 where none is."""


def read(workers: Iterable[Any], *, now: dt.datetime) -> Standing:
    """How queues stand; `workers` are the signs of life of those that were seen lately."""
    workers = list(workers)
    due: Any = Run.objects.filter(status=PENDING, due_at__lte=now).order_by().values_list("queue")
    waiting = {
        queue: (many, oldest) for queue, many, oldest in due.annotate(Count("pk"), Min("due_at"))
    }
    held: Any = Run.objects.filter(status=RUNNING).order_by().values_list("queue", "lease_owner")
    rows = list(held.annotate(Count("pk"), Min("lease_until")))
    holds = {(queue, owner): many for queue, owner, many, _ in rows}
    ended = min((until for *_, until in rows if until is not None), default=now)
    return Standing(
        queues=[
            _load(name, *waiting.get(name, (0, now)), workers=workers, holds=holds, now=now)
            for name in sorted({*ALWAYS, *settings.WAYSTATION_QUEUES, *waiting})
        ],
        lost=max(0.0, (now - ended).total_seconds()),
    )


def _load(
    name: str,
    waiting: int,
    oldest: dt.datetime,
    *,
    workers: list[Any],
    holds: dict[tuple[str, str], int],
    now: dt.datetime,
) -> QueueLoad:
    serving = [row for row in workers if name in row.queues]
    return QueueLoad(
        name=name,
        waiting=waiting,
        seconds=max(0.0, (now - oldest).total_seconds()),
        workers=len(serving),
        free=_free(serving, holds, owners={_owner(row) for row in workers}),
    )


def _free(serving: list[Any], holds: dict[tuple[str, str], int], *, owners: set[str]) -> int | None:
    """Leases name processes. Where a worker forks, these are its children: what no worker itself
    holds counts for all of those of its host that take the same queues.
    """
    if any(not isinstance(row.facts.get("concurrency"), int) for row in serving):
        return None
    free, forking = 0, defaultdict(list)
    for row in serving:
        if row.facts.get("pool") == "prefork":
            forking[_host(_owner(row))].append(row)
            continue
        busy = sum(many for (_, owner), many in holds.items() if owner == _owner(row))
        free += max(0, row.facts["concurrency"] - busy)
    for host, rows in forking.items():
        taken = {name for row in rows for name in row.queues}
        busy = sum(
            many
            for (queue, owner), many in holds.items()
            if queue in taken and owner not in owners and _host(owner) == host
        )
        free += max(0, sum(row.facts["concurrency"] for row in rows) - busy)
    return free


def _owner(row: Any) -> str:
    return str(row.facts.get("owner", ""))


def _host(owner: str) -> str:
    return owner.rpartition(":")[0]
