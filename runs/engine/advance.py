"""Advance a run in a worker: claim it, then take step after step until the run pauses or ends, or
its time slice is over.
"""

from __future__ import annotations

import datetime as dt
import logging
import random
import time
import traceback
import uuid
from collections.abc import Callable
from enum import Enum, auto
from functools import partial

from django.db import DataError
from django.db.models import Exists, OuterRef, Q

from checkpoints import store
from checkpoints.database import outages
from checkpoints.state import codec, reducers
from checkpoints.store.prepared_queries import Prepared
from checkpoints.telemetry import about, spans
from runs.engine import (
    approvals,
    children,
    interruptions,
    places,
    record,
    results,
    time_limit,
    tracebacks,
    traces,
)
from runs.engine.body_processes import child as body_process
from runs.engine.context import bodies, opening
from runs.engine.context.claimed_run import ClaimedRun, Progress, loop_num
from runs.engine.context.watch import Watch
from runs.engine.drafts import budget, failures, state_shape
from runs.engine.ending import Wake
from runs.engine.questions import CheckedAsk
from runs.engine.recovery import code_changes
from runs.engine.results import Result
from runs.engine.workers import lease
from runs.engine.workers.shutdown import stopping
from runs.models import Run, WorkLimit
from runs.states import PAUSED, PENDING, LeaseLost
from runs.workflows import sequence
from runs.workflows.base import Done, Gather, Go, Outcome, Sleep, StepFailed, Stopped
from runs.workflows.registry import find
from runs.workflows.reviews.rules import is_reviewed
from runs.workflows.sequence import DEFAULT_QUEUE, FrozenStep

logger = logging.getLogger(__name__)

UNRECORDABLE = (ArithmeticError, AttributeError, DataError, LookupError, TypeError, ValueError)
"""Errors of recording an answer whose cause is the answer; the database, disks and networks raise
other ones.
"""
LONGEST_DELAY = 86_400.0
"""Seconds by which a service that refused a call may put the retry off, at most."""


class Then(Enum):
    """What this worker does after a step."""

    NEXT_STEP = auto()
    """It goes on with the run."""
    ANOTHER_TASK = auto()
    """Its time slice is over: the run is pending again and wants another task."""
    NOTHING = auto()
    """The run waits or has ended."""


Remind = Callable[[dt.datetime, Wake | None], object]
"""Told when a run is due that was left just now, or where none is named, when the rules of the
question that it asked act.
"""


def advance(
    run_id: uuid.UUID, *, budget: float, remind: Remind = lambda at, run: None
) -> list[Wake]:
    """Take steps of a run for about `budget` seconds, or where it waits for child runs start those
    whose turn it is; give the runs that need a message now, each with its queue.

    Those are the run itself where it has more to do, the child runs that it started, and the parent
    whose last child it was. None of them where another worker has the run: a message that comes
    twice is normal.
    """
    ends, wake = time.monotonic() + budget, list[Wake]()
    gathers: uuid.UUID | None = None
    while (held := _read(run_id)) is not None:
        if held.run.status == PAUSED:
            gathers = run_id
            break
        if code_changes.hold(held):
            break
        _claim_and_work(held, ends=ends)
        wake += held.progress.wake
        gathers = held.run.parent_id if held.progress.ended else None
        for at, of_run in held.progress.due:
            remind(at, (run_id, of_run) if of_run else None)
        passed = held.progress.passed
        if not passed:
            break
        if not _may_stay(ends) or passed != held.run.queue:
            wake.append((run_id, passed))
            break
    if gathers is not None:  # its child runs may be started now, or the next of its parent's
        started = children.start_more(gathers)
        wake += started.woken
        if started.due is not None:
            remind(started.due, (gathers, DEFAULT_QUEUE))
    return wake


def _may_stay(ends: float) -> bool:
    """Whether this worker goes on with the run at a step boundary."""
    return time.monotonic() < ends and not (stopping() or body_process.is_spoiled())


def _claim_and_work(held: ClaimedRun, *, ends: float) -> None:
    """Take steps of a run until it waits, ends or its time slice is over."""
    ids, claimed = {"run_id": held.shown_id, "thread_id": held.shown_thread_id}, False
    with lease.renewed(held.run.pk), about.work(**ids, scrub=held.scrub):
        try:
            claimed = places.claim(held) if held.limited else record.claim(held)
            if claimed:
                _work(held, ends=ends)
        except (LeaseLost, Stopped) as reason:
            logger.info("stopped work: %s", reason)
    if held.limited:
        held.progress.wake_later(places.let_go(held, claimed=claimed))


def _work(held: ClaimedRun, *, ends: float) -> None:
    progress, head = held.progress, held.progress.head
    try:
        progress.load(store.load(head))
    except store.CheckpointDamaged as error:  # an error, never a silent fresh start
        return record.fail_as_damaged(held, error)
    if approvals.KEY in head.metadata:
        progress.settle(*approvals.settle(held.run, head))
    if not progress.at:  # the answer to a question after the last step
        return record.complete_after_answer(held)
    if spans.tracing is not None:
        progress.enter(traces.enter(spans.tracing, held.run, head))
    while (then := _take_step(held, ends=ends)) is Then.NEXT_STEP:
        pass
    if then is Then.ANOTHER_TASK:
        progress.wake_later([(held.run.pk, sequence.queue_of(held.steps, progress.at))])
    return None


