"""Tasks that come again and again: beat has one look, which orders those that have something to do.

What lies about in the queue while no worker takes it is done once, not once per order. Messages do
not expire: that would be by the clock of the host that takes them, and one that is ahead would take
none.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable
from typing import Any

from celery import Task, current_app
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from django.db.models import QuerySet

from checkpoints.retention import jobs
from runs.engine.workers import clocks

logger = logging.getLogger(__name__)

Due = Callable[[], Iterable[QuerySet[Any]]]
"""Gives querysets: there is something to do for a round where one of them has a row."""


class Round(Task):  # type: ignore[type-arg]  # no such argument at run time
    """A task that begins at most twice in the time that lies between two orders."""

    due: Due | None = None
    """Of those that the look orders. It names all that the round does something about, by the
    database's clock (`clock.FromNow`), each by an index. None: beat has an entry of its own.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not (self.request.called_directly or self.request.is_eager):
            check_connection()
            if not jobs.begin_round(f"round {self.name}"[-40:], apart=_every(self.name) / 2):
                return None
        return super().__call__(*args, **kwargs)


def _every(name: str) -> float:
    """Seconds between two orders."""
    schedule: dict[str, dict[str, Any]] = settings.CELERY_BEAT_SCHEDULE
    seconds = (
        float(entry["schedule"].seconds) for entry in schedule.values() if entry["task"] == name
    )
    return next(seconds, settings.WAYSTATION_SWEEP_SECONDS)


def looked_for() -> dict[str, Due]:
    """The rounds that the look orders, by name."""
    _know_all_tasks()
    tasks = current_app.tasks.items()
    return {name: task.due for name, task in sorted(tasks) if isinstance(task, Round) and task.due}


@functools.cache
def _know_all_tasks() -> None:
    """A worker has imported them all when it started; whoever else asks would miss some."""
    current_app.loader.import_default_modules()


def with_something_due() -> list[str]:
    """The rounds that have something to do now, asked in one statement.

    All of them where the database cannot say: each then meets by itself what is wrong, and one
    table that is locked holds up no other round.
    """
    rounds = looked_for()
    try:
        return _ask(rounds)
    except (DatabaseError, InterfaceError) as error:
        logger.warning("could not ask which rounds have something to do: %s", error)
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()
        return list(rounds)


def _ask(rounds: dict[str, Due]) -> list[str]:
    asked = {name: list(due()) for name, due in rounds.items()}
    columns, parameters = [], []
    for querysets in asked.values():
        compiled = [rows.order_by().values("pk")[:1].query.sql_with_params() for rows in querysets]
        columns.append(" OR ".join(f"EXISTS({sql})" for sql, _ in compiled) or "1 = 0")
        parameters += [value for _, values in compiled for value in values]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(columns)}", parameters)
        return [name for name, is_due in zip(asked, cursor.fetchone(), strict=True) if is_due]


def check_connection() -> None:
    """Begin a task with this; rounds do.

    A worker keeps its connection from task to task (CELERY_DB_REUSE_MAX); a server that was
    restarted has forgotten it. A host whose clock is off is noted on the way.
    """
    if connection.in_atomic_block:
        return
    if connection.connection is not None and not connection.is_usable():
        connection.close()
    clocks.note()
