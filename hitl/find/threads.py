"""Threads that stand for themselves, as lists are asked for them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.expressions import RawSQL
from django.utils.translation import gettext_noop

from checkpoints.database.people import NAME
from checkpoints.models import Thread
from hitl.find.asking import Parameter
from hitl.find.lists import (
    DONE,
    FAILURE,
    NEWEST,
    OLDEST,
    OPEN,
    STATUSES,
    TEAM,
    TEMPLATE,
    WORDS,
    Asker,
    Condition,
    Facts,
    List,
    called,
    has,
    person,
    sort,
    times,
)
from hitl.models import Wait
from hitl.rendering.paging import ListOrder
from runs.models import Pause, Run, WorkOrder
from runs.services import external_runs
from runs.states import Lifecycle, RunStatus

NESTED = 6
"""How deep the questions of child runs are looked for on a thread."""
NEW = "new"
THREAD_STATUSES = {
    NEW: gettext_noop("New"),
    **STATUSES,
    "cancelled": gettext_noop("Cancelled"),
    "expired": gettext_noop("Expired"),
    Lifecycle.RESUMED.value: gettext_noop("Resumed"),
}


def standing(rows: QuerySet[Thread]) -> QuerySet[Thread]:
    """Threads that stand for themselves: no work order's, no child run's."""
    child = Run.objects.filter(thread=OuterRef("pk"), parent__isnull=False)
    order = WorkOrder.objects.filter(thread=OuterRef("pk"))
    return rows.filter(~Exists(child), ~Exists(order))


def _newest(column: str) -> Subquery:
    runs = Run.objects.filter(thread=OuterRef("pk")).order_by("-id")
    return Subquery(runs.values(column)[:1])


def _newest_is(condition: Callable[[str, Asker], dict[str, Any]]) -> Condition:
    """Of threads of whose newest run that is true."""

    def of(value: str, asker: Asker) -> Q:
        newest = Run.objects.filter(thread=OuterRef("thread")).order_by("-id").values("pk")[:1]
        runs = Run.objects.filter(pk=Subquery(newest), **condition(value, asker))
        return Q(pk__in=runs.values("thread"))

    return of


def _family_asks() -> Q:
    """Of runs below which a question is open: looked for from the questions upwards, once."""
    below = Pause.objects.open().filter(run__parent__isnull=False)
    found = Q()
    for depth in range(1, NESTED):
        found |= Q(pk__in=below.values(f"run{'__parent' * depth}"))
    return found


def _asking(runs: Collection[Any]) -> set[Any]:
    """Those of some runs below which a question is open: a query for each level of children."""
    above = {run: run for run in runs}
    asking = set()
    for _ in range(1, NESTED):
        if not above:
            break
        children = Run.objects.filter(parent__in=above, status=RunStatus.PAUSED).annotate(
            asks=Exists(Pause.objects.open().filter(run=OuterRef("pk")))
        )
        rows = list(children.values_list("pk", "parent", "asks"))
        asking |= {above[parent] for _, parent, asks in rows if asks}
        above = {child: above[parent] for child, parent, asks in rows if not asks}
    return asking


def _thread_status(value: str, asker: Asker) -> Q:
    if value == NEW:
        return ~Exists(Run.objects.filter(thread=OuterRef("pk"))) & Q()
    newest = Run.objects.filter(thread=OuterRef("thread")).order_by("-id").values("pk")[:1]
    runs = Run.objects.filter(pk=Subquery(newest))
    paused, asks = Q(status=RunStatus.PAUSED), _family_asks()
    elsewhere = Q(status=DONE, definition__template_slug=external_runs.SLUG)
    said = Wait.objects.filter(pause__run=OuterRef("pk"))
    match value:
        case "paused":
            found = paused & (Q(awaited=0) | asks)
        case "running":
            found = Q(status=RunStatus.RUNNING) | (paused & Q(awaited__gt=0) & ~asks)
        case Lifecycle.RESUMED.value:
            found = elsewhere & ~Q(Exists(said.filter(reported__in=Wait.ENDED)))
        case _:
            ended = elsewhere & Q(Exists(said.filter(reported=value)))
            found = (Q(status=value) & ~elsewhere) | ended
    return Q(pk__in=runs.filter(found).values("thread"))


FACTS_OF_RUN = ("status", "awaited", "failure_code", "definition__template_slug", "reported")


def _threads(keys: Sequence[Any], asker: Asker) -> list[Facts]:
    threads = Thread.objects.filter(pk__in=keys).annotate(newest=_newest("pk"))
    rows = list(threads.values("newest", f"owner__{NAME}", "team__name"))
    newest = Run.objects.filter(pk__in=[row["newest"] for row in rows if row["newest"]]).annotate(
        reported=Wait.objects.filter(pause__run=OuterRef("pk"), reported__in=Wait.ENDED).values(
            "reported"
        )
    )
    runs = {run["pk"]: run for run in newest.values("pk", *FACTS_OF_RUN)}
    asking = _asking([key for key, run in runs.items() if run["awaited"]])
    return [_thread(row, runs.get(row["newest"]), asking) for row in rows]


def _thread(row: Mapping[str, Any], run: Mapping[str, Any] | None, asking: Container[Any]) -> Facts:
    status = run["status"] if run else NEW
    slug = run["definition__template_slug"] if run else None
    if run and status == RunStatus.PAUSED and run["awaited"] and run["pk"] not in asking:
        status = RunStatus.RUNNING.value
    if status == DONE and slug == external_runs.SLUG:
        status = (run and run["reported"]) or Lifecycle.RESUMED.value
    facts = {
        "status": status,
        "template": slug,
        "person": row[f"owner__{NAME}"],
        "team": row["team__name"],
        "failure_code": run["failure_code"] if run else "",
    }
    return {name: [value] for name, value in facts.items() if value}


def thread_has(keys: RawSQL) -> Q:
    """Of threads that have a word, or a question of which has it."""
    asked = Pause.objects.filter(pk__in=keys)
    return Q(pk__in=keys) | Q(pk__in=asked.values("run__thread"))


THREADS = List(
    name="threads",
    title=gettext_noop("Threads"),
    address="hitl:threads",
    parameters=(
        WORDS,
        Parameter(
            "status", gettext_noop("Status"), "Where its latest run stands.", THREAD_STATUSES
        ),
        TEMPLATE,
        person("Whose it is"),
        TEAM,
        FAILURE,
        *times("Opened"),
        sort(newest=gettext_noop("Newest"), oldest=gettext_noop("Oldest")),
    ),
    conditions={
        "status": _thread_status,
        "template": _newest_is(lambda value, asker: {"definition__template_slug": value}),
        "person": called("owner"),
        "team": has("team__name"),
        "failure_code": _newest_is(lambda value, asker: {"failure_code": value}),
    },
    found_by=thread_has,
    at="created_at",
    orders={
        NEWEST: ListOrder(newest=True, prefix=Thread.PREFIX),
        OLDEST: ListOrder(prefix=Thread.PREFIX),
    },
    facts=_threads,
    beside=("before", OPEN),
    identified={"thr": "pk", "run": "runs__pk"},
)
