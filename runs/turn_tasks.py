"""Celery's lines for what stands above `runs.tasks`: "look at this thread", where a message waits
for its turn, and "look at the schedules".

Delivered twice or never, both are harmless.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Iterator
from typing import Any

from celery import shared_task
from django.conf import settings
from django.db.models import QuerySet

from checkpoints.database import clock, locks
from runs.engine.workers.shutdown import stopping
from runs.models import Schedule
from runs.rounds import Round, check_connection
from runs.schedules import sweep
from runs.tasks import NEXT_TURN, send
from runs.threads import message_queue


@shared_task(name=NEXT_TURN, ignore_result=True)
def begin_next(thread_id: str) -> None:
    check_connection()
    run = message_queue.begin_next(uuid.UUID(thread_id))
    if run is not None:
        send(run.pk, run.queue)


_dice = random.SystemRandom()


def _schedules() -> Iterator[QuerySet[Any]]:
    yield Schedule.objects.due(now=clock.FromNow())


@shared_task(base=Round, ignore_result=True, due=staticmethod(_schedules))
def start_scheduled() -> None:
    """Start the work of all schedules that are due, batch after batch."""
    ends = time.monotonic() + 2 * settings.WAYSTATION_SWEEP_SECONDS
    with locks.impatient():
        while _started() and time.monotonic() < ends and not stopping():
            pass


def _started() -> bool:
    """Whether there was a whole batch to do."""
    return sweep.start_due(now=clock.read(), share=_dice.random()) == sweep.BATCH
