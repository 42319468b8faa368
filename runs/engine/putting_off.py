"""A run whose states cannot be read or written just now: no worker was lost and no step failed, so it waits and nothing is counted."""

from __future__ import annotations

import datetime as dt
import logging
import uuid

from django.utils import timezone

from runs.engine import lease
from runs.models import Run
from runs.states import PENDING, RUNNING

logger = logging.getLogger(__name__)

SECONDS = 5.0
"""Until the run is looked at again."""


def put_off(run_id: uuid.UUID, *, words: str) -> None:
    """Give back a run that this process holds, for some seconds. Its step, where it ran, runs again: its result was not recorded."""
    due = timezone.now() + dt.timedelta(seconds=SECONDS)
    mine = Run.objects.filter(pk=run_id, lease_owner=lease.owner())
    if mine.move({RUNNING}, PENDING, due_at=due, lease_owner="", lease_until=None):
        logger.warning("put off %s for %s s: %s", Run(pk=run_id).shown_id, SECONDS, words)
