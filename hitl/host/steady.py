"""When beat sends its rounds: by a clock that nobody sets."""

from __future__ import annotations

import datetime as dt
import time

from celery.schedules import schedule

_BEGAN = dt.datetime.now(dt.UTC), time.monotonic()


def now() -> dt.datetime:
    """The time when this process began, and what the monotonic clock says has passed since."""
    at, ticks = _BEGAN
    return at + dt.timedelta(seconds=time.monotonic() - ticks)


class Every(schedule):
    """Each so many seconds.

    With Celery's own schedules a beat whose host's clock is set back by an hour sends nothing for
    an hour.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(run_every=seconds, nowfun=now)

    def __reduce__(self) -> tuple[type[Every], tuple[float]]:
        return type(self), (self.seconds,)
