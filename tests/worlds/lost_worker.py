"""A worker that takes a run, and then does nothing with it."""

from __future__ import annotations

import datetime as dt
import uuid

from django.conf import settings
from django.db.models import F

from runs.engine import advance as loop
from runs.engine import places
from runs.engine.workers import lease
from runs.models import Run, WorkOrder
from runs.states import PENDING, RUNNING


def claim(run_id: uuid.UUID, *, now: dt.datetime) -> bool:
    """What the engine's claim does to the run's row."""
    due = Run.objects.filter(pk=run_id, due_at__lte=now)
    until = now + dt.timedelta(seconds=settings.WAYSTATION_LEASE_SECONDS)
    return bool(
        due.move(
            {PENDING}, RUNNING, epoch=F("epoch") + 1, lease_owner=lease.owner(), lease_until=until
        )
    )


def claimed(order: WorkOrder) -> WorkOrder:
    """An order whose run a worker has by the engine's own claim, and goes on holding."""
    assert order.latest_run is not None
    held = loop._read(order.latest_run.pk)
    assert held is not None
    assert places.claim(held)
    return order
