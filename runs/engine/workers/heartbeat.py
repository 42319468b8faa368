"""Signs of life of this process, as rows: for whoever asks whether a worker takes a queue, and
whether beat's look is carried out (`hitl.operations.health`, `manage.py doctor`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from django.db import Error, connection

from checkpoints.database import clock
from runs.models import installation
from runs.models.heartbeats import EVERY, Heartbeat, HeartbeatKind

logger = logging.getLogger(__name__)

FORGET = 86_400.0
"""Seconds after which a row of a process that never came back is dropped."""
LOOK = "beat's look"

_ends: list[threading.Event] = []
"""Of the threads that give signs of life here: a worker's, a beat's, or both."""
_looked_at: float | None = None


def begin(
    name: str,
    kind: HeartbeatKind,
    *,
    queues: Sequence[str] = (),
    pool: str = "",
    lives: Callable[[], bool] = lambda: True,
) -> None:
    """Give signs of life from now on, in a thread of its own, while `lives` says so."""
    _ends.append(ends := threading.Event())
    row = Heartbeat(
        name=name[:150],
        kind=kind,
        queues=sorted(queues),
        facts={"pool": pool, **installation.own_facts()},
        version=installation.version(),
        commit=installation.commit(),
    )
    threading.Thread(target=_beat, args=(row, lives, ends), name="heartbeat", daemon=True).start()


def end() -> None:
    """Say that this process takes nothing more; its row goes. Does not wait for the database."""
    while _ends:
        _ends.pop().set()


def show_worker(consumer: Any) -> None:
    """Give the signs of life of a Celery worker, for as long as it has its broker."""
    begin(
        consumer.hostname,
        HeartbeatKind.WORKER,
        queues=list(consumer.app.amqp.queues.consume_from),
        pool=type(consumer.pool).__module__.rpartition(".")[2],
        lives=lambda: consumer.connection is not None,
    )


def note_look() -> None:
    """Note that a worker carries out beat's look, now and then: it costs a statement."""
    global _looked_at
    if _looked_at is not None and time.monotonic() - _looked_at < EVERY:
        return
    _looked_at = time.monotonic()
    _write(Heartbeat(name=LOOK, kind=HeartbeatKind.LOOK))


def _beat(row: Heartbeat, lives: Callable[[], bool], ends: threading.Event) -> None:
    first = True
    while True:
        try:
            if first:
                Heartbeat.objects.filter(seen_at__lt=clock.FromNow(-FORGET)).delete()
                Heartbeat.objects.filter(pk=row.pk).delete()
                first = False
            if lives():
                _write(row)
        except Error as error:
            logger.warning("could not give a sign of life, will try again: %s", error)
        finally:
            connection.close()
        if ends.wait(EVERY):
            break
    try:
        Heartbeat.objects.filter(pk=row.pk).delete()
    except Error as error:
        logger.warning("could not take the sign of life back: %s", error)
    finally:
        connection.close()


def _write(row: Heartbeat) -> None:
    if not Heartbeat.objects.filter(pk=row.pk).update(seen_at=clock.FromNow()):
        row.started_at = row.seen_at = clock.now()
        Heartbeat.objects.bulk_create([row], ignore_conflicts=True)
