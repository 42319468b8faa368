"""Hears what a command line agent writes: shows it live, keeps it, and adds up what it cost."""

from __future__ import annotations

import json
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from extensions.coding.cli_output import AgentCall, OutputReader, Piece
from runs.workflows import Context
from runs.workflows.text import showable

STREAMED = 2_000_000
"""Characters that are shown live; the rest is in the artifact."""
TOLD_CALLS = 1_000
"""Tool calls that are told one by one; the rest is in the artifact too."""
CUT_ARGUMENTS, CUT_RESULT = 2_000, 2_000


@dataclass
class Talk:
    """Hears what an agent writes: shows it, keeps it, and adds up what it cost."""

    context: Context
    reader: OutputReader
    shown: int = 0
    calls: int = 0
    running: dict[str, tuple[dict[str, str], float]] = field(default_factory=dict)
    """Tool calls that have not been said to have ended: what was told of each, and when it
    began.
    """
    spent: float = 0.0
    """Dollars that the program counts and an earlier start of it has told."""
    kept: _Kept = field(default_factory=lambda: _Kept())
    errors: deque[str] = field(default_factory=lambda: deque(maxlen=4))

    @property
    def usage(self) -> dict[str, float]:
        """What this start of the program used."""
        told = dict(self.reader.usage)
        if "cost" in told:
            told["cost"] = round(max(0.0, told["cost"] - self.spent), 8)
        return told

    def go_on(self, call: AgentCall) -> None:
        """A call of an earlier start, which will be said to have ended."""
        event = {
            "id": call.id[:100],
            "tool": call.name[:100],
            "arguments": _cut(call.arguments, CUT_ARGUMENTS),
        }
        self.running[call.id] = (event, time.monotonic())

    def hear(self, source: str, line: str) -> None:
        line = showable(line)
        self.kept.add(line)
        if source == "errors":
            self.errors.append(line)
            self._show(f"{line}\n")
            return
        for piece in self.reader.read(line):
            self._tell(piece)

    def _tell(self, piece: Piece) -> None:
        if isinstance(piece, str):
            return self._show(piece)
        self.calls += isinstance(piece, AgentCall)
        if self.calls > TOLD_CALLS:
            return None
        if isinstance(piece, AgentCall):
            self.go_on(piece)
            event, _ = self.running[piece.id]
            self.context.emit("tool_call_started", {**event, "loop_num": self.context.loop_num})
        elif piece.id in self.running:
            event, began = self.running.pop(piece.id)
            done = {
                "result": _cut(piece.result, CUT_RESULT),
                "status": "done",
                "ms": round((time.monotonic() - began) * 1000),
            }
            self.context.emit(
                "tool_call_completed", {**event, **done, "loop_num": self.context.loop_num}
            )
        return None

    def _show(self, text: str) -> None:
        if self.shown < STREAMED:
            self.context.stream(text)
            self.shown += len(text)
            if self.shown >= STREAMED:
                self.context.stream("\n[The rest is not shown live; it is kept with the order.]\n")

    @property
    def last_words(self) -> str:
        text = (
            " / ".join(line.strip() for line in self.errors if line.strip())
            or self.reader.answer[-300:].strip()
        )
        return f": {text[:600]}" if text else ""

    def close(self) -> None:
        """The end of it, however it ended."""
        self.context.keep("output", self.kept.text)
        if usage := self.usage:
            totals: dict[str, Any] = {
                name: usage.get(name, 0) for name in ("input_tokens", "output_tokens", "cost")
            }
            cost = f", ${totals['cost']:.4f}" if totals["cost"] else ""
            tokens = int(totals["input_tokens"]), int(totals["output_tokens"])
            summary = f"{tokens[0]:,} tokens in, {tokens[1]:,} out{cost}"
            self.context.log(summary, what="usage", loop_num=self.context.loop_num, **totals)


def _cut(value: Any, longest: int) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= longest else f"{text[:longest]}…"


class _Kept:
    """The beginning and the end of a long text."""

    HALF = 2_000_000

    def __init__(self) -> None:
        self._first: list[str] = []
        self._last: deque[str] = deque()
        self._sizes = [0, 0]
        self._dropped = 0

    def add(self, line: str) -> None:
        line = f"{line}\n"
        if self._sizes[0] + len(line) <= self.HALF and not self._last:
            self._first.append(line)
            self._sizes[0] += len(line)
            return
        self._last.append(line)
        self._sizes[1] += len(line)
        while self._sizes[1] > self.HALF and len(self._last) > 1:
            gone = len(self._last.popleft())
            self._sizes[1] -= gone
            self._dropped += gone

    @property
    def text(self) -> str:
        note = [f"\n[{self._dropped:,} characters are left out here]\n\n"] if self._dropped else []
        return "".join([*self._first, *note, *self._last])
