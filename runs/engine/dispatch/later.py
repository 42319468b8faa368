"""Hints for later: one thread of a process keeps their times."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)

WAITING = 10_000
"""Hints that one process keeps; more of them are left to the sweep."""


class Later:
    """Does each job at its time, or a moment after it. What waits dies with the process."""

    def __init__(self, waiting: int = WAITING) -> None:
        self._most = waiting
        self._jobs: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._started = False

    def give(self, seconds: float, job: Callable[[], object]) -> bool:
        """Have a job done in so many seconds; False where too many wait already."""
        with self._changed:
            if len(self._jobs) >= self._most:
                return False
            heapq.heappush(self._jobs, (time.monotonic() + seconds, next(self._numbers), job))
            if not self._started:
                self._started = True
                threading.Thread(target=self._work, name="hints-later", daemon=True).start()
            self._changed.notify()
        return True

    def forget(self) -> None:
        """Do none of what waits."""
        with self._changed:
            self._jobs.clear()

    def _work(self) -> None:
        while True:
            job = self._next()
            try:
                job()
            except Exception:  # the thread is for the next one
                logger.exception("a hint for later was lost; the sweep finds what is due")

    def _next(self) -> Callable[[], object]:
        """Wait for the first job's time, and take it."""
        with self._changed:
            while not self._jobs or (wait := self._jobs[0][0] - time.monotonic()) > 0:
                self._changed.wait(wait if self._jobs else None)
            return heapq.heappop(self._jobs)[2]
