"""Graphs of LangGraph as pictures: on the page of an order's picture, of its history and of a
template.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.pregel.remote import RemoteGraph
from langgraph_sdk.errors import APIStatusError

from checkpoints.models.graphs import GraphDrawing
from extensions.langgraph.graphs import drawing, kept_drawings
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from hitl.rendering.diagrams import graph as diagrams
from runs import definitions
from runs.definitions import pictures
from runs.models import Run
from runs.workflows.base.pictures import InnerEdge, InnerGraph, InnerNode
from tests.conftest import drive, fresh, pause_of
from tests.doors.langgraph import sdk_of
from tests.extensions.langgraph.graphs import graphs
from tests.extensions.langgraph.graphs.graphs import State
from tests.extensions.langgraph.graphs.ordered import file_database as file_database
from tests.extensions.langgraph.graphs.ordered import graph_order as graph_order
from tests.extensions.langgraph.graphs.ordered import named
from tests.hitl.views.order_pages import ATTACKS, text, url

pytestmark = pytest.mark.django_db(transaction=True)
TEMPLATE = "/templates/graph/"


def states(order: Any) -> dict[str, str]:
    """Node → its state, those of a graph within as `outer/inner`."""
    run = Run.objects.select_related("thread__head").get(pk=order.latest_run_id)
    [(_, graph)] = pictures.of_steps(order.definition.steps, run)
    return {
        **{node.name: node.state for node in graph.nodes},
        **{
            f"{node.name}/{inner.name}": inner.state
            for node in graph.nodes
            if node.inner
            for inner in node.inner.nodes
        },
    }


def pages(page: Any, order: Any) -> list[str]:
    shown = [page.get(address) for address in (
        f"{url(order)}picture", f"/threads/{order.thread.shown_id}/history", TEMPLATE
    )]  # fmt: skip
    assert [response.status_code for response in shown] == [200, 200, 200]
    return [text(response) for response in shown]


@pytest.mark.both_databases
def test_a_graph_is_drawn_with_where_its_run_stands(page, graph_order, ana):
    order = drive(graph_order("line"))
    assert states(order) == {
        "__start__": "done",
        "a": "done",
        "ask": "asks",
        "b": "todo",
        "__end__": "todo",
    }
    picture, history, template = pages(page, order)
    for shown in (picture, history):
        assert "The graph of Graph: line" in shown
    assert "On other branches</th>" in history
    assert ">ask</th>" not in history, "a graph's checkpoints are no branches of the workflow"
    for shown in (picture, history):
        assert 'class="node step asks"' in shown
        assert "ask, asks, and waits for an answer. Leads to b." in shown
    assert "a. Leads to ask." in template
    assert "waits for an answer" not in template
    services.decide(
        pause_of(order).pk, Answer("answer", Via.PAGE, payload={"graph_answer": "yes"}), by=ana
    )
    order = drive(order)
    assert order.status == "completed"
    assert set(states(order).values()) == {"done"}
    assert "It has ended." in pages(page, order)[0]


def test_a_graph_within_a_graph_is_drawn_to_one_level(page, graph_order):
    order = drive(graph_order("nested"))
    stand = states(order)
    assert (stand["before"], stand["sub"]) == ("done", "asks")
    assert (stand["sub/inside"], stand["sub/ask"], stand["sub/rest"]) == ("done", "asks", "todo")
    shown = pages(page, order)[0]
    assert 'class="node group asks"' in shown
    assert "Within sub: inside, done. Leads to ask." in shown


def test_a_node_that_is_sent_several_things_asks_too(graph_order):
    stand = states(drive(graph_order("parallel")))
    assert (stand["ask"], stand["b"]) == ("asks", "todo")


def test_a_cancelled_run_stopped_where_its_graph_asked(page, graph_order, ana):
    order = drive(graph_order("line"))
    services.cancel_order(order.pk, by=ana, via=Via.PAGE)
    order = fresh(order)
    assert order.latest_run.status == "cancelled"
    assert states(order)["ask"] == "failed"
    assert "waits for an answer" not in pages(page, order)[0]


def test_ways_that_only_the_code_knows_are_said(page, graph_order):
    order = drive(graph_order("looping"))
    assert order.status == "completed", order.latest_run.error
    assert "goes on where its code says" in pages(page, order)[0]


def test_a_graph_that_failed_shows_where(page, graph_order, monkeypatch):
    def broken(state: State) -> State:
        raise ValueError("no tea left")

    monkeypatch.setattr(
        graphs,
        "failing",
        lambda: graphs._line(("a", graphs.work("a")), ("b", broken)),
        raising=False,
    )
    order = drive(graph_order("failing"))
    assert order.status == "failed"
    stand = states(order)
    assert (stand["a"], stand["b"], stand["__end__"]) == ("done", "failed", "todo")
    assert "b, stopped here." in pages(page, order)[0]


def test_a_graph_that_cannot_be_loaded_is_said_and_every_page_is_there(page, graph_order):
    order = graph_order("gone")
    assert all("No worker has loaded this graph yet." in shown for shown in pages(page, order))
    order = drive(order)
    assert order.status == "failed"
    pictures.look_at_start()
    assert all("cannot be loaded from tests.extensions" in shown for shown in pages(page, order))


def test_a_graph_that_is_named_no_more_is_drawn_as_it_was(page, graph_order, settings):
    order = drive(graph_order("straight"))
    settings.WAYSTATION_GRAPHS = {}
    shown = pages(page, fresh(order))
    assert all("does not name this graph" in one for one in shown)
    assert "a, done. Leads to b." in shown[0]


def test_no_request_loads_a_graph(page, graph_order, monkeypatch):
    """What authors wrote runs in workers: pages read what these kept."""
    order = drive(graph_order("line"))
    monkeypatch.setattr(
        "extensions.langgraph.graphs.loading.load", lambda name: pytest.fail("loaded")
    )
    pages(page, order)


@pytest.mark.both_databases
def test_a_worker_keeps_all_graphs_when_it_starts(file_database, settings, templates):
    settings.WAYSTATION_GRAPHS = named("line", "gone", "straight")
    pictures.look_at_start()
    drawn = GraphDrawing.objects.exclude(shape="").order_by("name").values_list("name", flat=True)
    assert list(drawn) == ["line", "straight"]
    before = GraphDrawing.objects.get(name="line").loaded_at
    pictures.look_at_start()
    assert GraphDrawing.objects.get(name="line").loaded_at == before


def test_child_runs_that_run_the_same_graph_have_one_picture(graph_order):
    graph_order("line")
    sub_steps = [
        {"step_type": "work", "name": name, "step_template_slug": "graph"} for name in ("x", "y")
    ]
    definitions.edit_step_template(
        "crew", title="Crew", function="flow.sub_steps", config={}, sub_steps=sub_steps
    )
    steps = [{"step_type": "work", "name": "crew", "step_template_slug": "crew"}]
    drawn = pictures.of_steps(definitions.freeze_steps(steps))
    assert [(title, graph.name) for title, graph in drawn] == [("Graph", "line")]


@pytest.mark.both_databases
def test_of_one_graph_the_newest_shapes_are_kept(file_database):
    for number in range(kept_drawings.KEPT + 3):
        kept_drawings.keep("many", f"shape {number}", {"nodes": [], "number": number})
    assert GraphDrawing.objects.filter(name="many").count() == kept_drawings.KEPT
    newest = kept_drawings.KEPT + 2
    assert kept_drawings.drawing_of("many")[0]["number"] == newest
    assert kept_drawings.drawing_of("many", f"shape {newest - 1}")[0]["number"] == newest - 1


def test_names_of_nodes_are_shown_as_text(page, graph_order, monkeypatch):
    def hostile() -> Any:
        return graphs._line(
            *((name.replace(":", "").replace("|", ""), graphs.work("a")) for name in ATTACKS)
        )

    monkeypatch.setattr(graphs, "failing", hostile, raising=False)
    order = drive(graph_order("failing"))
    assert order.status == "completed", order.latest_run.error
    for shown in pages(page, order):
        assert "<script>alert" not in shown
        assert "<img src=x" not in shown
        assert "&lt;script&gt;alert(1)" in shown


def test_a_huge_graph_is_cut_and_says_so():
    """Its end stays, and the page says how many nodes it has beside those drawn."""
    graph: Any = StateGraph(State)
    names = [f"n{number}" for number in range(300)]
    for name in names:
        graph.add_node(name, graphs.work(name))
    graph.add_edge(START, names[0])
    for left, right in pairwise(names):
        graph.add_edge(left, right)
    graph.add_edge(names[-1], END)
    told = drawing.described(graph.compile())
    assert len(told["nodes"]) == drawing.NODES + 1
    assert told["left_out"] == 302 - len(told["nodes"])
    assert told["nodes"][-1]["name"] == END
    assert diagrams.draw(drawing._graph("huge", told)) is not None


def test_conditions_lead_down_beside_and_back():
    nodes = [InnerNode(name=name) for name in ("__start__", "write", "check", "send", "__end__")]
    edges = [
        InnerEdge(source="__start__", target="write"),
        InnerEdge(source="write", target="check"),
        InnerEdge(source="check", target="write", conditional=True, label="too long"),
        InnerEdge(source="check", target="send", conditional=True, label="fine"),
        InnerEdge(source="check", target="__end__", conditional=True),
        InnerEdge(source="send", target="__end__"),
    ]
    picture = diagrams.draw(InnerGraph(name="mail", nodes=nodes, edges=edges))
    assert picture is not None
    assert [node.title for node in picture.nodes] == ["Start", "write", "check", "send", "End"]
    assert [(arc.kind, arc.label, arc.left) for arc in picture.arcs] == [
        ("next", "", False),
        ("next", "", False),
        ("choice", "too long", True),
        ("choice", "fine", False),
        ("next", "", False),
        ("choice", "", False),
    ]
    assert picture.sentences[2] == (
        "check. On a condition leads to write (too long), send (fine), the end."
    )
    assert diagrams.draw(InnerGraph(name="empty")) is None


def laid_out(graph: Any, prefix: str = "") -> tuple[set[str], set[tuple[str, str, bool]]]:
    """Names and edges between nodes as LangGraph draws a graph of its own, seen from a step."""
    inner = [name for name in graph.nodes if name not in {START, END}]
    edges = {
        (f"{prefix}{edge.source}", f"{prefix}{edge.target}", edge.conditional)
        for edge in graph.edges
        if {edge.source, edge.target} <= {*inner}
    }
    return {f"{prefix}{name}" for name in inner}, edges


def compiled(name: str) -> Any:
    graph: Any = getattr(graphs, name)
    return graph if hasattr(graph, "get_graph") else graph().compile()


def drawn_for(client: Any, slug: str, **xray: Any) -> tuple[list[str], set[tuple[str, str, bool]]]:
    """Names and edges of an assistant's graph, each edge between nodes that are there."""
    got = client.assistants.get_graph(slug, **xray)
    edges = {
        (edge["source"], edge["target"], edge.get("conditional", False)) for edge in got["edges"]
    }
    names = [one["id"] for one in got["nodes"]]
    assert {end for edge in edges for end in edge[:2]} <= {*names}
    return names, edges


