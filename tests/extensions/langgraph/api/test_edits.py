"""`update_state` of LangGraph's own client: a thread's state, edited between its runs."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from langgraph.pregel.remote import RemoteGraph

from checkpoints import store
from checkpoints.models import Event, EventKind
from hitl.decisions import services
from hitl.models import Decision, Via
from hitl.threads import messages
from runs import definitions
from runs.engine import approvals
from runs.models import Pause, Run
from runs.services import submit
from runs.threads import edits, turns
from runs.threads.turns import ThreadBusy, Turn
from tests.doors.langgraph import refused, sdk_of, sent
from tests.worlds.histories.whole_story import broken
from tests.worlds.talking_threads import FAIL, RAN, drive, head_of, say, state_of, texts
from tests.worlds.talking_threads import give as give
from tests.worlds.talking_threads import thread as thread

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def sdk(thread, ana):
    return sdk_of(ana)


def run_on(sdk: Any, thread: Any, given: Any = None, template: str = "talk") -> Run:
    made = sdk.runs.create(str(thread.pk), template, input=given)
    return drive(Run.objects.get(pk=made["run_id"]))


@pytest.mark.both_databases
def test_the_next_turn_begins_with_the_edited_values_which_state_and_history_show(
    sdk, give, thread
):
    give(template="talk", input={**say("Hello"), "colour": "red"})
    key, before = str(thread.pk), head_of(thread)
    made: Any = sdk.threads.update_state(key, {"colour": "blue", **say("By hand", "assistant")})
    state: Any = sdk.threads.get_state(key)
    assert (state["values"]["colour"], state["next"]) == ("blue", [])
    assert texts(state["values"]) == [*texts(store.load(before)), "By hand"]
    assert state["metadata"]["source"] == "update"
    assert made["checkpoint"] == state["checkpoint"] == made["configurable"]
    assert made["checkpoint_id"] == state["checkpoint_id"]
    assert state["parent_checkpoint_id"] == str(before.pk)
    assert sdk.threads.get_history(key)[0] == state
    assert sdk.threads.get(key)["status"] == "idle"
    # no run of theirs: one began, and its step is not done again
    assert len(sdk.runs.list(key)) == 1
    assert RAN == ["step1", "step2", "step3"]
    assert run_on(sdk, thread, say("And now?")).status == "completed"
    assert (state_of(thread)["colour"], texts(state_of(thread))[4:6]) == (
        "blue", ["By hand", "And now?"],
    )  # fmt: skip
    assert RAN == ["step1", "step2", "step3"] * 2
    assert not broken()


@pytest.mark.parametrize(
    ("as_node", "left"),
    [
        ("step1", ["step2", "step3"]),
        ("step2", ["step3"]),
        ("__start__", ["step1", "step2", "step3"]),
    ],
)
def test_as_a_node_says_where_a_run_without_input_goes_on(sdk, give, thread, as_node, left):
    give(template="talk", input=say("Hello"))
    RAN.clear()
    key = str(thread.pk)
    sdk.threads.update_state(key, {"colour": "blue"}, as_node=as_node)
    assert sdk.threads.get_state(key)["next"] == left[:1]
    assert run_on(sdk, thread).status == "completed"
    assert (RAN, state_of(thread)["colour"]) == (left, "blue")
    sources = [
        one["metadata"]["source"] for one in sdk.threads.get_history(key, limit=len(left) + 2)
    ]
    assert sources == ["loop"] * len(left) + ["input", "update"]
    assert refused(sdk.runs.create, key, "talk")[0] == 409  # nothing is left to go on with
    assert not broken()


def test_what_failed_goes_on_with_mended_values(sdk, give, thread):
    FAIL.add("step2")
    give(template="talk", input=say("Hello"))
    FAIL.clear()
    sdk.threads.update_state(str(thread.pk), {"line": "mended"})
    assert sdk.threads.get_state(str(thread.pk))["next"] == ["step2"]
    assert run_on(sdk, thread).status == "completed"
    assert RAN == ["step1", "step2", "step2", "step3"]
    assert state_of(thread)["line"] == "mended"


def test_several_updates_join_one_after_the_other_also_at_an_earlier_checkpoint(sdk, give, thread):
    give(template="talk", input={"colour": "red"})
    key = str(thread.pk)
    early: Any = next(
        one for one in sdk.threads.get_history(key) if one["next"] == ["step2"]
    )  # fmt: skip
    sdk.threads.update_state(
        key, [{"colour": "blue"}, {"size": 2}], checkpoint_id=early["checkpoint_id"]
    )
    state: Any = sdk.threads.get_state(key)
    assert (state["values"]["colour"], state["values"]["size"]) == ("blue", 2)
    assert state["parent_checkpoint_id"] == early["checkpoint_id"]
    assert (state["next"], len(texts(state["values"]))) == (["step2"], 1)


def test_a_new_thread_takes_the_template_of_its_metadata(sdk, ana):
    key = sdk.threads.create(graph_id="talk")["thread_id"]
    sdk.threads.update_state(
        key, {"colour": "blue", "messages": [{"type": "human", "content": "Hi"}]}
    )
    state: Any = sdk.threads.get_state(key)
    assert (state["values"]["colour"], state["next"]) == ("blue", ["step1"])
    (said,) = state["values"]["messages"]
    assert (said["type"], said["role"], bool(said["id"])) == ("human", "user", True)
    drive(Run.objects.get(pk=sdk.runs.create(key, "talk")["run_id"]))
    assert RAN == ["step1", "step2", "step3"]
    bare = sdk.threads.create()["thread_id"]
    status, words = refused(sdk.threads.update_state, bare, {"colour": "blue"})
    assert (status, "has not run yet" in words) == (422, True)


def test_remote_graph_updates_a_state_and_goes_on_from_what_it_gives(sdk, give, thread):
    give(template="talk", input=say("Hello"))
    graph: Any = RemoteGraph("talk", sync_client=sdk)
    config = {"configurable": {"thread_id": str(thread.pk)}}
    made = graph.update_state(config, {"colour": "blue"}, as_node="step2")
    assert made["configurable"]["checkpoint_id"] == str(head_of(thread).pk)
    shown = graph.get_state(made)
    assert (shown.values["colour"], shown.next) == ("blue", ("step3",))


@pytest.mark.parametrize(
    ("values", "more", "status", "says"),
    [
        ({"decided": {"step1": "approve"}}, {}, 422, "the engine's own"),
        ({"colour": "blue"}, {"as_node": "step9"}, 422, "It has step1, step2, step3"),
        ({"colour": "blue"}, {"as_node": "__end__"}, 422, "takes no values"),
        (None, {}, 422, "Send values"),
        ("blue", {}, 422, "values is an object"),
        ({"messages": [{"type": "tool", "content": "9"}]}, {}, 422, "by steps alone"),
        ({"messages": "blue"}, {}, 422, "messages"),
        ({"colour": "blue"}, {"checkpoint_id": str(uuid.uuid4())}, 422, "no such checkpoint"),
        ({"colour": "blue"}, {"checkpoint": {"checkpoint_ns": "a:b"}}, 422, "checkpoint_ns"),
    ],
)
def test_what_cannot_join_is_refused_and_nothing_written(
    sdk, give, thread, values, more, status, says
):
    give(template="talk", input=say("Hello"))
    head = head_of(thread)
    came, words = refused(sdk.threads.update_state, str(thread.pk), values, **more)
    assert (came, says in words) == (status, True), words
    assert head_of(thread) == head and Run.objects.count() == 1


def test_a_field_that_the_workflow_declares_is_of_its_type_and_no_other_is_taken(sdk, give, thread):
    declared = {"type": "object", "properties": {"size": {"type": "integer"}}}
    definitions.edit_template("talk", state_schema=declared)
    give(template="talk", input=say("Hello"))
    update, key = sdk.threads.update_state, str(thread.pk)
    assert refused(update, key, {"colour": "blue"})[0] == 422
    assert refused(update, key, {"size": "large"})[0] == 422
    update(key, {"size": 3})
    assert state_of(thread)["size"] == 3


def test_a_thread_at_work_or_that_asks_is_not_edited(sdk, give, thread, ana):
    key = str(thread.pk)
    messages.say(thread.pk, Turn(template="talk", input=say("Hello")), by=ana, via=Via.REST)
    assert refused(sdk.threads.update_state, key, {"colour": "blue"})[0] == 409
    run = drive(Run.objects.get())
    asking = give(template="talk-asking", input=say("Which?")).run
    status, words = refused(sdk.threads.update_state, key, {"colour": "blue"})
    assert (status, asking.shown_id in words) == (409, True)
    assert Run.objects.filter(edits.ONLY).count() == 0 and run.status == "completed"


def test_a_work_orders_thread_and_a_thread_of_others_are_not_edited(sdk, give, thread, ana, zoe):
    order = submit("writing", by=ana, input={"topic": "Rome"})
    messages.cancel(order.runs.get().pk, by=ana, via=Via.REST)
    status, words = refused(sdk.threads.update_state, str(order.thread_id), {"colour": "blue"})
    assert (status, "work order" in words) == (409, True)
    with pytest.raises(edits.OfWorkOrder, match="fork one of its checkpoints") as error:
        messages.edit_state(order.thread_id, [{"colour": "blue"}], by=ana)
    assert error.value.code == "work_order_state"
    give(template="talk", input=say("Hello"))
    for client, status in ((sdk_of(zoe), 404), (sdk_of(thread.owner, "ask"), 403)):
        assert refused(client.threads.update_state, str(thread.pk), {"a": 1})[0] == status
    assert not Run.objects.filter(edits.ONLY).exists()


@pytest.mark.parametrize(
    ("command", "words"),
    [({"update": {"colour": "blue"}}, "call update_state, then begin a run"),
     ({"update": [["colour", "blue"]], "resume": "Rome"}, "Resume first"),
     ({"goto": "step2"}, "update_state with as_node"),
     ({"goto": "__end__", "resume": "Rome"}, "send no resume")],
)  # fmt: skip
def test_a_command_that_is_two_acts_is_refused_with_what_does_it(sdk, give, thread, command, words):
    give(template="talk-asking", input=say("Which?"))
    at = head_of(thread).pk
    status, said = refused(sdk.runs.create, str(thread.pk), "talk-asking", command=command)
    assert (status, words in said) == (422, True)
    assert head_of(thread).pk == at and Pause.objects.open().count() == 1


def test_an_empty_update_beside_an_answer_is_none(sdk, give, thread):
    give(template="talk-asking", input=say("Which?"))
    answer: Any = {"resume": "Rome", "update": {}, "goto": []}
    sdk.runs.create(str(thread.pk), "talk-asking", command=answer)
    assert not Pause.objects.open().exists()


def approved(give: Any, ana: Any) -> Decision:
    run = give(template="talk-pausing", input=say("Hello")).run
    decided = services.decide(run.pauses.get().pk, services.Answer("approve", Via.REST), by=ana)
    drive(run)
    assert isinstance(decided, Decision)
    return decided


def test_approvals_count_no_more_behind_an_edit_and_the_log_says_so(sdk, give, thread, ana):
    decided = approved(give, ana)
    assert approvals.named(head_of(thread).metadata) == {"step1": decided.shown_id}
    sdk.threads.update_state(str(thread.pk), {"colour": "blue"}, as_node="step1")
    head = head_of(thread)
    assert approvals.named(head.metadata) == {"step1": ""}
    (line,) = Event.objects.filter(thread=thread, run_id=head.run_id, kind=EventKind.LOG)
    assert "approved before does not count any more" in line.data["message"]
    run_on(sdk, thread, template="talk-pausing")
    assert approvals.named(head_of(thread).metadata) == {"step1": ""}
    # and the thread's later turns know that its state was edited
    asks = give(input=say("Again")).run
    assert asks.status == "paused"
    assert head_of(thread).metadata[approvals.EDITED] == approvals.STAYS
    assert not broken()


def test_no_step_runs_behind_review_rules_on_edited_values(sdk, give, thread, ana):
    (first, *others) = definitions.current("talk-pausing").steps
    ruled = {**first, "review": {"reviewers": {"users": ["ana"]}}}
    definitions.edit_template("talk-pausing", steps=[ruled, *others])
    approved(give, ana)
    update, key = sdk.threads.update_state, str(thread.pk)
    status, words = refused(update, key, {"colour": "blue"}, as_node="step1")
    assert (status, "has rules on who approves it" in words) == (409, True)
    update(key, {"colour": "blue"})  # where nothing follows no effect does
    assert state_of(thread)["colour"] == "blue"
    assert give(input=say("Again")).run.status == "paused"


@pytest.mark.both_databases
def test_of_an_edit_and_a_turn_that_read_the_thread_before_one_is_refused(
    sdk, give, thread, ana, monkeypatch
):
    give(template="talk", input=say("Hello"))
    key, read = str(thread.pk), turns.place_of(thread.pk)
    sdk.threads.update_state(key, {"colour": "blue"})
    monkeypatch.setattr(turns, "place_of", lambda _: read)
    with pytest.raises(ThreadBusy, match="at the same moment"):
        turns.invoke(thread.pk, Turn(input=say("Late")), by=ana)
    assert refused(sdk.threads.update_state, key, {"colour": "red"})[0] == 409
    monkeypatch.undo()
    assert state_of(thread)["colour"] == "blue" and Run.objects.count() == 2
    # an edit takes the place of the one live run while it is written
    turns.invoke(thread.pk, Turn(input=say("Next")), by=ana)
    monkeypatch.setattr(turns, "check_free", lambda _: None)
    with pytest.raises(ThreadBusy, match="at the same moment"):
        edits.edit(thread.pk, [{"colour": "red"}], by=ana)
    assert state_of(thread)["colour"] == "blue"


def test_a_run_that_failed_is_not_taken_up_past_an_edit(sdk, give, thread, ana, monkeypatch):
    FAIL.add("step2")
    give(template="talk", input=say("Hello"))
    read = turns.place_of(thread.pk)
    sdk.threads.update_state(str(thread.pk), {"line": "mended"})
    with monkeypatch.context() as patch, pytest.raises(ThreadBusy, match="at the same moment"):
        patch.setattr(turns, "place_of", lambda _: read)
        turns.invoke(thread.pk, Turn(), by=ana)
    assert state_of(thread)["line"] == "mended"


def test_pages_rest_and_copies_have_it_as_any_run(sdk, give, thread, page, api, ana):
    give(template="talk", input=say("Hello"))
    key, at = str(thread.pk), f"/threads/{thread.shown_id}/"
    sdk.threads.update_state(key, {"colour": "blue"}, as_node="step2")
    shown = [page.get(f"{at}{place}") for place in ("", "history", "log")]
    assert [one.status_code for one in shown] == [200, 200, 200]
    assert "The state was edited by" in shown[2].content.decode()
    edit = Run.objects.get(edits.ONLY)
    rest = api(ana)
    assert rest.get(f"/api/v1/runs/{edit.shown_id}").json()["status"] == "completed"
    assert rest.get(f"/api/v1/runs/{edit.shown_id}/why").status_code == 200
    copied: Any = sdk.threads.copy(key)
    latest = sdk.threads.get_history(copied["thread_id"], limit=1)[0]
    assert latest["values"]["colour"] == "blue"
    assert len(sdk.runs.list(copied["thread_id"])) == 1
    assert not broken()


def test_a_request_with_a_key_edits_once(ana, give, thread):
    give(template="talk", input=say("Hello"))
    path, body = f"/threads/{thread.pk}/state", {"values": {"colour": "blue"}}
    first, again = (sent(ana, "POST", path, body, key="one") for _ in range(2))
    assert first == again
    assert Run.objects.filter(edits.ONLY).count() == 1


@pytest.mark.parametrize("tools", [5, True, "x"])
def test_messages_of_any_form_are_shown(sdk, give, thread, tools):
    """A state is anybody's who may edit it, and a list of threads shows all of it."""
    give(template="talk", input=say("Hello"))
    key = str(thread.pk)
    odd = {"id": "m1", "role": "assistant", "content": "Hi", "tools": tools}
    sdk.threads.update_state(key, {"messages": [odd]})
    shown: Any = sdk.threads.get_state(key)
    assert shown["values"]["messages"][-1]["tool_calls"] == []
    assert [one["thread_id"] for one in sdk.threads.search()] == [key]
