"""Smart threads: a message on a thread answers what it waits for, or begins the next run. The
response says which it was.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction

from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.models import Checkpoint, Thread, WhenBusy
from checkpoints.store.prepared_queries import Prepared
from hitl.decisions import review_bypass, visibility
from hitl.decisions.reviewers import policy
from hitl.decisions.services import (
    AlreadyAnswered,
    Answer,
    AnswerInvalid,
    NotFound,
    NotPaused,
    SeveralQuestions,
    answered_before,
    decide,
    end_run,
    reason_to_suspend,
)
from hitl.models import Decision, Via, Vote
from runs import keyed
from runs import services as runs
from runs.models import Pause, QueuedTurn, Run
from runs.security import scopes
from runs.states import LIVE, STOPS, RunEnded
from runs.threads import edits, memory, turns
from runs.threads import message_queue as lines
from runs.threads.message_queue import TurnRefused
from runs.threads.turns import ThreadBusy, Turn
from runs.workflows.refusals import in_json
from runs.workflows.sequence import APPROVE, CANCEL, REVISE
from runs.workflows.wait_for_input import ANSWER, text_field

WORDS = {"APPROVE": APPROVE, "REJECT": CANCEL}
"""The exact messages that decide; any other text is the answer, or feedback for a revision."""
TRIES = 5
"""Runs that a message may find in its way."""
INTERRUPTED = "Interrupted by the next message"
TEXT_KEYS = ("input", "content")
"""Where an input object holds a person's message."""


@dataclass(frozen=True, kw_only=True)
class MessageOutcome:
    """What became of a message."""

    run: Run
    """The run to follow."""
    how: str
    """`started` a run, `resumed` one, `answered` its question with `decision`, `voted` where others
    must approve too, `asked` that again,
    `following` one at work, `queued` behind it, or `interrupted` it and started another."""
    decision: Decision | None = None
    queued: QueuedTurn | None = None
    """The message that waits for its turn, or waited a moment."""
    place: int = 0
    """Its place in the line, from 1; 0 where it waits no more."""
    interrupted: Run | None = None
    """The run that was cancelled for it."""
    offer: Mapping[str, str] | None = None
    """A run that failed within 30 minutes and could be resumed instead."""


def say(
    thread_id: uuid.UUID,
    turn: Turn,
    *,
    by: User,
    via: Via,
    auto_resume_pending: bool = True,
    when_busy: WhenBusy | None = None,
) -> MessageOutcome:
    """Give a thread new input.

    With a question open, a message answers it: `APPROVE` approves, `REJECT` cancels, other text is
    the answer or the feedback of a revision; an interrupt goes on with the input merged; no input
    asks again. Else a run begins: see `runs.threads.turns.invoke`.

    While a run is alive that asks nothing, `Thread.when_busy` says what becomes of the message:
    refused, queued, or it interrupts.

    Args:
        auto_resume_pending: False leaves the question alone: the message is no answer, and waits
            behind the run that asks, where nothing else is said.
        when_busy: for this message alone, in place of the thread's own.
    Raises:
        NotFound, and what `decide`, `runs.threads.turns.invoke` and
        `runs.threads.message_queue.put` raise.
    """
    if not visibility.sees(thread_id, by=by):
        raise NotFound("There is no such thread.")
    pauses = open_on(thread_id)
    if len(pauses) > 1 and auto_resume_pending and not turn.by_hand:
        raise SeveralQuestions(pauses)
    if pauses and auto_resume_pending and not turn.by_hand:
        return answer(pauses[0], turn.input, by=by, via=via)
    scopes.check_start(steers=turn.by_hand or turn.step_around)
    # an answer that came too late is no new turn
    if auto_resume_pending and not turn.by_hand and _text(turn.input) in WORDS:
        raise answered_before(Pause.objects.filter(run__thread=thread_id)) or NotPaused(
            "This thread asks nothing, so nothing was decided."
        )
    thread = visibility.find_thread(thread_id, by=by)  # who is only asked begins nothing
    if pauses and when_busy is None and thread.when_busy == WhenBusy.REFUSE:
        when_busy = WhenBusy.QUEUE
    place = turns.place_of(thread_id)
    waits = turn.input is not None and not turn.by_hand
    offer = turns.offer(place, now=clock.now()) if waits else None
    if waits and QueuedTurn.objects.waiting().filter(thread=thread_id).exists():  # nobody overtakes
        return _stand_in_line(thread, turn, by=by, via=via, when_busy=when_busy)
    try:
        run = (
            review_bypass.say(thread_id, turn, by=by, via=via)
            if turn.step_around
            else turns.invoke(thread_id, turn, by=by)
        )
    except ThreadBusy:
        if not waits or (when_busy or thread.when_busy) == WhenBusy.REFUSE:
            raise
        return _stand_in_line(thread, turn, by=by, via=via, when_busy=when_busy)
    return MessageOutcome(
        run=run, how="resumed" if run.retry_of_id or turn.checkpoint_id else "started", offer=offer
    )


