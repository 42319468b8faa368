"""What time it is, for plain Python: the database's time in a process of the product (`runs.apps`
says so), else this host's.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable


def _of_this_host() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


_clock: Callable[[], dt.datetime] = _of_this_host


def go_by(clock: Callable[[], dt.datetime]) -> None:
    """Ask this clock from now on."""
    global _clock
    _clock = clock


def now() -> dt.datetime:
    return _clock()
