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
from runs.workflows.base import Context, State, Told

AT_ONCE = 8
"""Calls of one loop that are made at the same time."""
LOOK = 0.25
"""Seconds between two looks whether the run is still wanted, while calls are made."""
SHOWN = 2_000
"""Characters of arguments and results in events and in what people read; what resume needs is kept whole (C15)."""
CUT = "\n...[truncated]...\n"

Status = Literal["done", "failed", "rejected", "waiting"]


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A call that may be made."""

    id: str
    tool: Tool
    arguments: Mapping[str, Any]
    edited: bool = False
    """A person changed the arguments."""


@dataclass(frozen=True)
class Journal:
    """What is made and recorded in one loop."""

    context: Context
    state: State

    def make(self, calls: Sequence[Ready]) -> dict[str, dict[str, Any]]:
        """Make these calls: those in the workspace in their order, the others at the same time. Gives by id `{"status", "result", "ms"}`.

        What one raises ends the step, after the others were recorded. Raises Stopped as soon as the run is not wanted any more.
        """
        inside = [call for call in calls if call.tool.in_workspace]
        outside = [call for call in calls if not call.tool.in_workspace]
        found = self._at_once(outside) if len(outside) > 1 else {call.id: self._recorded(call) for call in outside}
        return found | {call.id: self._in_workspace(call) for call in inside}

    def _at_once(self, calls: Sequence[Ready]) -> dict[str, dict[str, Any]]:
        pool = ThreadPoolExecutor(min(AT_ONCE, len(calls)), thread_name_prefix="step tool")
        try:
            futures: dict[str, Future[dict[str, Any]]] = {call.id: pool.submit(self._recorded, call) for call in calls}
            while wait(futures.values(), timeout=LOOK).not_done:
                self.context.check()
            return {call_id: future.result() for call_id, future in futures.items()}
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # one that hangs is left behind: what it records is refused

    def _recorded(self, call: Ready) -> dict[str, Any]:
        def work() -> dict[str, Any]:
            self.context.emit("tool_call_started", self._told(call.id, call.tool.name, call.arguments))
            return self._made(call)

        return self.note(call.id, call.tool.name, call.arguments, work)

    def _in_workspace(self, call: Ready) -> dict[str, Any]:
        """Made anew by whoever takes the loop up, since the workspace then is as it was before; told once."""
        self.start(call.id, call.tool.name, call.arguments)
        made = self._made(call)
        self.note(call.id, call.tool.name, call.arguments, lambda: made)
        return made

    def _made(self, call: Ready) -> dict[str, Any]:
        began = time.monotonic()
        status: Status = "done"
        try:
            result = tools.call(call.tool, call.arguments, ToolUse(context=self.context, call_id=call.id, state=self.state))
        except ToolFailed as error:
            result, status = str(error), "failed"
        if call.edited and status == "done":
            result = {"result": result, "arguments_changed_by_a_person": dict(call.arguments)}
        return {"status": status, "result": result, "ms": round((time.monotonic() - began) * 1000)}

    def start(self, call_id: str, tool: str, arguments: Any) -> None:
        """Tell once that a call began."""
        told = self._told(call_id, tool, arguments)
        self.context.once(f"started/{call_id}", lambda: True, tell=lambda _: ("tool_call_started", told))

    def note(self, call_id: str, tool: str, arguments: Any, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Record what became of a call, once, and tell of it; `work` gives it."""

        def tell(got: Mapping[str, Any]) -> Told:
            shown = {"result": shortened(got["result"]), "status": got["status"], "ms": got["ms"]}
            return "tool_call_completed", {**self._told(call_id, tool, arguments), **shown}

        found: dict[str, Any] = self.context.once(f"call/{call_id}", work, tell=tell)
        return found

    def _told(self, call_id: str, tool: str, arguments: Any) -> dict[str, Any]:
        return {"id": call_id, "tool": tool, "arguments": previewed(arguments), "loop_num": self.context.loop_num}


def ended(status: Status, result: Any) -> dict[str, Any]:
    """What became of a call that no tool was called for."""
    return {"status": status, "result": result, "ms": 0}


def previewed(arguments: Any) -> Any:
    """Arguments as they are shown: short ones whole, of long ones the text's beginning and end."""
    return arguments if len(as_text(arguments)) <= SHOWN else {"preview": shortened(arguments)}


def shortened(value: Any, limit: int = SHOWN) -> str:
    """A value as text of up to `limit` characters, cut in its middle."""
    text = as_text(value)
    return text if len(text) <= limit else text[: limit // 2 - len(CUT)] + CUT + text[-limit // 2 :]


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
