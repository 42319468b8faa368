"""A question as an interrupt: a `HumanInterrupt` as Agent Inbox shows it and an `HITLRequest` as
Agent Chat UI does, with the JSON Schema of what may come back.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from textwrap import indent
from typing import Any

from django.db.models import Q

from hitl.outbound.links import absolute
from hitl.rendering.links import place_of, root_of
from runs.models import Pause, Run
from runs.workflows import schemas, tool_calls
from runs.workflows.sequence import APPROVE, CANCEL, REVISE
from runs.workflows.wait_for_input import ANSWER

AS_SHOWN = "Nothing of this can be changed: it comes back with your answer, as what you looked at."


def id_of(pause: Pause) -> str:
    """Return the interrupt's id: each revision has its own, as each interrupt of a graph does."""
    return pause.pk.hex


def shown(pause: Pause) -> dict[str, Any]:
    """Return a question as an interrupt."""
    return {
        "id": id_of(pause),
        "value": value_of(pause),
        "response_schema": schema_of(pause),
        "when": "during",
        "resumable": True,
        "ns": [f"{pause.step}:{task_of(pause)}"],
    }


def task_of(pause: Pause) -> str:
    return str(uuid.uuid5(pause.pk, "task"))


def task(pause: Pause, *, result: Any = None) -> dict[str, Any]:
    """Return the task of a state that asks, or asked."""
    return {
        "id": task_of(pause),
        "name": pause.step,
        "path": ["__pregel_pull", pause.step],
        "error": None,
        "interrupts": [shown(pause)],
        "checkpoint": None,
        "state": None,
        "result": result,
    }


def listed(pause: Pause) -> dict[str, Any]:
    """Return the interrupt for a list of threads: as `HumanInterrupt` alone, since a page that is
    offered both forms takes the other one, and then lacks a button of this one.

    A page sends back with an *Accept* what may be edited, and so tells what a person looked at. For
    this, everything may be edited where there are several calls, or where the thread has asked
    something else. A change that the question does not allow is refused.
    """
    several = len(pause.calls) > 1
    interrupt = _of_calls(pause) if several else _human_interrupts(pause)[0]
    config = interrupt["config"]
    if (several or asked_else(pause)) and config["allow_accept"] and not config["allow_edit"]:
        interrupt["description"] += f"\n\n{AS_SHOWN}"
        config["allow_edit"] = True
    if len(pause.calls) == 1 and not config["allow_edit"]:
        # a page shows what nobody may edit as Markdown, in which it leaves out numbers
        interrupt["description"] += f"\n\n{_call_text(pause.calls[0])}"
    return {**shown(pause), "value": interrupt}


def asked_else(pause: Pause) -> bool:
    """Whether a page may show another question of the thread than this one."""
    thread = pause.run.thread_id
    return (
        pause.run.parent_id is not None
        or Pause.objects.filter(run__thread=thread).exclude(pk=pause.pk).exists()
        or Run.objects.filter(parent__thread=thread).exists()
    )


def asked_beside(pause: Pause) -> bool:
    """Whether a question of another child run was open at the same time as this one."""
    root = root_of(pause.run).thread_id
    family = Q(run__parent__thread=root) | Q(run__parent__parent__thread=root)
    others = Pause.objects.filter(family, closed_at__gt=pause.opened_at)
    return others.exclude(pk=pause.pk).exists()


def is_of(action: Mapping[str, Any], pause: Pause, *, edited: bool) -> bool:
    """Whether `{"action" or "name", "args"}`, which a page brings back, is what it shows of this
    question.

    Args:
        edited: whether the parts that may be edited may differ.
    """
    name = action.get("action", action.get("name", pause.step))
    args = action.get("args")
    if not isinstance(args, Mapping):
        return False
    if is_whole(action, pause):
        return True
    if pause.calls:
        return any(is_call(action, call, edited=edited) for call in pause.calls)
    told = {"question": pause.question, **({} if edited else {"content": pause.content})}
    return name == pause.step and all(args.get(key, text) == text for key, text in told.items())


def is_call(action: Mapping[str, Any], call: Mapping[str, Any], *, edited: bool) -> bool:
    """Whether what a page brings back is what it shows of this call: its tool, and its arguments
    where they were not `edited`. A page may leave either of them out.
    """
    name = action.get("action", action.get("name", call["tool"]))
    args = action.get("args", call["arguments"])
    told = as_told(call["arguments"], args)
    return bool(name == call["tool"] and (edited or tool_calls.same(told, call["arguments"])))


def is_whole(action: Mapping[str, Any], pause: Pause) -> bool:
    """Whether what a page brings back is all of several calls, as a list of threads shows them."""
    if len(pause.calls) < 2:
        return False
    shown = _of_calls(pause)["action_request"]
    told = as_told(shown["args"], action.get("args"))
    return action.get("action") == shown["action"] and tool_calls.same(told, shown["args"])


def as_told(before: Any, given: Any) -> Any:
    """Read what came back as the type that was shown: pages send numbers and objects as text."""
    if isinstance(before, Mapping) and isinstance(given, Mapping):
        return {name: as_told(before.get(name, ""), value) for name, value in given.items()}
    if isinstance(before, str) or not isinstance(given, str):
        return given
    try:
        return json.loads(given)
    except ValueError:
        return given


def value_of(pause: Pause) -> dict[str, Any]:
    """Return a question as `HITLRequest`, and as `HumanInterrupt` too where there is only one."""
    asked = _human_interrupts(pause)
    request = {
        "action_requests": [_request(pause, one) for one in asked],
        "review_configs": [_config(pause, one) for one in asked],
    }
    return {**asked[0], **request} if len(asked) == 1 else request


