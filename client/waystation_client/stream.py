"""Server-sent events, as bytes come: frames, the place in the log, and how long to wait.

It is no library's reader, because a heartbeat has to be seen (a time-out is looked at then), and
because a reader of lines must not break at the signs that Unicode calls line ends.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypedDict

LINE_END = re.compile(rb"\r\n|\n|\r")


class Event(TypedDict):
    """A fact in a thread's log."""

    event: str
    """Its kind; pass over kinds that you do not know."""
    data: dict[str, Any]
    seq: int
    run_id: str | None
    thread_id: str
    at: str


@dataclass
class Reader:
    """What of a stream was read: told on, however often the connection is cut, each event once."""

    seq: int = 0
    """The number of the last event that was read: `Last-Event-ID`."""
    _rest: bytes = b""
    _fields: dict[str, list[str]] = field(default_factory=dict)

    def connected(self) -> None:
        """Forget half a frame: the next connection begins with a whole one."""
        self._rest, self._fields = b"", {}

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that a piece of the stream completes."""
        data = self._rest + chunk
        half = data[-1:] if data.endswith(b"\r") else b""  # an LF may follow
        *lines, rest = LINE_END.split(data.removesuffix(half) if half else data)
        self._rest = rest + half
        for line in lines:
            if line:
                name, _, value = line.decode("utf-8", "replace").partition(":")
                self._fields.setdefault(name, []).append(value.removeprefix(" "))
                continue
            fields, self._fields = self._fields, {}
            if (event := self._event(fields)) is not None:
                yield event

    def _event(self, fields: dict[str, list[str]]) -> Event | None:
        """The event of a frame; None of a frame that has none, or one that was read before."""
        number = fields.get("id", [""])[-1]
        if not number.isdecimal() or int(number) <= self.seq:
            return None  # of an outage, which has no number, or read before
        self.seq = int(number)
        if "data" not in fields:
            return None  # the place in the log moved over what a filter left out
        event: Event = json.loads("\n".join(fields["data"]))
        return event
