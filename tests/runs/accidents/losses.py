"""Workers that are lost, and heads that are damaged."""

from __future__ import annotations

import datetime as dt

from django.db import connection
from django.utils import timezone

from runs.engine.recovery import lost_runs
from runs.models import Run
from tests.conftest import fresh
from tests.worlds import lost_worker

LONG_AGO = timezone.now() - dt.timedelta(hours=1)


def lose_a_worker(order):
    """A worker claims the run and dies with it."""
    assert lost_worker.claim(order.latest_run_id, now=timezone.now())
    Run.objects.filter(pk=order.latest_run_id).update(lease_until=LONG_AGO)
    return lost_runs.take_back(now=timezone.now())


def damage_head(order, text="{}"):
    with connection.cursor() as cursor:
        head = fresh(order).thread.head_id
        cursor.execute(
            "UPDATE checkpoints_checkpoint SET body = %s WHERE id = %s",
            [text, head if connection.vendor == "postgresql" else head.hex],
        )
