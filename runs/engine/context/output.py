"""What a step says, what it thinks aloud, and the lines that it logs: each without the secrets that
it was given, all in the order in which they came.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from runs.engine.context.lines import Lines
from runs.engine.context.secret_filter import PiecewiseFilter, SecretFilter
from runs.engine.context.streaming import Chunks


class OutputChannel:
    """One of the two. `write` commits a piece of it; it raises what that raises."""

    def __init__(self, scrub: SecretFilter, write: Callable[[str], None]) -> None:
        self._chunks = Chunks(write)
        self._said = PiecewiseFilter(scrub, self._chunks.add)

    def add(self, text: str) -> None:
        self._said.add(text)

    def flush(self) -> None:
        self._said.flush()
        self._chunks.flush()

    def write(self) -> None:
        """Write what was said, but for an end that may begin a secret: a line comes between."""
        self._chunks.flush()

    def close(self) -> None:
        try:
            self._said.close()
        finally:
            self._chunks.close()


class StepOutput:
    """All three, made when one of them is used: most steps say nothing. Before one begins, what
    another has said is written.
    """

    def __init__(
        self,
        scrub: SecretFilter,
        *,
        say: Callable[[str], None],
        think: Callable[[str], None],
        lines: Callable[[], Lines],
    ) -> None:
        self._scrub, self._say, self._think, self._lines_of = scrub, say, think, lines
        self._channels: tuple[OutputChannel, OutputChannel] | None = None
        self._lines: Lines | None = None
        self._last: OutputChannel | Lines | None = None
        self._over = False
        self._turn = threading.Lock()

    def say(self, text: str) -> None:
        self._speak(0, text)

    def think(self, text: str) -> None:
        self._speak(1, text)

    def log(self, message: str, *, level: str = "info", **data: Any) -> None:
        """See `runs.workflows.base.Log`. Raises what writing an earlier line raised."""
        with self._turn:
            if self._lines is None:
                self._lines = self._lines_of()
                if self._over:  # a thread that the step left behind
                    self._lines.close()
            if self._last is not None and not isinstance(self._last, Lines):
                self._last.write()
            self._last = lines = self._lines
        lines.add(message, level=level, **data)

    def write_lines(self) -> None:
        """Write the lines that wait."""
        if self._lines is not None:
            self._lines.flush()

    def flush(self) -> None:
        self.write_lines()
        if self._channels is not None:
            words, thoughts = self._channels
            thoughts.flush()
            words.flush()

    def close(self) -> None:
        """`flush`, and hear nothing any more: the step is done."""
        with self._turn:
            self._over = True
            channels, lines, last = self._channels, self._lines, self._last
        with ExitStack() as ending:  # from its end on: each is closed, whatever another raises
            if lines is not None:
                ending.callback(lines.close)
            if channels is not None:
                words, thoughts = channels
                ending.callback(words.close)
                ending.callback(thoughts.close)
            if last is not None:
                ending.callback(last.flush)

    def _speak(self, which: int, text: str) -> None:
        if not text:
            return
        with self._turn:
            if self._channels is None:
                self._channels = self._made()
            voice = self._channels[which]
            if self._last is not None and voice is not self._last:
                self._last.flush()
            self._last = voice
        voice.add(text)

    def _made(self) -> tuple[OutputChannel, OutputChannel]:
        channels = OutputChannel(self._scrub, self._say), OutputChannel(self._scrub, self._think)
        if self._over:  # a thread that the step left behind
            for channel in channels:
                channel.close()
        return channels
