"""The loop a worker runs: claim, then step after step until the run pauses, ends, or its time slice is over."""

from __future__ import annotations

import copy
import logging
import time
import uuid
from typing import Any

from django.db import transaction
from django.utils import timezone

from checkpoints import codec, reducers, store
from runs import workflows as workflows  # registers the step functions
from runs.engine import context, lease, record
from runs.engine.context import Held
from runs.models import Run
from runs.states import LeaseLost
from runs.workflows import sequence
from runs.workflows.base import Ask, Done, Go, Outcome, Stopped, find

logger = logging.getLogger(__name__)


def advance(run_id: uuid.UUID, *, budget: float) -> bool:
    """Take steps of a run for about `budget` seconds; True when it has more to do and wants another task.

    False also when another worker has it: being told twice is normal.
    """
    with transaction.atomic(durable=True):
        if not lease.claim(run_id, now=timezone.now()):
            return False
    ends = time.monotonic() + budget
    with lease.renewed(run_id):
        try:
            held = _hold(run_id)
            record.begin(held)
            while not held.handed_back:
                if not _take_step(held, ends=ends):
                    return False
            return True
        except (LeaseLost, Stopped) as reason:
            logger.info("stopped work: %s", reason)
    return False


def _hold(run_id: uuid.UUID) -> Held:
    run = Run.objects.select_related("thread__head", "definition", "work_order").get(pk=run_id)
    assert run.thread.head is not None  # `submit` writes both with the run
    assert run.work_order is not None
    held = Held(run=run, epoch=run.epoch, steps=run.definition.steps, order=run.work_order, head=run.thread.head, state={})
    held.reducers = run.definition.reducers
    try:
        held.state = store.load(held.head)
    except store.CheckpointDamaged as error:  # an error, never a silent fresh start (C24)
        record.failed(held, error)
        raise LeaseLost(str(error)) from error
    return held


def _take_step(held: Held, *, ends: float) -> bool:
    """Run one step and record what it answered. True when another step follows."""
    outcome = _call(held)
    if isinstance(outcome, Exception):
        record.failed(held, outcome)
        return False
    try:
        return _record(held, outcome, stay=time.monotonic() < ends)
    except (codec.NotJson, reducers.MergeFailed, sequence.UnknownName) as error:
        logger.warning("%s: %s", held.run.shown_id, error)
        record.failed(held, error)
        return False


def _call(held: Held) -> Outcome | Exception:
    """The step's outcome, or the error it ended with. No transaction is open here."""
    name = held.head.next_step
    try:
        step = sequence.named(held.steps, name)
        with context.opened(held, step) as opened:
            outcome = find(step["function"])(copy.deepcopy(held.state), opened)
        return _checked(held, sequence.conclude(held.steps, name, outcome))
    except Stopped:
        raise
    except Exception as error:  # the one place: whatever a step raises ends in its run's record
        logger.exception("step %s of %s failed", name, held.run.shown_id)
        return error


def _checked(held: Held, outcome: Any) -> Outcome:
    """A step's answer, if it is one and leads to steps that there are."""
    match outcome:
        case Go(to=to):
            targets = [to]
        case Ask(ways=ways):
            targets = list(ways.values())
        case Done():
            targets = []
        case _:
            raise TypeError(f"a step answers Go, Ask or Done, not {outcome!r:.100}")
    for target in filter(None, targets):
        sequence.named(held.steps, target)
    answer: Outcome = outcome
    return answer


def _record(held: Held, outcome: Outcome, *, stay: bool) -> bool:
    match outcome:
        case Go():
            record.go(held, outcome, stay=stay)
            held.handed_back = not stay
            return True
        case Ask():
            record.ask(held, outcome)
        case Done():
            record.done(held, outcome)
    return False
