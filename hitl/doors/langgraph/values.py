"""A checkpoint's state as the values of a LangGraph thread."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from checkpoints import store
from checkpoints.models import Checkpoint

ROLES = {"user": "human", "human": "human", "assistant": "ai", "ai": "ai", "tool": "tool"}
"""Role of a message of a state → its type at LangChain."""


def values_of(checkpoint: Checkpoint | None) -> dict[str, Any]:
    """The state, as REST shows it; messages of agents as LangChain writes them. Where a state has
    none, the text that it began with is one.
    """
    if checkpoint is None:
        return {}
    values = dict(store.load(checkpoint))
    if isinstance(values.get("messages"), Sequence):
        values["messages"] = [_message(message) for message in values["messages"]]
    elif "messages" not in values and isinstance(values.get("input"), str):
        # a page that chats shows what its person said, and some fail where there is no message
        said = uuid.uuid5(uuid.NAMESPACE_OID, values["input"])
        values["messages"] = [{"id": str(said), "type": "human", "content": values["input"]}]
    return values


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
                for call in message.get("tools") or ()
                if isinstance(call, Mapping) and "tool" in call
            ]
        }
    return {**message, "type": kind, **more}
