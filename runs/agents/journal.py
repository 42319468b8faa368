"""Making the calls of one loop, each once: what a call gave is recorded under its id, with the event that tells of it, in one commit.

Whoever takes the loop up after a crash finds what was recorded and makes the others. A crash inside a call lets it be made again; tools
get a key for that (`ToolUse.key`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Literal

from runs.agents import tools
from runs.agents.tools import Tool, ToolFailed, ToolUse
from runs.workflows.base import Context, Told

AT_ONCE = 8
"""Calls of one loop that are made at the same time."""
LOOK = 0.25
"""Seconds between two looks whether the run is still wanted, while calls are made."""
SHOWN = 2_000
"""Characters of arguments and results in events and in what people read; what resume needs is kept whole (C15)."""
CUT = "\n...[truncated]...\n"

Status = Literal["done", "failed", "rejected"]


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A call that may be made."""

    id: str
    tool: Tool
    arguments: Mapping[str, Any]
    edited: bool = False
    """A person changed the arguments."""


def make(calls: Sequence[Ready], context: Context) -> dict[str, dict[str, Any]]:
    """Make these calls: those in the workspace in their order, the others at the same time. Gives by id `{"status", "result", "ms"}`.

    What one raises ends the step, after the others were recorded. Raises Stopped as soon as the run is not wanted any more.
    """
    inside = [call for call in calls if call.tool.in_workspace]
    outside = [call for call in calls if not call.tool.in_workspace]
    found = _at_once(outside, context) if len(outside) > 1 else {call.id: _recorded(call, context) for call in outside}
    return found | {call.id: _in_workspace(call, context) for call in inside}


def _at_once(calls: Sequence[Ready], context: Context) -> dict[str, dict[str, Any]]:
    pool = ThreadPoolExecutor(min(AT_ONCE, len(calls)), thread_name_prefix="step tool")
    try:
        futures: dict[str, Future[dict[str, Any]]] = {call.id: pool.submit(_recorded, call, context) for call in calls}
        while wait(futures.values(), timeout=LOOK).not_done:
            context.check()
        return {call_id: future.result() for call_id, future in futures.items()}
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # one that hangs is left behind: what it records is refused


def _recorded(call: Ready, context: Context) -> dict[str, Any]:
    def work() -> dict[str, Any]:
        context.emit("tool_call_started", started(call.id, call.tool.name, call.arguments, context))
        return _made(call, context)

    return note(call.id, call.tool.name, call.arguments, context, work)


def _in_workspace(call: Ready, context: Context) -> dict[str, Any]:
    """Made anew by whoever takes the loop up, since the workspace then is as it was before; told once."""
    context.once(f"started/{call.id}", lambda: True, tell=lambda _: ("tool_call_started", _start(call, context)))
    made = _made(call, context)
    note(call.id, call.tool.name, call.arguments, context, lambda: made)
    return made


def _start(call: Ready, context: Context) -> dict[str, Any]:
    return started(call.id, call.tool.name, call.arguments, context)


def _made(call: Ready, context: Context) -> dict[str, Any]:
    began = time.monotonic()
    try:
        result, status = tools.call(call.tool, call.arguments, ToolUse(context=context, call_id=call.id)), "done"
    except ToolFailed as error:
        result, status = str(error), "failed"
    if call.edited and status == "done":
        result = {"result": result, "arguments_changed_by_a_person": dict(call.arguments)}
    return {"status": status, "result": result, "ms": round((time.monotonic() - began) * 1000)}


def note(call_id: str, tool: str, arguments: Any, context: Context, work: Callable[[], dict[str, Any]] | dict[str, Any]) -> dict[str, Any]:
    """Record what became of a call, once, and tell of it; `work` is the result, or gives it."""

    def tell(got: Mapping[str, Any]) -> Told:
        shown = {"result": shortened(got["result"]), "status": got["status"], "ms": got["ms"]}
        return "tool_call_completed", {**started(call_id, tool, arguments, context), **shown}

    found: dict[str, Any] = context.once(f"call/{call_id}", work if callable(work) else lambda: work, tell=tell)
    return found


def ended(status: Status, result: Any) -> dict[str, Any]:
    """What became of a call that no tool was called for."""
    return {"status": status, "result": result, "ms": 0}


def started(call_id: str, tool: str, arguments: Any, context: Context) -> dict[str, Any]:
    """The data of `tool_call_started`."""
    return {"id": call_id, "tool": tool, "arguments": previewed(arguments), "loop_num": context.loop_num}


def previewed(arguments: Any) -> Any:
    """Arguments as they are shown: short ones whole, of long ones the text's beginning and end."""
    return arguments if len(as_text(arguments)) <= SHOWN else {"preview": shortened(arguments)}


def shortened(value: Any, limit: int = SHOWN) -> str:
    """A value as text of up to `limit` characters, cut in its middle."""
    text = as_text(value)
    return text if len(text) <= limit else text[: limit // 2 - len(CUT)] + CUT + text[-limit // 2 :]


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