_claimable = Prepared(
    # the query also asks whether the template has limits: without them a claim costs no more
    lambda run_id: (
        Run.objects.select_related("thread__head", "work_order__repository")
        .annotate(
            limited=Exists(
                WorkLimit.objects.acting().filter(template=OuterRef("definition__template_slug"))
            )
        )
        .filter(Q(status=PENDING) | Q(status=PAUSED, gather_due_at__isnull=False), pk=run_id)
    ),
    uuid.UUID,
)


def _read(run_id: uuid.UUID) -> ClaimedRun | None:
    """Read a run that may be claimed, or whose child runs may be started; None where it does not
    wait for a worker.
    """
    run = next(iter(_claimable.get(run_id)), None)
    return None if run is None else _as_claimed(run, epoch=run.epoch + 1)


def held(run_id: uuid.UUID, epoch: int) -> ClaimedRun | None:
    """Read a run as the claim of that epoch left it, without its state; None where another claim
    holds it.
    """
    run = (
        Run.objects.held(run_id, epoch)
        .select_related("thread__head", "work_order__repository")
        .first()
    )
    return None if run is None else _as_claimed(run, epoch=epoch)


def _as_claimed(run: Run, *, epoch: int) -> ClaimedRun:
    assert run.thread.head is not None  # written with the run
    return ClaimedRun(
        run=run,
        epoch=epoch,
        steps=run.frozen.steps,
        reducers=run.frozen.reducers,
        order=run.work_order,
        limited=getattr(run, "limited", False),
        progress=Progress(run, run.thread.head),
        watch=Watch(run, epoch),
    )


def _take_step(held: ClaimedRun, *, ends: float) -> Then:
    """Take one step, in a span where traces are on."""
    progress = held.progress
    if spans.tracing is None or progress.trace is None:
        return _do_step(held, ends=ends)
    loop, attempts = loop_num(progress.head, progress.at), progress.counts["attempts"]
    with traces.step(
        spans.tracing, progress.trace, held.run, progress.at, loop=loop, attempts=attempts
    ):
        return _do_step(held, ends=ends)


def _do_step(held: ClaimedRun, *, ends: float) -> Then:
    if not held.progress.joining:
        code_changes.tell(held)
    outcome = _join(held) if held.progress.joining else _outcome(held)
    if outcome is None:
        return Then.NOTHING
    try:
        if not isinstance(outcome, Exception):
            return _record(held, outcome, stay=_stays_for_next(held, outcome, ends))
    except (
        codec.NotJson,
        reducers.MergeFailed,
        sequence.UnknownName,
        budget.Spent,
        state_shape.StateInvalid,
    ) as error:
        logger.warning("%s: %s", held.run.shown_id, error)
        return _give_up(held, error)
    except UNRECORDABLE as error:
        # each worker that took the run up again would get the same answer
        logger.error("%s: its answer cannot be recorded", held.run.shown_id, exc_info=error)
        return _give_up(held, results.unrecordable(error))
    return step_failed(held, outcome)


def step_failed(held: ClaimedRun, error: Exception) -> Then:
    """Try again later where the step's policy says so; else give up."""
    step = _step_if_any(held)
    retry = step.get("retry") if step and not held.progress.joining else None
    tries = held.progress.counts["attempts"] + 1
    if retry is not None and sequence.worth_retrying(retry, error, tries):
        jitter = random.random()  # noqa: S311  # spreads retries, guards nothing
        delay = sequence.retry_delay(tries, base=retry["base"], cap=retry["cap"], jitter=jitter)
        record.retry_later(
            held, error, seconds=max(delay, min(getattr(error, "after", 0.0), LONGEST_DELAY))
        )
        return Then.NOTHING
    return _give_up(held, error)


def _give_up(held: ClaimedRun, error: Exception) -> Then:
    """Go to the step that the template names for a failure of this one, or end the run as failed.

    What the run as a whole may not exceed, or cannot read, leads nowhere.
    """
    step = _step_if_any(held)
    to = step.get("on_failure", "") if step is not None else ""
    final = isinstance(error, budget.Spent | sequence.UnknownName | store.CheckpointDamaged)
    known = to in {step["name"] for step in held.steps}  # a child run may have some of them
    if not known or final or getattr(error, "code", "") == interruptions.LOOP_LIMIT:
        record.fail(held, error)
        return Then.NOTHING
    try:
        record.fail_over(held, error, to=to)
    except record.Suspended as wish:
        record.ask(held, interruptions.suspended(_step_at_hand(held), Go(to=to), by=wish.by))
        return Then.NOTHING
    except budget.Spent as spent:
        record.fail(held, spent)
        return Then.NOTHING
    return Then.ANOTHER_TASK


def _step_if_any(held: ClaimedRun) -> FrozenStep | None:
    return next((step for step in held.steps if step["name"] == held.progress.at), None)


