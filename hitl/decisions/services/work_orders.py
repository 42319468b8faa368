"""Answering, ending and forking work by the order, run or checkpoint that a door names."""

from __future__ import annotations

import uuid
from typing import Any

from django.utils.translation import gettext

from checkpoints import ids
from checkpoints.database.people import User
from checkpoints.models import Event, EventKind, Thread
from checkpoints.state import codec
from checkpoints.text import dates
from hitl.decisions import visibility
from hitl.decisions.answers import MAX_FEEDBACK, Answer
from hitl.decisions.deadlines import outcomes
from hitl.decisions.errors import AlreadyAnswered, NotPaused, RevisionMismatch, SeveralQuestions
from hitl.decisions.reviewers import suspending
from hitl.decisions.services.pauses import decide, take
from hitl.decisions.visibility import find_checkpoint, find_order, look_at_order, open_of_order
from hitl.models import Decision, Via, Vote
from runs import services as runs
from runs.models import Pause, PauseQuerySet, Run, WorkOrder
from runs.services.forks import ReasonMissing
from runs.states import LIVE, PauseStatus, RunEnded
from runs.workflows.sequence import CANCEL

MAX_REASON = 240
"""Characters of the reason for a suspension, which stands in the question."""


def answer_order(
    order_id: uuid.UUID, answer: Answer, *, by: User, pause_id: str | None = None
) -> Decision | Vote:
    """Answer the open question of a work order.

    Raises what `decide` raises, NotPaused where nothing is asked, RevisionMismatch where `pause_id`
    names another question, SeveralQuestions where it names none and child runs ask more than one.
    """
    pauses = sorted(open_of_order.get(by, order_id), key=lambda pause: pause.pk)
    takes_part = bool(pauses)
    pauses = pauses or visibility.asked_on_order(order_id, by=by)
    # who is asked from the deadline on is asked now
    if not pauses and outcomes.meet(Pause.objects.filter(run__work_order=order_id)):
        pauses = visibility.asked_on_order(order_id, by=by)
    if len(pauses) > 1 and pause_id is None:
        raise SeveralQuestions(pauses)
    if not pauses:
        raise _nothing_to_answer(look_at_order(order_id, by=by), pause_id)
    pause = next((candidate for candidate in pauses if candidate.shown_id == pause_id), pauses[0])
    if pause_id is not None and pause_id != pause.shown_id:
        late = answered_before(_named(order_id, pause_id))
        raise RevisionMismatch(pause, decision=late.decision if late else None)
    return take(answer, suspending.context_of(pause, by, takes_part=takes_part))


def _nothing_to_answer(order: WorkOrder, pause_id: str | None) -> Exception:
    """What is said to who answers an order that asks nothing: who answered the question, the last
    one where none is named; or ended it.
    """
    asked = Pause.objects.filter(run__work_order=order.pk)
    if (
        late := answered_before(asked if pause_id is None else _named(order.pk, pause_id))
    ) is not None:
        return late
    ended = (
        _ended_before(order.latest_run, RunEnded(""))
        if order.latest_run and order.latest_run.status not in LIVE
        else None
    )
    return NotPaused(
        (gettext("%(ended)s Nothing was decided.") % {"ended": ended})
        if str(ended or "")
        else gettext("This work order waits for nobody, so nothing was decided.")
    )


def _named(order_id: uuid.UUID, pause_id: str) -> PauseQuerySet:
    """The question of an order that has this id; none, where it has no such one."""
    asked = Pause.objects.filter(run__work_order=order_id)
    try:
        return asked.filter(pk=ids.parse(Pause.PREFIX, pause_id))
    except ValueError:
        return asked.none()


