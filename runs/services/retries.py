"""Going on with work that failed or expired, as a new run."""

from __future__ import annotations

import uuid

from django.db import IntegrityError, transaction
from django.utils.translation import gettext

from checkpoints import store
from checkpoints.database.people import User
from checkpoints.events import log
from checkpoints.models import Checkpoint, EventKind, Thread
from runs import keyed
from runs.engine import imported
from runs.engine.drafts.events import line
from runs.engine.recovery import damage
from runs.engine.start import ask_again, start_again
from runs.models import Pause, Run, WorkOrder
from runs.services import external_runs
from runs.services.work_orders import follow
from runs.states import FAILED, RETRIED, FailureCode, PauseStatus, RunEnded


def retry(order_id: uuid.UUID, *, by: User) -> Run:
    """Go on with a work order that failed, as a new run from its last good checkpoint; of one that
    expired, its question is asked again.

    Raises RunEnded where there is nothing to retry, store.CheckpointDamaged where there is nothing
    to go on from. Where there is an earlier checkpoint to go on from, that is recorded as an
    incident first, and the error says what another retry would repeat.
    """
    try:
        return _retry(order_id, by=by)
    except IntegrityError as error:  # run_one_live_per_thread: of two retries at once one wins
        raise RunEnded(gettext("This work order is being retried already.")) from error
    except store.StateLocked:
        raise
    except store.CheckpointDamaged as error:
        message = _fall_back(order_id)
        raise (
            store.CheckpointDamaged(f"{message} Nothing began yet; retry once more to go on so.")
            if message
            else error
        ) from error


@transaction.atomic(durable=True)
def _fall_back(order_id: uuid.UUID) -> str:
    """Put the last good state behind the damaged head of a failed order, as an incident; its words,
    or "" where there is none.
    """
    order = WorkOrder.objects.shown().get(pk=order_id)
    run, head = order.latest_run, order.thread.head
    good = damage.last_good(run, head) if run is not None and head is not None else None
    if run is None or good is None:
        return ""
    facts, checkpoint = damage.incident(run, good)
    if not Run.objects.filter(pk=run.pk, status=FAILED).update(
        error=good.words, failure_code=FailureCode.INCIDENT
    ):
        return ""
    if not Thread.objects.filter(pk=order.thread_id, head=head).update(head=checkpoint):
        return good.words  # another retry was as quick, and did this
    checkpoint.save(force_insert=True)
    # that was told when it failed
    log.append(order.thread_id, run.pk, [fact for fact in facts if fact[0] != EventKind.RUN_FAILED])
    return good.words


@transaction.atomic(durable=True)
def _retry(order_id: uuid.UUID, *, by: User) -> Run:
    order = WorkOrder.objects.shown().get(pk=order_id)
    run, head = order.latest_run, order.thread.head
    if run is None or head is None or run.status not in RETRIED:
        raise RunEnded(
            gettext(
                "Only a failed work order can be retried, or one that expired; one that was "
                "cancelled stays so."
            )
        )
    keyed.made(order.shown_id)
    new = follow(order, take_up(run, head))
    log.append(
        order.thread_id,
        new.pk,
        [line(f"Retried by {by.get_username()} from step {head.next_step or head.node_id}")],
    )
    return new


def take_up(run: Run, head: Checkpoint) -> Run:
    """A run that goes on for one in RETRIED, at its thread's head: where it failed, or asking again
    what expired.

    Call inside a transaction. Raises store.CheckpointDamaged.
    """
    state = store.load(head)
    # an imported question is no row here: its step asks again
    if run.status == FAILED or imported.is_imported(head):
        return start_again(run, head, state)
    asked = Pause.objects.filter(run=run, status=PauseStatus.EXPIRED).select_related(
        "checkpoint", "run__thread", "run__definition"
    )
    expired = asked.get()
    new = ask_again(expired, head, state)
    if run.frozen.template_slug == external_runs.SLUG:
        for follow in external_runs.ASKED_AGAIN:
            follow(expired, new)
    return new
