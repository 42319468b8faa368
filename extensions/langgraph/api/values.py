"""A checkpoint's state as the values of a LangGraph thread."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from checkpoints import store
from checkpoints.models import Checkpoint
from extensions.langgraph.api.calls import invalid

ROLES = {"user": "human", "human": "human", "assistant": "ai", "ai": "ai", "tool": "tool"}
"""Role of a message of a state → its type at LangChain."""
GIVEN = {"human": "user", "ai": "assistant", "system": "system"}
"""Type of a message at LangChain → its role in a state."""
ENDS = {"done": "success", "answered": "success", "failed": "error", "rejected": "error"}
"""How a tool's call of an agent ended → the same at LangChain."""


def values_of(checkpoint: Checkpoint | None, *, for_chat: bool = True) -> dict[str, Any]:
    """The state, as REST shows it; messages of agents as LangChain writes them.

    Args:
        for_chat: with what its pages look for: results of tools as messages; where a state has no
            messages, the text that it began with as one.
    """
    if checkpoint is None:
        return {}
    values = dict(store.load(checkpoint))
    said = values.get("messages")
    if isinstance(said, Sequence) and not isinstance(said, str):
        messages = [_message(message) for message in said]
        values["messages"] = list(_with_results(messages)) if for_chat else messages
    elif for_chat and "messages" not in values and isinstance(values.get("input"), str):
        key = uuid.uuid5(uuid.NAMESPACE_OID, values["input"])
        values["messages"] = [{"id": str(key), "type": "human", "content": values["input"]}]
    return values


def taken(values: Mapping[str, Any]) -> dict[str, Any]:
    """What a client gives as part of the state: messages as a state of this server has them.

    Raises StreamRefused for what only steps write among them.
    """
    said = values.get("messages")
    if not isinstance(said, Sequence) or isinstance(said, str):
        return dict(values)
    return {**values, "messages": [_said(message) for message in said]}


def _said(message: Any) -> Any:
    if not isinstance(message, Mapping) or "type" not in message:
        return message
    rest = {key: value for key, value in message.items() if key not in {"type", "tool_calls"}}
    if "role" in message:  # as `values_of` showed it
        return rest
    role = GIVEN.get(str(message["type"]))
    if role is None or message.get("tool_calls"):
        raise invalid("messages: calls of tools and their results are written by steps alone.")
    return {**rest, "id": rest.get("id") or str(uuid.uuid4()), "role": role}


def _with_results(messages: Sequence[Any]) -> Iterator[Any]:
    """Messages, and behind each of an agent what its tools said."""
    known = [one.get("tool_call_id") for one in messages if isinstance(one, Mapping)]
    for message in messages:
        yield message
        for call in _calls(message):
            ended = ENDS.get(str(call.get("status")))
            if ended and call.get("id") and call["id"] not in known:
                yield {
                    "id": str(uuid.uuid5(uuid.NAMESPACE_OID, str(call["id"]))),
                    "type": "tool",
                    "tool_call_id": call["id"],
                    "name": call.get("tool"),
                    "content": call.get("result") or "",
                    "status": ended,
                }


def _calls(message: Any) -> list[Mapping[str, Any]]:
    """Calls of tools in a message, which may be of any form: a state is what clients write too."""
    calls = message.get("tools") if isinstance(message, Mapping) else None
    return [one for one in calls if isinstance(one, Mapping)] if isinstance(calls, Sequence) else []


def _message(message: Any) -> Any:
    if not isinstance(message, Mapping) or "type" in message or "role" not in message:
        return message
    kind = ROLES.get(str(message["role"]), "system")
    more: dict[str, Any] = {"tool_call_id": ""} if kind == "tool" else {}
    if kind == "ai":
        more = {
            "tool_calls": [
                {
                    "id": call.get("id"),
                    "name": call["tool"],
                    "args": call.get("arguments") or {},
                    "type": "tool_call",
                }
                for call in _calls(message)
                if "tool" in call
            ]
        }
    return {**message, "type": kind, **more}
