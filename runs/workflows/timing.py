"""What time it is, for plain Python: the database's time in a process of the product (`runs.apps`
says so), else this host's.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from functools import cache
from zoneinfo import ZoneInfo, available_timezones


def _of_this_host() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


_clock: Callable[[], dt.datetime] = _of_this_host


def go_by(clock: Callable[[], dt.datetime]) -> None:
    """Ask this clock from now on."""
    global _clock
    _clock = clock


def now() -> dt.datetime:
    return _clock()


@cache
def _zones() -> frozenset[str]:
    """The names of this machine's zones, read once: finding them goes through hundreds of files."""
    return frozenset(available_timezones())


def zone_of(name: str) -> ZoneInfo:
    """Raises ValueError for what is no IANA name."""
    if name not in _zones():
        shown = json.dumps(name[:80], ensure_ascii=False)
        raise ValueError(f"There is no time zone {shown}; name one as Europe/Berlin.")
    return ZoneInfo(name)