def _stand_in_line(
    thread: Thread, turn: Turn, *, by: User, via: Via, when_busy: WhenBusy | None
) -> MessageOutcome:
    """Queue a message; one that interrupts makes way for itself first.

    A crash in between leaves it in the line.
    """
    interrupts = (when_busy or thread.when_busy) == WhenBusy.INTERRUPT
    queued = lines.put(thread.pk, turn, by=by, interrupts=interrupts)
    ended = _make_way(queued, by=by, via=via) if interrupts else None
    lines.begin_next(thread.pk)
    queued = QueuedTurn.objects.select_related("run").get(pk=queued.pk)
    if queued.status == QueuedTurn.Status.REFUSED:
        raise TurnRefused(queued.words)
    if queued.run is not None:
        return MessageOutcome(
            run=queued.run,
            how="interrupted" if ended else "started",
            queued=queued,
            interrupted=ended,
        )
    return MessageOutcome(
        run=Run.objects.filter(thread=thread).latest("id"),
        how="queued",
        queued=queued,
        place=lines.place_of(queued),
    )


def _make_way(queued: QueuedTurn, *, by: User, via: Via) -> Run | None:
    """Cancel the run at work, its open question with it; gives the run.

    Where this person may not, the message leaves the line.
    """
    for _ in range(TRIES):
        live = Run.objects.live().filter(thread=queued.thread_id).first()
        if live is None:
            return None
        try:
            end_run(live, by=by, via=via, reason=INTERRUPTED)
        except (RunEnded, AlreadyAnswered):  # it moved at this moment
            continue
        except policy.Refused:
            lines.withdraw(queued)
            raise
        return live
    return None


def withdraw(thread_id: uuid.UUID, turn_id: uuid.UUID, *, by: User) -> QueuedTurn:
    """Take a message that waits out of the line: for whoever takes part in the thread.

    Raises NotFound, queued.NotWaiting.
    """
    visibility.find_thread(thread_id, by=by)
    queued = QueuedTurn.objects.filter(pk=turn_id, thread=thread_id).first()
    if queued is None:
        raise NotFound("No such message waits on this thread.")
    lines.withdraw(queued)
    queued.refresh_from_db()
    return queued


def change(thread_id: uuid.UUID, *, by: User, when_busy: WhenBusy) -> Thread:
    """Choose what becomes of messages that come while a run is alive; those that wait already stay
    in the line. Raises NotFound.
    """
    thread = visibility.find_thread(thread_id, by=by)
    Thread.objects.filter(pk=thread.pk).update(when_busy=when_busy)
    thread.when_busy = when_busy
    return thread


def edit_state(
    thread_id: uuid.UUID,
    updates: Sequence[Mapping[str, Any]],
    *,
    by: User,
    step: str = "",
    checkpoint_id: uuid.UUID | None = None,
    template: str = "",
) -> Checkpoint:
    """Let new parts join a thread's state between its runs: `runs.threads.edits.edit`, for whoever
    takes part in the thread. Raises NotFound, scopes.ScopeMissing, and what that raises.
    """
    thread = visibility.find_thread(thread_id, by=by)
    scopes.check_start(steers=True)
    return edits.edit(
        thread.pk, updates, by=by, step=step, checkpoint_id=checkpoint_id, template=template
    )


def answer(pause: Pause, given: Mapping[str, Any] | None, *, by: User, via: Via) -> MessageOutcome:
    """Answer a question in words. Raises what `decide` raises."""
    scopes.check_answer()
    given = memory.check(pause.run.thread, given, pause.run.definition, asked=pause.required_inputs)
    text = _text(given)
    if pause.phase in STOPS and text is None:
        reply = Answer(APPROVE, via, update=given)
    elif given is None:
        return ask_again(pause)
    elif pause.required_inputs and text not in WORDS:
        field = "" if text is None or pause.calls else text_field(pause.required_inputs)
        payload = {field: text} if field else dict(given)
        reply = Answer(ANSWER if ANSWER in pause.answers else APPROVE, via, payload=payload)
    elif text is None:
        raise AnswerInvalid.of("input", "Send the answer as text, under `input` or `content`.")
    else:
        action = WORDS.get(text) or (ANSWER if ANSWER in pause.answers else REVISE)
        if action == REVISE and REVISE not in pause.answers:
            raise AnswerInvalid.of(
                "input",
                f"Only APPROVE or REJECT can be answered here, not {in_json(text, 60)}.",
                code="unknown_answer",
            )
        # the steps that follow read an answer as any input
        update = given if action == ANSWER else None
        reply = Answer(action, via, feedback="" if text in WORDS else text, update=update)
    decision = decide(pause.pk, reply, by=by)
    if isinstance(decision, Vote):
        return MessageOutcome(run=_fresh(pause.run_id), how="voted")
    return MessageOutcome(run=_fresh(pause.run_id), how="answered", decision=decision)


