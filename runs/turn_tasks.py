"""Celery's line for messages that wait for their turn: "look at this thread".

Delivered twice or never, both are harmless.
"""

from __future__ import annotations

import uuid

from celery import shared_task

from runs.rounds import check_connection
from runs.tasks import NEXT_TURN, send
from runs.threads import message_queue


@shared_task(name=NEXT_TURN, ignore_result=True)
def begin_next(thread_id: str) -> None:
    check_connection()
    run = message_queue.begin_next(uuid.UUID(thread_id))
    if run is not None:
        send(run.pk, run.queue)
