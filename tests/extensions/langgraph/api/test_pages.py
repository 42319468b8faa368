"""What the pages of LangGraph's people need to show a question and to answer it: Agent Inbox, and
Agent Chat UI.
"""

from __future__ import annotations

from typing import Any

import pytest

from checkpoints.database.people import User
from extensions.langgraph.api import interrupts, threads
from extensions.langgraph.api.resuming import replies
from extensions.langgraph.api.values import values_of
from hitl.decisions.services import (
    AlreadyAnswered,
    AnswerInvalid,
    NotPaused,
    RevisionMismatch,
    decide,
)
from hitl.live.pump import StreamRefused
from hitl.models import Decision
from runs.models import Pause, WorkOrder
from runs.workflows.base import Ask, Done, Report
from runs.workflows.tool_calls import Call, approved
from runs.workflows.wait_for_input import ask_about_calls
from tests.conftest import drive, fresh, pause_of
from tests.doors.langgraph import sent
from tests.runs.engine.children.crews import work_off
from tests.worlds.scripted_step import order_that as order_that

pytestmark = pytest.mark.django_db

MAIL = Call(id="mail", tool="send_mail", arguments={"to": "ana", "copies": 2}, editable=["/copies"])
LIST = Call(id="list", tool="list_files", arguments={"of": {"year": 2026}})
WIRE = Call(id="wire", tool="wire", arguments={"to": "eve"}, risk="high")
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PLACE: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["city", "count"],
}
MADE: list[Any] = []


def resume(order: WorkOrder, by: User, value: Any, **more: Any) -> None:
    body = {"assistant_id": "anything", "command": {"resume": value}, **more}
    sent(by, "POST", f"/threads/{order.thread_id}/runs", body)


@pytest.fixture
def calls_asked(order_that):
    """`calls_asked(*calls)`: an order that waits for a decision on them."""

    def make(*calls: Call) -> WorkOrder:
        MADE.clear()

        def act(state, context):
            if asked := ask_about_calls(state, context, calls=calls):
                return asked
            MADE.extend(dict(call.arguments) for call in approved(context, context.step, calls))
            return Done()

        return drive(order_that(act))

    return make


@pytest.fixture
def question(order_that):
    """`question(…)`: an order that asks so, once."""

    def make(actions: list[str], **more: Any) -> WorkOrder:
        def act(state, context):
            MADE.append(state.get("input"))
            answers = dict.fromkeys(actions, "finish")
            report = Report(content="The plan.")
            return Ask(
                question="Which city?", answers=answers, report=report, phase="asking", **more
            )

        return drive(order_that(act))

    return make


def config(pause: Pause) -> list[list[str]]:
    return [one["allowed_decisions"] for one in interrupts.value_of(pause)["review_configs"]]


def test_a_question_has_both_forms_and_a_list_of_threads_the_one_with_every_button(question):
    pause = pause_of(question(["approve", "answer"]))
    value = interrupts.value_of(pause)
    assert value["action_request"]["args"]["question"] == "Which city?"
    (request,) = value["action_requests"]
    assert request["args"] == {**value["action_request"]["args"], "answer": ""}
    assert config(pause) == [["approve", "edit", "reject"]]
    (row,) = threads.shown([pause.run.thread])
    ((interrupt,),) = row["interrupts"].values()
    assert interrupt["id"] == interrupts.shown(pause)["id"]
    assert set(interrupt["value"]) == {"action_request", "config", "description"}


def test_several_calls_are_one_request_and_whoever_sees_the_first_sees_all(calls_asked):
    pause = pause_of(calls_asked(MAIL, LIST))
    value = interrupts.value_of(pause)
    assert [one["name"] for one in value["action_requests"]] == ["send_mail", "list_files"]
    assert config(pause) == [["approve", "edit", "reject"], ["approve", "reject"]]
    listed = interrupts.listed(pause)["value"]
    assert "list_files" in listed["description"] and "2026" in listed["description"]


def test_a_call_that_nobody_may_edit_is_described_whole(calls_asked):
    """Agent Inbox shows such arguments as Markdown, in which a number is nothing: a sum to pay was
    accepted unseen.
    """
    wire = Call(id="wire", tool="wire", arguments={"to": "eve", "sum": 7})
    listed = interrupts.listed(pause_of(calls_asked(wire)))["value"]
    assert '"sum": 7' in listed["description"] and not listed["config"]["allow_edit"]


