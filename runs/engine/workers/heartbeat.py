"""Signs of life of this process, as rows: for whoever asks whether a worker takes a queue, whether
beat's look is carried out, and which processes are of an old version (`hitl.operations.health`,
`manage.py doctor`).
"""

from __future__ import annotations

import atexit
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from django.db import Error, connection

from checkpoints.database import clock
from runs import env
from runs.engine.workers import lease
from runs.models import installation
from runs.models.heartbeats import EVERY, NOTED, Heartbeat, HeartbeatKind

logger = logging.getLogger(__name__)

FORGET = 86_400.0
"""Seconds after which a row of a process that never came back is dropped."""
LOOK = "beat's look"
GOING = 1.0
"""Seconds for which the end of a process waits for its row to be taken back."""

_ends: list[tuple[threading.Event, threading.Thread]] = []
"""Of the threads that give signs of life here: a worker's, a beat's, a web server's."""
_looked_at: float | None = None
_web = 0
"""The process whose signs of life as a web server have begun."""


def begin(
    name: str,
    kind: HeartbeatKind,
    *,
    queues: Sequence[str] = (),
    facts: dict[str, Any] | None = None,
    lives: Callable[[], bool] = lambda: True,
) -> None:
    """Give signs of life from now on, in a thread of its own, while `lives` says so."""
    ends = threading.Event()
    row = Heartbeat(
        name=name[:150],
        kind=kind,
        queues=sorted(queues),
        facts={**(facts or {}), "owner": lease.owner(), **installation.own_facts()},
        version=installation.version(),
        commit=installation.commit(),
    )
    thread = threading.Thread(target=_beat, args=(row, lives, ends), name="heartbeat", daemon=True)
    _ends.append((ends, thread))
    thread.start()


def end() -> list[threading.Thread]:
    """Say that this process takes nothing more; its row goes. Does not wait for the database: the
    threads that are given do.
    """
    ending = []
    while _ends:
        ends, thread = _ends.pop()
        ends.set()
        ending.append(thread)
    return ending


@atexit.register
def _end_with_the_process() -> None:
    # workers end by themselves; beats and web servers are told nothing but this
    for thread in end():
        thread.join(GOING)


def show_worker(consumer: Any, *, at_once: int | None = None) -> None:
    """Give the signs of life of a Celery worker, for as long as it has its broker.

    `at_once`: how many runs it takes up, where that is not the size of its pool.
    """
    begin(
        consumer.hostname,
        HeartbeatKind.WORKER,
        queues=list(consumer.app.amqp.queues.consume_from),
        facts={
            "pool": type(consumer.pool).__module__.rpartition(".")[2],
            "concurrency": at_once or getattr(consumer.pool, "limit", None),
        },
        lives=lambda: consumer.connection is not None,
    )


def show_web() -> None:
    """Give the signs of life of this process of a web server, from its first call on. In any other
    program it does nothing: a test, a command.

    A fork of this process, which has no thread of it, begins anew at its own first call.
    """
    global _web
    if _web == os.getpid() or not env.serves(sys.argv):
        return
    _web = os.getpid()
    begin(f"web@{socket.gethostname()}:{_web}", HeartbeatKind.WEB)


def note_look() -> None:
    """Note that a worker carries out beat's look, now and then: it costs a statement."""
    global _looked_at
    if _looked_at is not None and time.monotonic() - _looked_at < NOTED:
        return
    _looked_at = time.monotonic()
    _write(Heartbeat(name=LOOK, kind=HeartbeatKind.LOOK))


def _beat(row: Heartbeat, lives: Callable[[], bool], ends: threading.Event) -> None:
    first = True
    while True:
        try:
            if first:
                Heartbeat.objects.filter(seen_at__lt=clock.FromNow(-FORGET)).delete()
                _take_name(row)
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


def _take_name(row: Heartbeat) -> None:
    """Drop the rows of processes of this host that have ended, and take the name, or one with this
    process's id where another one lives under it: an old beat beside a new one is to be seen.
    """
    mine = row.facts["owner"]
    for other in Heartbeat.objects.exclude(kind=HeartbeatKind.LOOK):
        owner = str(other.facts.get("owner", ""))
        if (owner == mine and other.pk == row.pk) or _ended(owner):
            Heartbeat.objects.filter(pk=other.pk).delete()
    if Heartbeat.objects.lately().filter(pk=row.pk).exists():
        row.name = f"{row.name[:130]}:{os.getpid()}"
    Heartbeat.objects.filter(pk=row.pk).delete()


def _ended(owner: str) -> bool:
    """Whether a process, named as leases name it, is one of this host and is not there any more."""
    host, _, pid = owner.rpartition(":")
    if host != socket.gethostname() or not pid.isdecimal():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _write(row: Heartbeat) -> None:
    if not Heartbeat.objects.filter(pk=row.pk).update(seen_at=clock.FromNow()):
        row.started_at = row.seen_at = clock.now()
        Heartbeat.objects.bulk_create([row], ignore_conflicts=True)
