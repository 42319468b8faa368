"""The thread of a process that talks to the broker."""

from __future__ import annotations

import queue as queues
import threading
import time
from collections.abc import Callable

WAITING = 1000
"""Messages that may wait for the sender; more of them are left to the sweep."""


class Sender:
    """Does one job after another, so that nobody who answers a person waits for the broker."""

    def __init__(self, waiting: int = WAITING) -> None:
        self._waiting: queues.Queue[Callable[[], object]] = queues.Queue(waiting)
        self._starting = threading.Lock()
        self._started = False

    def give(self, job: Callable[[], object]) -> bool:
        """Have a job done soon; False where too many wait already."""
        if not self._started:
            self._start()
        try:
            self._waiting.put_nowait(job)
        except queues.Full:
            return False
        return True

    def flush(self, seconds: float) -> bool:
        """Wait until all that was given so far is done; False when the time is up first."""
        if not self._started:
            return True
        ends, done = time.monotonic() + seconds, threading.Event()
        try:
            self._waiting.put(done.set, timeout=seconds)
        except queues.Full:
            return False
        return done.wait(ends - time.monotonic())

    def _start(self) -> None:
        with self._starting:
            if not self._started:
                self._started = True
                threading.Thread(target=self._work, name="nudge-sender", daemon=True).start()

    def _work(self) -> None:
        while True:
            self._waiting.get()()
