"""What a client resumes an interrupt with, as an answer to the question: the words that LangGraph's
published dialects have for it, and this server's own.

Whether the answer is taken, and from whom, says `decide`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hitl.decisions.services import Answer, AnswerInvalid
from hitl.doors.langgraph.interrupts import (
    as_told,
    asked_beside,
    asked_else,
    is_of,
    takes_words,
)
from hitl.live.pump import StreamRefused
from hitl.models import Via
from hitl.outbound.links import absolute
from hitl.rendering.links import place_of
from runs.models import Pause
from runs.states import STOPS
from runs.workflows.sequence import APPROVE, CANCEL, REVISE
from runs.workflows.tool_calls import EDIT, REJECT
from runs.workflows.wait_for_input import ANSWER

VIA = Via.LANGGRAPH
NATIVE = frozenset({"decision", "feedback", "input", "revision", "content", "stage"})
BARE = [{"type": "accept", "args": None}]
"""An *Accept* of Agent Inbox where nothing can be edited."""
IGNORED = "Ignored by the client."


def meant(pauses: Sequence[Pause], value: Any) -> Pause | None:
    """The question of several that an answer is to, where it brings back what a page shows of one,
    and of no other.
    """
    given = _one(value)
    if (action := _brought(given)) is None:
        return None
    edited = given["type"] == "edit"
    fitting = [pause for pause in pauses if is_of(action, pause, edited=edited)]
    return fitting[0] if len(fitting) == 1 else None


def check_shown(pause: Pause, value: Any, *, on_page: bool) -> None:
    """Raise StreamRefused where a page showed another question than this one, or may have.

    A bare *Accept* of Agent Inbox says nothing of what was looked at; Agent Chat UI names the
    state that it shows (`on_page`), which is the same for all questions of child runs.
    """
    given = _one(value)
    action = _brought(given)
    if action is not None:
        stale = not is_of(action, pause, edited=given["type"] == "edit")
    else:
        stale = (value == BARE and asked_else(pause)) or (on_page and asked_beside(pause))
    if stale:
        raise StreamRefused(
            409,
            "stale",
            "Nothing was decided: this thread asks something else by now, or may. Look again, and "
            f"answer that: {absolute(place_of(pause))}",
        )


def _brought(value: Any) -> Mapping[str, Any] | None:
    """What an accept or an edit brings back of the question that a page showed."""
    if not isinstance(value, Mapping) or value.get("type") not in {"accept", "edit"}:
        return None
    action = value.get("edited_action", value.get("args"))
    if not isinstance(action, Mapping) or not isinstance(action.get("args"), Mapping):
        return None
    return action if "action" in action or "name" in action else None


def _one(value: Any) -> Any:
    """What a list of one, or `{"decisions": […]}` of one, has in it."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, dict) and set(value) == {"decisions"}:
        value = value["decisions"]
        value = value[0] if isinstance(value, list) and len(value) == 1 else value
    return value


def answer_to(pause: Pause, value: Any) -> Answer:
    """Raises AnswerInvalid where it is none."""
    value = _one(value)
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
    feedback, stage = value.get("feedback") or "", value.get("stage") or ""
    if not all(isinstance(text, str) for text in (feedback, stage, content or "")):
        raise AnswerInvalid({"resume": ["feedback, stage and content are text."]})
    if revision is not None and (isinstance(revision, bool) or not isinstance(revision, int)):
        raise AnswerInvalid({"resume": ["revision is a number."]})
    return Answer(
        value["decision"],
        VIA,
        feedback=feedback,
        revision=revision,
        payload=value.get("input"),
        edited_content=content,
        stage=stage,
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


def _edited(pause: Pause, arguments: Any) -> Answer:
    """A form that was filled in, an answer in words, or a content that was changed."""
    if not isinstance(arguments, Mapping):
        raise _unfit(pause)
    revision = _revision(arguments)
    if takes_words(pause) and "question" in arguments and arguments.get("answer"):
        return replace(_words(pause, arguments["answer"]), revision=revision)
    if pause.required_inputs:
        data = as_told(None, arguments.get("inputs", arguments))
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
                edited = {name: as_told(before.get(name, ""), one) for name, one in given.items()}
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
