"""Tasks that beat orders again and again: what lies about in the queue while no worker takes it is
done once, not once per order.

Their messages do not expire: that would be by the clock of the host that takes them, and one that
is ahead would take none.
"""

from __future__ import annotations

from typing import Any

from celery import Task
from django.conf import settings
from django.db import connection

from checkpoints.retention import jobs
from runs.engine.workers import clocks


class Round(Task):  # type: ignore[type-arg]  # no such argument at run time
    """A task that begins at most twice in the time that lies between two orders."""

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


def check_connection() -> None:
    """Begin a task with this; rounds do.

    A worker keeps its connection from task to task (CELERY_DB_REUSE_MAX); a server that was
    restarted has
    forgotten it. A host whose clock is off is noted on the way."""
    if connection.in_atomic_block:
        return
    if connection.connection is not None and not connection.is_usable():
        connection.close()
    clocks.note()
