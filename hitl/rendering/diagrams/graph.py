"""A step's inner graph as a picture, laid out like a workflow's: its nodes from top to bottom, what
leads on beside them on the right, what leads back on the left. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext, gettext_lazy

from hitl.rendering.diagrams.workflow import (
    BOX,
    GAP,
    LEFT,
    STATES,
    TOP,
    Arc,
    ArcKind,
    Kind,
    Lanes,
    Node,
    Picture,
    beside,
    framed,
)
from runs.workflows.base.pictures import END, START, InnerEdge, InnerGraph, InnerNode

INSET, HEAD, FOOT = 54, 46, 14
"""Of a graph within a node: its margin on both sides, which is for its arrows; the room above for
its title, and below.
"""
NARROW = 20
"""Characters of a title there."""
TITLES = {START: gettext_lazy("Start"), END: gettext_lazy("End")}
KINDS: dict[str, Kind] = {START: "start", END: "end"}
WORDS = {**STATES, "asks": gettext_lazy("asks, and waits for an answer")}


def draw(graph: InnerGraph) -> Picture | None:
    """None where nothing is known of the graph."""
    if not graph.nodes:
        return None
    nodes, arcs, _ = _laid(graph, LEFT, BOX, TOP, "")
    return framed(nodes, arcs, sentences=[*_sentences(graph)])


@dataclass(frozen=True, kw_only=True)
class StepGraph:
    """A step's graph as `hitl/orders/_graphs.html` shows it."""

    title: str
    """Of the step."""
    graph: InnerGraph
    picture: Picture | None


def draw_all(graphs: Iterable[tuple[str, InnerGraph]]) -> list[StepGraph]:
    return [StepGraph(title=title, graph=graph, picture=draw(graph)) for title, graph in graphs]


def _laid(
    graph: InnerGraph, x: float, width: float, y: float, prefix: str
) -> tuple[list[Node], list[Arc], float]:
    """The boxes and arrows of a graph in a column, and where the next box may begin."""
    nodes: list[Node] = []
    arcs: list[Arc] = []
    at: dict[str, Node] = {}
    order = _ordered(graph)
    for node in order:
        within: list[Node] = []
        tall = 0.0
        if node.inner is not None and node.inner.nodes and not prefix:
            within, inner_arcs, bottom = _laid(
                node.inner, x + INSET, width - 2 * INSET, y + HEAD, f"{node.name}\0"
            )
            arcs += inner_arcs
            tall = bottom - GAP + FOOT - y
        box = Node(
            kind="group" if within else KINDS.get(node.name, "step"),
            key=prefix + node.name,
            title=str(TITLES.get(node.name, node.name)),
            note=_noted(node),
            y=y,
            x=x,
            width=width,
            tall=tall,
            state=node.state,
            room=NARROW if prefix else None,
        )
        nodes += [box, *within]
        at[node.name] = box
        y += box.height + GAP
    left, right = _lanes(prefix), _lanes(prefix)
    places = {node.name: number for number, node in enumerate(order)}
    drawn = [edge for edge in graph.edges if {edge.source, edge.target} <= at.keys()]
    # the shortest first: they take the lanes next to the boxes
    for edge in sorted(drawn, key=lambda e: abs(places[e.target] - places[e.source])):
        begin, end = at[edge.source], at[edge.target]
        kind: ArcKind = "choice" if edge.conditional else "next"
        label = "" if prefix else edge.label
        if places[edge.target] == places[edge.source] + 1:
            path = f"M{begin.centre:g} {begin.y + begin.height:g}V{end.y - 3:g}"
            middle = begin.y + begin.height + GAP / 2 + 2
            arcs.append(Arc(kind=kind, path=path, label=label, x=begin.centre + 8, y=middle))
        else:
            back = places[edge.target] <= places[edge.source]
            arcs.append(beside(kind, begin, end, label, left if back else right, back=back))
    return nodes, arcs, y


def _lanes(prefix: str) -> Lanes:
    return Lanes(first=14, apart=13) if prefix else Lanes()


def _noted(node: InnerNode) -> str:
    waits = gettext("waits for an answer") if node.state == "asks" else ""
    return "; ".join(
        filter(None, [waits or node.note, gettext("a graph within") if node.inner else ""])
    )


def _ordered(graph: InnerGraph) -> list[InnerNode]:
    """The nodes so that edges lead down wherever they can, START first and END last."""
    known = {node.name: node for node in graph.nodes}
    following: dict[str, list[str]] = {name: [] for name in known}
    for edge in graph.edges:
        if edge.source in known and edge.target in known:
            following[edge.source].append(edge.target)
    seen, after = set[str](), list[str]()
    for root in sorted(known, key=lambda name: name != START):
        if root in seen:
            continue
        seen.add(root)
        path = [(root, iter(following[root][::-1]))]
        while path:
            name, targets = path[-1]
            for target in targets:
                if target not in seen:
                    seen.add(target)
                    path.append((target, iter(following[target][::-1])))
                    break
            else:
                after.append(name)
                path.pop()
    places = {name: place for place, name in enumerate(reversed(after))}
    ends = {START: -1, END: len(places)}
    return sorted(graph.nodes, key=lambda node: ends.get(node.name, places[node.name]))


def _sentences(graph: InnerGraph, within: str = "") -> Iterator[str]:
    """What the picture shows, for whoever does not see it."""
    for node in _ordered(graph):
        edges = [edge for edge in graph.edges if edge.source == node.name]
        leads = _leads(edges)
        if node.name == END:
            if node.state == "done":
                yield within + gettext("It has ended.")
            continue
        if node.name == START:
            yield within + gettext("It begins.") + leads
            continue
        note = "" if node.state == "asks" else node.note
        parts = [node.name, str(WORDS.get(node.state, "")), note]
        yield f"{within}{', '.join(filter(None, parts))}.{leads}"
        if node.inner is not None:
            within_it = gettext("Within %(name)s:") % {"name": node.name}
            yield from _sentences(node.inner, f"{within_it} ")


def _leads(edges: Sequence[InnerEdge]) -> str:
    always = [_title(edge) for edge in edges if not edge.conditional]
    perhaps = [_title(edge) for edge in edges if edge.conditional]
    ways = [
        *([gettext("Leads to %(names)s.") % {"names": ", ".join(always)}] if always else []),
        *(
            [gettext("On a condition leads to %(names)s.") % {"names": ", ".join(perhaps)}]
            if perhaps
            else []
        ),
    ]
    return "".join(f" {way}" for way in ways)


def _title(edge: InnerEdge) -> str:
    name = str({**TITLES, END: gettext("the end")}.get(edge.target, edge.target))
    return f"{name} ({edge.label})" if edge.label else name
