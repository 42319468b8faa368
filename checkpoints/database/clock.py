"""The database's clock, which decides what is due, what is lost and what has run out, whatever the
hosts' own clocks say.

A statement that takes or compares asks for that time itself: `FromNow`. All else that writes or
compares a stored time asks `now`, which costs no statement: it is this host's clock, put right by
what was last read of the database's. A round, such as the sweep, begins with `read`: what it then
finds due was due already when it asked. SQLite's clock is this host's.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.db import DEFAULT_DB_ALIAS, Error, connection
from django.db.models import DateTimeField, Expression
from django.utils import timezone

logger = logging.getLogger(__name__)

TOLERANCE = 2.0
"""Seconds that a host's clock may differ from the database's before it is said.

Nothing goes wrong by more; records read oddly.
"""
FRESH = 15.0
"""Seconds for which a reading is good: no two hosts' crystals are further apart by then than a
millisecond or so.
"""
NEAR = 0.02
"""Seconds that are no difference: as close as well kept clocks are."""
SAID_EVERY = 600.0

ASKED = "SELECT STATEMENT_TIMESTAMP()"
NONE = dt.timedelta(0)


class FromNow(Expression):
    """A time so many seconds from the database's now, in the statement that it is part of:
    `FromNow()` is that now.
    """

    output_field = DateTimeField()

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__()
        self.seconds = seconds

    @property
    def interval(self) -> str:
        """As PostgreSQL takes it."""
        return f"{self.seconds:.6f} seconds"

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[str | int, ...]]:
        return "(STATEMENT_TIMESTAMP() + %s::interval)", (self.interval,)

    def as_sqlite(self, compiler: Any, connection: Any) -> tuple[str, tuple[str | int, ...]]:
        # SQLite's own now ends at milliseconds
        at = timezone.now() + dt.timedelta(seconds=self.seconds)
        return "%s", (connection.ops.adapt_datetimefield_value(at),)


@dataclass(frozen=True, slots=True)
class _ClockReading:
    offset: dt.timedelta
    """What is to be added to this host's clock."""
    at: float
    """On the monotonic clock."""
    base: float | None
    """This host's clock less the monotonic one; another base later means that somebody has set the
    clock. None where the database's clock is this host's, wherever that is set to.
    """


_last: _ClockReading | None = None
_said_at: float | None = None


def now() -> dt.datetime:
    """Give the database's time, as this process knows it: within NEAR and what a round trip to the
    database takes.

    The connection, where one is open, is asked once in FRESH seconds. The first call of a process
    opens one.
    """
    if _last is None or (time.monotonic() - _last.at > FRESH and connection.connection is not None):
        _look()
    return timezone.now() + offset()


def at_first_connection(*, connection: Any, **_: Any) -> None:
    """Ask right after a process has connected for the first time: the keys that it makes then are
    of the database's time already.
    """
    if _last is None and connection.alias == DEFAULT_DB_ALIAS:
        with suppress(Error):  # whoever wanted the connection is told what is wrong with it
            _look()


def read() -> dt.datetime:
    """Give the database's time, asked of it in a statement of its own: never later than it is."""
    return (_look() if _may_ask() else None) or now()


def offset() -> dt.timedelta:
    """Give what this host's clock is to be put right by.

    Asks nobody, so a process that has never asked the time gives nothing.
    """
    last = _last
    if last is None or last.base is None:
        return NONE
    was_set = _base() - last.base
    return last.offset if abs(was_set) < NEAR else last.offset - dt.timedelta(seconds=was_set)


def ahead() -> float:
    """Give by how many seconds this host's clock is ahead of the database's (behind: below 0); 0.0
    within TOLERANCE.
    """
    seconds = -offset().total_seconds()
    return seconds if abs(seconds) > TOLERANCE else 0.0


def _look() -> dt.datetime | None:
    """Ask the database, and note how far this host is off; None where it cannot be asked just now
    and a reading is there to go on with.
    """
    global _last
    if connection.vendor != "postgresql":
        _last = _ClockReading(NONE, time.monotonic(), None)
        return timezone.now()
    if not _may_ask():
        return None
    known, began = offset(), time.monotonic()
    try:
        connection.ensure_connection()
        # below Django's: it is nobody's statement
        with connection.wrap_database_errors, connection.connection.cursor() as cursor:
            at: dt.datetime = cursor.execute(ASKED).fetchone()[0]
    except Error:
        if _last is None:
            raise
        return None  # whoever needs the database next is told what is wrong with it
    took, least = time.monotonic() - began, at - timezone.now()
    most = least + dt.timedelta(seconds=took)
    near = dt.timedelta(seconds=NEAR)
    _last = _ClockReading(
        known if least - near <= known <= most + near else least, time.monotonic(), _base()
    )
    _say()
    return at


def _may_ask() -> bool:
    """Not in an event loop, and not in a transaction that has failed."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return not (connection.in_atomic_block and connection.needs_rollback)
    return False


def _base() -> float:
    return time.time() - time.monotonic()


def _say() -> None:
    """Warn of a clock that is off, now and then."""
    global _said_at
    seconds, at = ahead(), time.monotonic()
    if not seconds:
        _said_at = None
    elif _said_at is None or at - _said_at > SAID_EVERY:
        _said_at = at
        logger.warning("%s", words(seconds))


def words(seconds: float) -> str:
    """What is said of a host whose clock is so far ahead."""
    where = "ahead of" if seconds > 0 else "behind"
    return (
        f"This host's clock is {abs(seconds):.1f} s {where} the database's. Deadlines and leases "
        "keep to the database's. "
        "Set the clock (NTP): the times of this host's own log lines are off."
    )
