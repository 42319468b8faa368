"""A question as an interrupt: a `HumanInterrupt` as Agent Inbox shows it, with the JSON Schema of
what may come back.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from hitl.outbound.links import absolute
from hitl.rendering.links import place_of
from runs.models import Pause
from runs.workflows.sequence import APPROVE, CANCEL, REVISE
from runs.workflows.wait_for_input import ANSWER


def id_of(pause: Pause) -> str:
    """Of each revision its own, as of each interrupt of a graph."""
    return pause.pk.hex


def shown(pause: Pause) -> dict[str, Any]:
    """The interrupt that a question is."""
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
    """The task of a state that asks, or asked."""
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


def value_of(pause: Pause) -> Any:
    """One call is an interrupt of its own, several are a list of such."""
    if pause.calls:
        each = [_of_call(pause, call) for call in pause.calls]
        return each[0] if len(each) == 1 else each
    args: dict[str, Any] = {
        "question": pause.question,
        "content": pause.content,
        "facts": dict(pause.facts),
        "revision": pause.revision,
        "choices": {name: pause.labels.get(name, name) for name in choices_of(pause)},
    }
    if pause.required_inputs:
        args["inputs"] = dict(pause.known)
    return {
        "action_request": {"action": pause.step, "args": args},
        "config": {
            "allow_accept": APPROVE in pause.ways and not pause.wants_data(APPROVE),
            "allow_edit": bool(pause.required_inputs) or may_edit(pause),
            "allow_respond": ANSWER in pause.ways or pause.may_revise,
            "allow_ignore": True,
        },
        "description": _words(pause),
    }


def _of_call(pause: Pause, call: dict[str, Any]) -> dict[str, Any]:
    return {
        "action_request": {"action": call["tool"], "args": call["arguments"]},
        "config": {
            "allow_accept": True,
            "allow_edit": bool(call["editable"]),
            "allow_respond": True,
            "allow_ignore": True,
        },
        "description": "\n\n".join(filter(None, [_words(pause), call["preview"]])),
    }


def choices_of(pause: Pause) -> list[str]:
    ways = [name for name in pause.ways if name != REVISE or pause.may_revise]
    return [*ways, CANCEL]


def may_edit(pause: Pause) -> bool:
    """Whether the content may be approved with changes."""
    return bool(pause.review.get("edits"))


def _words(pause: Pause) -> str:
    lines = [f"**{pause.question}**", pause.content]
    if pause.effects:
        lines.append("\n".join(f"- {effect}" for effect in pause.effects))
    if pause.deadline_at is not None:
        lines.append(f"By {pause.deadline_at.isoformat()}.")
    return "\n\n".join([*filter(None, lines), f"[Open in Waystation]({absolute(place_of(pause))})"])


def schema_of(pause: Pause) -> dict[str, Any]:
    """Of the answer in this server's own form, which reaches every answer there is."""
    return {
        "type": "object",
        "properties": {
            "decision": {"enum": choices_of(pause)},
            "feedback": {"type": "string"},
            "input": dict(pause.required_inputs) or {},
            "revision": {"type": "integer"},
            "content": {"type": "string"},
        },
        "required": ["decision"],
    }


def of(pauses: Iterable[Pause]) -> list[dict[str, Any]]:
    return [shown(pause) for pause in pauses]
