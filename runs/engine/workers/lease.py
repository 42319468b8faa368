"""Who holds a run, and the one thread per process that renews all leases it holds."""

from __future__ import annotations

import logging
import os
import socket
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import Error, connection

from checkpoints.database import clock, locks
from checkpoints.database.rounds import RoundItem
from runs.models import Run
from runs.states import RUNNING

logger = logging.getLogger(__name__)

acting_for = ""
"""In a body process: the owner that its worker is. That renews the leases, whatever bodies do."""
_held: dict[int, Counter[uuid.UUID]] = {}
"""Process → how often it has each run in hand: being told of one twice is normal, and whoever finds
it at work already must not take its lease away.
"""
_guard = threading.Lock()


def owner(pid: int | None = None) -> str:
    """A process of this host (this one), as the lease names it: for people who look for a stuck
    worker.
    """
    if acting_for and pid is None:
        return acting_for
    return f"{socket.gethostname()}:{pid or os.getpid()}"[:120]


def term() -> clock.FromNow:
    """Until when a lease holds that is taken or renewed now."""
    return clock.FromNow(settings.WAYSTATION_LEASE_SECONDS)


@contextmanager
def renewed(run_id: uuid.UUID) -> Iterator[None]:
    """Keep the lease of a claimed run alive while its step works."""
    if acting_for:
        yield
        return
    pid = os.getpid()
    with _guard:
        # first run of this process; a forked child has no beating thread of its own yet
        if pid not in _held:
            _held.clear()
            _held[pid] = Counter()
            threading.Thread(target=_beat, args=(pid,), name="lease-heartbeat", daemon=True).start()
        _held[pid][run_id] += 1
    try:
        yield
    finally:
        with _guard:
            _held[pid][run_id] -= 1
            if not _held[pid][run_id]:
                del _held[pid][run_id]


def _beat(pid: int) -> None:
    pause = threading.Event()
    while not pause.wait(settings.WAYSTATION_LEASE_SECONDS / 3):
        with _guard:
            runs = list(_held.get(pid, ()))
        try:
            if runs:
                _renew(runs)
        # without this thread every lease of the process would end under its steps
        except Exception:
            logger.exception("could not renew %d leases, will try again", len(runs))


def _renew(runs: list[uuid.UUID]) -> None:
    """One statement for all leases of this process.

    A run taken over meanwhile has another owner and is left alone.

    A run whose row somebody holds comes after the others, by itself: they do not lose their leases
    to a host that fell silent.
    """
    try:
        with locks.impatient():
            free = locks.free(Run, runs)
            _extend(list(free))
            for run_id in set(runs) - free:
                with RoundItem(logger, Run(pk=run_id).shown_id):
                    _extend([run_id])
    except Error as error:
        logger.warning("could not renew %d leases, will try again: %s", len(runs), error)
    finally:
        connection.close()


def _extend(runs: list[uuid.UUID]) -> None:
    Run.objects.filter(pk__in=runs, status=RUNNING, lease_owner=owner()).update(lease_until=term())
