"""Whether a run is still its worker's, and how long the step at hand may go on."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

from checkpoints.store.prepared_queries import Prepared
from runs.engine.body_processes import endable
from runs.engine.workers import shutdown
from runs.models import Run
from runs.workflows.base import StepFailed, Stopped

CHECK_EVERY = 0.5
"""Seconds between two looks at the database by `Context.check`."""

_held = Prepared(lambda key, epoch: Run.objects.held(key, epoch).only("pk"), uuid.UUID, int)


class Watch:
    """What a step learns of whether it must stop, in whichever thread it asks."""

    def __init__(self, run: Run, epoch: int) -> None:
        self._run, self._epoch = run, epoch
        self.checked_at = self.asked_at = 0.0
        self._wanted = False
        """A person wants the run suspended, as far as was seen."""
        self._deadline = float("inf")
        """On the monotonic clock: when the step's time is up."""
        self._thread = threading.get_ident()

    def begin(self, seconds: float) -> None:
        """Give the step at hand so many seconds."""
        self._deadline = time.monotonic() + seconds

    def follow(self) -> None:
        """Take this thread for the step's: it closes its connection itself, at its end."""
        self._thread = threading.get_ident()

    def end(self) -> None:
        """Leave the step, and its thread."""
        self._deadline = float("inf")
        self.follow()

    @contextmanager
    def own_connection(self) -> Iterator[None]:
        """What the engine does for a step, which nothing breaks off; in a thread of the step's own
        with a connection that nobody else would close.
        """
        with endable.shielded():
            try:
                yield
            finally:
                if threading.get_ident() != self._thread:
                    connection.close()

    def check(self) -> None:
        """Raise Stopped when the run was cancelled or taken over; asks the database at most every
        CHECK_EVERY seconds.
        """
        now = time.monotonic()
        if now > self._deadline:
            raise StepFailed("The step took longer than it may.", code="timeout")
        if now - self.checked_at < CHECK_EVERY:
            return
        self.checked_at = now
        with self.own_connection():
            self.require()

    def halting(self) -> bool:
        """Whether a step boundary is wanted; asks the database at most every CHECK_EVERY
        seconds.
        """
        now = time.monotonic()
        if now - self.asked_at >= CHECK_EVERY:
            self.asked_at = now
            held = Run.objects.held(self._run.pk, self._epoch)
            self._wanted = held.exclude(suspend_by="").exists()
        return self._wanted or shutdown.stopping()

    def require(self) -> None:
        """Raise Stopped where the run was cancelled or taken over."""
        if not _held.get(self._run.pk, self._epoch):
            raise Stopped(f"{self._run.shown_id} was cancelled or taken over by another worker")