def test_a_page_that_shows_one_interrupt_accepts_several_calls_as_what_it_shows(calls_asked, ana):
    """Agent Inbox showed the first of several, and its *Accept* of that made them all."""
    order = calls_asked(MAIL, LIST)
    listed = interrupts.listed(pause_of(order))["value"]
    config = {"allow_accept": True, "allow_edit": True}
    assert listed["config"] == {**config, "allow_respond": False, "allow_ignore": False}
    shown = listed["action_request"]
    other = {**shown, "args": {**shown["args"], "calls": shown["args"]["calls"][:1]}}
    with pytest.raises(StreamRefused, match="asks something else"):
        resume(order, ana, [{"type": "accept", "args": other}])
    with pytest.raises(AnswerInvalid, match="does not match"):
        resume(order, ana, [{"type": "ignore", "args": None}])
    assert not Decision.objects.exists()
    resume(order, ana, [{"type": "accept", "args": shown}])
    assert drive(order).status == "completed" and len(MADE) == 2
    high = interrupts.listed(pause_of(calls_asked(MAIL, WIRE)))["value"]
    assert not high["config"]["allow_accept"]


@pytest.mark.parametrize("value", [True, "APPROVE", {"decision": "approve"}])
def test_one_word_approves_several_calls_but_none_of_high_risk(calls_asked, ana, value):
    """Each of those is decided by itself, at every door."""
    order = calls_asked(MAIL, WIRE)
    with pytest.raises(AnswerInvalid):
        resume(order, ana, value)
    assert not Decision.objects.exists()
    resume(order, ana, {"decisions": [{"type": "approve"}, {"type": "reject", "message": "No."}]})
    assert drive(order).status == "completed" and [MAIL.arguments] == MADE
    order = calls_asked(MAIL, LIST)
    resume(order, ana, value)
    assert drive(order).status == "completed" and len(MADE) == 2


def test_a_number_that_was_edited_as_text_stays_a_number(calls_asked, ana):
    """Agent Inbox and Agent Chat UI give each edited argument back as text."""
    order = calls_asked(MAIL)
    edited = {"action": "send_mail", "args": {"to": "ana", "copies": "5"}}
    resume(order, ana, [{"type": "edit", "args": edited}])
    assert drive(order).status == "completed" and MADE == [{"to": "ana", "copies": 5}]
    order = calls_asked(LIST)
    unchanged = {"name": "list_files", "args": {"of": '{"year": 2026}'}}
    resume(order, ana, {"decisions": [{"type": "edit", "edited_action": unchanged}]})
    assert drive(order).status == "completed" and MADE == [{"of": {"year": 2026}}]


def test_a_form_comes_back_as_text_of_json(question, ana):
    order = question(["answer"], required_inputs=PLACE)
    pause = pause_of(order)
    args = interrupts.value_of(pause)["action_request"]["args"]
    assert args["inputs"] == {"city": None, "count": None}
    assert not interrupts.takes_words(pause)
    wrong = {"action": pause.step, "args": {**args, "inputs": "no JSON"}}
    with pytest.raises(AnswerInvalid):
        resume(order, ana, [{"type": "edit", "args": wrong}])
    filled = {"action": pause.step, "args": {**args, "inputs": '{"city": "Rome", "count": 3}'}}
    resume(order, ana, [{"type": "edit", "args": filled}])
    assert Decision.objects.get().payload == {"city": "Rome", "count": 3}


HEX = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize("data", [{}, {HEX: "a field"}, {HEX: None}])
def test_data_are_no_list_of_interrupts_whatever_their_fields_are_called(question, ana, data):
    """Tried after langgraph#8693: data were taken for answers to interrupts by their keys' form."""
    field = {"type": ["string", "null"]}
    order = question(["answer"], required_inputs={"type": "object", "properties": {HEX: field}})
    resume(order, ana, data)
    assert Decision.objects.get().payload == data
    assert drive(order).status == "completed"


def test_an_answer_to_an_interrupt_that_there_is_not_is_refused(question, ana):
    """Tried after langgraph#8836, where it is ignored without a word; null answers nothing."""
    order = question(["answer"], required_inputs=CITY)
    with pytest.raises(NotPaused):
        resume(order, ana, {HEX: {"city": "Rome"}})
    with pytest.raises(AnswerInvalid):
        resume(order, ana, None)
    assert not Decision.objects.exists() and fresh(order).status == "paused"


