"""What a step says, and what it thinks aloud: each without the secrets that it was given, both in
the order in which they came.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

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

    def close(self) -> None:
        try:
            self._said.close()
        finally:
            self._chunks.close()


class StepOutput:
    """Both, made when the first of them is used: most steps say nothing. Before one begins, what
    the other has said is written.
    """

    def __init__(
        self, scrub: SecretFilter, *, say: Callable[[str], None], think: Callable[[str], None]
    ) -> None:
        self._scrub, self._say, self._think = scrub, say, think
        self._channels: tuple[OutputChannel, OutputChannel] | None = None
        self._last: OutputChannel | None = None
        self._over = False
        self._turn = threading.Lock()

    def say(self, text: str) -> None:
        self._speak(0, text)

    def think(self, text: str) -> None:
        self._speak(1, text)

    def flush(self) -> None:
        if self._channels is not None:
            words, thoughts = self._channels
            thoughts.flush()
            words.flush()

    def close(self) -> None:
        """`flush`, and hear nothing any more: the step is done."""
        with self._turn:
            self._over = True
            if self._channels is None:
                return
            (words, thoughts), last = self._channels, self._last
        try:
            if last is not None:
                last.flush()
        finally:
            try:
                thoughts.close()
            finally:
                words.close()

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
