"""Runs that failed and that nobody has taken up again: counted by what went wrong, and listed.
Reads only; `hitl.operations.batches` retries many.
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
from hitl.operations.batches import MOST
from hitl.rendering import paging
from hitl.rendering.paging import ListAddress, ListPage
from runs.models import Run, StepTraceback
from runs.states import FAILED

SHOWN = 30
GROUPS = 50
DAYS = (1, 7, 30, 365)
LOOK, TRACEBACK = "runs.view_run", "runs.view_steptraceback"
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


def may_trace(by: User) -> bool:
    """Whether a person may read tracebacks, on the page of a failure."""
    return by.has_perm(LOOK) and by.has_perm(TRACEBACK)


def trace_of(runs: Sequence[Run], *, by: User) -> StepTraceback | None:
    """Where in their author's code the newest failure of these runs was raised; None for whoever
    may not read it.
    """
    failed = [run.pk for run in runs if run.status == FAILED]
    if not failed or not may_trace(by):
        return None
    found = StepTraceback.objects.select_related("run").filter(run__in=failed)
    return found.order_by("-at").first()


def orders_of(chosen: FailureFilter, *, now: dt.datetime) -> list[uuid.UUID]:
    """Work orders among the failures, newest first, one more than a batch takes."""
    failed = chosen.rows(now=now).filter(work_order__isnull=False, parent=None)
    return list(failed.order_by("-pk").values_list("work_order", flat=True)[: MOST + 1])