@transaction.atomic(durable=True)
def ask_again(pause: Pause) -> MessageOutcome:
    """Tell those who watch once more what is asked."""
    keyed.made(pause.run.shown_id)
    runs.tell_again(pause)
    return MessageOutcome(run=pause.run, how="asked")


def input_to(run_id: uuid.UUID, given: Mapping[str, Any], *, by: User, via: Via) -> MessageOutcome:
    """Answer the question that a run waits with.

    Raises NotPaused where it waits with none, and what `decide` raises.
    """
    pause = Pause.objects.open().shown().filter(run=run_id).first()
    if pause is None or not visibility.sees_pause(pause.pk, by=by):
        run = visibility.look_at_run(run_id, by=by)
        message = "This run waits for nobody at the moment, so the input was not taken."
        raise answered_before(Pause.objects.filter(run=run)) or NotPaused(message)
    return answer(pause, given, by=by, via=via)


def resume(
    run_id: uuid.UUID,
    *,
    by: User,
    via: Via,
    checkpoint_id: uuid.UUID | None = None,
    reason: str = "",
) -> MessageOutcome:
    """Go on with a run: the run to follow is in the answer.

    One that waits asks again, one at work is followed; a failed one is taken up where it failed.
    With `checkpoint_id` a new run begins there, whatever became of this one; its thread must be
    free. Where the run stands at that checkpoint, it is the run to follow.
    """
    run = visibility.find_run(run_id, by=by)
    if (
        checkpoint_id is not None
        and not Checkpoint.objects.filter(pk=checkpoint_id, thread=run.thread_id).exists()
    ):
        raise NotFound("The run's thread has no such checkpoint.")
    if run.status in LIVE and checkpoint_id in (None, run.thread.head_id):
        pause = Pause.objects.open().shown().filter(run=run).first()
        return ask_again(pause) if pause is not None else MessageOutcome(run=run, how="following")
    if run.work_order_id is not None:
        scopes.check_start(steers=checkpoint_id is not None)
    if run.work_order_id is not None and run.parent_id is None and checkpoint_id is None:
        return MessageOutcome(run=runs.retry(run.work_order_id, by=by), how="resumed")
    if run.work_order_id is not None and checkpoint_id is not None:
        return MessageOutcome(
            run=runs.fork(checkpoint_id, by=by, reason=reason or "Resumed from a checkpoint"),
            how="resumed",
        )
    turn = Turn(checkpoint_id=checkpoint_id, reason=reason)
    return replace(say(run.thread_id, turn, by=by, via=via), how="resumed")


def cancel(run_id: uuid.UUID, *, by: User, via: Via) -> None:
    """End a run wherever it stands.

    Raises RunEnded, or AlreadyAnswered where an answer came first.
    """
    end_run(visibility.find_run(run_id, by=by), by=by, via=via)


def suspend(run_id: uuid.UUID, *, by: User, reason: str = "") -> None:
    """Ask a run to stop at its next step boundary, and its child runs too.

    Raises NotFound, RunEnded where nothing works, and forks.ReasonMissing as `suspend_order`.
    """
    run = visibility.find_run_to_suspend(run_id, by=by)
    reason = reason_to_suspend(reason, run.thread, by=by)
    runs.suspend_run(run, by=by, reason=reason)


def _fresh(run_id: uuid.UUID) -> Run:
    return Run.objects.shown().get(pk=run_id)


def open_on(thread_id: uuid.UUID) -> list[Pause]:
    """The questions that a thread's live run waits with: its own, or those of its child runs."""
    live = next(iter(_live.get(thread_id)), None)
    if live is None:
        return []
    if not live.awaited:
        return _asked_by.get(live.pk)
    family = level = [live.pk]
    while level:
        level = list(Run.objects.live().filter(parent__in=level).values_list("pk", flat=True))
        family = family + level
    return list(Pause.objects.open().shown().filter(run__in=family).order_by("id"))


_live = Prepared(lambda thread_id: Run.objects.live().filter(thread=thread_id), uuid.UUID)
_asked_by = Prepared(
    lambda run_id: Pause.objects.open().shown().filter(run=run_id).order_by("id"), uuid.UUID
)


def _text(given: Mapping[str, Any] | None) -> str | None:
    """The message in an input object; None where it holds data."""
    if given is None or len(given) != 1:
        return None
    value = next((given[key] for key in TEXT_KEYS if key in given), None)
    return value.strip() if isinstance(value, str) else None
