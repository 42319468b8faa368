"""How work that must not stop goes around rows that somebody holds: a host that fell silent in a
transaction holds them until its session is ended (`checkpoints.database.addresses`), and all others
are not to wait for that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, models, transaction

from checkpoints.database import outages

SECONDS = 1.0
"""What one row may cost a round that was free when it was looked at."""


def free(model: type[models.Model], keys: Collection[Any]) -> set[Any]:
    """Those of these rows that nobody holds at this moment.

    Call outside a transaction. On SQLite all: there a writer holds everything.
    """
    if connection.vendor != "postgresql" or not keys:
        return set(keys)
    with transaction.atomic():
        rows = model._default_manager.filter(pk__in=keys).order_by()
        return set(
            rows.select_for_update(skip_locked=True, no_key=True).values_list("pk", flat=True)
        )


@contextmanager
def impatient(seconds: float = SECONDS) -> Iterator[None]:
    """Wait for no lock longer than so many seconds meanwhile, on this thread's connection.

    What it would wait for is left to the next round.
    """
    if connection.vendor != "postgresql" or not connection.settings_dict["OPTIONS"].get("options"):
        # without the latter a pooler gives each transaction another session, which would keep it
        yield
        return
    _say(f"SET lock_timeout = {int(seconds * 1000)}")
    try:
        yield
    finally:
        _calm_down()


def _calm_down() -> None:
    """Back to the session's own patience; a connection that is lost, or asked for another one, has
    it anyway.
    """
    if connection.connection is None or connection.connection.closed or connection.in_atomic_block:
        return
    try:
        _say("RESET lock_timeout")
    except outages.ERRORS:
        connection.close()


def _say(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)
