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
    """Both. Before one begins, what the other has said is written."""

    def __init__(
        self, scrub: SecretFilter, *, say: Callable[[str], None], think: Callable[[str], None]
    ) -> None:
        self._words, self._thoughts = OutputChannel(scrub, say), OutputChannel(scrub, think)
        self._last = self._words
        self._turn = threading.Lock()

    def say(self, text: str) -> None:
        self._speak(self._words, text)

    def think(self, text: str) -> None:
        self._speak(self._thoughts, text)

    def flush(self) -> None:
        self._thoughts.flush()
        self._words.flush()

    def close(self) -> None:
        """`flush`, and hear nothing any more: the step is done."""
        try:
            self._last.flush()
        finally:
            try:
                self._thoughts.close()
            finally:
                self._words.close()

    def _speak(self, voice: OutputChannel, text: str) -> None:
        if not text:
            return
        with self._turn:
            if voice is not self._last:
                self._last.flush()
                self._last = voice
        voice.add(text)
