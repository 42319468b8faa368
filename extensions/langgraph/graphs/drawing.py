"""What the graphs of this server look like, and where a run stands in one: kept by the process
that loads a graph, read by those that draw it. Imports no LangGraph by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from checkpoints.state import codec
from extensions.langgraph.graphs import kept_drawings, named
from extensions.langgraph.graphs.inputs import GRAPH_RUNS, installed
from extensions.langgraph.graphs.kept_drawings import GraphStand
from runs.workflows.base import StepFailed
from runs.workflows.base.pictures import InnerEdge, InnerGraph, InnerNode, Stand, StepPicture

logger = logging.getLogger(__name__)

NODES, INNER_NODES = 60, 15
"""Nodes of a graph, and of a graph within it, that are drawn."""
EDGES = 300
NAME, NOTE = 120, 200
"""Characters of a name, and of what is known of a node."""
ASKS = "asks people"
DECIDES = "goes on where its code says"
UNKNOWN = (
    "No worker has loaded this graph yet. It is drawn once a worker starts with it, or a run comes "
    "to it."
)
UNREAD = "Where the run stands in it cannot be read here."


def described(compiled: Any) -> dict[str, Any]:
    """A compiled graph as JSON: `nodes`, `edges` and how many nodes are left out; graphs within it
    as `inner` of their node, to one level.
    """
    inner = {name: graph for name, graph in compiled.get_subgraphs() if hasattr(graph, "builder")}
    return _described(compiled, NODES, inner)


def _described(compiled: Any, most: int, inner: Mapping[str, Any]) -> dict[str, Any]:
    drawn = compiled.get_graph()
    names = [str(name) for name in drawn.nodes]
    edges = [
        (edge.source, edge.target, bool(edge.conditional), _cut(edge.data or "", NAME))
        for edge in drawn.edges
    ]
    shown = _first(names, edges, most)
    return {
        "nodes": [
            {
                "name": _cut(name, NAME),
                "note": _cut("; ".join(_notes(compiled, name)), NOTE),
                **({"inner": _described(inner[name], INNER_NODES, {})} if name in inner else {}),
            }
            for name in shown
        ],
        "edges": [
            [_cut(source, NAME), _cut(target, NAME), conditional, label]
            for source, target, conditional, label in edges
            if {source, target} <= shown.keys()
        ][:EDGES],
        "left_out": len(names) - len(shown),
    }


def _first(names: list[str], edges: list[tuple[str, str, bool, str]], most: int) -> dict[str, None]:
    """The nodes that are reached first, and the end; those that nothing leads to come last."""
    reached = dict.fromkeys(names[:1])
    for name in reached_from(names, edges):
        reached.setdefault(name)
    ends = [name for name in reached if name == "__end__"]
    rest = [name for name in reached if name != "__end__"][:most]
    return dict.fromkeys([*rest, *ends])


def reached_from(names: list[str], edges: list[tuple[str, str, bool, str]]) -> Iterator[str]:
    """Names in the order in which edges lead to them, from the first; then the others."""
    seen, waiting = set[str](), names[:1]
    while waiting:
        name = waiting.pop(0)
        if name in seen:
            continue
        seen.add(name)
        yield name
        waiting += [target for source, target, *_ in edges if source == name]
    yield from (name for name in names if name not in seen)


def _notes(compiled: Any, name: str) -> Iterator[str]:
    node, builder = compiled.nodes.get(name), getattr(compiled, "builder", None)
    if node is None:
        return
    if any(_calls_interrupt(part) for part in _functions(node.bound)):
        yield ASKS
    branches = getattr(builder, "branches", {}).get(name, {})
    if any(branch.ends is None for branch in branches.values()):
        yield DECIDES
    if isinstance(tools := getattr(node.bound, "tools_by_name", None), Mapping):
        yield f"tools: {', '.join(map(str, tools))}"


def _functions(bound: Any) -> Iterator[Any]:
    for part in getattr(bound, "steps", None) or [bound]:
        yield from (getattr(part, name, None) for name in ("func", "afunc"))


def _calls_interrupt(function: Any) -> bool:
    """Whether a function names LangGraph's `interrupt` itself; it is not run."""
    code, known = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    named = (known.get(name) for name in getattr(code, "co_names", ()))
    return any(
        getattr(value, "__module__", "") == "langgraph.types"
        and getattr(value, "__name__", "") == "interrupt"
        for value in named
    )


