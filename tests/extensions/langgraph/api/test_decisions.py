"""Decisions on tool calls in LangChain's words, beside LangChain's own middleware: every form of a
reply, on one, two and three calls, of every risk.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from checkpoints.database.people import User
from extensions.agui import running
from extensions.agui.running import Resume
from extensions.langgraph.api import interrupts
from extensions.langgraph.api.resuming import replies
from hitl.decisions import tool_calls as decided_calls
from hitl.decisions.answers import check_words
from hitl.decisions.services import Answer, AnswerInvalid
from hitl.live.pump import StreamRefused
from hitl.models import Decision
from runs.models import Pause, WorkOrder
from runs.workflows import schemas
from runs.workflows.base import Done
from runs.workflows.tool_calls import RISKS, Call, answered, approved, rejected
from runs.workflows.wait_for_input import ask_about_calls
from tests.conftest import drive, pause_of
from tests.doors.langgraph import sent
from tests.worlds.scripted_step import order_that as order_that

pytestmark = pytest.mark.django_db

ALL = ["approve", "edit", "reject", "respond"]
TOOLS: list[tuple[str, dict[str, Any], bool]] = [
    ("send_mail", {"to": "x", "copies": 1}, True),
    ("send_mail", {"to": "y", "copies": 1}, True),
    ("list_files", {"of": "z"}, False),
]
"""Name and arguments of the calls that wait, and whether each may be edited and answered."""
Came = Mapping[str, tuple[str, Any]]
"""Id of a call → `made` with its arguments, `rejected`, or `answered` with the words."""
MADE: list[tuple[str, dict[str, Any]]] = []


def wanted(count: int, risk: Any) -> list[Call]:
    return [
        Call(
            id=f"c{number}",
            tool=tool,
            arguments=arguments,
            risk=risk,
            editable=[""] if open_ else [],
            answerable=open_,
        )
        for number, (tool, arguments, open_) in enumerate(TOOLS[:count])
    ]


@pytest.fixture
def asked(order_that):
    """`asked(calls)`: an order that waits for a decision on each."""

    def make(calls: Sequence[Call]) -> WorkOrder:
        MADE.clear()

        def act(state, context):
            if question := ask_about_calls(state, context, calls=calls):
                return question
            MADE.extend(
                (one.id, dict(one.arguments)) for one in approved(context, "execute", calls)
            )
            words = {one.id: one.result for one in answered(context, "execute", calls)}
            return Done(update={"words": words, "refused": rejected(context, "execute")})

        return drive(order_that(act))

    return make


def resume(order: WorkOrder, by: User, value: Any) -> None:
    body = {"assistant_id": "anything", "command": {"resume": value}}
    sent(by, "POST", f"/threads/{order.thread_id}/runs", body)


class Model(BaseChatModel):
    """Wants the calls, and then nothing more."""

    calls: list[Any]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **more: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *given: Any, **more: Any) -> ChatResult:
        wanted = self.calls if isinstance(messages[-1], HumanMessage) else []
        answer = AIMessage(content="" if wanted else "Done.", tool_calls=wanted)
        return ChatResult(generations=[ChatGeneration(message=answer)])


class Refused(Exception):
    """LangChain's words."""


@cache
def agent(count: int) -> tuple[Any, list[tuple[str, dict[str, Any]]]]:
    """An agent of LangChain that wants these calls, and which of them it made."""
    told: list[tuple[str, dict[str, Any]]] = []

    def send_mail(to: str, copies: int = 1) -> str:
        """Send."""
        told.append(("send_mail", {"to": to, "copies": copies}))
        return f"made {len(told) - 1}"

    def list_files(of: str) -> str:
        """List."""
        told.append(("list_files", {"of": of}))
        return f"made {len(told) - 1}"

    calls = [
        {"id": f"c{number}", "name": tool, "args": arguments}
        for number, (tool, arguments, _) in enumerate(TOOLS[:count])
    ]
    config: Any = {
        "send_mail": {"allowed_decisions": ALL},
        "list_files": {"allowed_decisions": ["approve", "reject"]},
    }
    made: Any = create_agent(
        Model(calls=calls),
        tools=[send_mail, list_files],
        middleware=[HumanInTheLoopMiddleware(interrupt_on=config, edit_notice=None)],
        checkpointer=InMemorySaver(),
    )
    return made, told


