"""What the invariants say of the database, and an order that has been through everything."""

from __future__ import annotations

import datetime as dt
from functools import cache
from io import StringIO
from typing import Any
from unittest.mock import patch

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from hitl.operations import invariants
from tests.conftest import drive, fresh, pause_of
from tests.worlds.scripted_step import order_that as order_that

STAND_IN = dt.datetime(1901, 1, 1, tzinfo=dt.UTC)


def broken(
    *, deep: bool = True, late: dt.timedelta = invariants.LATE, now: dt.datetime | None = None
) -> dict[str, list[str]]:
    """Code → shown ids, of what does not hold.

    One statement asks which invariants have any rows to look at; the others find nothing.
    """
    now = now or timezone.now()
    asked, sql, params = together(settings.WAYSTATION_LEASE_SECONDS, connection.vendor)
    with connection.cursor() as cursor:
        at = connection.ops.adapt_datetimefield_value
        filled = [value if past is None else at(now - late + past) for value, past in params]
        cursor.execute(sql, filled)
        [row] = cursor.fetchall()
    idle = {code for code, some in zip(asked, row, strict=True) if not some}
    rest = [one for one in invariants.INVARIANTS if one.code not in idle]
    with patch.object(invariants, "INVARIANTS", rest):
        results = list(invariants.check(now=now, late=late, deep=deep))
    return {result.invariant.code: list(result.ids) for result in results if result.count}


@cache
def together(lease_seconds, vendor):
    """The codes of invariants, a statement that says of each whether anything that it reads first
    has rows, and its values: beside a time, how far it is from the one before which things are
    late; beside others None.

    An invariant that knows another time, as SQLite's own now, is left out: it would stay as it is.
    `lease_seconds` is the one setting that invariants read: another value is another statement, as
    is that of another database.
    """
    asked, columns, params = [], [], []
    for invariant in invariants.INVARIANTS:
        sent: list[tuple[str, Any]] = []

        def in_vain(execute, sql, values, many, context, sent=sent):
            sent.append((sql, values))
            return execute(f"SELECT * FROM ({sql}) AS found WHERE 1 = 0", values, many, context)

        with connection.execute_wrapper(in_vain):
            assert not list(invariant.broken(STAND_IN))
        mine = [(value, since_stand_in(value)) for _, values in sent for value in values]
        if all(past is None or abs(past) < dt.timedelta(days=1) for _, past in mine):
            asked.append(invariant.code)
            columns.append(" OR ".join(f"EXISTS ({sql})" for sql, _ in sent))
            params += mine
    return asked, f"SELECT {', '.join(columns)}", params


def since_stand_in(value):
    """Of a value that is a time, as the database takes it; None of others."""
    if isinstance(value, str):
        try:
            value = dt.datetime.fromisoformat(value).replace(tzinfo=dt.UTC)
        except ValueError:
            return None
    return value - STAND_IN if isinstance(value, dt.datetime) else None


def command(*words):
    """(exit code, output)"""
    out = StringIO()
    try:
        call_command("invariants", *words, stdout=out)
    except SystemExit as ended:
        return ended.code, out.getvalue()
    return 0, out.getvalue()


def answer(order, by, action="approve", feedback=""):
    return services.decide(pause_of(order).pk, Answer(action, Via.PAGE, feedback=feedback), by=by)


@pytest.fixture
def finished(paused, ana, ben):
    """An order that was sent back twice, approved throughout and completed."""
    answer(paused, ana, "revise", "More words")
    drive(paused)
    for action, feedback in (
        ("approve", ""),
        ("revise", "Less"),
        ("approve", ""),
        ("revise", "Again"),
        ("approve", ""),
        ("approve", ""),
    ):
        answer(paused, ben, action, feedback)
        drive(paused)
    order = fresh(paused)
    assert order.status == "completed"
    assert broken() == {}
    return order
