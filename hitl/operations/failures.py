"""Runs that failed and that nobody has taken up again: counted by what went wrong, listed, and
retried by many. Reads only, but for `retry`.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Exists, Max, OuterRef, QuerySet

from checkpoints import ids
from checkpoints.database.people import User
from checkpoints.state import codec
from checkpoints.store import CheckpointDamaged, StoreUnavailable
from hitl.decisions import services
from hitl.rendering import paging
from hitl.rendering.paging import ListAddress, ListPage
from runs import services as runs
from runs.models import Run, WorkOrder
from runs.states import FAILED, RunEnded

SHOWN = 30
GROUPS = 50
MOST = 100
"""Orders that are retried at once."""
DAYS = (1, 7, 30, 365)
NEWEST = paging.ListOrder(newest=True, prefix=Run.PREFIX)


@dataclass(frozen=True)
class FailureFilter:
    """Which failures are looked at; "" means any."""

    code: str = ""
    template: str = ""
    days: int = 7
    """Runs that began within so many days."""

    @classmethod
    def read(cls, query: Mapping[str, str]) -> FailureFilter:
        """The filter of an address; what is none of `DAYS` is the usual one."""
        days = query.get("days", "")
        return cls(
            code=codec.readable(query.get("code", "")[:64]),
            template=codec.readable(query.get("template", "")[:64]),
            days=next((known for known in DAYS if str(known) == days), cls.days),
        )

    def rows(self, *, now: dt.datetime) -> QuerySet[Run]:
        """Failed runs of this server after which none has begun on their thread."""
        later = Run.objects.filter(thread=OuterRef("thread"), pk__gt=OuterRef("pk"))
        failed = Run.objects.filter(
            ~Exists(later),
            pk__gte=ids.floor(now - dt.timedelta(days=self.days)),
            status=FAILED,
            imported_at=None,
        )
        if self.code:
            failed = failed.filter(failure_code=self.code)
        if self.template:
            failed = failed.filter(definition__template_slug=self.template)
        return failed


@dataclass(frozen=True, kw_only=True)
class FailureGroup:
    """Failures of one template that ended with the same code."""

    code: str
    template: str
    count: int
    newest: dt.datetime


def groups(chosen: FailureFilter, *, now: dt.datetime) -> list[FailureGroup]:
    """The most frequent failures among those that are looked at."""
    counted: Any = (
        chosen.rows(now=now)
        .order_by()
        .values("failure_code", "definition__template_slug")
        .annotate(count=Count("pk"), newest=Max("ended_at"))
        .order_by("-count", "failure_code", "definition__template_slug")
    )
    return [
        FailureGroup(
            code=row["failure_code"],
            template=row["definition__template_slug"],
            count=row["count"],
            newest=row["newest"],
        )
        for row in counted[:GROUPS]
    ]


def listed(chosen: FailureFilter, here: ListAddress, *, now: dt.datetime) -> ListPage[Run]:
    """The page of failures that an address asks for, newest first."""
    whole = Run.objects.select_related("thread__head", "work_order", "definition").defer(
        "thread__head__body"
    )
    return paging.in_order(
        chosen.rows(now=now), NEWEST, here, "before", size=SHOWN, whole=whole, anchor="failures"
    )


def stopped_at(run: Run) -> str:
    """The step at which a run ended; "" where none had begun."""
    head = run.thread.head
    return "" if head is None else head.next_step or head.node_id


def orders_of(chosen: FailureFilter, *, now: dt.datetime) -> list[uuid.UUID]:
    """Work orders among the failures, newest first, as many as are retried at once."""
    failed = chosen.rows(now=now).filter(work_order__isnull=False, parent=None)
    return list(failed.order_by("-pk").values_list("work_order", flat=True)[:MOST])


def preview(orders: Sequence[uuid.UUID]) -> list[WorkOrder]:
    """The orders that would be retried, as many as are retried at once."""
    rows = WorkOrder.objects.shown().in_bulk(list(orders)[:MOST])
    return [rows[key] for key in orders if key in rows]


@dataclass(frozen=True, kw_only=True)
class RetryResult:
    """What came of one order."""

    order: uuid.UUID
    title: str = ""
    run: Run | None = None
    """The run that goes on; None where there is none."""
    words: str = ""
    """Why there is none."""


def retry(orders: Sequence[uuid.UUID], *, by: User) -> list[RetryResult]:
    """Retry each of some orders from its last good checkpoint, in a transaction of its own; one
    that is refused stops no other.
    """
    return [_retry(order_id, by=by) for order_id in list(dict.fromkeys(orders))[:MOST]]


def _retry(order_id: uuid.UUID, *, by: User) -> RetryResult:
    try:
        order = services.find_order(order_id, by=by)
        return RetryResult(order=order_id, title=order.title, run=runs.retry(order.pk, by=by))
    except (services.NotFound, RunEnded, CheckpointDamaged, StoreUnavailable) as error:
        return RetryResult(order=order_id, words=str(error))