def theirs(count: int, decisions: Sequence[Mapping[str, Any]]) -> Came:
    """What becomes of the calls at an agent of LangChain; raises Refused."""
    made, told = agent(count)
    place = {"configurable": {"thread_id": json.dumps(decisions)}}
    made.invoke({"messages": [{"role": "user", "content": "Go."}]}, place)
    try:
        state = made.invoke(Command(resume={"decisions": list(decisions)}), place)
    except (ValueError, KeyError) as error:
        raise Refused(str(error)) from error
    came: dict[str, tuple[str, Any]] = {}
    for message in state["messages"]:
        if not isinstance(message, ToolMessage):
            continue
        text = str(message.content)
        if text.startswith("made "):
            came[message.tool_call_id] = ("made", told[int(text.removeprefix("made "))])
        elif message.status == "error":
            came[message.tool_call_id] = ("rejected", None)
        else:
            came[message.tool_call_id] = ("answered", text)
    return came


@cache
def _at_langchain(count: int, decisions: str) -> Came | str:
    try:
        return theirs(count, json.loads(decisions))
    except Refused as refused:
        return str(refused)


def at_langchain(count: int, decisions: Sequence[Mapping[str, Any]]) -> Came | str:
    """What becomes of the calls there, or the words of its refusal."""
    return _at_langchain(count, json.dumps(decisions))


def ours(pause: Pause, value: Any) -> Came:
    """What the same comes to here, by all that `decide` asks of it; raises AnswerInvalid, and
    StreamRefused.
    """
    answer: Answer = replies.answer_to(pause, value)
    check_words(pause, answer)
    if answer.payload is not None:
        faults = schemas.answer_faults(pause.required_inputs, answer.payload)
        faults = faults or decided_calls.faults(pause, answer.payload)
        if faults:
            raise AnswerInvalid(faults)
    came: dict[str, tuple[str, Any]] = {}
    for name, call in decided_calls.decided(pause, answer.action, answer.payload).items():
        came[name] = {
            "reject": ("rejected", None),
            "respond": ("answered", call.get("result")),
        }.get(call["decision"], ("made", (call["tool"], call["arguments"])))
    return came


def edit(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "edit", "edited_action": {"name": tool, "args": arguments}}


FORMS: list[dict[str, Any]] = [
    {"type": "approve"},
    edit("send_mail", to="new", copies=2),
    edit("list_files", of="new"),
    edit("drop_table", of="new"),
    {"type": "reject"},
    {"type": "reject", "message": "No."},
    {"type": "respond", "message": "It was sent by hand."},
    {"type": "shrug"},
]
"""The forms of `HITLResponse`, and one that is none."""


def lists(count: int) -> Iterator[tuple[dict[str, Any], ...]]:
    """Every pair of decisions on each two calls; and lists that are too short or too long."""
    for pair in itertools.product(range(len(FORMS)), repeat=min(count, 2)):
        places = (*pair, sum(pair) % len(FORMS))
        yield tuple(FORMS[place] for place in places[:count])
    for other in {0, count - 1, count + 1} - {count}:
        yield from ((form,) * other for form in FORMS)


