"""What becomes of a resume event, and of an answer `{traceId, promptId, response}`.

Everything ends in `decide`. The same event sent again is the same answer; a late one hears who
answered; one that comes before its question is kept (`hitl.wait_gate.early_answers`).
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from checkpoints import ids
from checkpoints.database.people import User
from checkpoints.events import log
from checkpoints.models import EventKind, Thread
from hitl.decisions import visibility
from hitl.decisions.services import AlreadyAnswered, NotFound, NotPaused, SeveralQuestions
from hitl.models import Decision, EarlyAnswer, Via, Vote, Wait
from hitl.threads.messages import open_on
from hitl.wait_gate import early_answers, repeated_events, resume_events, waits
from hitl.wait_gate.repeated_events import EventRepeated
from hitl.wait_gate.resume_events import ResumeEvent, fits, same
from runs import keyed
from runs.models import Pause, Run
from runs.security import scopes
from runs.states import LIVE, PENDING, PauseStatus
from runs.tasks import nudge

LOOKED_AT = 50
"""Questions of the past among which an event may find its own."""


class WrongQuestion(Exception):
    """The answer names another question than the one that is open; nothing was decided.

    `pause` is that one.
    """

    code = "wrong_question"

    def __init__(self, pause: Pause) -> None:
        types, node = ", ".join(resume_events.types_of(pause)), resume_events.nodes_of(pause)[0]
        super().__init__(
            f"Nothing was decided: what is asked now is {pause.shown_id}, at {node}, which "
            f"takes as input_type {types}."
        )
        self.pause = pause


class StillWaiting(Exception):
    """There is nothing to go on with yet: the question is open."""

    code = "still_waiting"


class NotResumed(Exception):
    """The run is not behind an answer, so its engine has nothing to say of it; the message says
    why. Nothing was changed.
    """

    code = "not_resumed"


FROM = {
    Wait.Reported.RUNNING: {Wait.Reported.NOTHING},
    Wait.Reported.COMPLETED: {Wait.Reported.NOTHING, Wait.Reported.RUNNING},
    Wait.Reported.FAILED: {Wait.Reported.NOTHING, Wait.Reported.RUNNING},
}
"""What an engine may say of its run → after what."""


@dataclass(frozen=True, kw_only=True)
class Ingested:
    """What became of an event."""

    run: Run
    wait: Wait | None
    decision: Decision | None = None
    duplicate: bool = False
    """It is the answer that was given before, by the same sender, to this question or an earlier
    one.
    """
    vote: Vote | None = None
    """Others must approve too."""
    kept: EarlyAnswer | None = None
    """It came before its question."""


def ingest(event: ResumeEvent, *, by: User, via: Via) -> Ingested:
    """Answer with an event, or keep it for its question.

    Raises:
        NotFound, and what `decide` raises: AnswerInvalid leaves the question open, with a refined
            one stored.
        WrongQuestion: another question is open than the one it names.
        NotPaused: nothing is asked, and it names nothing that still could be.
        early.NotKept: it came early, and cannot be kept.
        EarlyVerdict: it came early, and is a verdict that does not name the content that it is for.
    """
    resume_events.check(event)
    run, wait = waits.find_to_answer(event.run_id, by=by)
    if (before := repeated_events.answered(event, run.thread_id, by=by)) is not None:
        return _repeated(before, run, wait, by=by)
    pause = _open_question(run, event)
    if pause is not None and fits(pause, event):
        return _give(pause, event, run, wait, by=by, via=via)
    if (asked := _asked_before(run, wait, event)) is not None:
        return _late(asked, event, run, wait, by=by)
    # who is only asked answers what is asked
    if not visibility.is_observer(run.thread, by=by) and _may_come(run, wait, pause, event):
        return Ingested(
            run=run,
            wait=wait,
            kept=early_answers.keep(
                event, run=None if wait else run, thread_id=run.thread_id, by=by, via=via
            ),
        )
    if pause is not None:
        raise WrongQuestion(pause)
    raise NotPaused("This run asks nothing at the moment, so nothing was decided.")


def _open_question(run: Run, event: ResumeEvent) -> Pause | None:
    """The question that is open, a child run's perhaps: the one that the event names, or the only
    one.
    """
    pauses = open_on(run.thread_id) if run.status in LIVE else []
    if len(pauses) < 2:
        return next(iter(pauses), None)
    fitting = [pause for pause in pauses if event.named and fits(pause, event)]
    if len(fitting) != 1:
        raise SeveralQuestions(pauses)
    return fitting[0]


def _asked_before(run: Run, wait: Wait | None, event: ResumeEvent) -> Pause | None:
    """The last closed question that the event could be for: what was asked already is answered
    late, never early.
    """
    closed = (
        Pause.objects.exclude(status=PauseStatus.OPEN).select_related("run__thread").order_by("-id")
    )
    mine = closed.filter(run__thread=run.thread_id) if wait else closed.filter(run=run)
    return next((pause for pause in mine[:LOOKED_AT] if fits(pause, event)), None)


def _may_come(run: Run, wait: Wait | None, pause: Pause | None, event: ResumeEvent) -> bool:
    """Whether the event names a question that may still be asked."""
    if event.pause_id or not event.named or (pause is not None and not event.node_id):
        return False
    if wait is not None:  # what comes next is the other engine's
        return bool(event.node_id)
    return run.status in LIVE and event.node_id in {
        "",
        *(step["name"] for step in run.frozen.steps),
    }


def _give(
    pause: Pause, event: ResumeEvent, run: Run, wait: Wait | None, *, by: User, via: Via
) -> Ingested:
    try:
        with repeated_events.claimed(event, pause, by=by):
            given = resume_events.answer(pause, event, by=by, via=via)
    except EventRepeated as repeated:
        return _repeated(repeated.question, _fresh(run), wait, by=by)
    except AlreadyAnswered as late:
        if late.decision is None or not same(late.decision, pause, event, by):
            raise
        return Ingested(run=_fresh(run), wait=wait, decision=late.decision, duplicate=True)
    if isinstance(given, Vote):
        return Ingested(run=_fresh(run), wait=wait, vote=given)
    return Ingested(run=_fresh(run), wait=wait, decision=given)


def _repeated(question: uuid.UUID, run: Run, wait: Wait | None, *, by: User) -> Ingested:
    decision = Decision.objects.filter(pause=question, undoes=None).first()
    vote = Vote.objects.filter(pause=question, voter=by).first() if decision is None else None
    return Ingested(run=run, wait=wait, decision=decision, vote=vote, duplicate=True)


def _late(pause: Pause, event: ResumeEvent, run: Run, wait: Wait | None, *, by: User) -> Ingested:
    decision = Decision.objects.answer_to(pause)
    if decision is None or not same(decision, pause, event, by):
        raise AlreadyAnswered(pause, decision)
    return Ingested(run=run, wait=wait, decision=decision, duplicate=True)


def _fresh(run: Run) -> Run:
    return Run.objects.shown().get(pk=run.pk)


def ingest_and_go_on(event: ResumeEvent, *, by: User, via: Via) -> Ingested:
    """`ingest` for an engine that goes on with the answer. Raises as that.

    Of who is only asked it is the answer alone: the engine says itself that it goes on.
    """
    ingested = ingest(event, by=by, via=via)
    goes_on = ingested.decision is not None and not visibility.is_observer(
        ingested.run.thread, by=by
    )
    if goes_on and ingested.wait is not None:
        _move(ingested.wait, Wait.Reported.RUNNING)
    return ingested


def report(run_id: str, status: str, *, by: User) -> tuple[Run, Wait]:
    """Keep what another engine says of its run behind the answer: it goes on, or has ended. Said
    twice, it is kept once.

    Raises NotFound, StillWaiting, NotResumed.
    """
    run, wait = waits.find(run_id, by=by)
    theirs = wait is not None and wait.outer.owner_id != by.pk
    if theirs or (scopes.asks() and run.thread.owner_id != by.pk):
        raise NotFound("There is no such run.")
    if wait is None:
        raise NotResumed("A run of Waystation's own says by itself where it is.")
    while not _move(wait, Wait.Reported(status)) and wait.reported != status:
        if wait.reported:
            raise NotResumed(f"The run reads {wait.reported} already.")
        if wait.pause.status == PauseStatus.OPEN:
            raise StillWaiting("The question is open, so the run neither goes on nor has ended.")
        if wait.pause.status != PauseStatus.ANSWERED:  # else it was answered at this moment
            raise NotResumed("Its last question was not answered, so it has ended already.")
    return _fresh(run), wait


@transaction.atomic(durable=True)
def _move(wait: Wait, status: Wait.Reported) -> bool:
    """Whether what the engine says is news; one compare-and-set."""
    mine = Wait.objects.filter(pk=wait.pk, pause__status=PauseStatus.ANSWERED)
    moved = mine.filter(reported__in=FROM[status]).update(reported=status)
    if moved:
        words = "goes on" if status == Wait.Reported.RUNNING else f"has ended: {status.value}"
        message = f"{wait.outer.name} {words}, as its engine says"
        said = (EventKind.LOG, {"message": message, "level": "info", "step": wait.pause.step})
        log.append(wait.outer.thread_id, wait.pause.run_id, [said])
        keyed.made(wait.pause.run.shown_id)
    wait.refresh_from_db(fields=["reported", "pause"])
    return bool(moved)


def go_on(run_id: str, *, by: User) -> tuple[Run, Wait | None]:
    """The run, to go on with; a worker is told of one of ours once more. One of another engine
    reads `running` from then on.

    Raises NotFound and StillWaiting.
    """
    run, wait = waits.find(run_id, by=by)
    if run.status in LIVE and open_on(run.thread_id):
        raise StillWaiting("The question is open, so there is nothing to go on with yet.")
    if wait is not None:
        _move(wait, Wait.Reported.RUNNING)
    if run.status == PENDING:
        nudge(run.pk, run.queue)
    return run, wait


def respond(trace_id: str, prompt_id: str, response: Any, *, by: User, via: Via) -> Ingested:
    """Answer the prompt of a trace, which is a run, a thread, or another engine's run.

    The prompt is a question's id, or the name that its author gave it; of another engine's run also
    the node that asked. Raises as `ingest`; WrongQuestion for another prompt.
    """
    run, _ = waits.find_to_answer(_run_of(trace_id), by=by)
    pauses = open_on(run.thread_id) if run.status in LIVE else []
    closed = (
        Pause.objects.filter(run__thread=run.thread_id)
        .select_related("run__thread", "checkpoint")
        .defer("checkpoint__body")
        .order_by("-id")
    )
    named = next(
        (pause for pause in [*pauses, *closed[:LOOKED_AT]] if prompt_id in _prompts(pause)), None
    )
    if named is None and pauses:
        raise WrongQuestion(pauses[0])
    if named is None:
        raise NotPaused("This trace asks nothing at the moment, so nothing was decided.")
    return ingest(
        ResumeEvent(run_id=run.shown_id, payload=response, pause_id=named.shown_id), by=by, via=via
    )


def _prompts(pause: Pause) -> set[str]:
    """What names this question; a step of ours may ask again, and so does not."""
    named = pause.checkpoint.metadata.get("prompt_id")
    return {pause.shown_id, *([named] if named else []), *resume_events.nodes_of(pause)[:-1]}


def _run_of(trace_id: str) -> str:
    """A thread's trace is that of its newest run; who may see it is looked at with that."""
    try:
        thread_id = ids.parse(Thread.PREFIX, trace_id)
    except ValueError:
        return trace_id
    newest = Run.objects.filter(thread=thread_id).order_by("-id").first()
    if newest is None:
        raise NotFound("There is no such run.")  # as what they may not see
    return newest.shown_id