def cancel_order(order_id: uuid.UUID, *, by: User, via: Via, reason: str = "") -> None:
    """End a work order wherever it stands: waiting for a person, for a worker, or being worked on.

    Raises NotFound, RunEnded, AlreadyAnswered where an answer came first, and what else `decide`
    raises where it waits for one.
    """
    order = find_order(order_id, by=by)
    if order.latest_run is None:
        runs.cancel(order.pk, by=by)  # which says that there is nothing to end
    else:
        end_run(order.latest_run, by=by, via=via, reason=reason)


def end_run(run: Run, *, by: User, via: Via, reason: str = "") -> None:
    """End a run that this person may see; one that asks is answered with cancel. The reason is kept
    with that decision, of one that asks nothing with the event of its end.

    Raises RunEnded, or AlreadyAnswered where an answer came at the same moment; both say who was
    first.
    """
    asks = Pause.objects.open().filter(run=run)
    pause = asks.first()
    if pause is None:
        try:
            words = codec.readable(reason).strip()[:MAX_FEEDBACK]
            return runs.cancel_run(run, by=by, reason=words)
        except RunEnded as ended:
            pause = asks.first()  # it may have asked just now
            if pause is None:
                raise _ended_before(run, ended) from ended
    decide(pause.pk, Answer(CANCEL, via, feedback=reason), by=by)
    return None


def _ended_before(run: Run, ended: RunEnded) -> RunEnded:
    """The same refusal, with who cancelled the run and when, where somebody did; or when it
    expired.
    """
    expired = (
        Pause.objects.filter(run=run, status=PauseStatus.EXPIRED).order_by("-closed_at").first()
    )
    if expired is not None and expired.closed_at is not None:
        at = dates.told(expired.closed_at, exact=True)
        return RunEnded(
            gettext(
                "It expired at %(at)s: nobody had answered in time. There was nothing to cancel."
            )
            % {"at": at}
        )
    event = (
        Event.objects.filter(thread=run.thread_id, kind=EventKind.RUN_CANCELLED)
        .order_by("-seq")
        .first()
    )
    if event is None or event.run_id != run.pk:
        return ended
    at = dates.told(event.at, exact=True)
    return RunEnded(
        gettext("Cancelled already by %(event)s at %(at)s, so there was nothing to cancel.")
        % {"event": event.data.get("by"), "at": at}
    )


def answered_before(pauses: PauseQuerySet) -> AlreadyAnswered | None:
    """What is said to who answers the latest of these questions too late; None where that is still
    open, or its run was cancelled.
    """
    last = pauses.shown().order_by("-id").first()
    decision = Decision.objects.answer_to(last) if last is not None else None
    over = last is not None and (decision is not None or last.status == PauseStatus.EXPIRED)
    return AlreadyAnswered(last, decision) if last is not None and over else None


def suspend_order(order_id: uuid.UUID, *, by: User, reason: str = "") -> None:
    """Have an order stop at its next step boundary.

    Raises NotFound, RunEnded where nothing works, and forks.ReasonMissing where a person who takes
    no part does not say why, or says too much.
    """
    order = visibility.find_to_suspend(order_id, by=by)
    reason = reason_to_suspend(reason, order.thread, by=by)
    runs.suspend(order.pk, by=by, reason=reason)


def reason_to_suspend(reason: str, thread: Thread, *, by: User) -> str:
    """Give the reason as it is kept: one line. Raises forks.ReasonMissing."""
    reason = " ".join(codec.readable(reason).split())
    if len(reason) > MAX_REASON:
        raise ReasonMissing(
            gettext("A reason has up to %(most)s characters.") % {"most": MAX_REASON}
        )
    if not reason and visibility.is_observer(thread, by=by):
        raise ReasonMissing(gettext("Say why: you take no part in this work."))
    return reason


def fork(
    checkpoint_id: uuid.UUID, *, by: User, reason: str, state: dict[str, Any] | None = None
) -> Run:
    """Fork from a checkpoint that this person may see; raises NotFound, and what
    `runs.services.fork` raises.
    """
    return runs.fork(find_checkpoint(checkpoint_id, by=by).pk, by=by, reason=reason, state=state)