def _human_interrupts(pause: Pause) -> list[dict[str, Any]]:
    """Return a `HumanInterrupt` for each call; for a question without calls, its own one."""
    return [_of_call(pause, call) for call in pause.calls] or [_of_question(pause)]


def _of_question(pause: Pause) -> dict[str, Any]:
    args: dict[str, Any] = {
        "question": pause.question,
        "content": pause.content,
        "facts": dict(pause.facts),
        "revision": pause.revision,
        "choices": {name: pause.labels.get(name, name) for name in choices_of(pause)},
    }
    if pause.required_inputs:
        names = schemas.declared(pause.required_inputs)
        args["inputs"] = {**dict.fromkeys(names), **pause.known}
    return {
        "action_request": {"action": pause.step, "args": args},
        "config": {
            "allow_accept": APPROVE in pause.answers and not pause.wants_data(APPROVE),
            "allow_edit": bool(pause.required_inputs) or may_edit(pause),
            "allow_respond": ANSWER in pause.answers or pause.may_revise,
            "allow_ignore": True,
        },
        "description": _description(pause),
    }


def _of_call(pause: Pause, call: dict[str, Any]) -> dict[str, Any]:
    # whoever decides one of several sees what the others are
    others = [_call_text(one) for one in pause.calls] if len(pause.calls) > 1 else []
    may = allowed(pause, call)
    return {
        "action_request": {"action": call["tool"], "args": call["arguments"]},
        "config": {
            "allow_accept": True,
            "allow_edit": tool_calls.EDIT in may,
            "allow_respond": tool_calls.RESPOND in may,
            "allow_ignore": True,
        },
        "description": "\n\n".join(filter(None, [_description(pause), *others, call["preview"]])),
    }


def _of_calls(pause: Pause) -> dict[str, Any]:
    """Return several calls as the one interrupt that a page shows: there a person approves all at
    once, where that is allowed, or opens the question elsewhere.
    """
    calls = [{"action": call["tool"], "args": call["arguments"]} for call in pause.calls]
    return {
        "action_request": {
            "action": pause.step,
            "args": {
                "question": pause.question,
                "content": pause.content,
                "revision": pause.revision,
                "calls": calls,
            },
        },
        "config": {
            "allow_accept": APPROVE in pause.answers,
            "allow_edit": False,
            "allow_respond": False,
            "allow_ignore": False,
        },
        "description": "\n\n".join(
            [_description(pause)]
            + [text for call in pause.calls for text in (_call_text(call), call["preview"]) if text]
        ),
    }


def allowed(pause: Pause, call: Mapping[str, Any]) -> list[str]:
    """Return what may be decided of a call, in LangChain's words."""
    may = tool_calls.allowed(call)
    return [*may, tool_calls.RESPOND] if takes_feedback(pause) else may


def takes_feedback(pause: Pause) -> bool:
    """Whether a question about one call takes feedback, with which a graph asks again."""
    return (
        REVISE in pause.answers
        and len(pause.calls) == 1
        and tool_calls.RESPOND not in tool_calls.allowed(pause.calls[0])
    )


def _call_text(call: dict[str, Any]) -> str:
    arguments = json.dumps(call["arguments"], indent=2, ensure_ascii=False, default=str)
    return f"`{call['tool']}`\n\n" + indent(arguments, "    ")


def _request(pause: Pause, asked: dict[str, Any]) -> dict[str, Any]:
    action = asked["action_request"]
    args = action["args"]
    if takes_words(pause):  # as an argument to edit: such a page has no other field for words
        args = {**{name: one for name, one in args.items() if name != "inputs"}, "answer": ""}
    return {"name": action["action"], "args": args, "description": asked["description"]}


def _config(pause: Pause, asked: dict[str, Any]) -> dict[str, Any]:
    config = asked["config"]
    may = {
        "approve": config["allow_accept"],
        "edit": config["allow_edit"] or takes_words(pause),
        "reject": True,
        "respond": config["allow_respond"] and bool(pause.calls),
    }
    words = [word for word, allows in may.items() if allows]
    return {"action_name": asked["action_request"]["action"], "allowed_decisions": words}


def takes_words(pause: Pause) -> bool:
    """Whether a text is all that a question asks for."""
    schema = pause.required_inputs
    if not schema:
        return ANSWER in pause.answers and not pause.calls
    needed = schema.get("required", [])
    asked = schema.get("properties", {}).get(needed[0], {}) if len(needed) == 1 else None
    return isinstance(asked, Mapping) and asked.get("type", "string") == "string"


def choices_of(pause: Pause) -> list[str]:
    answers = [name for name in pause.answers if name != REVISE or pause.may_revise]
    return [*answers, CANCEL]


def may_edit(pause: Pause) -> bool:
    """Whether the content may be approved with changes."""
    return bool(pause.review.get("edits"))


def _description(pause: Pause) -> str:
    lines = [f"**{pause.question}**", pause.content]
    if pause.effects:
        lines.append("\n".join(f"- {effect}" for effect in pause.effects))
    if pause.deadline_at is not None:
        lines.append(f"By {pause.deadline_at.isoformat()}.")
    return "\n\n".join([*filter(None, lines), f"[Open in Waystation]({absolute(place_of(pause))})"])


def schema_of(pause: Pause) -> dict[str, Any]:
    """Return the schema of an answer in this server's own form, which can say every answer."""
    return {
        "type": "object",
        "properties": {
            "decision": {"enum": choices_of(pause)},
            "feedback": {"type": "string"},
            "input": dict(pause.required_inputs) or {},
            "revision": {"type": "integer"},
            "content": {"type": "string"},
            "stage": {"type": "string"},
        },
        "required": ["decision"],
    }


def of(pauses: Iterable[Pause]) -> list[dict[str, Any]]:
    return [shown(pause) for pause in pauses]
