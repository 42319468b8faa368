"""Celery's line for messages that wait for their turn: "look at this thread". Delivered twice or never, both are harmless."""

from __future__ import annotations

import uuid

from celery import shared_task

from runs import queued
from runs.tasks import NEXT_TURN, check_connection, send


@shared_task(name=NEXT_TURN, ignore_result=True, expires=60)
def begin_next(thread_id: str) -> None:
    check_connection()
    run = queued.begin_next(uuid.UUID(thread_id))
    if run is not None:
        send(run.pk, run.queue)
