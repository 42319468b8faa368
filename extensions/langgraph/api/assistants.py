"""Templates as assistants: those that a thread can run, and the caller may start; beside them the
configurations of these that the caller saved (`kept.configurations`).
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from django.db.models import F, Q

from checkpoints.models.fields import Locked
from extensions.langgraph.api.calls import Call, Given, Reply, invalid
from hitl.live.pump import StreamRefused
from hitl.models import LangGraphAssistant, LangGraphAssistantVersion, LangGraphRun
from runs import definitions
from runs.definitions import pictures, rights
from runs.models import QueuedTurn, Run, Template
from runs.workflows import attachments
from runs.workflows.base.pictures import END, START, InnerEdge, InnerGraph, InnerNode

NAMESPACE = uuid.UUID("5f1c9a0e-6b1f-4f3a-9f55-0d1a6f0c7c11")
"""Ids of assistants are names in it, so each server gives a template the same one."""
MOST = 1000
DEEPEST = 10
"""Graphs within one another that are drawn."""
SORTED = ("assistant_id", "graph_id", "name", "created_at", "updated_at")


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
    raise unknown()


def unknown() -> StreamRefused:
    return StreamRefused(404, "not_found", "There is no such assistant for you.")


@dataclass(frozen=True)
class Saved:
    """A configuration that the caller saved, in the version that counts."""

    row: LangGraphAssistant
    says: LangGraphAssistantVersion

    @property
    def metadata(self) -> dict[str, Any]:
        """Raises StreamRefused where it cannot be opened now."""
        if isinstance(self.says.metadata, Locked):
            raise StreamRefused(503, "state_locked", str(self.says.metadata.error))
        return dict(self.says.metadata)


def saved(call: Call) -> Iterator[Saved]:
    """Those of the caller, the oldest first."""
    rows = LangGraphAssistant.objects.filter(owner=call.by)
    counts = LangGraphAssistantVersion.objects.filter(
        assistant__in=rows, number=F("assistant__version")
    )
    for says in counts.select_related("assistant").order_by("assistant"):
        yield Saved(says.assistant, says)


def saved_as(call: Call, assistant: str) -> Saved | None:
    """The caller's by its id; None where they have no such one."""
    return next((one for one in saved(call) if str(one.row.pk) == assistant.lower()), None)


def chosen(call: Call, assistant: str) -> tuple[Template, Saved | None]:
    """What a run is begun with: a template, by its slug or its id, or a configuration of one by its
    id. Raises StreamRefused.
    """
    configured = saved_as(call, assistant)
    return find(call, configured.says.template if configured else assistant), configured


def id_of_run(run: Run) -> str:
    """The assistant that a run was begun with: a saved configuration, or its template."""
    queued = QueuedTurn.objects.filter(run=run).values("pk")
    notes = LangGraphRun.objects.filter(Q(wire_id=run.pk) | Q(wire_id__in=queued))
    kept = notes.exclude(assistant=None).values_list("assistant", flat=True).first()
    return str(kept) if kept else id_of(run.frozen.template_slug)


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


def shown_saved(
    row: LangGraphAssistant, says: LangGraphAssistantVersion, *, at: dt.datetime | None = None
) -> dict[str, Any]:
    """A saved configuration; with `at` one version of it, made then."""
    return {
        "assistant_id": str(row.pk),
        "graph_id": says.template,
        "name": says.name,
        "description": says.description,
        "version": says.number,
        "config": {},
        "context": {},
        "metadata": dict(says.metadata),
        "created_at": (at or row.made_at).isoformat(),
        "updated_at": (at or row.changed_at).isoformat(),
    }


def _found(call: Call) -> tuple[Search, list[dict[str, Any]]]:
    given = call.body(Search)
    rows = [shown(template) for template in _all(call)]
    rows += [shown_saved(one.row, one.says) for one in saved(call)]
    if given.sort_by:
        if given.sort_by not in SORTED:
            raise invalid(f"sort_by is one of {', '.join(SORTED)}.")
        rows.sort(key=lambda row: row[given.sort_by])
    if given.sort_order.lower() == "desc":
        rows.reverse()
    return given, [row for row in rows if _fits(row, given)]


def _fits(row: Mapping[str, Any], given: Search) -> bool:
    known = {"graph_id": row["graph_id"], **row["metadata"], "assistant_id": row["assistant_id"]}
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
    configured = saved_as(call, call.names["assistant_id"])
    if configured is not None:
        return Reply(data=shown_saved(configured.row, configured.says))
    return Reply(data=shown(find(call, call.names["assistant_id"])))