@pytest.mark.parametrize("name", ["nested", "looping"])
def test_langgraphs_clients_get_the_nodes_of_a_graph_in_a_step(graph_order, ana, name):
    graph_order(name)
    steps: Any = [
        {"step_type": "work", "name": step, "step_template_slug": "graph"}
        for step in ("work", "rest")
    ]
    definitions.edit_template("two", title="Two", steps=steps, needs_repository=False)
    client = sdk_of(ana)
    plain = drawn_for(client, "two")
    assert plain == (
        [START, "work", "rest", END],
        {(START, "work", False), ("work", "rest", False), ("rest", END, False)},
    )
    assert drawn_for(client, "two", xray=True) == plain  # no worker has loaded it yet
    pictures.look_at_start()
    assert drawn_for(client, "two", xray=False) == plain
    for xray in (True, 1):
        names, edges = drawn_for(client, "two", xray=xray)
        # to LangGraph a graph's own nodes are depth 0, and here a graph is within a step
        theirs, between = laid_out(compiled(name).get_graph(xray=xray is True), "work:")
        assert (names[0], names[-1]) == (START, END)
        inner = {one for one in names if one.startswith("work:")}
        assert inner - {"work:__start__", "work:__end__"} == theirs
        assert between <= edges
        (into,) = {target for source, target, _ in edges if source == START}
        assert into in {f"work:{START}", *theirs}
    assert RemoteGraph("two", sync_client=client).get_graph(xray=True).nodes.keys() == {
        *drawn_for(client, "two", xray=True)[0]
    }
    with pytest.raises(APIStatusError, match="xray"):
        client.assistants.get_graph("two", xray="odd")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["nested", "looping"])
def test_a_template_that_is_one_graph_looks_like_it_to_langgraphs_clients(graph_order, ana, name):
    """As a graph that their own server serves: its test suite asks for it so."""
    graph_order(name)
    client = sdk_of(ana)
    assert drawn_for(client, "graph")[0] == [START, "work", END]  # no worker has loaded it yet
    pictures.look_at_start()
    for xray in (False, True):
        names, edges = drawn_for(client, "graph", xray=xray)
        theirs, between = laid_out(compiled(name).get_graph(xray=xray))
        assert ({*names} - {START, END}, names[0], names[-1]) == (theirs, START, END)
        assert between <= edges
