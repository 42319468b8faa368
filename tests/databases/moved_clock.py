"""For tests in which time passes: the database's clock is moved, and this process's with it."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uuid6
from django.db import connection
from django.db.backends.signals import connection_created
from django.utils import timezone

from checkpoints.database import clock

PATH = "SET search_path = moved, pg_catalog, public"
MOVED = """CREATE OR REPLACE FUNCTION moved.statement_timestamp() RETURNS timestamptz LANGUAGE sql
    STABLE
AS $$ SELECT pg_catalog.statement_timestamp() + interval '%f seconds' $$"""


@pytest.fixture
def later(db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[float], None]]:
    """`later(61)`: so many seconds have passed since the test began, by every clock that there
    is.
    """
    real = timezone.now
    with moving() as move:

        def wait(seconds: float) -> None:
            monkeypatch.setattr(timezone, "now", lambda: real() + dt.timedelta(seconds=seconds))
            move(seconds)

        yield wait


@contextmanager
def moving() -> Iterator[Callable[[float], None]]:
    """Give what moves PostgreSQL's clock for a test's connections: a function that they find before
    its own. SQLite's is this process's.
    """
    if connection.vendor != "postgresql":
        yield lambda seconds: None
        return

    def look_there(connection: Any, **_: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(PATH)

    with connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA IF NOT EXISTS moved")
        cursor.execute(MOVED % 0)
    look_there(connection)
    connection_created.connect(look_there)
    try:
        yield lambda seconds: _execute(MOVED % seconds)
    finally:
        connection_created.disconnect(look_there)
        _execute("RESET search_path; DROP SCHEMA moved CASCADE")


def _execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


@pytest.fixture
def wrong(db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """`wrong(25)`: this process is on a host whose clock is 25 s ahead of the database's; with
    `passed=60` a minute has passed by both.

    It is a host that has not asked the database for the time yet; with `new=False` one whose clock
    was set meanwhile. On PostgreSQL only.
    """
    now, seconds, nanoseconds = timezone.now, time.time, time.time_ns
    with moving() as move:

        def be(ahead: float, *, passed: float = 0.0, new: bool = True) -> None:
            move(passed)
            off = ahead + passed
            monkeypatch.setattr(timezone, "now", lambda: now() + dt.timedelta(seconds=off))
            monkeypatch.setattr(time, "time", lambda: seconds() + off)
            monkeypatch.setattr(time, "time_ns", lambda: nanoseconds() + int(off * 1e9))
            if new:
                monkeypatch.setattr(clock, "_last", None)
                monkeypatch.setattr(uuid6, "_last_v7_timestamp", None)

        yield be
