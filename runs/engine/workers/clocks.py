"""Hosts whose clock is off, as rows for the operations page.

Their own log says so too: `checkpoints.database.clock`.
"""

from __future__ import annotations

import socket
import time

from checkpoints.database import clock
from runs.models import HostClock

EVERY = 30.0
"""Seconds between two notes of one process."""

_noted_at: float | None = None
_is_noted = False


def note() -> None:
    """Note where this host's clock is off, and forget it where it is no more.

    Costs nothing but a look at two clocks while all is well.
    """
    global _noted_at, _is_noted
    if _noted_at is not None and time.monotonic() - _noted_at < EVERY:
        return
    clock.now()
    _noted_at, ahead = time.monotonic(), clock.ahead()
    if ahead:
        row = HostClock(host=socket.gethostname()[:120], ahead=ahead, seen_at=clock.now())
        HostClock.objects.bulk_create(
            [row], update_conflicts=True, unique_fields=["host"], update_fields=["ahead", "seen_at"]
        )
    elif _is_noted:
        HostClock.objects.filter(host=socket.gethostname()[:120]).delete()
    _is_noted = bool(ahead)
