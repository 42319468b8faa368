"""A step's commit: run row, checkpoint, pause and events in one transaction, fenced by the epoch of
the claim.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from functools import cache
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils.module_loading import import_string

from checkpoints import store
from checkpoints.database import clock, statements
from checkpoints.models import Checkpoint, CheckpointStatus, EventKind
from checkpoints.state import codec
from runs import hints
from runs.engine import approvals, commit, ending
from runs.engine.context.claimed_run import ClaimedRun
from runs.engine.drafts import checkpoint_frequency, failures, step_rows
from runs.engine.drafts.events import (
    MIDWAY,
    EventDraft,
    Events,
    asking,
    created,
    line,
    sleeping,
    starting,
)
from runs.engine.questions import CheckedAsk
from runs.engine.recovery import damage
from runs.engine.workers import lease
from runs.models import Pause, Run
from runs.states import (
    BEFORE,
    COMPLETED,
    FAILED,
    NOT_ASKED,
    PAUSED,
    PENDING,
    RUNNING,
    SLEEPS,
    STOPS,
    SUSPENDED,
    TRIES_AGAIN,
    FailureCode,
    LeaseLost,
)
from runs.workflows import sequence
from runs.workflows.base import Done, Go, Sleep

LOSSES = ("lost_attempts", "deaths")
"""What counts how a step was lost, until a checkpoint is behind it."""
FREE: dict[str, Any] = {
    "lease_owner": "",
    "lease_until": None,
    "attempts": 0,
    **dict.fromkeys(LOSSES, 0),
}


def claim(held: ClaimedRun) -> bool:
    """Take a pending run that is due, and announce the step that begins, in one commit.

    Of two workers one gets False.

    `held` was read before: the epoch seen then is the fence, and while a run is pending nobody else
    writes its head.
    """
    run, progress = held.run, held.progress
    fields: dict[str, Any] = {
        "status": RUNNING,
        "epoch": held.epoch,
        "lease_owner": lease.owner(),
        "lease_until": lease.term(),
    }
    facts: Events = starting(progress.head) if progress.head.next_step else []
    if run.started_at is None:
        fields["started_at"] = clock.FromNow()
        facts = [(EventKind.RUN_STARTED, _whose(held)), *facts]
    if run.held_because:
        fields["held_because"] = ""
        facts = [line("What the run was held for is over; it goes on.", progress.at), *facts]
    fence = commit.Fence(epoch=run.epoch, status=PENDING, due=True)
    return commit.write(run, fence, fields, facts)


def _whose(held: ClaimedRun) -> dict[str, Any]:
    run = held.run
    data: dict[str, Any] = {
        "work_order_id": held.order.shown_id if held.order else None,
        "template": str(run.frozen),
    }
    if run.parent_id is not None:
        data |= {"parent_run_id": Run(pk=run.parent_id).shown_id, "child": run.child_name}
    return data


class Suspended(Exception):
    """A person wants the run to stop at this step boundary; nothing was written.

    `by` names them, with their reason.
    """

    def __init__(self, by: str) -> None:
        super().__init__(by)
        self.by = by


def go(held: ClaimedRun, outcome: Go, *, stay: bool) -> None:
    """The step is done and another follows: in this time slice (`stay`), or when a worker takes the
    run up again. Raises Suspended.
    """
    to = outcome.to or ""
    write_it = not stay or checkpoint_frequency.wanted(held, outcome)
    if stay:
        # the lease is the heartbeat's: it is indexed, so dear to change; where nothing changes, the
        # run's row is locked and not written anew
        over = ["attempts", *(LOSSES if write_it else ())]
        fields: dict[str, Any] = {name: 0 for name in over if held.progress.counts[name]}
    else:
        fields = {
            "status": PENDING,
            "due_at": clock.FromNow(),
            **FREE,
            "queue": sequence.queue_of(held.steps, to),
        }
    checkpoint, state, warnings = step_rows.after_step(
        held,
        outcome.update,
        outcome.commit,
        status=CheckpointStatus.ACTIVE,
        next_step=to,
        write=write_it,
    )
    facts = [
        *_completed(held, warnings),
        *([created(checkpoint)] if write_it else []),
        *(starting(checkpoint) if stay else []),
    ]
    fields |= checkpoint_frequency.untraced(held, checkpoint, written=write_it)
    kept = checkpoint if write_it else None
    _write_unless_suspended(held, fields, facts, kept)
    held.progress.go_on(checkpoint, state, fields, written=write_it)


def fail_over(held: ClaimedRun, error: Exception, *, to: str) -> None:
    """Go on at the step that the template names for a failure of this one. Raises Suspended."""
    held.progress.fail_over(*failures.leading_on(held, error, to=to))
    if not held.progress.joining:
        return go(held, Go(to=to), stay=False)
    return ending.undisturbed(lambda: _leave_children(held, Go(to=to)))


def _leave_children(held: ClaimedRun, outcome: Go) -> None:
    """`go`, and end what still runs for the step."""
    children = ending.close_children(held.run)
    # parents are locked before their children
    if not Run.objects.held(held.run.pk, held.epoch).update(**dict.fromkeys(LOSSES, 0)):
        raise lost(held)
    ending.move_children(held.run, children)
    go(held, outcome, stay=False)
    ending.end_children(children, by=held.run.shown_id)


def sleep(held: ClaimedRun, outcome: Sleep) -> None:
    """The step is done and the next one begins later: the run is due then, and holds nothing.

    Raises Suspended.
    """
    to, until = outcome.to or "", outcome.until
    assert until is not None  # `results.parse`
    fields = {
        "status": PENDING,
        "due_at": until,
        **FREE,
        "queue": sequence.queue_of(held.steps, to),
    }
    reason = codec.readable(outcome.reason)[:200]
    checkpoint, _, warnings = step_rows.after_step(
        held,
        outcome.update,
        outcome.commit,
        status=CheckpointStatus.ACTIVE,
        next_step=to,
        metadata={"sleep_until": until.isoformat(), "sleep_reason": reason},
    )
    facts: Events = [
        *_completed(held, warnings),
        sleeping(until, reason, held.progress.at),
        created(checkpoint),
    ]
    fields |= checkpoint_frequency.untraced(held, checkpoint)
    _write_unless_suspended(held, fields, facts, checkpoint)
    held.progress.wait_until(until, fields["queue"])


@transaction.atomic(durable=True)
def ask(held: ClaimedRun, question: CheckedAsk) -> Pause:
    """The step asks a person: the run pauses and holds nothing."""
    outcome, opening = question.ask, step_rows.opening(question)
    # what a person wrote into the state is passed by nobody: people are asked
    passes = "" if approvals.EDITED in held.progress.metadata else question.passes
    waiting: dict[str, Any] = {"blocking_reason": outcome.phase, "last_pause": outcome.phase}
    if question.prompt_id:
        waiting["prompt_id"] = question.prompt_id
    if opening.get("deadline_at") is not None:
        waiting["next_deadline"] = opening["deadline_at"].isoformat()
    asks_first = outcome.phase == BEFORE
    if outcome.phase not in STOPS:
        waiting |= approvals.asking(
            held.progress.metadata,
            held.progress.at,
            outcome.report.material,
            approves=question.approves,
        )
    if question.sleeps:
        waiting[SLEEPS] = dict(question.sleeps)
    checkpoint, _, warnings = step_rows.after_step(
        held,
        outcome.update,
        outcome.commit,
        status=CheckpointStatus.PENDING_INPUT,
        next_step="",
        metadata=waiting,
        ran=not asks_first,
        midway=outcome.midway,
    )
    pause = step_rows.pause(held, question, checkpoint, opening)
    facts: Events = [
        *([] if asks_first else _completed(held, warnings)),
        *asking(pause, checkpoint),
        line(
            "Workflow paused",
            pause.step,
            phase=pause.phase,
            work_order_id=held.order.shown_id if held.order else None,
        ),
    ]
    fields = {
        "status": PAUSED,
        **FREE,
        **checkpoint_frequency.untraced(held, checkpoint, told=0 if asks_first else 1),
    }
    if outcome.phase == SUSPENDED:
        write(held, {**fields, "suspend_by": ""}, facts, checkpoint)
    else:
        _stop(held, fields, facts, checkpoint)
    statements.execute([statements.insert(pause)])
    if pause.next_at is not None:
        held.progress.wait_until(pause.next_at)
    if passes:
        _passing(settings.WAYSTATION_PASSES)(pause.pk, passes)
        if not question.sleeps:
            to = outcome.answers[sequence.APPROVE]
            held.progress.pass_review(sequence.queue_of(held.steps, to))
        return pause
    hints.pauses_changed_on_commit()
    ending.note_on_parent(held.run, f"asks: {pause.question}", pause_id=pause.shown_id)
    return pause


@cache
def _passing(path: str) -> Callable[[uuid.UUID, str], object]:
    """What answers a question for a step that passes its review, with its reason: called in the
    transaction that asks it, so nobody sees it open.
    """
    answer: Callable[[uuid.UUID, str], object] = import_string(path)
    return answer


def done(held: ClaimedRun, outcome: Done) -> None:
    """The run is complete."""
    handed = (
        {"report": step_rows.kept_report(outcome.report)}
        if outcome.report and held.run.parent_id
        else {}
    )
    checkpoint, _, warnings = step_rows.after_step(
        held,
        outcome.update,
        outcome.commit,
        status=CheckpointStatus.COMPLETED,
        next_step="",
        metadata=handed,
    )
    _complete(
        held,
        checkpoint,
        first=_completed(held, warnings),
        **checkpoint_frequency.untraced(held, checkpoint),
    )


def complete_after_answer(held: ClaimedRun) -> None:
    """Nothing follows the answer that the run goes on from: it is complete."""
    _complete(held, step_rows.after_answer(held), first=[])


def _complete(held: ClaimedRun, checkpoint: Checkpoint, *, first: Events, **more: int) -> None:
    said = checkpoint.metadata.get("outputs", {}).get(step_rows.CONCLUSION)
    end = (
        EventKind.RUN_COMPLETED,
        {"status": "success", **({step_rows.CONCLUSION: said} if said else {})},
    )
    facts: Events = [
        *first,
        line("Workflow completed", checkpoint.node_id),
        end,
        created(checkpoint),
    ]
    _end(
        held,
        {"status": COMPLETED, "ended_at": clock.now(), **FREE, **more},
        facts,
        checkpoint,
        words="",
    )


def retry_later(held: ClaimedRun, error: Exception, *, seconds: float) -> None:
    """The step failed and is tried again after so many seconds, by whoever is free then."""
    tries = held.progress.counts["attempts"] + 1
    message = f"{failures.words_of(held, error)} {failures.tried(tries)}again in {seconds:.0f} s."
    fields = {"status": PENDING, "due_at": clock.FromNow(seconds), **FREE, "attempts": tries}
    facts: Events = [
        line(
            message, held.progress.at, level="warning", code=TRIES_AGAIN, seconds=round(seconds, 3)
        )
    ]
    checkpoint = None
    if not held.progress.is_written:
        # who tries again starts from here, not from the last one that was written
        checkpoint = step_rows.where_it_stands(held)
        fields |= checkpoint_frequency.untraced(held, checkpoint, told=0)
        facts.append(created(checkpoint))
    write(held, fields, facts, checkpoint)
    # after the write: by the database's clock it is due so long after that
    held.progress.wait_until(clock.now() + dt.timedelta(seconds=seconds), held.run.queue)


def fail(held: ClaimedRun, error: Exception) -> None:
    """The step failed: the run ends, its state and the step it stopped at are kept for a retry."""
    code, text = failures.code_of(error), failures.words_of(held, error)
    fields = {
        "status": FAILED,
        "error": text,
        "failure_code": code,
        "ended_at": clock.now(),
        **FREE,
    }
    state = (
        None
        if isinstance(error, store.CheckpointDamaged) or not held.run.keeps_checkpoints
        else held.progress.state
    )
    facts, checkpoint = step_rows.failure(
        held.run,
        held.progress.head,
        state,
        code=code,
        words=text,
        written=held.progress.written,
        metadata=held.progress.metadata,
        relied=held.progress.relied,
    )
    _end(held, fields, facts, checkpoint, words=text)


def fail_as_damaged(held: ClaimedRun, error: store.CheckpointDamaged) -> None:
    """The state cannot be loaded: an incident, and a retry goes on from the last good ancestor,
    where there is one; never a fresh start.
    """
    # whole, but its key is missing: with it the run goes on from there
    locked = isinstance(error, store.StateLocked)
    good = None if locked else damage.last_good(held.run, held.progress.head)
    if good is None:
        return fail(held, error)
    fields = {
        "status": FAILED,
        "error": good.words,
        "failure_code": FailureCode.INCIDENT,
        "ended_at": clock.now(),
        **FREE,
    }
    facts, checkpoint = damage.incident(held.run, good)
    return _end(held, fields, facts, checkpoint, words=good.words)


def _end(
    held: ClaimedRun,
    fields: dict[str, Any],
    facts: Events,
    checkpoint: Checkpoint | None,
    *,
    words: str,
) -> None:
    """The run's end; with what its parent is told, and what still runs for it.

    `words` says why it failed, "" where it did not.
    """
    if held.run.parent_id is None and not held.progress.joining:
        return _stop(held, fields, facts, checkpoint)
    held.progress.wake_later(
        ending.undisturbed(lambda: _end_in_family(held, fields, facts, checkpoint, words))
    )
    held.progress.end()
    return None


def _end_in_family(
    held: ClaimedRun,
    fields: dict[str, Any],
    facts: Events,
    checkpoint: Checkpoint | None,
    words: str,
) -> list[ending.Wake]:
    children = ending.close_children(held.run) if held.progress.joining else []
    woken = ending.tell_parent(held.run, failed=bool(words))
    _stop(held, fields, facts, checkpoint)
    ending.move_children(held.run, children)
    ending.end_children(children, by=held.run.shown_id)
    ending.note_on_parent(
        held.run,
        f"failed: {words}" if words else "completed",
        level="warning" if words else "info",
        woken=woken,
    )
    return woken


def _stop(
    held: ClaimedRun, fields: dict[str, Any], facts: Events, checkpoint: Checkpoint | None
) -> None:
    """`write` where the run stops by itself: a suspension that was wanted meanwhile is met by that,
    and said.
    """
    try:
        _write_unless_suspended(held, fields, facts, checkpoint)
    except Suspended as wish:
        words = f"Suspension wanted by {wish.by}: the run stops here by itself."
        note = line(words, held.progress.at, by=wish.by)
        write(held, {**fields, "suspend_by": ""}, [note, *facts], checkpoint)


def _write_unless_suspended(
    held: ClaimedRun, fields: dict[str, Any], facts: Events, checkpoint: Checkpoint | None
) -> None:
    """`write`, or raise Suspended and write nothing."""
    fence = commit.Fence(epoch=held.epoch, unless_suspended=True)
    if not commit.write(held.run, fence, fields, facts, checkpoint):
        held_run = Run.objects.held(held.run.pk, held.epoch)
        wish = held_run.values_list("suspend_by", "suspend_because").first()
        raise Suspended(": ".join(filter(None, wish))) if wish and wish[0] else lost(held)


def write(
    held: ClaimedRun, fields: dict[str, Any], facts: Events, checkpoint: Checkpoint | None = None
) -> None:
    """Write all of it, or raise LeaseLost and write nothing."""
    if not commit.write(held.run, commit.Fence(epoch=held.epoch), fields, facts, checkpoint):
        raise lost(held)


def lost(held: ClaimedRun) -> LeaseLost:
    """What is raised where the run is no longer ours."""
    return LeaseLost(
        f"{held.run.shown_id} was cancelled or taken over; nothing of epoch {held.epoch} "
        "was written"
    )


def _not_asked(held: ClaimedRun, name: str) -> EventDraft:
    """That a step wanted an approval only where the template asks, and it does not."""
    title = next((step["title"] for step in held.steps if step["name"] == name), name)
    message = f"Nothing was asked about {title}: this template does not ask there."
    return line(message, held.progress.at, code=NOT_ASKED, about=name)


def _completed(held: ClaimedRun, warnings: Events) -> Events:
    """That the step is done; what gathered said so when its children began, and what asked midway,
    with its question.
    """
    noted = [*warnings, *(_not_asked(held, name) for name in sorted(held.progress.unasked))]
    if held.progress.failed is not None:
        return [*noted, held.progress.failed]
    if held.progress.joining or MIDWAY in held.progress.metadata:
        return noted
    return [
        *noted,
        (
            EventKind.STEP_COMPLETED,
            {"step": held.progress.at, **({"skipped": True} if held.progress.passing_over else {})},
        ),
    ]