def schemas(call: Call) -> Reply:
    template, _ = chosen(call, call.names["assistant_id"])
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


def names_of(template: Template) -> list[str]:
    """Its steps, but those that follow an end; without a name as they are frozen."""
    return [
        str(step.get("name") or step.get("step_type") or step.get("step_template_slug"))
        for step in template.steps
        if "only_on" not in step
    ]


def graph(call: Call) -> Reply:
    """The steps in their order; where a question may lead back is in no edge. With `xray` the nodes
    of a graph in a step stand in its place, as a worker kept them. A template that is one graph
    looks like it.
    """
    template, _ = chosen(call, call.names["assistant_id"])
    steps = names_of(template)
    names = [START, *steps, END]
    deep = _depth(call.query.get("xray", ""))
    inner = _graphs_in(template) if deep or len(steps) == 1 else {}
    drawn = InnerGraph(
        name=template.slug,
        nodes=[InnerNode(name=name, inner=inner.get(name)) for name in names],
        edges=[InnerEdge(source=before, target=after) for before, after in pairwise(names)],
    )
    if len(steps) == 1:
        drawn = inner.get(steps[0], drawn)
    nodes, edges = _laid_out(drawn, deep)
    return Reply(
        data={
            "nodes": [
                {"id": name, "type": "runnable", "data": {"id": [], "name": name}} for name in nodes
            ],
            "edges": [_edge(edge) for edge in edges],
        }
    )


def _depth(xray: str) -> int:
    """How many graphs within one another are drawn. Raises StreamRefused."""
    if xray.lower() in {"", "false"}:
        return 0
    if xray.lower() != "true" and not (xray.isascii() and xray.isdecimal()):
        raise invalid("xray is true, false, or how many graphs within one another are drawn.")
    return DEEPEST if xray.lower() == "true" else min(int(xray[:9]), DEEPEST)


def _graphs_in(template: Template) -> dict[str, InnerGraph]:
    """Step → the graph that it works through, where a worker has kept what that looks like."""
    try:
        steps = definitions.freeze_steps(template.steps)
    except definitions.TemplateInvalid:
        return {}
    pictured = {step["name"]: pictures.of_step(step) for step in steps}
    return {name: graph for name, graph in pictured.items() if graph is not None and graph.nodes}


def stop_at(template: Template, name: str) -> str:
    """A step or a node by its name in the graph of an assistant, as `interrupt_before` of a run has
    it; a node also without its step, where one graph alone has it. Others stay as they are.
    """
    steps = names_of(template)
    step, _, node = name.partition(":")
    if name in steps or not name:
        return name
    if node and step in steps:
        return f"{step}/{node}"
    inner = _graphs_in(template)
    found = [own for own, graph in inner.items() if name in {one.name for one in graph.nodes}]
    return f"{found[0]}/{name}" if len(found) == 1 else name


def _laid_out(graph: InnerGraph, deep: int) -> tuple[list[str], list[InnerEdge]]:
    """Names of nodes, and edges, with graphs within laid out in place of their nodes, to this
    depth: `step:node`, as LangGraph calls them.
    """
    names: list[str] = []
    edges = list(graph.edges)
    for node in graph.nodes:
        if node.inner is None or not deep:
            names.append(node.name)
            continue
        inner, within = _laid_out(node.inner, deep - 1)
        first, last = _doors(within)
        gone = {START} if first != START else set()
        gone |= {END} if last != END else set()
        names += [f"{node.name}:{name}" for name in inner if name not in gone]
        edges = [
            replace(
                edge,
                source=f"{node.name}:{last}" if edge.source == node.name else edge.source,
                target=f"{node.name}:{first}" if edge.target == node.name else edge.target,
            )
            for edge in edges
        ]
        edges += [
            replace(edge, source=f"{node.name}:{edge.source}", target=f"{node.name}:{edge.target}")
            for edge in within
            if not {edge.source, edge.target} & gone
        ]
    return names, edges


def _doors(edges: Sequence[InnerEdge]) -> tuple[str, str]:
    """The nodes by which a graph is come into and left: its own where there is one each."""
    first = {edge.target for edge in edges if edge.source == START}
    last = {edge.source for edge in edges if edge.target == END}
    both = len(first) == 1 and len(last) == 1 and END not in first
    return (first.pop(), last.pop()) if both else (START, END)


def _edge(edge: InnerEdge) -> dict[str, Any]:
    return {
        "source": edge.source,
        "target": edge.target,
        **({"data": edge.label} if edge.label else {}),
        **({"conditional": True} if edge.conditional else {}),
    }
