"""Templates as assistants: those that a thread can run, and the caller may start."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from extensions.langgraph.api.calls import Call, Given, Reply, invalid
from hitl.live.pump import StreamRefused
from runs.definitions import rights
from runs.models import Template
from runs.workflows import attachments

NAMESPACE = uuid.UUID("5f1c9a0e-6b1f-4f3a-9f55-0d1a6f0c7c11")
"""Ids of assistants are names in it, so each server gives a template the same one."""
MOST = 1000


class Search(Given):
    metadata: dict[str, Any] = {}
    graph_id: str = ""
    name: str = ""
    limit: int = 10
    offset: int = 0
    sort_by: str = ""
    sort_order: str = ""
    select: list[str] = []


def id_of(slug: str) -> str:
    return str(uuid.uuid5(NAMESPACE, slug))


def _all(call: Call) -> list[Template]:
    """Those without a repository or a file, which a thread gives none (`turns.take_turn`)."""
    refused = rights.refusals(call.by)
    rows = Template.objects.current().filter(needs_repository=False).order_by("slug")
    return [
        template
        for template in rows
        if template.slug not in refused and not attachments.names_in(template.input_schema)
    ]


def find(call: Call, assistant: str) -> Template:
    """By its id or its slug. Raises StreamRefused."""
    for template in _all(call):
        if assistant in {template.slug, id_of(template.slug)}:
            return template
    raise StreamRefused(404, "not_found", "There is no such assistant for you.")


def shown(template: Template) -> dict[str, Any]:
    made = template.created_at.isoformat()
    return {
        "assistant_id": id_of(template.slug),
        "graph_id": template.slug,
        "name": template.title,
        "description": template.description,
        "version": template.version,
        "config": {},
        "context": {},
        "metadata": {"created_by": "system", "graph_id": template.slug},
        "created_at": made,
        "updated_at": made,
    }


def _found(call: Call) -> tuple[Search, list[dict[str, Any]]]:
    given = call.body(Search)
    rows = [shown(template) for template in _all(call)]
    if given.sort_order.lower() == "desc":
        rows.reverse()
    return given, [row for row in rows if _fits(row, given)]


def _fits(row: Mapping[str, Any], given: Search) -> bool:
    known = {**row["metadata"], "assistant_id": row["assistant_id"]}
    return (
        given.graph_id in {"", row["graph_id"]}
        and given.name.lower() in row["name"].lower()
        and all(known.get(key) == value for key, value in given.metadata.items())
    )


def search(call: Call) -> Reply:
    given, rows = _found(call)
    return page(rows, given.limit, given.offset, given.select)


def page(rows: list[dict[str, Any]], limit: int, offset: int, select: list[str]) -> Reply:
    """Some of these rows, and where the next ones begin. Raises StreamRefused as `selected`."""
    start = max(offset, 0)
    found = rows[start:][: min(max(limit, 0), MOST)]
    headers = {"X-Pagination-Total": str(len(rows))}
    if start + len(found) < len(rows) and found:
        headers["X-Pagination-Next"] = str(start + len(found))
    return Reply(data=selected(found, select), headers=headers)


def selected(rows: list[dict[str, Any]], names: list[str]) -> list[dict[str, Any]]:
    """Rows with these keys alone. Raises StreamRefused where there are none such."""
    if not names:
        return rows
    if rows and (unknown := sorted(set(names) - rows[0].keys())):
        raise invalid(f"select: there is no {unknown[0][:60]}.")
    return [{name: row[name] for name in names} for row in rows]


def count(call: Call) -> Reply:
    return Reply(data=len(_found(call)[1]))


def get(call: Call) -> Reply:
    return Reply(data=shown(find(call, call.names["assistant_id"])))


def schemas(call: Call) -> Reply:
    template = find(call, call.names["assistant_id"])
    state: dict[str, Any] = template.state_schema or {
        "type": "object",
        "properties": {name: {} for name in template.reducers},
    }
    return Reply(
        data={
            "graph_id": template.slug,
            "input_schema": template.input_schema or {"type": "object"},
            "output_schema": state,
            "state_schema": state,
            "config_schema": {},
            "context_schema": {},
        }
    )


def graph(call: Call) -> Reply:
    """The steps in their order; where a question may lead back is in no edge."""
    template = find(call, call.names["assistant_id"])
    names = [str(step["name"]) for step in template.steps]
    nodes = ["__start__", *names, "__end__"]
    return Reply(
        data={
            "nodes": [
                {"id": name, "type": "runnable", "data": {"id": [], "name": name}} for name in nodes
            ],
            "edges": [{"source": before, "target": after} for before, after in pairwise(nodes)],
        }
    )
