"""What the sweep does: runs of lost workers become pending again, and runs that nobody picked up
are named.
"""

from __future__ import annotations

import datetime as dt
import logging
import uuid
from collections.abc import Collection, Iterable
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F

from checkpoints import store
from checkpoints.database import clock, locks
from checkpoints.database.rounds import RoundItem
from checkpoints.events import log
from checkpoints.models import Checkpoint, Thread
from runs import urgency
from runs.engine import ending
from runs.engine.drafts import step_rows
from runs.engine.drafts.events import line
from runs.engine.ending import Wake
from runs.models import Run, RunQuerySet
from runs.states import FAILED, PENDING, RUNNING, FailureCode
from runs.urgency import Urgency
from runs.workflows.sequence import DEFAULT_QUEUE

logger = logging.getLogger(__name__)

BATCH = 500


def due_again(
    *, now: dt.datetime, patience: dt.timedelta, only: uuid.UUID | None = None
) -> dict[Wake, Urgency]:
    """Take lost runs back; give the runs that want a message, with their urgency: lost ones first,
    then those of which more child runs may start, then by queue the urgent ones. `only` is the run
    that is looked at, where it is one.
    """
    wanted = dict.fromkeys(take_back(now=now, only=only), Urgency.GOING_ON)
    gathering = _only(Run.objects.gathers_due(now=now), only).order_by("gather_due_at")
    for run_id in gathering.values_list("pk", flat=True)[:BATCH]:
        wanted.setdefault((run_id, DEFAULT_QUEUE), Urgency.GOING_ON)
    overdue = _only(Run.objects.overdue(before=now - patience), only)
    for queue in overdue.order_by().values_list("queue", flat=True).distinct():
        for run_id, how in urgency.in_order(overdue.filter(queue=queue), most=BATCH):
            wanted.setdefault((run_id, queue), how)
    return wanted


def _only(runs: RunQuerySet, only: uuid.UUID | None) -> RunQuerySet:
    return runs if only is None else runs.filter(pk=only)


def take_back(
    *, now: dt.datetime, everything: bool = False, only: uuid.UUID | None = None
) -> list[Wake]:
    """Make runs with an expired lease pending again; a run that keeps losing its workers ends as an
    incident.

    `everything` takes every running one: for a process that knows itself to be the only worker.
    """
    running = Run.objects.filter(status=RUNNING) if everything else Run.objects.lost(now=now)
    running = _only(running, only).select_related("thread__head", "parent")
    back: list[Wake] = []
    for run in _free(running.order_by("lease_until")[:BATCH]):
        with RoundItem(logger, run.shown_id):
            if run.lost_attempts + 1 >= settings.WAYSTATION_LOST_ATTEMPTS:
                back += ending.undisturbed(partial(_incident, run))
            # the lease seen names the claim that was lost: one renewed or moved meanwhile is left
            # alone
            else:
                lost = Run.objects.held(run.pk, run.epoch).filter(lease_until=run.lease_until)
                back += _return(run, lost, "was lost", lost_attempts=F("lost_attempts") + 1)
    return back


def _free(found: Iterable[Run]) -> list[Run]:
    """Those whose rows nobody holds: a host that fell silent in a transaction keeps no other run
    from being taken back.
    """
    runs = list(found)
    mine = locks.free(Run, [run.pk for run in runs])
    # only the threads of free runs: of rounds that look at once, one then finds both free
    threads = locks.free(Thread, {run.thread_id for run in runs if run.pk in mine})
    free = [run for run in runs if run.pk in mine and run.thread_id in threads]
    for run in runs:
        if run not in free:
            logger.warning("%s is locked by another session; a later sweep takes it", run.shown_id)
    return free


def hand_back(owners: Collection[str]) -> list[Wake]:
    """Make the runs that these processes hold pending again, because they end now; what they still
    write is refused.

    It is no lost attempt: the step has done nothing wrong.
    """
    back: list[Wake] = []
    for run in Run.objects.filter(status=RUNNING, lease_owner__in=owners):
        with RoundItem(logger, run.shown_id):
            back += _return(run, Run.objects.held(run.pk, run.epoch), "was stopped")
    return back


def _return(run: Run, held: RunQuerySet, what: str, **fields: Any) -> list[Wake]:
    """`give_back`; `what` became of its worker."""
    words = f"The worker {run.lease_owner} {what}; another one takes over."
    return give_back(run, held, words, **fields)


@transaction.atomic(durable=True)
def give_back(run: Run, held: RunQuerySet, words: str, **fields: Any) -> list[Wake]:
    """Make the run pending where `held` still finds it, and say why."""
    if not held.move(
        {RUNNING}, PENDING, due_at=clock.FromNow(), lease_owner="", lease_until=None, **fields
    ):
        return []
    log.append(run.thread_id, run.pk, [line(words, level="warning")])
    return [(run.pk, run.queue)]


def _incident(run: Run) -> list[Wake]:
    head = run.thread.head
    assert head is not None
    message = (
        f"Step {head.next_step or head.node_id} lost its worker {run.lost_attempts + 1} times in a "
        "row. The state before it is kept; retry when the cause is found."
    )
    held = Run.objects.held(run.pk, run.epoch).filter(lease_until=run.lease_until)
    return put_aside(run, held, message)


def put_aside(run: Run, held: RunQuerySet, message: str) -> list[Wake]:
    """End the run as an incident that a person may retry, where `held` still finds it: call within
    `ending.undisturbed`.
    """
    head = run.thread.head
    assert head is not None
    fields = {
        "error": message,
        "failure_code": FailureCode.INCIDENT,
        "ended_at": clock.now(),
        "lease_owner": "",
        "lease_until": None,
    }
    children = ending.close_children(run)
    woken = ending.tell_parent(run, failed=True)
    if not held.move({RUNNING}, FAILED, **fields):
        transaction.set_rollback(True)
        return []
    ending.move_children(run, children)
    logger.error("%s: %s", run.shown_id, message)
    facts, checkpoint = step_rows.failure(
        run, head, _state(head), code=FailureCode.INCIDENT, words=message
    )
    if checkpoint is not None:
        store.insert(checkpoint)
    log.append(run.thread_id, run.pk, facts)
    ending.end_children(children, by=run.shown_id)
    ending.note_on_parent(run, message, level="error", woken=woken)
    return woken


def _state(head: Checkpoint) -> dict[str, Any] | None:
    try:
        return store.load(head)
    except (store.CheckpointDamaged, store.StoreUnavailable):
        return None