def test_a_message_behind_a_cancelled_run_begins_a_run_and_answers_nothing(order_that, ana):
    """Tried after langgraphjs#2751: it was taken for an answer, and lost."""
    order_that(lambda state, context: Done(update={"heard": state["input"]}))
    path = f"/threads/{sent(ana, 'POST', '/threads', {})['thread_id']}"
    for words in ("one", "two"):
        body = {"assistant_id": "anything", "input": {"input": words}}
        run = sent(ana, "POST", f"{path}/runs", body)["run_id"]
        if words == "one":
            sent(ana, "POST", f"{path}/runs/{run}/cancel", {})
    work_off()
    assert sent(ana, "GET", f"{path}/state")["values"]["heard"] == "two"


@pytest.mark.parametrize("required", [{}, CITY])
def test_an_answer_in_words_is_an_edit_where_a_page_has_no_other_place_for_it(
    question, ana, required
):
    """Agent Chat UI approves, edits and rejects. Its hook sends an empty input along."""
    order = question(["answer"], required_inputs=required)
    pause = pause_of(order)
    (request,) = interrupts.value_of(pause)["action_requests"]
    assert "inputs" not in request["args"]
    action = {"name": pause.step, "args": {**request["args"], "answer": "Rome"}}
    resume(order, ana, {"decisions": [{"type": "edit", "edited_action": action}]}, input={})
    decision = Decision.objects.get()
    assert decision.action == "answer"
    assert decision.payload == {"city": "Rome"} if required else decision.feedback == "Rome"


def test_what_was_looked_at_before_it_was_revised_is_not_approved(question, ana):
    order = question(["approve"])
    pause = pause_of(order)
    args = {**interrupts.value_of(pause)["action_request"]["args"], "revision": 7}
    accept = {"type": "accept", "args": {"action": pause.step, "args": args}}
    with pytest.raises(RevisionMismatch):
        resume(order, ana, [accept])
    args["revision"] = pause.revision
    resume(order, ana, [accept])
    assert Decision.objects.get().action == "approve"


@pytest.fixture
def asked_again(order_that, ana):
    """`asked_again(first, second)`: the interrupt as a page got it, and the order that asks the
    second by now. Each is a question and its content, or a call.
    """

    def make(first: Any, second: Any) -> tuple[dict[str, Any], WorkOrder]:
        asks = [first, second]

        def act(state, context):
            asked = asks[0]
            if isinstance(asked, Call):
                return ask_about_calls(state, context, calls=[asked]) or Done()
            question, content = asked
            return Ask(
                question=question,
                answers={"approve": context.step},
                report=Report(content=content),
                phase="asking",
            )

        order = drive(order_that(act))
        fetched = interrupts.listed(pause_of(order))["value"]
        asks.pop(0)
        resume(order, ana, {"decision": "approve"})
        assert pause_of(drive(order)).run_id == order.latest_run_id
        return fetched, order

    return make


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("Publish?", "A plan."), ("Publish?", "Another plan.")),
        (("Publish?", "A plan."), ("Pay?", "A plan.")),
        (LIST, Call(id="list", tool="list_files", arguments={"of": {"year": 2027}})),
        (LIST, Call(id="drop", tool="drop_files", arguments={"of": {"year": 2026}})),
        (LIST, ("Publish?", "A plan.")),
    ],
)
def test_accept_of_a_page_holds_for_what_that_page_had_fetched(asked_again, ana, first, second):
    """Agent Inbox looks at nothing again before it sends an *Accept*."""
    fetched, order = asked_again(first, second)
    before = Decision.objects.count()
    for args in (None, fetched["action_request"]):
        with pytest.raises(StreamRefused, match="asks something else") as refused:
            resume(order, ana, [{"type": "accept", "args": args}])
        assert refused.value.status == 409
    assert Decision.objects.count() == before
    now = interrupts.listed(pause_of(order))["value"]
    assert now["config"]["allow_edit"]  # so it comes back
    assert interrupts.AS_SHOWN in now["description"]
    resume(order, ana, [{"type": "accept", "args": now["action_request"]}])
    assert Decision.objects.count() == before + 1


def test_the_first_question_of_a_thread_shows_nothing_to_edit_and_takes_a_bare_accept(
    question, ana
):
    order = question(["approve"])
    assert not interrupts.listed(pause_of(order))["value"]["config"]["allow_edit"]
    resume(order, ana, [{"type": "accept", "args": None}])
    assert Decision.objects.get().action == "approve"


