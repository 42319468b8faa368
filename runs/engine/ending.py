"""Runs that end before their last step: cancelled by a person, or with the run that waits for them;
expired; and what a parent is told.

Locks are taken in the order of `runs.engine.locks`.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from django.db import transaction
from django.db.models import Case, DateTimeField, F, Q, Subquery, When
from django.db.models.functions import Coalesce

from checkpoints import store
from checkpoints.database import clock
from checkpoints.events import live, log
from checkpoints.models import Checkpoint, CheckpointStatus, EventKind, Thread
from runs import hints
from runs.engine import commit, locks
from runs.engine.drafts.events import Events, created, line
from runs.engine.start import follow
from runs.models import Pause, Run
from runs.states import (
    CANCELLED,
    EXPIRED,
    GATHERED,
    LIVE,
    PAUSED,
    PENDING,
    RUNNING,
    FailureCode,
    Lifecycle,
    PauseStatus,
    RunStatus,
)
from runs.workflows import sequence
from runs.workflows.sequence import DEFAULT_QUEUE

Result = TypeVar("Result")
Wake = tuple[uuid.UUID, str]
"""A run that wants a message, and the queue it is for."""
TRIES = 10
TOLD = 100
"""Of a run with more child runs the log tells about so often how many have ended, and of each only
what went wrong, or is asked.
"""
UNDER_WAY = 10.0
"""Seconds in which a step is gone whose run was cancelled."""
WHOSE = {
    FailureCode.CANCELLED_BY_USER: "by user",
    FailureCode.CANCELLED_WITH_PARENT: "with its parent run",
    FailureCode.CANCELLED_BY_POLICY: "by policy",
}


class Disturbed(Exception):
    """A child run asked or gathered just now; nothing was written. To be tried again."""


def undisturbed(write: Callable[[], Result]) -> Result:
    """Give what `write` gives, in a transaction of its own; again where a child run moved in
    between.
    """
    for _ in range(TRIES - 1):
        try:
            with transaction.atomic(durable=True):
                return write()
        except Disturbed:
            continue
    with transaction.atomic(durable=True):
        return write()


def tell_parent(run: Run, *, failed: bool) -> list[Wake]:
    """Count a child run's end on its parent, if it has one; gives the parent where it goes on now
    and wants a message.

    Call inside a transaction, before the child's own row is moved. A failure that counts wakes the
    parent at once.
    """
    if run.parent_id is None:
        return []
    waiting = Run.objects.filter(pk=run.parent_id, status=PAUSED, awaited__gt=0)
    on = {"due_at": clock.FromNow(), "queue": DEFAULT_QUEUE}
    count: dict[str, Any] = {"gather_failed": F("gather_failed") + 1} if failed else {}
    if failed and not run.optional:
        moved = waiting.move({PAUSED}, PENDING, awaited=0, gather_due_at=None, **count, **on)
    # the row is ours now: nobody else counts meanwhile
    elif waiting.update(
        awaited=F("awaited") - 1,
        suspend_by=_wish(run, "suspend_by"),
        suspend_because=_wish(run, "suspend_because"),
        gather_due_at=_next_start(),
        **count,
    ):
        moved = Run.objects.filter(pk=run.parent_id, awaited=0).move({PAUSED}, PENDING, **on)
    else:  # it has ended, or goes on already
        moved = 0
    return [(run.parent_id, DEFAULT_QUEUE)] if moved else []


def _wish(run: Run, column: str) -> Case:
    """Who wants a run that ends now, or its parent, to stop at the next step boundary, and why:
    that is the parent's.
    """
    own = Subquery(Run.objects.filter(pk=run.pk).values(column))
    return Case(When(suspend_by="", then=own), default=F(column))


def _next_start() -> Case:
    """When the next child run may start of a run of which one has ended."""
    at = Coalesce("gather_due_at", clock.FromNow())
    return Case(When(gather_queued__gt=0, then=at), default=None, output_field=DateTimeField())


def show_progress(run: Run) -> None:
    """Tell those who watch a run how many of its child runs have ended, once the open transaction
    commits.
    """
    now = {"run_id": run.shown_id, "progress": run.progress_now}
    live.side_hint_on_commit(run.thread_id, hints.PROGRESS, now)


def note_on_parent(
    run: Run, words: str, *, level: str = "info", woken: Sequence[Wake] = (), **data: Any
) -> None:
    """Tell those who watch the runs above.

    Call inside a transaction, after everything else: their threads are locked last, upwards.
    `woken` are the runs that waited for this one alone (`tell_parent`). Of a run with more child
    runs than TOLD the log does not say of each that it is complete.
    """
    at, name = run, run.child_name
    goes_on = {key for key, _ in woken}
    while at.parent is not None:
        if level == "info" and not data and at.parent.gather_size > TOLD:
            show_progress(at.parent)
            if at.parent_id not in goes_on:
                return
        more = {**data, "code": GATHERED} if at.parent_id in goes_on else data
        event = line(f"{name}: {words}", level=level, child=name, child_run_id=run.shown_id, **more)
        log.append(at.parent.thread_id, at.parent_id, [event])
        at = at.parent
        name = f"{at.child_name} > {name}"


def cancel(
    run: Run,
    sources: Collection[RunStatus],
    *,
    by: str,
    first: Events,
    code: FailureCode = FailureCode.CANCELLED_BY_USER,
    reason: str = "",
) -> list[Wake] | None:
    """End a run and all that runs for it, as a person wished, or its template's rules.

    Call inside a transaction.

    Args:
        sources: the statuses it may be in; one that waits for child runs counts as running.
        first: events before those of the end.
        code: whose wish it is.
        reason: their words, for the event of the end; "" where they stand elsewhere, or nowhere.
    Returns:
        runs that want a message now (its parent, and the step that follows), or None where it was
        in none of `sources`: then roll back.
    Raises:
        Disturbed: see `undisturbed`.
    """
    children = close_children(run)
    woken = tell_parent(run, failed=True)
    # what follows undoes nothing that is still under way
    after = UNDER_WAY if children or run.status == RUNNING else 0.0
    runs = Run.objects.filter(Q(status__in=sources) | Q(awaited__gt=0), pk=run.pk)
    fields = {"failure_code": code, "ended_at": clock.now(), "lease_owner": "", "lease_until": None}
    if not runs.move(LIVE, CANCELLED, awaited=0, **fields):
        return None
    move_children(run, children)
    message = _record_cancelled(run, by=by, first=first, code=code, reason=reason)
    end_children(children, by=by)
    note_on_parent(run, message, level="warning", woken=woken)
    return [*woken, *follow(run, CANCELLED, code=code, words=message, after=after)]


def expire(pause: Pause, *, now: dt.datetime) -> list[Wake] | None:
    """End the run of a question that nobody answered in time.

    Call inside the transaction that closed the question.

    Gives what `cancel` gives. A run that asks has no child runs at work.
    """
    message = (
        f"Expired at {sequence.place_in(pause.run.frozen.steps, pause.step, pause.phase)}: "
        "nobody answered in time"
    )
    at = pause.deadline_at.isoformat() if pause.deadline_at else None
    data = {
        "error": message,
        "pause_id": pause.shown_id,
        "step": pause.step,
        "deadline_at": at,
        "lifecycle": Lifecycle.EXPIRED.value,
    }
    facts: Events = [line(message, pause.step, level="warning"), (EventKind.RUN_EXPIRED, data)]
    return _end_asking(pause, EXPIRED, FailureCode.EXPIRED, facts, words=message, now=now)


def cancel_asking(pause: Pause, *, by: str, first: Events, code: FailureCode) -> list[Wake] | None:
    """`cancel` for the run of a question, `answerable`, that was answered so.

    Call inside the transaction that closed the question.
    """
    # where something gathers, runs with others below were left out (`runs.services.together`)
    if commit.current() is None and locks.below(pause.run):
        return cancel(pause.run, {PAUSED}, by=by, first=first, code=code)
    message = f"Cancelled {WHOSE[code]} at {_phase(pause.run, pause.checkpoint)} phase"
    facts: Events = [
        *first,
        line(message, by=by),
        (EventKind.RUN_CANCELLED, {"error": message, "by": by}),
    ]
    return _end_asking(pause, CANCELLED, code, facts, words=message, now=clock.now())


def _end_asking(
    pause: Pause, end: RunStatus, code: FailureCode, facts: Events, *, words: str, now: dt.datetime
) -> list[Wake] | None:
    """End a run where it waits, as one commit: what it asked in is its thread's head for as long as
    it is paused under this epoch.
    """
    run = pause.run
    woken = tell_parent(run, failed=True)
    checkpoint = _last(
        run,
        pause.checkpoint,
        CheckpointStatus.FAILED if end == EXPIRED else CheckpointStatus.CANCELLED,
        code,
    )
    facts = [*facts, *([created(checkpoint)] if checkpoint else [])]
    fields = {"status": end, "failure_code": code, "error": words, "ended_at": now}
    if not commit.write_or_note(
        run, commit.Fence(epoch=run.epoch, status=PAUSED), fields, facts, checkpoint
    ):
        return None
    note_on_parent(run, words, level="warning", woken=woken)
    return [*woken, *follow(run, end, code=code, words=words)]


def close_children(run: Run) -> list[Run]:
    """The live runs below a run, parents first, with their questions closed.

    Call inside a transaction, before any run is moved.
    """
    if children := locks.below(run):
        asked = Pause.objects.open().filter(run__in=children)
        locks.take(asked, "pk")  # the update would take them as it comes upon them
        asked.change(status=PauseStatus.CANCELLED, closed_at=clock.now())
    return children


def move_children(run: Run, children: Sequence[Run]) -> None:
    """End the rows of those runs, after their parent's.

    Raises Disturbed where one asked or gathered since `close_children`.
    """
    fields = {
        "failure_code": FailureCode.CANCELLED_WITH_PARENT,
        "ended_at": clock.now(),
        "lease_owner": "",
        "lease_until": None,
    }
    for child in children:
        Run.objects.filter(pk=child.pk).move(LIVE, CANCELLED, awaited=0, **fields)
    if children and (Pause.objects.open().filter(run__in=children).exists() or locks.below(run)):
        raise Disturbed


def end_children(children: Sequence[Run], *, by: str) -> None:
    """The last checkpoint and events of runs that `move_children` moved; one that had ended by
    itself meanwhile has its own.
    """
    ended = Run.objects.filter(
        pk__in=[child.pk for child in children],
        failure_code=FailureCode.CANCELLED_WITH_PARENT,
        error="",
    )
    for child in ended.select_related("definition", "parent").order_by("depth", "pk"):
        _record_cancelled(child, by=by, first=[], code=FailureCode.CANCELLED_WITH_PARENT)


def _record_cancelled(
    run: Run, *, by: str, first: Events, code: FailureCode, reason: str = ""
) -> str:
    head, phase = _stood(run)
    message = f"Cancelled {WHOSE[code]} at {phase} phase"
    Run.objects.filter(pk=run.pk).update(error=message)
    why = {"reason": reason} if reason else {}
    facts: Events = [
        *first,
        line(message, by=by),
        (EventKind.RUN_CANCELLED, {"error": message, "by": by, **why}),
    ]
    if (checkpoint := _last(run, head, CheckpointStatus.CANCELLED, code)) is not None:
        store.insert(checkpoint)
        facts.append(created(checkpoint))
    log.append(run.thread_id, run.pk, facts)
    return message


def _stood(run: Run) -> tuple[Checkpoint, str]:
    """The last checkpoint of a run that was ended, and the phase it was in."""
    # after the move: now no worker can write a newer one
    head = Thread.objects.select_related("head").get(pk=run.thread_id).head
    assert head is not None  # written with the run
    return head, _phase(run, head)


def _phase(run: Run, head: Checkpoint) -> str:
    # a run that stops before its first step has none behind it
    step = head.next_step or head.node_id or Pause.objects.get(checkpoint=head).step
    return sequence.phase_of(sequence.named(run.frozen.steps, step)["step_type"])


def _last(
    run: Run, head: Checkpoint, status: CheckpointStatus, code: FailureCode
) -> Checkpoint | None:
    """The unsaved checkpoint of an end; None where the head cannot be read: a run whose state was
    damaged can be ended all the same.
    """
    try:
        state = store.load(head)
    except store.CheckpointDamaged:
        return None
    entry = replace(
        store.entry_of(head),
        status=status,
        node_id=head.next_step or head.node_id,
        next_step="",
        metadata={**head.metadata, "failure_code": code},
    )
    return store.build(run.thread_id, run.pk, state, entry, parent=head, before=state)