def _step_at_hand(held: ClaimedRun) -> FrozenStep:
    return sequence.named(held.steps, held.progress.at)


def _outcome(held: ClaimedRun) -> Result | Exception:
    """Give the answer of the step at hand: a stop before it where the run asks for one, a skip
    where the step's condition holds, else what the step's function answers.
    """
    try:
        step = _step_at_hand(held)
        if (
            interruptions.asks_before(held.run, step)
            and held.progress.metadata.get("cleared") != step["name"]
        ):
            return interruptions.before(step)
        skips = interruptions.skips(step, held.progress.state) and not _must_ask(held, step)
        held.progress.pass_over(skips)
        if skips:
            return results.parse(held, interruptions.skip(held.steps, step))
        interruptions.guard_loops(
            step,
            loop_num(held.progress.head, step["name"]),
            before=held.progress.metadata.get("loops_before", {}),
        )
    # a definition that cannot be followed ends its run, and the run says why
    except (sequence.UnknownName, StepFailed, ValueError) as error:
        return error
    return _call(held, step)


def _must_ask(held: ClaimedRun, step: FrozenStep) -> bool:
    """Whether the step may not be skipped: a person edited the state that its condition reads, and
    the step has review rules.
    """
    return bool(held.progress.metadata.get(approvals.EDITED)) and is_reviewed(step)


def _join(held: ClaimedRun) -> Result | Exception | None:
    """Give the answer of a step whose child runs have ended, as `_outcome`; None where child runs
    were taken up again.
    """
    try:
        joined = children.join(held)
        if joined is None:
            return None
        step = _step_at_hand(held)
        outcome = results.parse(held, _conclude(held, step, joined))
        return interruptions.after(held.run, step, outcome)
    except (*failures.KNOWN, sequence.UnknownName) as error:
        return error


def _call(held: ClaimedRun, step: FrozenStep) -> Result | Exception:
    """Call the step; give its outcome, or the error it ended with. No transaction is open here."""
    try:
        with body_process.watched(), opening.open_context(held, step) as opened:
            function = find(step["function"], step.get("function_version", 1))
            body = partial(bodies.call, partial(function, held.progress.state, opened))
            outcome = time_limit.call(held, step.get("timeout"), body)
        answer = _conclude(held, step, held.scrub(outcome))
        return interruptions.after(held.run, step, results.parse(held, answer))
    except (Stopped, store.StoreUnavailable):
        raise
    except Exception as error:  # the one place: whatever a step raises ends in its run's record
        if outages.is_trouble(error):
            raise  # the engine's own database failed, in `context.log` or the like, and no step did
        _log_failure(held, step, error)
        return error


def _conclude(held: ClaimedRun, step: FrozenStep, outcome: Outcome) -> Outcome:
    given = held.told.input if "question" in step else None
    return sequence.conclude(held.steps, step["name"], outcome, given=given)


def _log_failure(held: ClaimedRun, step: FrozenStep, error: Exception) -> None:
    """Log the error, and keep its traceback for operators. A traceback quotes what was raised, so
    both are scrubbed of the secrets that the run was given.
    """
    if spans.tracing is not None:
        spans.tracing.fail(type(error).__name__)
    text = held.scrub("".join(traceback.format_exception(error)))
    if held.scrub:
        logger.error("step %s of %s failed\n%s", step["name"], held.run.shown_id, text)
    else:
        logger.error("step %s of %s failed", step["name"], held.run.shown_id, exc_info=error)
    tracebacks.keep(held.run, step["name"], text)


def _stays_for_next(held: ClaimedRun, outcome: Result, ends: float) -> bool:
    """Whether this worker goes on with the step that an answer leads to: the worker has time left,
    serves the step's queue, and has its code.
    """
    if not isinstance(outcome, Go) or not _may_stay(ends):
        return False
    to = outcome.to or ""
    same_queue = sequence.queue_of(held.steps, to) == sequence.queue_of(
        held.steps, held.progress.at
    )
    return same_queue and not code_changes.reason_to_hold(held, to)


def _record(held: ClaimedRun, outcome: Result, *, stay: bool) -> Then:
    if spans.tracing is not None:
        asks = isinstance(outcome, CheckedAsk)
        name = "question" if asks else type(outcome).__name__.lower()  # the names in traces
        spans.tracing.note("waystation.step.outcome", name)
    match outcome:
        case Go():
            try:
                record.go(held, outcome, stay=stay)
            except record.Suspended as wish:
                record.ask(held, interruptions.suspended(_step_at_hand(held), outcome, by=wish.by))
            else:
                return Then.NEXT_STEP if stay else Then.ANOTHER_TASK
        case Sleep():
            try:
                record.sleep(held, outcome)
            except record.Suspended as wish:
                go = Go(update=outcome.update, to=outcome.to, commit=outcome.commit)
                record.ask(held, interruptions.suspended(_step_at_hand(held), go, by=wish.by))
        case Gather():
            children.start(held, _step_at_hand(held), outcome)
        case CheckedAsk():
            record.ask(held, outcome)
        case Done():
            record.done(held, outcome)
    return Then.NOTHING
