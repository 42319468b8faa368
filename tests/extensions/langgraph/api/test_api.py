"""What a request of a LangGraph client does once, or not at all."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

import pytest
from django.db import transaction

from checkpoints.events import log
from checkpoints.models import EventKind, Thread
from extensions.langgraph.api import interrupts, keys
from extensions.langgraph.api.protocol import following
from hitl.decisions import services
from hitl.decisions.services import (
    AlreadyAnswered,
    Answer,
    NotFound,
    NotPaused,
    RevisionMismatch,
    pauses,
)
from hitl.live.pump import StreamRefused
from hitl.models import Decision, IdempotencyKey, Via
from runs.models import QueuedTurn, Run, WorkOrder
from runs.services import PauseClosed
from tests.conftest import fresh
from tests.doors.langgraph import sent
from tests.runs.engine.children.crews import ASKING, answer, asked, kids, sub, work_off, worked
from tests.runs.engine.children.crews import crew as crew

pytestmark = pytest.mark.django_db
TALK = {"assistant_id": "crew", "input": {}}


@pytest.fixture
def two_ask(crew):
    """An order, two of whose child runs ask."""
    return worked(crew([sub("one", **ASKING), sub("two", **ASKING)], parallel=True))


def test_several_interrupts_are_answered_together_or_not_at_all(two_ask, ana):
    one, two = asked("one"), asked("two")
    runs = f"/threads/{two_ask.thread_id}/runs"
    stale = {"decision": "approve", "revision": 9}
    both = {interrupts.id_of(one): True, interrupts.id_of(two): stale}
    with pytest.raises(RevisionMismatch):
        sent(ana, "POST", runs, {"command": {"resume": both}})
    assert not Decision.objects.exists()
    answered = sent(ana, "POST", runs, {"command": {"resume": {**both, two.pk.hex: True}}})
    assert set(Decision.objects.values_list("pause", flat=True)) == {one.pk, two.pk}
    assert answered["run_id"] in {str(key) for key in Decision.objects.values_list("pk", flat=True)}
    assert worked(two_ask).status == "completed"


@pytest.mark.parametrize(
    "value", [True, [{"type": "accept", "args": None}], {"decisions": [{"type": "approve"}]}]
)
def test_an_answer_that_may_be_to_each_of_several_questions_is_refused_with_what_to_do(
    two_ask, ana, value
):
    """As LangGraph does; Agent Inbox and Agent Chat UI send no id of an interrupt."""
    with pytest.raises(StreamRefused) as refused:
        sent(ana, "POST", f"/threads/{two_ask.thread_id}/runs", {"command": {"resume": value}})
    assert (refused.value.status, refused.value.code) == (409, "several_questions")
    for pause in (asked("one"), asked("two")):
        assert interrupts.id_of(pause) in str(refused.value)
        assert f"?pause={pause.shown_id}" in str(refused.value)
    assert not Decision.objects.exists()


@pytest.mark.parametrize("kind", ["accept", "edit"])
def test_what_a_page_brings_back_says_which_of_several_questions_it_answers(crew, ana, kind):
    """Agent Inbox shows one of them, and brings back what may be edited."""
    asking = {**ASKING, "review": {"edits": True}} if kind == "edit" else ASKING
    order = worked(crew([sub("one", **asking), sub("two", **asking)], parallel=True))
    rows = sent(ana, "GET", f"/threads/{order.thread_id}")["interrupts"].values()
    [interrupt] = [row for [row] in rows if row["id"] == interrupts.id_of(asked("two"))]
    assert interrupt["value"]["config"]["allow_edit"]
    action = interrupt["value"]["action_request"]
    if kind == "edit":
        action = {**action, "args": {**action["args"], "content": "I say four."}}
    answer = {"command": {"resume": [{"type": kind, "args": action}]}}
    sent(ana, "POST", f"/threads/{order.thread_id}/runs", answer)
    decision = Decision.objects.get()
    assert decision.pause.step == "two"
    assert decision.edited_content == ("I say four." if kind == "edit" else "")
    assert asked("one").status == "open"


def test_a_page_that_showed_two_questions_answers_the_second_by_its_id_alone(two_ask, ana, ben):
    """Agent Chat UI names the state that it shows, and that of the parent is the same before and
    after a child's question was answered.
    """
    runs, head = f"/threads/{two_ask.thread_id}/runs", str(fresh(two_ask).thread.head_id)
    answer(asked("one"), ben)
    approve = {"decisions": [{"type": "approve"}]}
    page = {"checkpoint": {"checkpoint_id": head}}
    with pytest.raises(StreamRefused, match="asks something else"):
        sent(ana, "POST", runs, {"command": {"resume": approve}, **page})
    assert Decision.objects.count() == 1
    named = {interrupts.id_of(asked("two")): approve}
    sent(ana, "POST", runs, {"command": {"resume": named}, **page})
    assert Decision.objects.count() == 2


def test_a_page_answers_the_only_question_of_a_child_run(crew, ana):
    order = worked(crew([sub("one", **ASKING), sub("two")], parallel=True))
    body = {
        "command": {"resume": {"decisions": [{"type": "approve"}]}},
        "checkpoint": {"checkpoint_id": str(order.thread.head_id)},
    }
    sent(ana, "POST", f"/threads/{order.thread_id}/runs", body)
    assert Decision.objects.get().action == "approve"


def test_what_was_written_of_a_set_of_answers_is_undone_with_the_one_that_is_too_late(
    two_ask, ana, monkeypatch
):
    """Somebody answers the second question once the first is written."""
    approve = Answer("approve", Via.REST)
    one, two = asked("one"), asked("two")
    record, write = pauses._record, pauses._write

    def written(judged):
        if judged.pause == two:
            raise PauseClosed
        return write(judged)

    def too_late(judged):
        monkeypatch.undo()
        with pytest.raises(PauseClosed) as lost, monkeypatch.context() as late:
            late.setattr(pauses, "_write", written)
            record(judged)
        services.decide(two.pk, Answer("cancel", Via.PAGE), by=ana)
        raise lost.value

    monkeypatch.setattr(pauses, "_record", too_late)
    with pytest.raises(AlreadyAnswered, match="cancelled"):
        services.decide_all([(one.pk, approve), (two.pk, approve)], by=ana)
    assert (Decision.objects.get().action, asked("one")) == ("cancel", one)


def test_a_run_is_begun_once_under_a_key(crew, ana, ben):
    crew([sub("one")])
    thread = sent(ana, "POST", "/threads", {})["thread_id"]
    begin = partial(sent, ana, "POST", f"/threads/{thread}/runs", TALK, key="mine")
    first = begin()
    assert begin()["run_id"] == first["run_id"]
    work_off()
    assert begin()["status"] == "success"  # as it stands now
    stream = sent(ana, "POST", f"/threads/{thread}/runs/stream", TALK, key="mine")
    assert stream["Content-Location"].endswith(first["run_id"])
    assert Run.objects.filter(thread__in=Thread.objects.filter(pk=thread)).count() == 1
    for body in ({**TALK, "metadata": {"a": 1}}, {**TALK, "input": {"b": 2}}):
        with pytest.raises(StreamRefused) as other:
            sent(ana, "POST", f"/threads/{thread}/runs", body, key="mine")
        assert (other.value.status, other.value.code) == (422, "idempotency_key_reused")
    with pytest.raises(StreamRefused) as malformed:
        sent(ana, "POST", f"/threads/{thread}/runs", TALK, key="")
    assert malformed.value.status == 400
    mine = sent(ben, "POST", "/runs", TALK, key="mine")  # a key belongs to a person
    assert mine["run_id"] != first["run_id"]
    assert sent(ben, "POST", "/runs", TALK, key="mine") == mine
    assert Thread.objects.filter(owner=ben).count() == 1


def test_a_question_is_answered_once_under_a_key_and_a_refusal_leaves_it_free(two_ask, ana):
    place = f"/threads/{two_ask.thread_id}/commands"
    key = interrupts.id_of(asked("one"))

    def respond(response: Any) -> Any:
        params = {"interrupt_id": key, "response": response}
        command = {"id": 1, "method": "input.respond", "params": params}
        return sent(ana, "POST", place, command, key="answer")

    assert respond({"type": "no"})["error"] == "invalid_argument"
    first = respond(True)
    assert respond(True) == {**first, "meta": respond(True)["meta"]}
    assert Decision.objects.count() == 1
    assert respond(False)["error"] == "invalid_argument"


def test_a_copy_is_made_once_under_a_key(two_ask, ana):
    copy = partial(sent, ana, "POST", f"/threads/{two_ask.thread_id}/copy", key="copy")
    assert copy()["thread_id"] == copy()["thread_id"] != str(two_ask.thread_id)


def test_what_a_key_began_is_told_to_whoever_still_sees_it(crew, ana, ben, team):
    crew([sub("one")])
    metadata = {"waystation_team": team.name}
    thread = sent(ana, "POST", "/threads", {"metadata": metadata})["thread_id"]
    begin = partial(sent, ben, "POST", f"/threads/{thread}/runs", TALK, key="mine")
    begin()
    ben.groups.clear()
    with pytest.raises(NotFound):
        begin()


def test_of_a_request_that_was_cut_off_nothing_is_done_twice(crew, ana, monkeypatch):
    """Killed behind its commit, and before what it began was kept."""
    crew([sub("one")])
    thread = sent(ana, "POST", "/threads", {})["thread_id"]
    begin = partial(sent, ana, "POST", f"/threads/{thread}/runs", TALK, key="mine")
    with monkeypatch.context() as cut:
        cut.setattr(keys, "_keep", lambda claim, begun: None)
        begin()
    with pytest.raises(StreamRefused) as working:
        begin()
    assert working.value.code == "idempotency_in_progress"
    monkeypatch.setattr(keys, "WORKING", -keys.WORKING)
    with pytest.raises(StreamRefused) as lost:
        begin()
    assert lost.value.code == "idempotency_answer_not_kept"
    assert Run.objects.filter(thread=thread).count() == IdempotencyKey.objects.count() == 1


def test_runs_are_cancelled_by_status_on_threads_of_ones_own(crew, ana, ben, team):
    """What asks has ended for these clients, and goes on waiting."""
    asking = worked(crew([sub("one", **ASKING)]))
    metadata = {"waystation_team": team.name}
    mine, other = (
        sent(by, "POST", "/threads", {"metadata": metadata})["thread_id"] for by in (ana, ben)
    )
    for thread, by in ((mine, ana), (other, ben)):
        sent(by, "POST", f"/threads/{thread}/runs", TALK)
        sent(by, "POST", f"/threads/{thread}/runs", TALK)
    sent(ana, "POST", "/runs/cancel", {"status": "running"})
    assert Run.objects.filter(status="cancelled").count() == 0  # none has begun
    sent(ana, "POST", "/runs/cancel", {"status": "pending", "thread_id": mine})
    assert list(Run.objects.filter(status="cancelled").values_list("thread", flat=True)) == [
        uuid.UUID(mine)
    ]
    assert [turn.thread_id for turn in QueuedTurn.objects.waiting()] == [uuid.UUID(other)]
    sent(ana, "POST", "/runs/cancel", {"status": "all"})
    assert fresh(asking).status == "paused"
    assert Run.objects.filter(thread=other, status="cancelled").count() == 0
    for body in ({}, {"status": "all", "run_ids": ["x"]}, {"thread_id": mine}, {"status": "odd"}):
        with pytest.raises(StreamRefused) as refused:
            sent(ana, "POST", "/runs/cancel", body)
        assert refused.value.status == 422
    with pytest.raises(NotFound):
        sent(ana, "POST", "/runs/cancel", {"status": "all", "thread_id": str(uuid.uuid4())})


def told(
    order: WorkOrder, *drafts: tuple[EventKind, dict[str, Any]], of: str = "data"
) -> list[dict[str, Any]]:
    """What the event protocol has of some events of a run, behind those that are there: its data,
    or its `params`.
    """
    seq = Thread.objects.values_list("last_seq", flat=True).get(pk=order.thread_id)
    with transaction.atomic():
        log.append(order.thread_id, order.latest_run.pk, list(drafts))
    given = following.Filter(channels=sorted(following.CHANNELS))
    page = log.told_after(order.thread_id, seq)
    events = [event["params"] for event in following.told(order.thread_id, page, [given])]
    return events if of == "params" else [params["data"] for params in events]


def test_what_a_graph_says_ends_with_its_node(two_ask):
    """Not with the question only, behind which clients read no more."""
    chunk = {"step": "one", "loop_num": 1, "content": "Hello"}
    node = {"message": "write is done", "graph": "mail", "node": "write", "update": {}}
    parts = told(two_ask, (EventKind.STREAMING_CHUNK, chunk), (EventKind.LOG, node))
    kinds = [part.get("event", part.get("name")) for part in parts]
    assert kinds == [
        *("message-start", "content-block-start", "content-block-delta"),
        *("content-block-finish", "message-finish", "log"),
    ]


def test_a_line_with_a_name_is_a_channel_and_a_tool_gives_its_message(two_ask):
    line = {"message": "Half way", "name": "progress", "done": 5}
    writer = {"message": "{…}", "graph": "mail", "custom": {"name": "progress", "done": 6}}
    call = {"id": "call_1", "tool": "search", "result": "Found", "status": "done"}
    parts = told(
        two_ask,
        (EventKind.LOG, line),
        (EventKind.LOG, writer),
        (EventKind.TOOL_CALL_COMPLETED, call),
    )
    assert [(part.get("name"), part.get("done")) for part in parts[:2]] == [
        ("progress", 5),
        ("progress", 6),
    ]
    assert parts[1]["payload"] == writer["custom"]
    output = parts[2]["output"]
    assert (output["content"], output["status"]) == ("Found", "success")


def test_child_runs_have_namespaces_and_end_in_them(two_ask, ana):
    answer(asked("one"), ana)
    answer(asked("two"), ana, "cancel")
    given = following.Filter(channels=["lifecycle", "tasks", "values", "input"])
    page = log.told_after(two_ask.thread_id, 0)
    events = following.told(two_ask.thread_id, page, [given])
    assert [event["seq"] for event in events] == sorted({event["seq"] for event in events})
    one, two = (f"{name}:{run.pk.hex}" for name, run in sorted(kids(two_ask).items()))
    below: dict[str, list[str]] = {one: [], two: []}
    for event in events:
        if event["params"]["namespace"]:
            (name,) = event["params"]["namespace"]
            below[name].append(event["params"]["data"].get("event", event["method"]))
    assert below == {
        one: ["started", "interrupted", "running", "values", "completed"],
        two: ["started", "interrupted", "failed"],
    }
    tasks = {
        event["params"]["data"]["id"]: event["params"]
        for event in events
        if event["method"] == "tasks"
    }
    assert tasks[one.partition(":")[2]]["data"]["error"] is None
    assert tasks[two.partition(":")[2]]["data"]["error"]
    own = following.Filter(channels=["lifecycle"], namespaces=[[one]], depth=0)
    assert len(following.told(two_ask.thread_id, page, [own])) == 4
    root = following.Filter(channels=["lifecycle"], namespaces=[[]], depth=0)
    told = following.told(two_ask.thread_id, page, [root])
    assert {tuple(event["params"]["namespace"]) for event in told} == {()}


def test_a_graph_within_a_graph_has_the_namespace_that_langgraph_gave_it(two_ask):
    line = {"message": "tools/model is done", "graph": "mail", "node": "tools/model"}
    inner = {**line, "namespace": ["tools:1f"], "update": {"said": "Hello"}}
    parts = told(two_ask, (EventKind.LOG, line), (EventKind.LOG, inner), of="params")
    within = [part["data"] for part in parts if part["namespace"] == ["tools:1f"]]
    assert [part.get("name", part.get("node")) for part in within] == ["model"] * 3
    assert within[1] == {"node": "model", "values": {"said": "Hello"}}
    assert len(parts) == 5


@pytest.mark.parametrize("value", [[{"type": "ignore", "args": None}], "Shorter", True])
def test_an_answer_that_came_too_late_is_refused_again_when_a_client_sends_it_again(
    two_ask, ana, value
):
    """Agent Inbox does so for half a minute by itself, and would have ended what is asked next."""
    one, two = asked("one"), asked("two")
    runs = f"/threads/{two_ask.thread_id}/runs"
    body = {"assistant_id": "crew", "command": {"resume": value}}
    services.decide(two.pk, Answer("approve", Via.PAGE), by=ana)
    services.decide(one.pk, Answer("revise", Via.PAGE, feedback="Again"), by=ana)
    with pytest.raises((AlreadyAnswered, NotPaused)):
        sent(ana, "POST", runs, body)
    work_off()
    again = asked("one")
    assert again.pk != one.pk
    for _ in range(2):
        with pytest.raises(StreamRefused, match="came too late a moment ago"):
            sent(ana, "POST", runs, body)
    assert not Decision.objects.filter(pause=again).exists()
    named = {**body, "command": {"resume": {interrupts.id_of(again): True}}}
    sent(ana, "POST", runs, named)
    assert Decision.objects.filter(pause=again).exists()
