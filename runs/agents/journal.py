"""Making the calls of one loop, each once: what a call gave is recorded under its id, with the
event that tells of it, in one commit.

Whoever takes the loop up after a crash finds what was recorded and makes the others. A crash inside
a call lets it be made again; tools get a key for that (`ToolUse.key`). Calls are made in threads,
but what is written is written in the step's own.
"""

from __future__ import annotations

import contextvars
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
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
"""Characters of arguments and results in events and in what people read; what resume needs is kept
whole.
"""
CALL = "call/"
"""Before a call's id: the key of its record."""
CUT = "\n...[truncated]...\n"

Status = Literal["done", "failed", "rejected", "answered", "waiting"]


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A call that may be made."""

    id: str
    tool: Tool
    arguments: Mapping[str, Any]
    was: Mapping[str, Any] | None = None
    """What the model wanted, where a person changed the arguments."""
    decision: str = ""
    """Id of the decision that lets it be made; "" where nobody had to be asked."""


@dataclass(frozen=True)
class Journal:
    """What is made and recorded in one loop."""

    context: Context
    state: State

    def make(self, calls: Sequence[Ready]) -> dict[str, dict[str, Any]]:
        """Make these calls: those in the workspace in their order, the others at the same time.

        Gives by id `{"status", "result", "ms"}`. What one raises ends the step, once what else is
        there by then was recorded. Raises Stopped as soon as the run is not wanted any more.
        """
        outside = {call.id: call for call in calls if not call.tool.in_workspace}
        records = {
            key.removeprefix(CALL): got
            for key, got in self.context.recorded([f"{CALL}{name}" for name in outside]).items()
        }
        records |= self._at_once([call for name, call in outside.items() if name not in records])
        return records | {
            call.id: self._in_workspace(call) for call in calls if call.tool.in_workspace
        }

    def _at_once(self, calls: Sequence[Ready]) -> dict[str, dict[str, Any]]:
        """Each in a thread; what it gives is recorded from here, as it comes."""
        if not calls:
            return {}
        records: dict[str, dict[str, Any]] = {}
        pool = ThreadPoolExecutor(min(AT_ONCE, len(calls)), thread_name_prefix="tool")
        try:
            waiting = {self._begun(call, pool): call for call in calls}
            while waiting:
                done = wait(waiting, timeout=LOOK, return_when=FIRST_COMPLETED).done
                errors = [error for future in done if (error := future.exception()) is not None]
                records |= {
                    call.id: self._note_result(call, future)
                    for future, call in _taken(waiting, done)
                }
                if errors:
                    raise errors[0]
                self.context.check()
        finally:
            # one that hangs is left behind: nobody records what it gives
            pool.shutdown(wait=False, cancel_futures=True)
        return records

    def _begun(self, call: Ready, pool: ThreadPoolExecutor) -> Future[dict[str, Any]]:
        self.context.emit("tool_call_started", self._told(call.id, call.tool.name, call.arguments))
        # log lines and spans of the tool's are about the same run
        return pool.submit(contextvars.copy_context().run, self._made, call)

    def _note_result(self, call: Ready, future: Future[dict[str, Any]]) -> dict[str, Any]:
        return self.note(
            call.id, call.tool.name, call.arguments, future.result, decision=call.decision
        )

    def _in_workspace(self, call: Ready) -> dict[str, Any]:
        """Made anew by whoever takes the loop up, since the workspace then is as it was before;
        told once.
        """
        self.start(call.id, call.tool.name, call.arguments)
        made = self._made(call)
        self.note(call.id, call.tool.name, call.arguments, lambda: made, decision=call.decision)
        return made

    def _made(self, call: Ready) -> dict[str, Any]:
        began = time.monotonic()
        status: Status = "done"
        try:
            result = tools.call(
                call.tool,
                call.arguments,
                ToolUse(context=self.context, call_id=call.id, state=self.state),
            )
        except ToolFailed as error:
            result, status = str(error), "failed"
        record = {
            "status": status,
            "result": result,
            "ms": round((time.monotonic() - began) * 1000),
        }
        if call.was is None:
            return record
        # what ran is what people and the model read from here on, and that it was changed
        changed = {"arguments": dict(call.arguments), "was": dict(call.was)}
        return {**record, **changed, "decision": call.decision}

    def start(self, call_id: str, tool: str, arguments: Any) -> None:
        """Tell once that a call began."""
        event = self._told(call_id, tool, arguments)
        self.context.once(
            f"started/{call_id}",
            lambda: True,
            tell=lambda _: ("tool_call_started", event),
            optional=True,
        )

    def note(
        self,
        call_id: str,
        tool: str,
        arguments: Any,
        work: Callable[[], dict[str, Any]],
        *,
        decision: str = "",
    ) -> dict[str, Any]:
        """Record what became of a call, once, and tell of it; `work` gives it.

        `decision` is what let it be made, or gave its result.
        """
        relied = {"decision": decision} if decision else {}

        def tell(got: Mapping[str, Any]) -> Told:
            shown = {"result": shortened(got["result"]), "status": got["status"], "ms": got["ms"]}
            if "was" in got:
                shown["was"] = previewed(got["was"])
            return "tool_call_completed", {
                **self._told(call_id, tool, arguments),
                **shown,
                **relied,
            }

        # which calls a person approves is said by the rules of the tools, and checked there
        record: dict[str, Any] = self.context.once(
            f"{CALL}{call_id}", work, tell=tell, optional=True
        )
        return record

    def _told(self, call_id: str, tool: str, arguments: Any) -> dict[str, Any]:
        return {
            "id": call_id,
            "tool": tool,
            "arguments": previewed(arguments),
            "loop_num": self.context.loop_num,
        }


def _taken(
    waiting: dict[Future[dict[str, Any]], Ready], done: Iterable[Future[dict[str, Any]]]
) -> Iterator[tuple[Future[dict[str, Any]], Ready]]:
    """Those that are done and gave something; none of them is waited for any more."""
    for future in done:
        call = waiting.pop(future)
        if future.exception() is None:
            yield future, call


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
