"""How far a step is, by its own words, on its way to the run's row: what it said last is written
once in a second at most, by the thread that writes for all steps of a process.

It is no fact: no log, no checkpoint and no ledger has it, and no step fails for it. What a worker
that is gone has said is passed over by whoever looks (`Run.progress_now`).
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from typing import Any

from django.db import transaction

from checkpoints.events import live
from runs import hints
from runs.engine.body_processes import endable
from runs.engine.context import streaming
from runs.engine.context.claimed_run import ClaimedRun
from runs.models import Run
from runs.workflows.base import Stopped

logger = logging.getLogger(__name__)

EVERY = 1.0
"""Seconds between two writes."""
LONGEST = 40
"""Characters of a unit."""


class StepProgress(streaming.Gathered):
    """What one execution of a step says of how far it is."""

    def __init__(self, held: ClaimedRun, step: str) -> None:
        super().__init__()
        self._held, self._step = held, step
        self._next: Mapping[str, Any] | None = None
        self._over = False

    def tell(self, done: float, of: float | None, *, unit: str) -> None:
        """See `runs.workflows.base.context.TellProgress`. Raises ValueError for no number."""
        for number in (done, *([] if of is None else [of])):
            if not isinstance(number, int | float) or not math.isfinite(number) or number < 0:
                raise ValueError(f"progress({done!r}, {of!r}): give numbers from 0 on")
        said = {"done": done, "of": of, "unit": self._held.scrub(str(unit)[:LONGEST])}
        with endable.shielded(), streaming._changed:
            if not self._over:
                self._next, self._error = said, None
                streaming.announce(self)

    def due_in(self, now: float) -> float:
        return self._written_at + EVERY - now

    def close(self) -> None:
        """Take it all back: the step is done."""
        with endable.shielded():
            with streaming._changed:
                self._over, self._next = True, None
                streaming._waiting.discard(self)
            with self._turn:  # behind what is being written
                try:
                    self._write(None)
                except Exception as error:  # noqa: BLE001
                    self._fail(error)

    def _write_next(self) -> bool:
        with streaming._changed:
            said, self._next = self._next, None
            self._written_at = time.monotonic()
            streaming._waiting.discard(self)
        if said is not None:
            self._write(said)
        return said is not None

    def _write(self, said: Mapping[str, Any] | None) -> None:
        run, epoch = self._held.run, self._held.epoch
        row = None if said is None else {**said, "epoch": epoch, "step": self._step}
        with transaction.atomic(durable=True):
            if Run.objects.held(run.pk, epoch).update(progress=row):
                now = {"run_id": run.shown_id, "progress": said}
                live.side_hint_on_commit(run.thread_id, hints.PROGRESS, now)

    def _fail(self, error: Exception) -> None:
        super()._fail(error)
        if not isinstance(error, Stopped):
            logger.warning("progress of %s was not written: %s", self._held.shown_id, error)

    def _forget(self) -> None:
        self._next = None
