"""What a step writes to its run's log line by line (`Context.log`): gathered, so that a commit
holds the lines of 50 ms or 100 of them, and of a flood the beginning is shown and all of it kept.

A line of a step that was quiet is written at once, in the thread that says it; lines that follow
quickly wait for one another, and the writer of `streaming` takes what nothing follows.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from checkpoints.state import codec
from runs.engine.context import streaming
from runs.workflows.base import StepFailed
from runs.workflows.timing import now

BATCH = 100
"""Lines of one commit."""
ARTIFACT = "log"
"""The artifact that holds the lines of a flood."""
PLAIN = (str, int, bool, type(None))

Line = dict[str, Any]
"""`message`, `level`, and what else was said."""


class Lines(streaming.Gathered):
    """The log lines of one execution of a step.

    Args:
        write: commits lines; raises Stopped where the run is not ours any more.
        keep: keeps the text of a flood: name, the text, and how many bytes it was before its
            middle was left out. Raises StepFailed where it may not.
        shown: lines that the log shows before the others are kept as an artifact only.
        longest: bytes of that artifact.
    """

    def __init__(
        self,
        write: Callable[[Sequence[Line]], None],
        keep: Callable[[str, str, int], None],
        *,
        shown: int,
        longest: int,
    ) -> None:
        super().__init__()
        self._write, self._keep = write, keep
        self._shown, self._said = shown, 0
        self._waiting_lines: deque[Line] = deque()
        self._text = LongText(longest)

    def add(self, message: str, *, level: str = "info", **data: Any) -> None:
        """Say a line. Raises what writing an earlier one raised, and TypeError or ValueError for
        what JSON cannot hold.
        """
        line = _snapshot({"message": message, "level": level, **data})
        text = _as_text(line)
        with streaming._changed:
            if self._error is not None:
                raise self._error
            self._said += 1
            self._text.add(text)
            if self._said <= self._shown:
                self._waiting_lines.append(line)
            elif self._said == self._shown + 1:
                self._waiting_lines.append(_cut_from(self._shown))
            else:
                return
            now_due = len(self._waiting_lines) >= BATCH or self.due_in(time.monotonic()) <= 0
            if not now_due:
                streaming.announce(self)
        if now_due:
            self.flush()

    def close(self) -> None:
        """`flush`, keep a flood, and hear nothing any more."""
        left = self._said - self._shown
        try:
            if left > 0:
                self.flush()
                self._write([self._ended(left)])
        finally:
            super().close()

    def _ended(self, left: int) -> Line:
        try:
            self._keep(ARTIFACT, str(self._text), self._text.size)
        except StepFailed as error:
            where = f"they are not kept: {error}"
        else:
            where = f"the artifact {ARTIFACT} has them"
        words = f"… {left:,} {'line' if left == 1 else 'lines'} left out; {where}"
        return {"message": words, "level": "warning", "left_out": left}

    def _write_next(self) -> bool:
        with streaming._changed:
            size = min(BATCH, len(self._waiting_lines))
            batch = [self._waiting_lines.popleft() for _ in range(size)]
            self._written_at = time.monotonic()
            if not self._waiting_lines:
                streaming._waiting.discard(self)
        if batch:
            self._write(batch)
        return bool(batch)

    def _forget(self) -> None:
        self._waiting_lines.clear()


class LongText:
    """A text that grows line by line, of which beginning and end are kept.

    `size` counts the bytes of all of it.
    """

    def __init__(self, longest: int) -> None:
        self.size = 0
        self._half = longest // 2
        self._first: list[str] = []
        self._last: deque[str] = deque()
        self._first_size = self._last_size = self._dropped = 0

    def add(self, line: str) -> None:
        size = len(line.encode(errors="replace")) + 1
        self.size += size
        if not self._last and self._first_size + size <= self._half:
            self._first.append(line)
            self._first_size += size
            return
        self._last.append(line)
        self._last_size += size
        while self._last_size > self._half and len(self._last) > 1:
            gone = len(self._last.popleft().encode(errors="replace")) + 1
            self._last_size -= gone
            self._dropped += gone

    def __str__(self) -> str:
        note = [f"\n[{self._dropped:,} bytes are left out here]\n"] if self._dropped else []
        return "\n".join([*self._first, *note, *self._last])


def _snapshot(line: Line) -> Line:
    """The line as JSON has it now: it is written later, and one that cannot be written may not take
    others with it.
    """
    if all(type(value) in PLAIN for value in line.values()):
        return line
    copy: Line = json.loads(codec.encode(line))
    return copy


def _as_text(line: Line) -> str:
    more = {key: value for key, value in line.items() if key not in {"message", "level"}}
    said = f"{now():%H:%M:%S} {line['level']}: {line['message']}"
    return f"{said} {codec.encode(more)}" if more else said


def _cut_from(shown: int) -> Line:
    words = (
        f"This step has written {shown:,} lines. What follows is left out here, and kept in its "
        f"artifact {ARTIFACT} when it ends."
    )
    return {"message": words, "level": "warning"}
