"""What becomes of a run whose step took its process along, or was ended with it."""

from __future__ import annotations

import signal
import uuid
from contextlib import suppress
from functools import partial

from django.db.models import F

from checkpoints import store
from runs.engine import advance, ending
from runs.engine.advance import Then
from runs.engine.ending import Wake
from runs.engine.recovery import lost_runs
from runs.models import Run
from runs.states import LeaseLost
from runs.workflows import sequence
from runs.workflows.base import StepFailed

DEATHS = 2
"""So many times in a row a step may end its process; then a person looks at it. Hosts that were
lost meanwhile do not count.
"""


def timed_out(run_id: uuid.UUID, epoch: int) -> list[Wake]:
    """The step did not end by itself in its time: it failed, and is tried again where its template
    says so.
    """
    held = advance.held(run_id, epoch)
    if held is None:
        return []
    with suppress(LeaseLost):
        with suppress(store.CheckpointDamaged):
            held.progress.load(store.load(held.progress.head))
        words = "The step did not end within its time, and was ended with its process."
        if advance.step_failed(held, StepFailed(words, code="timeout")) is Then.ANOTHER_TASK:
            to = sequence.queue_of(held.steps, held.progress.at)
            held.progress.wake_later([(run_id, to)])
    return held.progress.wake


def died(run_id: uuid.UUID, epoch: int, code: int | None) -> list[Wake]:
    """The step ended its process: it is done anew, and the second time its run is put aside."""
    held = Run.objects.held(run_id, epoch)
    run = held.select_related("thread__head", "parent").first()
    if run is None:
        return []
    head = run.thread.head
    assert head is not None  # written with the run
    step, words = head.next_step or head.node_id, _words(code)
    if run.deaths + 1 < DEATHS:
        return lost_runs.give_back(
            run,
            held,
            f"Step {step} {words}; it is tried again.",
            deaths=F("deaths") + 1,
        )
    message = (
        f"Step {step} {words}, {run.deaths + 1} times in a row. The state before it is "
        "kept; retry when the cause is found."
    )
    return ending.undisturbed(partial(lost_runs.put_aside, run, held, message))


def _words(code: int | None) -> str:
    if code is None:
        return "ended its worker"
    if code >= 0:
        return f"ended its worker with code {code}"
    with suppress(ValueError):
        return f"ended its worker by signal {-code} ({signal.Signals(-code).name})"
    return f"ended its worker by signal {-code}"
