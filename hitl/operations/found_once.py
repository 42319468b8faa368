"""What many may ask for at once, and costs something: one thread finds it, all get it, and whoever
asks waits no longer than they said.

So a door that needs no login cannot be used to keep the database busy, and a database that hangs
keeps no more than one thread of this process.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from django.db import connection

logger = logging.getLogger(__name__)

T = TypeVar("T")


class FoundOnce(Generic[T]):
    """The result of `find`, kept for `fresh` seconds.

    Args:
        find: called in a thread with database connections of its own, which are closed after it.
        fresh: seconds, counted from when it was asked for.
    """

    def __init__(self, find: Callable[[], T], *, fresh: float) -> None:
        self._find, self._fresh = find, fresh
        self._changed = threading.Condition()
        self._result: tuple[float, T] | None = None
        """When it was asked for, on the monotonic clock, and what was found."""
        self._works = False

    def get(self, *, within: float, stale: bool = False) -> T | None:
        """What was found lately, or is found now; None where that fails or takes longer.

        With `stale` what was found last is given meanwhile, however long ago that was.
        """
        ends = time.monotonic() + within
        with self._changed:
            if (known := self._known()) is not None:
                return known
            if not self._works:
                self._works = True
                threading.Thread(target=self._work, name="found once", daemon=True).start()
            if stale and self._result is not None:
                return self._result[1]
            while self._works and (left := ends - time.monotonic()) > 0:
                self._changed.wait(left)
            return self._known()

    def forget(self) -> None:
        """Find it anew for who asks next."""
        with self._changed:
            self._result = None

    def _known(self) -> T | None:
        if self._result is None or time.monotonic() - self._result[0] > self._fresh:
            return None
        return self._result[1]

    def _work(self) -> None:
        began, result = time.monotonic(), None
        try:
            result = self._find()
        # whoever waits is told that there is nothing
        except Exception:
            logger.exception("what was asked for could not be found")
        finally:
            connection.close()
            with self._changed:
                self._works = False
                if result is not None:
                    self._result = began, result
                self._changed.notify_all()