def stricter(count: int, decisions: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a list is taken at LangChain alone: an edit there may make another tool's call."""
    return any(
        one["type"] == "edit" and one["edited_action"]["name"] != tool
        for one, (tool, _, _) in zip(decisions, TOOLS[:count], strict=True)
    )


@pytest.mark.parametrize("count", [1, 2, 3])
def test_each_list_of_decisions_does_what_langchain_does_or_nothing(asked, count):
    """What LangChain refuses is refused in the same words."""
    for risk in RISKS:
        pause = pause_of(asked(wanted(count, risk)))
        tally = Counter(_beside_langchain(pause, decisions) for decisions in lists(count))
        assert tally.keys() == {"taken", "refused", "stricter"}


def _beside_langchain(pause: Pause, decisions: Sequence[Mapping[str, Any]]) -> str:
    count = len(pause.calls)
    told = at_langchain(count, decisions)
    came: list[Any] = []
    for value in ({"decisions": list(decisions)}, list(decisions)):
        try:
            came.append(ours(pause, value))
        except AnswerInvalid as refusal:
            came.append(str(refusal))
    assert came[0] == came[1], "a list is one in LangChain's envelope"
    if not isinstance(came[0], str):
        assert came[0] == told, decisions
        return "taken"
    if not isinstance(told, str):
        assert stricter(count, decisions), (decisions, told)
        return "stricter"
    if told.startswith(("Number of", "Unexpected")):
        assert told in came[0] or stricter(count, decisions), (decisions, told, came[0])
    return "refused"


def as_inbox(decision: Mapping[str, Any], call: tuple[str, dict[str, Any], bool]) -> Any:
    """A decision as Agent Inbox says it."""
    tool, arguments, _ = call
    match decision["type"]:
        case "approve":
            return {"type": "accept", "args": {"action": tool, "args": arguments}}
        case "edit":
            action = decision["edited_action"]
            return {"type": "edit", "args": {"action": action["name"], "args": action["args"]}}
        case "respond":
            return {"type": "response", "args": decision["message"]}
    return {"type": "ignore", "args": None}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_agent_inboxs_words_mean_the_same(asked, count):
    """`accept`, `edit`, `response` and `ignore`; an accept brings back what was looked at."""
    pause = pause_of(asked(wanted(count, "high")))
    forms = [FORMS[0], FORMS[1], FORMS[4], FORMS[6]]
    for decisions in itertools.product(forms, repeat=count):
        if stricter(count, decisions):
            continue
        value = [as_inbox(*pair) for pair in zip(decisions, TOOLS, strict=False)]
        told = at_langchain(count, decisions)
        if isinstance(told, str):
            with pytest.raises(AnswerInvalid, match="is not allowed for tool"):
                ours(pause, value)
        else:
            assert ours(pause, value) == told


def test_a_decision_that_names_a_call_is_for_that_call_in_any_order(asked):
    """Calls were taken by their place: an accept of the second, given first, made the first."""
    pause = pause_of(asked(wanted(3, "high")))
    named = [as_inbox(FORMS[0], call) for call in TOOLS]
    named[2] = {"type": "ignore", "args": {"action": "list_files", "args": {"of": "z"}}}
    for order in itertools.permutations(named):
        came = ours(pause, list(order))
        assert [came[f"c{number}"][0] for number in range(3)] == ["made", "made", "rejected"]
        assert came["c1"][1] == ("send_mail", {"to": "y", "copies": 1})
    named[0] = {"type": "ignore", "args": {"action": "send_mail", "args": TOOLS[0][1]}}
    for order in itertools.permutations(named):
        assert ours(pause, list(order))["c0"][0] == "rejected"
    for clash in ([named[1], named[1], named[2]], [named[1], {"type": "reject"}, named[2]]):
        with pytest.raises(AnswerInvalid, match="for one call"):
            ours(pause, clash)


OTHERS: list[dict[str, Any]] = [
    {"action": "send_mail", "args": {"to": "eve", "copies": 1}},
    {"action": "send_mail", "args": {"to": "x", "copies": True}},
    {"action": "send_mail", "args": {"to": "x"}},
    {"action": "send_mail", "args": None},
    {"action": "drop_table", "args": {"to": "x", "copies": 1}},
    {"name": "drop_table", "args": {}},
    {"to": "eve", "copies": 1},
]
"""What a decision may bring back, and nobody asked about."""


@pytest.mark.parametrize("count", [1, 3])
def test_what_comes_back_is_held_against_the_question(asked, ana, count):
    """Alone, in a list, and by its interrupt; `1` is not `true`."""
    order = asked(wanted(count, "normal"))
    key = interrupts.id_of(pause_of(order))
    for kind, action in itertools.product(("accept", "approve", "ignore", "reject"), OTHERS):
        given = [{"type": kind, "args": action}, *([{"type": "approve"}] * (count - 1))]
        for value in (given, {"decisions": given}, {key: given}, {key: {"decisions": given}}):
            with pytest.raises(StreamRefused, match="asks something else") as refused:
                resume(order, ana, value)
            assert refused.value.status == 409
    assert not Decision.objects.exists() and pause_of(order).attempts == 0


def test_one_decision_is_none_on_two_calls(asked, ana):
    """Each of these sent both mails, or rejected both. The words are LangChain's."""
    order = asked(wanted(2, "normal"))
    accept = as_inbox(FORMS[0], TOOLS[0])
    alone = [{"type": "approve"}, {"type": "accept", "args": None}, accept, *FORMS, "It was sent."]
    words = r"Number of human decisions \(1\) does not match number of hanging tool calls \(2\)"
    for one in alone:
        typed = [one, [one], {"decisions": [one]}]
        for value in ["It was sent."] if isinstance(one, str) else typed:
            for named in (value, {interrupts.id_of(pause_of(order)): value}):
                with pytest.raises(AnswerInvalid, match=words):
                    resume(order, ana, named)
    empty: list[Any] = [{"decisions": []}, []]
    for value in empty:
        with pytest.raises(AnswerInvalid, match=r"decisions \(0\)"):
            resume(order, ana, value)
    odd: list[Any] = [
        {"decisions": True},
        {"decisions": "approve"},
        [[], []],
        ["approve", True],
        [None],
        {"decisions": [{"type": "approve"}] * 2, "more": 1},
    ]
    for value in odd:
        with pytest.raises(AnswerInvalid):
            resume(order, ana, value)
    assert not Decision.objects.exists() and MADE == []


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("risk", RISKS)
def test_a_word_on_the_whole_question_is_on_each_call_but_never_yes_to_high_risk(
    asked, count, risk
):
    """`true` is *Approve all*, `false` rejects all."""
    pause = pause_of(asked(wanted(count, risk)))
    ids = [f"c{number}" for number in range(count)]
    for word in (True, "APPROVE"):
        if count > 1 and risk == "high":
            with pytest.raises(AnswerInvalid, match="not an answer here"):
                ours(pause, word)
        else:
            assert [ours(pause, word)[name][0] for name in ids] == ["made"] * count
    for word in (False, "REJECT"):
        assert [ours(pause, word)[name][0] for name in ids] == ["rejected"] * count


@pytest.mark.parametrize(
    ("count", "risk"), [(1, "normal"), *((2, risk) for risk in RISKS), (3, "normal")]
)
def test_what_was_decided_is_what_the_step_makes(asked, ana, count, risk):
    """Through the door and to the run's end: only what was approved is made, as it was approved."""
    decisions = [FORMS[6], FORMS[1], FORMS[5]][:count]
    order = asked(wanted(count, risk))
    resume(order, ana, {"decisions": decisions})
    order = drive(order)
    assert order.status == "completed", order.latest_run.error
    assert [name for name, _ in MADE] == ["c1"][: count - 1]
    state = sent(ana, "GET", f"/threads/{order.thread_id}/state", scope="read")
    assert state["values"]["words"] == {"c0": "It was sent by hand."}
    assert Decision.objects.get().intact


def test_what_is_cancelled_over_ag_ui_rejects_every_call(asked, ana):
    """One word there is on the whole question, as `false` is here."""
    order = asked(wanted(2, "high"))
    key = interrupts.id_of(pause_of(order))
    given = Resume(interruptId=key, status="cancelled")
    resume(order, ana, {key: running._answer(given)})
    assert drive(order).status == "completed" and MADE == []


def test_words_are_a_result_only_where_the_call_takes_them(asked, ana):
    """Blank words are none; clients are told which calls take any."""
    order = asked([Call(id="wire", tool="wire", arguments={}), *wanted(1, "low")])
    (wire, mail) = interrupts.value_of(pause_of(order))["review_configs"]
    assert (wire["allowed_decisions"], mail["allowed_decisions"]) == (["approve", "reject"], ALL)
    for words in ("", "  ", None, {"to": "x"}):
        with pytest.raises(AnswerInvalid, match="Say what the result"):
            resume(order, ana, [{"type": "approve"}, {"type": "respond", "message": words}])
    order = asked(wanted(1, "low"))
    resume(order, ana, "It was sent.")
    assert drive(order).status == "completed" and MADE == []
    (call,) = Decision.objects.get().payload["calls"].values()
    assert call == {"decision": "respond", "result": "It was sent."}
