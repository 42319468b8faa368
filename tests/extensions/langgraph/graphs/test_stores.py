"""What a graph of a step has beside its state: the store of whoever its thread belongs to."""

from __future__ import annotations

from typing import Any

import pytest

from extensions.langgraph.graphs import named
from extensions.langgraph.graphs.stores import AccountStore
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.live.pump import StreamRefused
from hitl.models import LangGraphItem, Via
from runs.definitions import pictures
from tests.conftest import drive, pause_of, state_at_head
from tests.doors.langgraph import sdk_of
from tests.extensions.langgraph.graphs import ordered
from tests.extensions.langgraph.graphs.ordered import file_database as file_database
from tests.extensions.langgraph.graphs.ordered import graph_order as graph_order

pytestmark = pytest.mark.django_db(transaction=True)


def approved(order: Any, by: Any) -> Any:
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=by)
    return drive(order)


@pytest.mark.both_databases
def test_a_graph_has_the_store_of_whoever_its_thread_belongs_to(graph_order, ana, ben):
    """Before, it had none, and what is kept for one account is nobody else's."""
    sdk_of(ben).store.put_item(["seen", "today"], "coffee", {"n": 9})
    sdk_of(ana).store.put_item(["seen", "today"], "old", {"n": 0})
    order = drive(graph_order("noting"))
    item: Any = sdk_of(ana).store.get_item(["seen", "today"], "tea")
    assert item["value"] == {"n": 1}
    order = approved(order, ana)
    assert order.status == "completed", order.latest_run.error
    assert state_at_head(order.thread_id)["log"] == ["noted", "tea", "seen/today", "None"]
    assert LangGraphItem.objects.count() == 2
    assert sdk_of(ben).store.get_item(["seen", "today"], "tea") is None


def test_what_the_store_refuses_the_step_says(graph_order, settings):
    order = drive(graph_order("searching_by_meaning"))
    assert order.status == "failed"
    assert "not by their meaning" in str(order.latest_run.error)
    settings.WAYSTATION_STORE_ITEMS = 0
    order = drive(graph_order("noting"))
    assert "An account keeps up to 0 items" in str(order.latest_run.error)
    with pytest.raises(StreamRefused, match="nobody's"):
        AccountStore(None).get(("seen",), "tea")


def test_what_makes_a_graph_is_told_why_and_for_which_run(graph_order, settings, ana):
    """As LangGraph's own server calls it; before, only a function without arguments was taken."""
    settings.WAYSTATION_GRAPHS = ordered.named("made_by")
    pictures.look_at_start()  # there nobody's store is asked
    order = drive(graph_order("made_by"))
    assert order.status == "completed", order.latest_run.error
    assert state_at_head(order.thread_id)["log"] == ["threads.create_run True thr_ 3"]
    assert sdk_of(ana).store.get_item(["made"], "by") is not None


def test_a_function_that_gives_such_a_function_is_registered_too(
    file_database, make_order, monkeypatch
):
    from tests.extensions.langgraph.graphs import graphs  # imports LangGraph

    monkeypatch.setitem(named._REGISTERED, "given", lambda: graphs.made_by)
    ordered.template("given")
    order = drive(make_order("graph", input={"topic": "tea"}))
    assert order.status == "completed", order.latest_run.error


def test_where_a_graph_asks_its_output_so_far_is_in_the_state(graph_order, ana):
    """A card, a program and a chat's page see it; what would be doubled waits for the end."""
    order = drive(graph_order("noting"))
    assert state_at_head(order.thread_id)["log"] == ["noted"]
    order = drive(graph_order("noting", reducers={"log": "append"}))
    assert "log" not in state_at_head(order.thread_id)
    order = approved(order, ana)
    assert state_at_head(order.thread_id)["log"] == ["noted", "tea", "seen/today", "None"]
