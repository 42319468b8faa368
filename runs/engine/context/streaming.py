"""What a step says while it works, token by token and line by line (`lines`), on its way to the
log: gathered, so that a commit is made at most every 50 ms.

One thread per process writes for all of its steps, so a step never waits for a commit. Chunks are
events like all others: numbered, replayed to who comes later, dropped with the log. They are in no
checkpoint.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from django.db import Error, connections

from runs.workflows.base import Stopped

logger = logging.getLogger(__name__)

EVERY = 0.05
"""Seconds between two commits for one step."""
LONGEST = 16_000
"""Characters in one event."""
IDLE = 20.0
"""Seconds after which the writer gives its connection back."""
HELD_BACK = 1_000_000
"""Characters that may wait; a step that is faster than the database waits for it then."""

_changed = threading.Condition()
_waiting: set[Gathered] = set()
_writers: dict[int, threading.Thread] = {}


class Gathered(ABC):
    """What one execution of a step hands over piece by piece, until it is written.

    A subclass says how the next part of what waits is written.
    """

    def __init__(self) -> None:
        self._written_at = 0.0
        self._turn = threading.Lock()
        self._error: Exception | None = None

    def flush(self) -> None:
        """Write what waits, now and in this thread, so that what follows comes behind it.

        Raises what writing raised.
        """
        self._drain()
        self._raise()

    def close(self) -> None:
        """`flush`, and hear nothing any more: the step is done."""
        self._drain()
        with _changed:
            error, self._error = (
                self._error,
                self._error or Stopped("the step is over; what it still says is not heard"),
            )
        if error is not None:
            raise error

    def due_in(self, now: float) -> float:
        return self._written_at + EVERY - now

    def _raise(self) -> None:
        with _changed:
            if self._error is not None:
                raise self._error

    def _drain(self) -> None:
        with self._turn:  # one at a time, so that pieces stay in order
            try:
                while self._write_next():
                    pass
            # told to the step, whose thread this may not be
            except Exception as error:  # noqa: BLE001
                self._fail(error)

    @abstractmethod
    def _write_next(self) -> bool:
        """Take a part of what waits and write it; False where nothing waited."""

    @abstractmethod
    def _forget(self) -> None:
        """Drop what waits. Called with `_changed` held."""

    def _fail(self, error: Exception) -> None:
        with _changed:
            self._error = error
            self._forget()
            _waiting.discard(self)
            _changed.notify_all()


class Chunks(Gathered):
    """What one execution of a step says.

    `write` commits a piece of it, and raises Stopped where the run is not ours any more.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        super().__init__()
        self._write = write
        self._pieces: list[str] = []
        self._size = 0

    def add(self, text: str) -> None:
        """Say something. Raises what writing an earlier piece raised."""
        if not text:
            return
        with _changed:
            _changed.wait_for(lambda: self._size < HELD_BACK or self._error is not None)
            if self._error is not None:
                raise self._error
            self._pieces.append(text)
            self._size += len(text)
            announce(self)

    def _write_next(self) -> bool:
        if piece := self._next_piece():
            self._write(piece)
        return bool(piece)

    def _next_piece(self) -> str:
        with _changed:
            text = "".join(self._pieces)
            piece, rest = text[:LONGEST], text[LONGEST:]
            self._pieces, self._size = ([rest] if rest else []), len(rest)
            self._written_at = time.monotonic()
            if not rest:
                _waiting.discard(self)
            _changed.notify_all()
        return piece

    def _forget(self) -> None:
        self._pieces, self._size = [], 0


def announce(gathered: Gathered) -> None:
    """Let the writer know that something waits. Call with `_changed` held."""
    _waiting.add(gathered)
    _ensure_writer()
    _changed.notify_all()


def _ensure_writer() -> None:
    """Call with `_changed` held. A forked worker has the variable, but not the thread."""
    pid = os.getpid()
    if pid not in _writers:
        _writers.clear()
        _writers[pid] = threading.Thread(target=_write_for_all, name="chunk-writer", daemon=True)
        _writers[pid].start()


def _write_for_all() -> None:
    while True:
        due = _due()
        for chunks in due:
            chunks._drain()
        # what failed may have been the connection
        if not due or any(chunks._error for chunks in due):
            _close()


def _due() -> list[Gathered]:
    """Wait until something may be written; gives nothing where nothing was for a while."""
    with _changed:
        while True:
            now = time.monotonic()
            waits = {chunks: chunks.due_in(now) for chunks in _waiting}
            if ready := [chunks for chunks, seconds in waits.items() if seconds <= 0]:
                return ready
            if not _changed.wait(min(waits.values(), default=IDLE)) and not _waiting:
                return []


def _close() -> None:
    """Let go of the connection, if there is one: a thread that has none yet makes none, which would
    lead wherever the database of this process just is, for ever.
    """
    try:
        connections.close_all()
    except Error as error:
        logger.warning("a connection could not be closed: %s", error)
