"""Celery's part: "look again at run X". Messages carry ids only; a lost one costs a sweep, a doubled one nothing."""

from __future__ import annotations

import datetime as dt
import logging
import time
import uuid

from celery import shared_task
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from checkpoints import ids
from runs.engine import recovery
from runs.engine.advance import advance
from runs.workflows.sequence import DEFAULT_QUEUE

logger = logging.getLogger(__name__)

BREAKER_SECONDS = 10.0
"""After a failed send, do not try again for so long: the sweep finds the run, and requests stay fast while the broker is away."""

_broken_until = 0.0


@shared_task(acks_late=True, ignore_result=True)
def advance_run(run_id: str) -> None:
    for wanted, queue in advance(uuid.UUID(run_id), budget=settings.WAYSTATION_SLICE_SECONDS):
        nudge(wanted, queue)


@shared_task(ignore_result=True, expires=30)
def sweep() -> None:
    """Take runs back from lost workers and send lost messages again. Harmless when two run at once."""
    for run_id, queue in recovery.due_again(now=timezone.now(), patience=dt.timedelta(seconds=settings.WAYSTATION_PATIENCE_SECONDS)):
        nudge(run_id, queue)


def nudge(run_id: uuid.UUID, queue: str = DEFAULT_QUEUE) -> None:
    """Tell a worker to look at a run. Never raises: with the broker away, the sweep does it later."""
    global _broken_until
    if time.monotonic() < _broken_until:
        return
    try:
        advance_run.delay(str(run_id))
    except Exception as error:  # noqa: BLE001  # brokers raise their clients' own errors; the row is the truth, the message a hint
        _broken_until = time.monotonic() + BREAKER_SECONDS
        logger.warning("could not send a message for %s, the sweep will find it: %s", ids.show("run", run_id), error)


def nudge_on_commit(run_id: uuid.UUID, queue: str = DEFAULT_QUEUE) -> None:
    """Nudge once the open transaction commits."""
    transaction.on_commit(lambda: nudge(run_id, queue), robust=True)
