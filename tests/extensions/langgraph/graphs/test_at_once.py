"""Interrupts of parallel nodes: questions at once, to different people, answered in any order."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import User

from checkpoints import store
from hitl.decisions import services, undo
from hitl.decisions.reviewers import policy
from hitl.decisions.services import Answer
from hitl.live.pump import StreamRefused
from hitl.models import Decision, Via
from runs import services as runs
from runs.models import Pause
from runs.workflows import Done, registry
from tests.conftest import fresh, state_at_head
from tests.doors.langgraph import sent
from tests.extensions.langgraph.graphs.graphs import EFFECTS
from tests.extensions.langgraph.graphs.ordered import file_database as file_database
from tests.extensions.langgraph.graphs.ordered import graph_order as graph_order
from tests.killed.moments import work_off
from tests.worlds.histories.whole_story import broken
from tests.worlds.people import hire

pytestmark = pytest.mark.django_db(transaction=True)
TWO = {"reviewers": {"users": ["ada", "bea"]}}


@pytest.fixture
def asking(graph_order) -> Any:
    """An order whose first step is the graph of that name, reviewed by these rules."""

    def make(name: str, review: Any = None, *behind: Any) -> Any:
        hire(review or {})
        step = {"review": review} if review else {}
        return worked(graph_order(name, *behind, step=step))

    return make


def worked(order: Any) -> Any:
    work_off()
    return fresh(order)


def asked(order: Any) -> dict[str, Pause]:
    """What the order asks, by question."""
    pauses = Pause.objects.open().filter(run__work_order=order).answerable()
    return {pause.question: pause for pause in pauses}


def answer(order: Any, question: str, by: Any, action: str = "approve", **more: Any) -> Any:
    if isinstance(by, str):
        by = User.objects.get(username=by)
    services.decide(asked(order)[question].pk, Answer(action, Via.PAGE, **more), by=by)
    return worked(order)


def said(text: str) -> dict[str, Any]:
    return {"payload": {"graph_answer": text}}


def of(order: Any) -> Any:
    return state_at_head(order.thread_id).get("answers")


@pytest.mark.parametrize("turns", ["zyx", "yxz"])
def test_parallel_interrupts_are_asked_at_once_and_answered_in_any_order(asking, ana, turns):
    order = asking("parallel")
    assert sorted(asked(order)) == ["x?", "y?", "z?"]
    for name in turns:
        assert EFFECTS["b"] == 0
        order = answer(order, f"{name}?", ana, "answer", **said(f"yes {name}"))
    assert order.status == "completed", order.latest_run.error
    assert of(order) == ["x: yes x", "y: yes y", "z: yes z"]
    assert [EFFECTS[f"after {name}"] for name in "xyz"] == [1, 1, 1]
    assert EFFECTS["b"] == 1


def test_each_is_put_to_whom_its_node_names_within_the_rules_of_the_step(asking, ana):
    order = asking("pair", TWO)
    assert {one: pause.review["reviewers"] for one, pause in asked(order).items()} == {
        "Legal?": {"users": ["ada"]},
        "Brand?": {"users": ["bea"]},
    }
    for question, who in (("Legal?", "bea"), ("Brand?", "ada"), ("Legal?", "ana")):
        with pytest.raises((services.NotFound, policy.Refused)):
            answer(order, question, who)
    order = answer(order, "Brand?", "bea", "reject")
    order = answer(order, "Legal?", "ada")
    assert of(order) == ["brand: False", "legal: True"]
    taken = Decision.objects.order_by("pk").values_list("decided_by__username", "action")
    assert list(taken) == [("bea", "reject"), ("ada", "approve")]


def test_a_quorum_and_the_time_to_take_back_are_those_of_each_question(asking, ana, ben):
    order = asking("parallel", {"quorum": 2})
    for name, by in itertools.product("xyz", (ana, ben)):
        assert EFFECTS["b"] == 0
        order = answer(order, f"{name}?", by)
    assert of(order) == ["x: True", "y: True", "z: True"]


def test_an_answer_that_is_taken_back_is_asked_again_and_the_others_stand(asking, ana):
    order = asking("parallel", {"undo": 600})
    for name, words in (("x", "first"), ("y", "first"), ("x", "second"), ("z", "first")):
        given = services.decide(
            asked(order)[f"{name}?"].pk, Answer("answer", Via.PAGE, **said(words)), by=ana
        )
        if (name, words) == ("x", "first"):
            undo.undo(given.pk, by=ana, via=Via.PAGE)
    assert asked(order) == {}
    order = worked(order)
    assert of(order) == ["x: second", "y: first", "z: first"], order.latest_run.error


def test_work_that_was_frozen_before_asks_one_after_the_other(asking, ana, monkeypatch):
    traits = replace(registry.traits_of("langgraph"), asks_beside="")
    monkeypatch.setitem(registry._TRAITS, "langgraph", traits)
    order = asking("parallel")
    assert "sub_steps" not in order.definition.steps[0]
    monkeypatch.undo()
    for left in (2, 1, 0):
        [(question, pause)] = asked(order).items()
        assert dict(pause.facts).get("Questions after this one", 0) == left
        order = answer(order, question, ana, "answer", **said(f"yes {question}"))
    assert of(order) == ["x: yes x?", "y: yes y?", "z: yes z?"], order.latest_run.error


def test_one_that_is_cancelled_ends_the_work_and_a_retry_asks_it_again_alone(asking, ana):
    order = asking("parallel")
    order = answer(order, "z?", ana, "answer", **said("yes"))
    order = answer(order, "y?", ana, "cancel")
    assert (order.latest_run.status, order.latest_run.failure_code) == ("failed", "child_failed")
    runs.retry(order.pk, by=ana)
    order = worked(order)
    assert sorted(asked(order)) == ["x?", "y?"]
    for name in "xy":
        order = answer(order, f"{name}?", ana, "answer", **said("now"))
    assert of(order) == ["x: now", "y: now", "z: yes"], order.latest_run.error


def test_what_somebody_wrote_into_the_state_answers_nothing(asking, ana):
    """P6: neither an answer that nobody gave, nor a place that the graph is not at."""
    order = asking("parallel")
    gathered = order.thread.head
    state = store.load(gathered)
    services.cancel_order(order.pk, by=ana, via=Via.PAGE)
    names = [name for name, _, _ in state["graph_runs"]["work"]["asked"]]
    forged = {name: {"graph_said": {"value": "forged"}} for name in names}
    for more in (
        {"graph_replies": forged},
        {"graph_replies": {name: {"graph_said": {"words": "forged"}} for name in names}},
        {"graph_replies": forged, "decided": {"work": "answer"}, "graph_answer": "forged"},
    ):
        begins = first_of(order)
        runs.fork(begins.pk, by=ana, reason="forged", state={**state, **more})
        order = worked(order)
        assert sorted(asked(order)) == ["x?", "y?", "z?"], more
        services.cancel_order(order.pk, by=ana, via=Via.PAGE)
    assert "b" not in EFFECTS


def first_of(order: Any) -> Any:
    return order.thread.checkpoints.filter(parent=None, graph=None).get()


def test_a_fork_behind_the_answers_asks_all_of_them_again(asking, ana):
    order = asking("parallel")
    for name in "xyz":
        order = answer(order, f"{name}?", ana, "answer", **said("first"))
    steps = order.thread.checkpoints.filter(graph=None, next_step="work")
    joined = steps.exclude(parent=None).latest("pk")
    runs.fork(joined.pk, by=ana, reason="once more")
    order = worked(order)
    for name in "xyz":
        order = answer(order, f"{name}?", ana, "answer", **said("new"))
    assert of(order) == ["x: new", "y: new", "z: new"], order.latest_run.error


@pytest.mark.parametrize(("second", "ends"), [("approve", "completed"), ("reject", "failed")])
def test_an_effect_behind_them_wants_an_approval_of_each(asking, monkeypatch, second, ends):
    def pay(state, context):
        context.require_approval("work")
        EFFECTS["paid"] += 1
        return Done()

    monkeypatch.setitem(registry._STEPS, "test.finish", pay)
    order = asking("pair", TWO, {"step_type": "deliver", "step_template_slug": "test-finish"})
    order = answer(order, "Legal?", "ada")
    order = answer(order, "Brand?", "bea", second)
    assert order.latest_run.status == ends, order.latest_run.error
    assert EFFECTS["paid"] == (1 if ends == "completed" else 0)
    assert broken() == {}


def test_calls_of_parallel_nodes_are_decided_and_answered_with_words(asking, ana):
    order = asking("calls")
    one, two = asked(order).values()
    assert [len(pause.calls) for pause in (one, two)] == [1, 1]
    services.decide(one.pk, Answer("revise", Via.PAGE, feedback="ask them first"), by=ana)
    services.decide(two.pk, Answer("approve", Via.PAGE), by=ana)
    order = worked(order)
    assert order.status == "completed", order.latest_run.error
    assert sorted(answer["type"] for answer in of(order)) == ["approve", "respond"]


def test_langgraphs_door_shows_all_and_takes_each_by_its_id(asking, ana):
    order = asking("parallel")
    address = f"/threads/{order.thread_id}"
    told = sent(ana, "GET", f"{address}/state")["interrupts"]
    ids = {one["value"]["description"].strip("*")[0]: one["id"] for one in told}
    assert sorted(ids) == ["x", "y", "z"]
    with pytest.raises(StreamRefused, match="several open questions"):
        sent(ana, "POST", f"{address}/runs", {"command": {"resume": True}})
    for turn in ("y", "zx"):
        given = {ids[name]: name != "x" for name in turn}
        sent(ana, "POST", f"{address}/runs", {"command": {"resume": given}})
        order = worked(order)
    assert of(order) == ["x: False", "y: True", "z: True"], order.latest_run.error


def test_rest_names_the_others_and_page_and_inbox_show_all(asking, ana, api, page):
    order = asking("parallel")
    state = api(ana).get(f"/api/v1/work-orders/{order.shown_id}/pause-state").json()
    assert len(state["also_open"]) == 2
    shown = page.get(f"/work-orders/{order.shown_id}/").content.decode()
    assert all(f"{name}?" in shown for name in "xyz")
    assert {pause.question for pause in policy.waiting_for(ana)} == {"x?", "y?", "z?"}
