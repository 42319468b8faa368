"""What a client resumes an interrupt with, as an answer to the question: the words that LangGraph's
published dialects have for it, and this server's own.

Whether the answer is taken, and from whom, says `decide`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from extensions.langgraph.api.interrupts import (
    as_told,
    asked_beside,
    asked_else,
    is_of,
    is_whole,
    takes_feedback,
    takes_words,
)
from extensions.langgraph.api.resuming import decisions
from extensions.langgraph.api.resuming.decisions import arguments_of, brought, message_of, stale
from hitl.decisions.services import Answer, AnswerInvalid
from hitl.models import Via
from runs.models import Pause
from runs.states import STOPS
from runs.workflows.sequence import APPROVE, CANCEL, REVISE
from runs.workflows.tool_calls import REJECT
from runs.workflows.wait_for_input import ANSWER

VIA = Via.LANGGRAPH
NATIVE = frozenset({"decision", "feedback", "input", "revision", "content", "stage"})
BARE = [{"type": "accept", "args": None}]
"""An *Accept* of Agent Inbox where nothing can be edited."""


def meant(pauses: Sequence[Pause], value: Any) -> Pause | None:
    """The question of several that an answer is to, where it brings back what a page shows of one,
    and of no other.
    """
    given = _one(value)
    if (action := brought(given)) is None:
        return None
    edited = given["type"] == "edit"
    fitting = [pause for pause in pauses if is_of(action, pause, edited=edited)]
    return fitting[0] if len(fitting) == 1 else None


def check_shown(pause: Pause, value: Any, *, on_page: bool) -> None:
    """Raise StreamRefused where a page may have shown another question than this one.

    A bare *Accept* of Agent Inbox says nothing of what was looked at; Agent Chat UI names the
    state that it shows (`on_page`), which is the same for all questions of child runs.
    """
    given = _one(value)
    if (action := brought(given)) is not None:
        # what is said of calls is held against each, by `answer_to`
        if not pause.calls and not is_of(action, pause, edited=given["type"] == "edit"):
            raise stale(pause)
        return
    if (value == BARE and asked_else(pause)) or (on_page and asked_beside(pause)):
        raise stale(pause)


def _one(value: Any) -> Any:
    """What a list of one, or `{"decisions": […]}` of one, has in it."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, dict) and set(value) == {"decisions"}:
        value = value["decisions"] if isinstance(value["decisions"], list) else None
        value = value[0] if isinstance(value, list) and len(value) == 1 else value
    return value


def answer_to(pause: Pause, value: Any) -> Answer:
    """Raises AnswerInvalid where it is none, and StreamRefused where it brings back what the
    question does not ask.
    """
    value = _one(value)
    if pause.calls and isinstance(value, list | Mapping) and not _is_native(value):
        return _of_calls(pause, value if isinstance(value, list) else [value])
    if (action := brought(value)) is not None:
        edited = value["type"] == "edit"
        # an interrupt's id says which question an edit is to, however its client calls that
        if not is_of({**action, "action": pause.step} if edited else action, pause, edited=edited):
            raise stale(pause)
    match value:
        case True | "APPROVE":
            return _all(pause, {"type": "approve"})
        case False | "REJECT":
            return _all(pause, {"type": "ignore"})
        case str():
            return _words(pause, value)
        case dict() if _is_native(value):
            return _native(value)
        case {"type": str()}:
            return _verdict(pause, value)
        case dict() if pause.required_inputs:
            return Answer(_with_data(pause), VIA, payload=value)
        case dict() if pause.phase in STOPS:
            return Answer(APPROVE, VIA, update=value)
    raise _unfit(pause)


def _is_native(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and isinstance(value.get("decision"), str)
        and set(value) <= NATIVE
    )


def _native(value: Mapping[str, Any]) -> Answer:
    revision, content = value.get("revision"), value.get("content")
    feedback, stage = value.get("feedback") or "", value.get("stage") or ""
    if not all(isinstance(text, str) for text in (feedback, stage, content or "")):
        raise AnswerInvalid.of("resume", "feedback, stage and content are text.")
    if revision is not None and (isinstance(revision, bool) or not isinstance(revision, int)):
        raise AnswerInvalid.of("resume", "revision is a number.")
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
    match kind:
        case "response" | "respond":
            return _words(pause, value.get("args", value.get("message")))
        case "accept" | "approve":
            return Answer(APPROVE, VIA, revision=_revision(arguments_of(value)))
        case "edit":
            return _edited(pause, arguments_of(value))
        case "reject" if pause.may_revise and REJECT not in pause.answers and message_of(value):
            return Answer(REVISE, VIA, feedback=message_of(value))
        case "ignore" | "reject":
            action = REJECT if REJECT in pause.answers else CANCEL
            return Answer(action, VIA, feedback=message_of(value))
    raise _unfit(pause)


def _all(pause: Pause, decision: Mapping[str, Any]) -> Answer:
    """A word that is about the question as a whole: about each of its calls."""
    if not pause.calls:
        return _verdict(pause, decision)
    if decision["type"] == "approve" and len(pause.calls) > 1:
        return Answer(APPROVE, VIA)  # where the question has that
    return _of_calls(pause, [decision] * len(pause.calls))


def _of_calls(pause: Pause, given: Sequence[Any]) -> Answer:
    """A decision for each call; or what is said of all, where a page showed them as one."""
    match given:
        case [{"type": "accept", "args": {"action": pause.step} as action}] if len(pause.calls) > 1:
            if not is_whole(action, pause):
                raise stale(pause)
            return Answer(APPROVE, VIA)
        case [{"type": "response" | "respond"} as only] if takes_feedback(pause):
            if words := message_of(only).strip():
                return Answer(REVISE, VIA, feedback=words)
    if not all(isinstance(one, Mapping) and isinstance(one.get("type"), str) for one in given):
        raise _unfit(pause)
    return Answer(ANSWER, VIA, payload={"calls": decisions.on_calls(pause, given)})


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
    raise AnswerInvalid.of("resume", "Nothing of it was edited that can be: its content.")


def _words(pause: Pause, text: Any) -> Answer:
    """An answer in words, where one is asked; else what is to be done differently."""
    if not isinstance(text, str) or not text.strip():
        raise _unfit(pause)
    if pause.calls:
        return _of_calls(pause, [{"type": "respond", "message": text}])
    needed = pause.required_inputs.get("required", []) if pause.required_inputs else []
    if pause.required_inputs and len(needed) == 1:
        return Answer(_with_data(pause), VIA, payload={needed[0]: text})
    if ANSWER in pause.answers and not pause.required_inputs:
        # the steps that follow read an answer as any input
        return Answer(ANSWER, VIA, feedback=text, update={"input": text})
    if REVISE in pause.answers:
        return Answer(REVISE, VIA, feedback=text)
    raise _unfit(pause)


def _with_data(pause: Pause) -> str:
    return ANSWER if ANSWER in pause.answers else APPROVE


def _unfit(pause: Pause) -> AnswerInvalid:
    answers = ", ".join([*pause.answers, CANCEL])
    return AnswerInvalid.of(
        "resume",
        f"This is not an answer here. Send {{'decision': …}} with one of {answers}; what "
        "else fits says the interrupt's response_schema.",
        code="unknown_answer",
    )
