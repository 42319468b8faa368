"""A run whose states cannot be read or written just now: no worker was lost and no step failed, so
it waits and nothing is counted.
"""

from __future__ import annotations

import logging
import uuid

from django.conf import settings
from django.db import transaction
from django.db.models import F

from checkpoints.database import clock, outages
from checkpoints.events import log
from runs.engine.drafts.events import line
from runs.engine.workers import lease
from runs.models import Run
from runs.states import PENDING, RUNNING

logger = logging.getLogger(__name__)

SECONDS = 5.0
"""Until the run is looked at again."""


def put_off(run_id: uuid.UUID, *, words: str) -> None:
    """Give back a run that this process holds, for some seconds.

    Its step, where it ran, runs again: its result was not recorded.
    """
    mine = Run.objects.filter(pk=run_id, lease_owner=lease.owner())
    if mine.move(
        {RUNNING}, PENDING, due_at=clock.FromNow(SECONDS), lease_owner="", lease_until=None
    ):
        logger.warning("put off %s for %s s: %s", Run(pk=run_id).shown_id, SECONDS, words)


def cut_off(run_id: uuid.UUID, *, words: str) -> None:
    """As `put_off`, where the database itself was away.

    That counts as a lost worker does: one step may be what brings it down.

    The last of those times, and where the database is still away, the lease is left to run out,
    which the sweep sees.
    """
    try:
        _cut_off(run_id)
    except outages.ERRORS as error:
        logger.warning("%s could not be given back: %s", Run(pk=run_id).shown_id, error)
    else:
        logger.warning("cut off from %s: %s", Run(pk=run_id).shown_id, words)


@transaction.atomic(durable=True)
def _cut_off(run_id: uuid.UUID) -> None:
    mine = Run.objects.filter(
        pk=run_id,
        lease_owner=lease.owner(),
        lost_attempts__lt=settings.WAYSTATION_LOST_ATTEMPTS - 1,
    )
    if mine.move(
        {RUNNING},
        PENDING,
        due_at=clock.FromNow(SECONDS),
        lease_owner="",
        lease_until=None,
        lost_attempts=F("lost_attempts") + 1,
    ):
        thread_id = Run.objects.values_list("thread_id", flat=True).get(pk=run_id)
        log.append(
            thread_id,
            run_id,
            [
                line(
                    "The database was away while this step worked; the step runs again.",
                    level="warning",
                )
            ],
        )
