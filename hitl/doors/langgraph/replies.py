"""What a client resumes an interrupt with, as an answer to the question: the words that LangGraph's
published dialects have for it, and this server's own.

Whether the answer is taken, and from whom, says `decide`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hitl.decisions.services import Answer, AnswerInvalid
from hitl.doors.langgraph.interrupts import takes_words
from hitl.models import Via
from runs.models import Pause
from runs.states import STOPS
from runs.workflows.sequence import APPROVE, CANCEL, REVISE
from runs.workflows.tool_calls import EDIT, REJECT
from runs.workflows.wait_for_input import ANSWER

VIA = Via.LANGGRAPH
NATIVE = frozenset({"decision", "feedback", "input", "revision", "content"})
IGNORED = "Ignored by the client."


def answer_to(pause: Pause, value: Any) -> Answer:
    """Raises AnswerInvalid where it is none."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, dict) and set(value) == {"decisions"}:
        value = value["decisions"]
        value = value[0] if isinstance(value, list) and len(value) == 1 else value
    match value:
        case list():
            return _of_calls(pause, value)
        case True | "APPROVE":
            return _verdict(pause, {"type": "approve"})
        case False | "REJECT":
            return _verdict(pause, {"type": "ignore"})
        case str():
            return _words(pause, value)
        case {"decision": str()} if set(value) <= NATIVE:
            return _native(value)
        case {"type": str()}:
            return _verdict(pause, value)
        case dict() if pause.required_inputs and not pause.calls:
            return Answer(_with_data(pause), VIA, payload=value)
        case dict() if pause.phase in STOPS:
            return Answer(APPROVE, VIA, update=value)
    raise _unfit(pause)


def _native(value: Mapping[str, Any]) -> Answer:
    revision, content = value.get("revision"), value.get("content")
    feedback = value.get("feedback") or ""
    if not isinstance(feedback, str) or not isinstance(content, str | None):
        raise AnswerInvalid({"resume": ["feedback and content are text."]})
    if revision is not None and (isinstance(revision, bool) or not isinstance(revision, int)):
        raise AnswerInvalid({"resume": ["revision is a number."]})
    return Answer(
        value["decision"],
        VIA,
        feedback=feedback,
        revision=revision,
        payload=value.get("input"),
        edited_content=content,
    )


def _verdict(pause: Pause, value: Mapping[str, Any]) -> Answer:
    """One decision of `HumanResponse` or `HITLResponse`."""
    kind = value["type"]
    if kind in {"response", "respond"}:
        return _words(pause, value.get("args", value.get("message")))
    if pause.calls:
        if len(pause.calls) > 1 and kind in {"accept", "approve"}:
            return Answer(APPROVE, VIA)  # of all at once, where the question has that
        return _of_calls(pause, [value] * len(pause.calls) if kind != "edit" else [value])
    match kind:
        case "accept" | "approve":
            return Answer(APPROVE, VIA, revision=_revision(_arguments(value)))
        case "edit":
            return _edited(pause, _arguments(value))
        case "reject" if pause.may_revise and REJECT not in pause.ways and _message(value):
            return Answer(REVISE, VIA, feedback=_message(value))
        case "ignore" | "reject":
            action = REJECT if REJECT in pause.ways else CANCEL
            return Answer(action, VIA, feedback=_message(value))
    raise _unfit(pause)


def _message(value: Mapping[str, Any]) -> str:
    words = value.get("message", value.get("args"))
    return words if isinstance(words, str) else ""


def _arguments(value: Mapping[str, Any]) -> Any:
    """The arguments of an edit, in either dialect."""
    action = value.get("edited_action", value.get("args"))
    if isinstance(action, Mapping) and isinstance(action.get("args"), Mapping):
        return dict(action["args"])
    return action


def _revision(arguments: Any) -> int | None:
    """The revision that was looked at, where what comes back has it."""
    revision = arguments.get("revision") if isinstance(arguments, Mapping) else None
    return revision if isinstance(revision, int) and not isinstance(revision, bool) else None


def _typed(before: Any, edited: Any) -> Any:
    """What was edited, as what it was: pages give a number or an object back as text."""
    if isinstance(before, str) or not isinstance(edited, str):
        return edited
    try:
        return json.loads(edited)
    except ValueError:
        return edited


def _edited(pause: Pause, arguments: Any) -> Answer:
    """A form that was filled in, an answer in words, or a content that was changed."""
    if not isinstance(arguments, Mapping):
        raise _unfit(pause)
    revision = _revision(arguments)
    if takes_words(pause) and "question" in arguments and arguments.get("answer"):
        return replace(_words(pause, arguments["answer"]), revision=revision)
    if pause.required_inputs:
        data = _typed(None, arguments.get("inputs", arguments))
        return Answer(_with_data(pause), VIA, payload=data, revision=revision)
    content = arguments.get("content")
    if isinstance(content, str) and content != pause.content:
        return Answer(APPROVE, VIA, edited_content=content, revision=revision)
    raise AnswerInvalid({"resume": ["Nothing of it was edited that can be: its content."]})


def _words(pause: Pause, text: Any) -> Answer:
    """An answer in words, where one is asked; else what is to be done differently."""
    if not isinstance(text, str) or not text.strip():
        raise _unfit(pause)
    if pause.calls:
        reject = {"type": "reject", "message": text}
        if REVISE in pause.ways:
            return Answer(REVISE, VIA, feedback=text)
        return _of_calls(pause, [reject] * len(pause.calls))
    needed = pause.required_inputs.get("required", []) if pause.required_inputs else []
    if pause.required_inputs and len(needed) == 1:
        return Answer(_with_data(pause), VIA, payload={needed[0]: text})
    if ANSWER in pause.ways and not pause.required_inputs:
        # the steps that follow read an answer as any input
        return Answer(ANSWER, VIA, feedback=text, update={"input": text})
    if REVISE in pause.ways:
        return Answer(REVISE, VIA, feedback=text)
    raise _unfit(pause)


def _of_calls(pause: Pause, decisions: list[Any]) -> Answer:
    """A decision on each call, in their order."""
    if len(decisions) != len(pause.calls):
        raise _unfit(pause)
    each: dict[str, Any] = {}
    for call, value in zip(pause.calls, decisions, strict=True):
        match value:
            case {"type": "accept" | "approve"}:
                each[call["id"]] = {"decision": APPROVE}
            case {"type": "edit"} if isinstance(given := _arguments(value), Mapping):
                before = dict(call["arguments"])
                edited = {name: _typed(before.get(name, ""), one) for name, one in given.items()}
                each[call["id"]] = (
                    {"decision": EDIT, "arguments": edited}
                    if edited != before
                    else {"decision": APPROVE}
                )
            case {"type": "ignore" | "reject" | "response" | "respond"}:
                reason = _message(value) or IGNORED
                each[call["id"]] = {"decision": REJECT, "reason": reason}
            case _:
                raise _unfit(pause)
    return Answer(ANSWER, VIA, payload={"calls": each})


def _with_data(pause: Pause) -> str:
    return ANSWER if ANSWER in pause.ways else APPROVE


def _unfit(pause: Pause) -> AnswerInvalid:
    ways = ", ".join([*pause.ways, CANCEL])
    return AnswerInvalid(
        {
            "resume": [
                f"This is no answer here. Send {{'decision': …}} with one of {ways}; what else "
                "fits says the interrupt's response_schema."
            ]
        },
        code="unknown_answer",
    )
