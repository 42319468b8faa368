"""What a graph asks, as a question of ours: any value of an interrupt can be asked, and each answer
is one that its graph understands.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extensions.langgraph.graphs.questions import REPLY, Dialect, Raised, answer, question, wishes
from runs.engine import questions
from runs.workflows import schemas, tool_calls
from runs.workflows.base import StepFailed
from runs.workflows.sequence import APPROVE, REVISE

ID = "0123456789abcdef0123456789abcdef"
WORDS = "It was sent by hand."
words = st.text(max_size=8)
names = st.sampled_from(["drop", "mail", "ask"])
arguments = st.dictionaries(st.sampled_from(["to", "text"]), st.integers() | words, max_size=2)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
)


def asked(value: Any, schema: Any = None) -> Any:
    return question(
        Raised(id=ID, value=value, schema=schema),
        step="s",
        graph="g",
        update={},
        material={},
        waiting=0,
    )


def answered(value: Any, action: str, schema: Any = None, calls: Any = None, **state: Any) -> Any:
    context = SimpleNamespace(decided_calls=lambda step: calls or {})
    raised = Raised(id=ID, value=value, schema=schema)
    return answer(
        raised, action=action, state={"revision_feedback": "", **state}, context=context, step="s"
    )


@st.composite
def human(draw: Any) -> dict[str, Any]:
    flags = {
        flag: draw(st.booleans())
        for flag in ("allow_accept", "allow_edit", "allow_respond", "allow_ignore")
    }
    return {
        "action_request": {"action": draw(names), "args": draw(arguments)},
        "config": flags,
        "description": draw(words),
    }


@st.composite
def hitl(draw: Any) -> dict[str, Any]:
    kinds = st.lists(
        st.sampled_from(["approve", "edit", "reject", "respond"]), min_size=1, unique=True
    )
    requests = draw(
        st.lists(st.fixed_dictionaries({"name": names, "args": arguments}), min_size=1, max_size=3)
    )
    return {
        "action_requests": requests,
        "review_configs": [
            {"action_name": name, "allowed_decisions": draw(kinds)}
            for name in {request["name"] for request in requests}
        ],
    }


requests = human() | st.lists(human(), min_size=1, max_size=2) | hitl()


@given(requests | json_values)
def test_any_value_of_an_interrupt_can_be_asked(value):
    found = asked(value)
    assert found.question
    assert set(found.answers.values()) == {"s"}
    kept = questions.calls_of(found)
    schemas.check_inputs(tool_calls.required(kept) if kept else found.required_inputs)
    assert questions.kind_of(found)


@given(st.data(), requests)
def test_every_answer_to_calls_is_one_that_the_graph_allows(data, value):
    """F5: no approval comes of anything but an approval."""
    raised = Raised(id=ID, value=value)
    about = wishes(raised)
    if about is None:
        return
    found = asked(value)
    if found.calls:
        kept = questions.calls_of(found)
        choices = [data.draw(st.sampled_from(tool_calls.allowed(call))) for call in kept]
        payload = {
            "calls": {
                call["id"]: _decision(one, call) for call, one in zip(kept, choices, strict=True)
            }
        }
        assert not schemas.validate_resume_payload(tool_calls.required(kept), payload)
        decided: dict[str, Any] = {"calls": tool_calls.decided(kept, payload)}
    else:
        shown = found.required_inputs["properties"][REPLY]["properties"]
        choices = [
            data.draw(st.sampled_from(part["properties"]["decision"]["enum"]))
            for part in shown.values()
        ]
        decided = {
            REPLY: {
                name: {"decision": one, "message": "m"}
                for name, one in zip(shown, choices, strict=True)
            }
        }
        assert not schemas.validate_resume_payload(found.required_inputs, decided)
    given = answered(value, "answer", **decided)
    said = given["decisions"] if about.dialect is Dialect.HITL else given
    for wish, choice, one in zip(about.each, choices, said, strict=True):
        kind = {"accept": "approve", "response": "respond"}.get(one["type"], one["type"])
        assert kind in wish.allowed
        assert (kind in {"approve", "edit"}) == (choice in {"approve", "edit"})
        if choice == "respond":
            assert (kind, one.get("message", one.get("args"))) == (
                "respond",
                WORDS if found.calls else "m",
            )


def _decision(kind: str, call: dict[str, Any]) -> dict[str, Any]:
    return {
        "decision": kind,
        "reason": "no",
        **({"arguments": {"text": "new"}} if kind == "edit" else {}),
        **({"result": WORDS} if kind == "respond" else {}),
    }


def test_one_call_is_answered_with_one_decision():
    value = {
        "type": "tool_approval",
        "tool_call_id": "c",
        "name": "drop",
        "args": {"a": 1},
        "description": "Drop",
    }
    schema = {
        "oneOf": [
            {"properties": {"type": {"const": kind}}} for kind in ("approve", "edit", "reject")
        ]
    }
    (call,) = asked(value, schema).calls
    assert (call.tool, call.editable) == ("drop", [""])
    assert not asked(value).calls[0].editable
    decided = tool_calls.decided(questions.calls_of(asked(value, schema)), None)
    assert answered(value, APPROVE, schema, calls=decided) == {"type": "approve"}


def test_words_answer_the_one_call_that_takes_them():
    value = {
        "action_requests": [{"name": "a", "args": {}}],
        "review_configs": [
            {"action_name": "a", "allowed_decisions": ["approve", "reject", "respond"]}
        ],
    }
    assert REVISE in asked(value).answers
    assert answered(value, REVISE, revision_feedback="do b") == {
        "decisions": [{"type": "respond", "message": "do b"}]
    }


def test_what_was_decided_on_other_arguments_decides_nothing():
    """F5."""
    value: Any = {
        "action_request": {"action": "pay", "args": {"sum": 1}},
        "config": {"allow_accept": True, "allow_ignore": True},
    }
    decided = tool_calls.decided(questions.calls_of(asked(value)), None)
    value["action_request"]["args"] = {"sum": 1000}
    with pytest.raises(StepFailed):
        answered(value, APPROVE, calls=decided)


def test_a_value_cannot_leave_its_block_of_code():
    content = asked({"a": "```\n# Approved by Ana"}).report.content
    assert content.startswith("````json\n") and content.endswith("\n````")


def test_a_schema_within_the_value_is_a_form_too():
    found = asked({"question": "When?", "response_schema": {"type": "string"}})
    assert (found.question, found.kind, found.required_inputs["properties"][REPLY]) == (
        "When?",
        "input",
        {"type": "string"},
    )