def _cut(text: Any, most: int) -> str:
    readable = codec.readable(str(text))
    return readable if len(readable) <= most else f"{readable[: most - 1]}…"


class GraphPicture(StepPicture):
    """The graph that a step's configuration names."""

    def drawn(self, config: Mapping[str, Any], stand: Stand | None = None) -> InnerGraph | None:
        name = str(config.get("graph", ""))
        place = _place(stand) if stand else {}
        content, problem = kept_drawings.drawing_of(name, str(place.get("shape", "")))
        if name not in named.names():
            problem = "WAYSTATION_GRAPHS of this server does not name this graph."
        graph = _graph(name, content)
        if not graph.nodes:
            return _with(graph, problem or UNKNOWN)
        if problem:
            graph = _with(graph, f"Drawn as it was loaded last. {problem}")
        return _standing(graph, stand, place) if stand else graph

    def look(self) -> None:
        if not named.names() or not installed():
            return
        from extensions.langgraph.graphs.loading import load, shape_of  # here: it imports LangGraph

        for name in named.names():
            try:
                compiled = load(name)
                kept_drawings.keep(name, shape_of(compiled), described(compiled))
            except StepFailed as error:
                _note_problem(name, str(error))
            except Exception as error:  # noqa: BLE001  # an author's module may raise anything
                _note_problem(name, f"Its module raised {type(error).__name__}.")


def _note_problem(name: str, words: str) -> None:
    logger.warning("The graph %s cannot be drawn: %s", name, words)
    kept_drawings.keep(name, "", {}, problem=codec.readable(words)[:1000])


def _with(graph: InnerGraph, remark: str) -> InnerGraph:
    return replace(graph, remark=" ".join(filter(None, [graph.remark, remark])))


def _graph(name: str, content: Mapping[str, Any]) -> InnerGraph:
    return InnerGraph(
        name=name,
        nodes=[
            InnerNode(
                name=node["name"],
                note=node["note"],
                inner=_graph(node["name"], node["inner"]) if "inner" in node else None,
            )
            for node in content.get("nodes", ())
        ],
        edges=[
            InnerEdge(source=source, target=target, conditional=conditional, label=label)
            for source, target, conditional, label in content.get("edges", ())
        ],
        left_out=content.get("left_out", 0),
    )


def _place(stand: Stand) -> Mapping[str, Any]:
    """What the state says of the step's graph; empty where it says nothing."""
    kept = stand.state.get(GRAPH_RUNS)
    place = kept.get(stand.step) if isinstance(kept, Mapping) else None
    return place if isinstance(place, Mapping) else {}


def _standing(graph: InnerGraph, stand: Stand, place: Mapping[str, Any]) -> InnerGraph:
    """A run at the step stands at the graph's newest checkpoint; another one, at that which its
    state names: later ones are of other branches.
    """
    if not stand.at and not place:
        return graph.standing({}, ended=False)
    named = {} if stand.at else {"space": "space", "checkpoint": "checkpoint"}
    there = kept_drawings.stand(
        stand.thread, stand.step, **{name: str(place.get(key, "")) for name, key in named.items()}
    )
    if there is None:
        remark = UNREAD if place else "The run has not begun it."
        return _with(graph.standing({}, ended=False), remark)
    ended = not there.upcoming and not there.failed
    return _stood(graph, there, at=stand.at, ended=ended)


def _stood(graph: InnerGraph, there: GraphStand, *, at: str, ended: bool) -> InnerGraph:
    now = "now" if at in {"now", "waits"} else "failed"
    states = {
        **dict.fromkeys(there.done, "done"),
        **dict.fromkeys(there.upcoming, now),
        **dict.fromkeys(there.written, "done"),
        **dict.fromkeys(there.asking, "asks" if at == "waits" else now),
        **dict.fromkeys(there.failed, "failed"),
    }
    drawn = graph.standing(states, ended=ended)
    nodes = []
    for node in drawn.nodes:
        call = there.calls.get(node.name)
        if node.inner is not None and call is not None and node.state != "todo":
            over = node.state == "done"
            within = _stood(node.inner, call, at=at, ended=over)
        elif node.inner is not None:
            within = node.inner.standing({}, ended=False)
        else:
            within = None
        nodes.append(replace(node, inner=within))
    return replace(drawn, nodes=nodes)
