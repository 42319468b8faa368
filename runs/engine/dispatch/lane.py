"""Threads that take up runs beside a worker's own, which are kept for sweeps, deadlines and
messages.
"""

from __future__ import annotations

import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)

LOOK = 0.05
"""Seconds between two looks at whether all threads are done."""


class Lane:
    """So many runs at once; the others wait, the urgent ones first, each once."""

    def __init__(self, work: Callable[[str], None], threads: int) -> None:
        self._work = work
        self._waiting: queue.PriorityQueue[tuple[int, int, str]] = queue.PriorityQueue()
        self._numbers = itertools.count()
        self._known: set[str] = set()
        self._guard = threading.Lock()
        self._at_work = 0
        self._closed = False
        for _ in range(threads):
            threading.Thread(target=self._serve, name="lane", daemon=True).start()

    def give(self, run_id: str, priority: int) -> None:
        with self._guard:
            if run_id in self._known:
                return  # it says "look again", which will be done
            self._known.add(run_id)
        self._waiting.put((priority, next(self._numbers), run_id))

    def close(self, seconds: float) -> bool:
        """Take nothing more, and wait for what is at work; False when the time is up first."""
        self._closed = True
        ends = time.monotonic() + seconds
        while self._at_work and time.monotonic() < ends:
            time.sleep(LOOK)  # a thread that ends tells nobody
        return not self._at_work

    def _serve(self) -> None:
        while True:
            *_, run_id = self._waiting.get()
            with self._guard:
                self._known.discard(run_id)
                if self._closed:
                    return
                self._at_work += 1
            try:
                self._work(run_id)
            except Exception:  # the thread is for the next run
                logger.exception("could not work on %s", run_id)
            finally:
                with self._guard:
                    self._at_work -= 1