def test_an_answer_to_a_state_that_is_past_is_refused(question, ana):
    """Agent Chat UI sends the checkpoint that it shows along."""
    order = question(["approve"])
    head = order.thread.head_id
    with pytest.raises(StreamRefused, match="gone on"):
        resume(order, ana, True, checkpoint={"checkpoint_id": str(order.thread_id)})
    assert not Decision.objects.exists()
    resume(order, ana, True, checkpoint={"checkpoint_id": str(head), "checkpoint_ns": ""})
    assert Decision.objects.get().action == "approve"
    with pytest.raises(AlreadyAnswered, match="Ana"):
        resume(order, ana, True, checkpoint={"checkpoint_id": str(order.thread_id)})


def test_a_message_follows_the_checkpoint_that_a_page_shows(order_that, ana):
    """Agent Chat UI names the newest with each message: no run of the past begins."""
    order_that(lambda state, context: Done(update={"heard": state["input"]}))
    path = f"/threads/{sent(ana, 'POST', '/threads', {})['thread_id']}"
    place: dict[str, Any] = {}
    for words in ("one", "two"):
        body = {"assistant_id": "anything", "input": {"input": words}, "checkpoint": place}
        sent(ana, "POST", f"{path}/runs", body)
        work_off()
        state = sent(ana, "GET", f"{path}/state")
        assert state["values"]["heard"] == words
        place = state["checkpoint"]


def test_a_rejection_with_words_asks_for_another_plan_and_without_any_it_cancels(paused, ana):
    pause = pause_of(paused)
    assert pause.may_revise
    words = replies.answer_to(pause, {"decisions": [{"type": "reject", "message": "Shorter."}]})
    assert (words.action, words.feedback) == ("revise", "Shorter.")
    assert replies.answer_to(pause, {"type": "reject"}).action == "cancel"
    decide(pause.pk, words, by=ana)


def test_a_thread_without_messages_has_what_it_began_with(question):
    """Agent Chat UI fails where an interrupt comes and no message is there."""
    order = question(["approve"], update={"input": "Pay"})
    values = values_of(fresh(order).thread.head)
    (message,) = values["messages"]
    assert (message["type"], message["content"]) == ("human", "Pay")
    assert values_of(fresh(order).thread.head)["messages"] == [message]
    assert "messages" not in values_of(fresh(order).thread.head, for_chat=False)


def test_what_tools_said_is_a_message_behind_the_agents(question):
    tools = [
        {"id": "c1", "tool": "clock", "arguments": {}, "status": "done", "result": "noon"},
        {"id": "c2", "tool": "ask_human", "arguments": {}, "status": "waiting", "result": ""},
        {"id": "c3", "tool": "wire", "arguments": {}, "status": "rejected", "result": "No."},
        {"status": "done"},
        "odd",
    ]
    said = {"id": "m1", "role": "assistant", "content": "", "tools": tools}
    order = question(["approve"], update={"messages": [said]})
    head = fresh(order).thread.head
    agent, *results = values_of(head)["messages"]
    assert [call["id"] for call in agent["tool_calls"]] == ["c1", "c2", "c3"]
    shown = [(one["tool_call_id"], one["content"], one["status"]) for one in results]
    assert shown == [("c1", "noon", "success"), ("c3", "No.", "error")]
    assert len({one["id"] for one in results}) == 2
    assert values_of(head, for_chat=False)["messages"] == [agent]


def test_what_comes_back_by_an_interrupts_id_is_held_against_its_question_too(question, ana):
    """By its id a question was approved whatever content came back as what had been looked at."""
    order = question(["approve"])
    pause = pause_of(order)
    args = interrupts.value_of(pause)["action_request"]["args"]
    key = interrupts.id_of(pause)
    for other in ({"content": "Another plan."}, {"question": "Pay?"}):
        accept = {"type": "accept", "args": {"action": pause.step, "args": {**args, **other}}}
        for value in ([accept], accept, {"decisions": [accept]}):
            with pytest.raises(StreamRefused, match="asks something else"):
                resume(order, ana, {key: value})
    assert not Decision.objects.exists()
    accept = {"type": "accept", "args": {"action": pause.step, "args": args}}
    resume(order, ana, {key: [accept]})
    assert Decision.objects.get().action == "approve"
