"""Finding threads by their metadata, their ids and where they stand."""

from __future__ import annotations

import uuid
from typing import Any

from django.db.models import Exists, F, OuterRef, Q, Subquery, Value
from django.db.models.functions import Coalesce
from pydantic import Field

from extensions.langgraph.api import assistants, reviewing, threads
from extensions.langgraph.api.calls import Call, Given, Reply, invalid, key_of
from hitl.models import LangGraphRun, LangGraphTag
from runs.export import IMPORTED
from runs.models import Pause, QueuedTurn, Run
from runs.states import EXPIRED, FAILED

MOST = 1000
DERIVED = ("graph_id", "assistant_id")
"""Keys of metadata that come from a thread's last run, where no client wrote them."""


class SearchIn(Given):
    metadata: dict[str, Any] = {}
    ids: list[str] = []
    status: str = ""
    limit: int = 10
    offset: int = Field(default=0, le=10**6)
    sort_by: str = "created_at"
    sort_order: str = "desc"
    select: list[str] = []


def _found(call: Call, given: SearchIn) -> Any:
    threads.check(given.metadata)
    # the questions of child runs are those of the thread above
    children = Run.objects.filter(thread=OuterRef("pk"), parent__isnull=False)
    rows = reviewing.among(call).filter(~Exists(children))
    if given.ids:
        keys = [key_of(text, "ids") for text in given.ids[:MOST]]
        rows = rows.filter(Q(langgraph__wire_id__in=keys) | Q(pk__in=keys, langgraph=None))
    for key, value in given.metadata.items():
        keyed = LangGraphTag.objects.filter(thread=OuterRef("pk"), key=key)
        tagged = keyed.filter(digest=threads.digest(value))
        condition = Q(Exists(tagged))
        if key in DERIVED:
            condition |= Q(Exists(_runs_of(value))) & ~Q(Exists(keyed))
        if key == "assistant_id" and (kept := _uuid(value)):
            begun = LangGraphRun.objects.filter(thread=OuterRef("pk"), assistant=kept)
            condition |= Q(Exists(begun)) & ~Q(Exists(keyed))
        rows = rows.filter(condition)
    return _standing_at(rows, given.status) if given.status else rows


def _uuid(value: Any) -> uuid.UUID | None:
    try:
        return uuid.UUID(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _runs_of(value: Any) -> Any:
    """Runs of a thread by a template, by its slug or its assistant's id."""
    slugs = set(Run.objects.values_list("definition__template_slug", flat=True).distinct())
    slug = next((slug for slug in slugs if value in (slug, assistants.id_of(slug))), None)
    return Run.objects.filter(thread=OuterRef("pk"), definition__template_slug=slug)


def _standing_at(rows: Any, status: str) -> Any:
    runs = Run.objects.filter(thread=OuterRef("pk"))
    opened = Pause.objects.open()
    asks = (
        Q(Exists(opened.filter(run__thread=OuterRef("pk"))))
        | Q(Exists(opened.filter(run__parent__thread=OuterRef("pk"))))
        | Q(Exists(opened.filter(run__parent__parent__thread=OuterRef("pk"))))
    )
    waits = QueuedTurn.objects.waiting().filter(thread=OuterRef("pk"))
    busy = Q(Exists(runs.live())) | Q(Exists(waits))
    newest = runs.order_by("-id")
    rows = rows.annotate(
        newest=Coalesce(Subquery(newest.values("status")[:1]), Value("")),
        newest_code=Coalesce(Subquery(newest.values("failure_code")[:1]), Value("")),
    )
    failed = Q(newest__in=[FAILED, EXPIRED]) & ~Q(newest_code=IMPORTED)
    match status:
        case "interrupted":
            return rows.filter(asks)
        case "busy":
            return rows.filter(busy).exclude(asks)
        case "error":
            return rows.filter(failed).exclude(busy)
        case "idle":
            return rows.exclude(busy).exclude(failed)
    raise invalid("status is one of idle, busy, interrupted, error.")


def search(call: Call) -> Reply:
    given = call.body(SearchIn)
    if given.sort_by not in {"created_at", "updated_at", "thread_id"}:
        raise invalid("sort_by is one of created_at, updated_at, thread_id.")
    changed = Coalesce("head__created_at", "created_at")  # as `threads.shown` says it
    by = changed if given.sort_by == "updated_at" else F("pk")
    order = by.asc() if given.sort_order.lower() == "asc" else by.desc()
    found = _found(call, given)
    total = found.count()
    offset, limit = max(given.offset, 0), min(max(given.limit, 1), MOST)
    page = found.select_related("langgraph").order_by(order, "-pk")[offset : offset + limit]
    values = not given.select or "values" in given.select
    rows = reviewing.listed(call, list(page), values=values)
    headers = {"X-Pagination-Total": str(total)}
    if offset + len(rows) < total and rows:
        headers["X-Pagination-Next"] = str(offset + len(rows))
    return Reply(data=assistants.selected(rows, given.select), headers=headers)


def count(call: Call) -> Reply:
    given = call.body(SearchIn)
    return Reply(data=_found(call, given).count())
