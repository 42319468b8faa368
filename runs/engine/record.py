"""A step's commit: run row, checkpoint, pause and events in one transaction, fenced by the epoch of the claim."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django.db import transaction
from django.utils import timezone

from checkpoints import codec, live, reducers, store
from checkpoints.models import Checkpoint, CheckpointStatus, EventKind
from checkpoints.store import Entry
from runs.engine import commit, lease
from runs.engine.context import Held, loop_num
from runs.engine.interruptions import BEFORE
from runs.models import Pause, Run
from runs.states import COMPLETED, FAILED, PAUSED, PENDING, FailureCode, LeaseLost
from runs.workflows import sequence
from runs.workflows.base import Ask, Commit, Done, Go, Report, StepFailed

Facts = list[tuple[EventKind, dict[str, Any]]]
OUTPUTS = ("git_commit_count", "github_pull_request_url")
"""State keys that lists and the API show; copied to the checkpoint's metadata so that no state is loaded for them."""
KNOWN = (StepFailed, codec.NotJson, reducers.MergeFailed, store.CheckpointDamaged)
"""Errors whose words are for people, and that bring a code."""
CARRIED = ("git", "loops", "last_pause")
"""Metadata that each checkpoint takes over from its parent."""
FREE: dict[str, Any] = {"lease_owner": "", "lease_until": None, "lost_attempts": 0, "attempts": 0}


def begin(held: Held) -> None:
    """Announce the first step of a claim."""
    fields: dict[str, Any] = {"lease_until": lease.until(timezone.now())}
    facts: Facts = []
    if held.run.started_at is None:
        fields["started_at"] = timezone.now()
        facts.append((EventKind.RUN_STARTED, {"work_order_id": held.order.shown_id, "template": str(held.run.definition)}))
    _write(held, fields, [*facts, *starting(held.head)])


def starting(head: Checkpoint) -> Facts:
    """The events that tell which step begins at a checkpoint."""
    name = head.next_step
    return [
        (EventKind.STEP_STARTED, {"step": name, "loop_num": loop_num(head, name)}),
        (EventKind.LOG, {"message": f"Executing step: {name}", "level": "info", "step": name}),
    ]


class Suspended(Exception):
    """A person wants the run to stop at this step boundary; nothing was written. `by` names them."""

    def __init__(self, by: str) -> None:
        super().__init__(by)
        self.by = by


def go(held: Held, outcome: Go, *, stay: bool) -> None:
    """The step is done and another follows: in this time slice (`stay`), or when a worker takes the run up again. Raises Suspended."""
    now = timezone.now()
    fields = (
        {"lease_until": lease.until(now), "lost_attempts": 0, "attempts": 0}
        if stay
        else {"status": PENDING, "due_at": now, "queue": held.run.queue, **FREE}
    )
    to = outcome.to or ""
    checkpoint, state = _checkpoint(held, outcome.update, outcome.commit, status=CheckpointStatus.ACTIVE, next_step=to)
    facts = [_completed(held), created(checkpoint), *(starting(checkpoint) if stay else [])]
    if not commit.write(held.run, held.epoch, fields, facts, checkpoint, unless_suspended=True):
        by = Run.objects.held(held.run.pk, held.epoch).values_list("suspend_by", flat=True).first()
        raise Suspended(by) if by else _lost(held)
    held.head, held.state, held.run.attempts = checkpoint, state, 0


@transaction.atomic(durable=True)
def ask(held: Held, outcome: Ask) -> Pause:
    """The step asks a person: the run pauses and holds nothing."""
    waiting = {"blocking_reason": outcome.phase, "last_pause": outcome.phase}
    checkpoint, _ = _checkpoint(
        held,
        outcome.update,
        outcome.commit,
        status=CheckpointStatus.PENDING_INPUT,
        next_step="",
        metadata=waiting,
        ran=outcome.phase != BEFORE,
    )
    pause = _pause(held, outcome, checkpoint)
    asked = {"pause_id": pause.shown_id, "prompt": pause.question, "phase": pause.phase, "revision": pause.revision, "step": pause.step}
    facts: Facts = [
        *([_completed(held)] if outcome.phase != BEFORE else []),
        (EventKind.APPROVAL_REQUESTED, asked),
        created(checkpoint),
        (EventKind.RUN_PAUSED, {"pause_id": pause.shown_id, "phase": pause.phase}),
        _line("Workflow paused", pause.step, phase=pause.phase, work_order_id=held.order.shown_id),
    ]
    _write(held, {"status": PAUSED, **FREE, "suspend_by": ""}, facts, checkpoint)
    pause.save(force_insert=True)
    live.inbox_hint_on_commit()
    return pause


def done(held: Held, outcome: Done) -> None:
    """The run is complete."""
    step = held.head.next_step
    checkpoint, _ = _checkpoint(held, outcome.update, outcome.commit, status=CheckpointStatus.COMPLETED, next_step="")
    facts: Facts = [
        _completed(held),
        _line("Workflow completed", step),
        (EventKind.RUN_COMPLETED, {"status": "success"}),
        created(checkpoint),
    ]
    _write(held, {"status": COMPLETED, "ended_at": timezone.now(), **FREE}, facts, checkpoint)


def ended(held: Held) -> None:
    """Nothing follows the answer that the run goes on from: it is complete."""
    head = held.head
    kept = {key: head.metadata[key] for key in (*CARRIED, "outputs") if key in head.metadata}
    entry = Entry(
        status=CheckpointStatus.COMPLETED,
        node_id=head.node_id,
        loop_num=head.loop_num,
        completed_nodes=len(held.steps),
        total_nodes=len(held.steps),
        metadata=kept,
    )
    checkpoint = store.build(held.run.thread_id, held.run.pk, held.state, entry, parent=head, before=held.state)
    facts: Facts = [_line("Workflow completed", head.node_id), (EventKind.RUN_COMPLETED, {"status": "success"}), created(checkpoint)]
    _write(held, {"status": COMPLETED, "ended_at": timezone.now(), **FREE}, facts, checkpoint)


def again(held: Held, error: Exception, *, seconds: float) -> None:
    """The step failed and is tried again after so many seconds, by whoever is free then."""
    tries = held.run.attempts + 1
    words = f"{_words(error)} Tried {tries} time{'s' if tries > 1 else ''}; again in {seconds:.0f} s."
    due = timezone.now() + dt.timedelta(seconds=seconds)
    _write(held, {"status": PENDING, "due_at": due, **FREE, "attempts": tries}, [_line(words, held.head.next_step, level="warning")])


def _words(error: Exception) -> str:
    return codec.readable(str(error) if isinstance(error, KNOWN) else f"{type(error).__name__}: {error}")


def failed(held: Held, error: Exception) -> None:
    """The step failed: the run ends, its state and the step it stopped at are kept for a retry."""
    code = error.code[:64] if isinstance(error, KNOWN) else FailureCode.STEP_ERROR
    words = _words(error)
    fields = {"status": FAILED, "error": words, "failure_code": code, "ended_at": timezone.now(), **FREE}
    state = None if isinstance(error, store.CheckpointDamaged) else held.state
    facts, checkpoint = ending(held.run, held.head, state, code=code, words=words)
    _write(held, fields, facts, checkpoint)


def ending(run: Run, head: Checkpoint, state: dict[str, Any] | None, *, code: str, words: str) -> tuple[Facts, Checkpoint | None]:
    """What a failed run leaves behind: its last events, and an unsaved checkpoint that a retry goes on from.

    Without a state (it could not be read) there is no checkpoint: the head stays what it is, and nobody resumes from an empty state.
    """
    step = head.next_step
    facts: Facts = [_line(words, step, level="error"), (EventKind.RUN_FAILED, {"error": words, "failure_code": code, "step": step})]
    if state is None:
        return facts, None
    scope = head.metadata.get("scope") or f"{run.shown_id}/{step}/{loop_num(head, step)}"
    checkpoint = _failed_checkpoint(run, head, state, {"error": words, "failure_code": code, "scope": scope})
    return [*facts, created(checkpoint)], checkpoint


def _failed_checkpoint(run: Run, head: Checkpoint, state: dict[str, Any], why: dict[str, Any]) -> Checkpoint:
    step = head.next_step
    entry = Entry(
        status=CheckpointStatus.FAILED,
        node_id=step,
        next_step=step,
        loop_num=loop_num(head, step),
        completed_nodes=head.completed_nodes,
        total_nodes=head.total_nodes,
        metadata={**head.metadata, **why},
    )
    return store.build(run.thread_id, run.pk, state, entry, parent=head, before=state)


def created(checkpoint: Checkpoint) -> tuple[EventKind, dict[str, Any]]:
    """The `checkpoint_created` event of a checkpoint (S0-27)."""
    return EventKind.CHECKPOINT_CREATED, {
        "checkpoint_id": checkpoint.shown_id,
        "status": checkpoint.status,
        "node_id": checkpoint.node_id or None,
        "loop_num": checkpoint.loop_num if checkpoint.node_id else None,
        "completed_nodes": checkpoint.completed_nodes,
        "total_nodes": checkpoint.total_nodes,
    }


def _write(held: Held, fields: dict[str, Any], facts: Facts, checkpoint: Checkpoint | None = None) -> None:
    if not commit.write(held.run, held.epoch, fields, facts, checkpoint):
        raise _lost(held)


def _lost(held: Held) -> LeaseLost:
    return LeaseLost(f"{held.run.shown_id} was cancelled or taken over; nothing of epoch {held.epoch} was written")


def _completed(held: Held) -> tuple[EventKind, dict[str, Any]]:
    return EventKind.STEP_COMPLETED, {"step": held.head.next_step, **({"skipped": True} if held.passing_over else {})}


def _line(message: str, step: str, level: str = "info", **data: Any) -> tuple[EventKind, dict[str, Any]]:
    return EventKind.LOG, {"message": message, "level": level, "step": step, **data}


def _checkpoint(
    held: Held,
    update: Any,
    code: Commit | None,
    *,
    status: CheckpointStatus,
    next_step: str,
    metadata: dict[str, Any] | None = None,
    ran: bool = True,
) -> tuple[Checkpoint, dict[str, Any]]:
    """The unsaved checkpoint after a step, and its state: the update merged by the workflow's reducers."""
    step = held.head.next_step
    state = reducers.apply(held.state, update, held.reducers)
    number = loop_num(held.head, step)
    kept = {key: held.head.metadata[key] for key in CARRIED if key in held.head.metadata}
    entry = Entry(
        status=status,
        node_id=step if ran else held.head.node_id,
        next_step=next_step,
        loop_num=number if ran else held.head.loop_num,
        completed_nodes=sequence.completed(held.steps, next_step or sequence.following(held.steps, step))
        if ran
        else held.head.completed_nodes,
        total_nodes=len(held.steps),
        metadata={
            **kept,
            **(metadata or {}),
            **({"git": _git(code)} if code else {}),
            "loops": {**kept.get("loops", {}), **({step: number} if ran else {})},
            "outputs": {key: state[key] for key in OUTPUTS if key in state},
        },
    )
    return store.build(held.run.thread_id, held.run.pk, state, entry, parent=held.head, before=held.state), state


def _git(commit: Commit) -> dict[str, str]:
    """The bundle is kept before the step's commit, in its own: a blob that nothing points to does no harm."""
    return {"commit": commit.sha, "base": commit.base, "bundle": store.put_blob(commit.bundle) if commit.bundle else ""}


def _pause(held: Held, outcome: Ask, checkpoint: Checkpoint) -> Pause:
    report: Report = outcome.report
    content = codec.readable(report.content)
    patch = store.put_blob(codec.readable(report.patch).encode()) if report.patch else ""
    # pairs, not an object: canonical JSON sorts keys, and the order is the author's
    facts = [[codec.readable(label), codec.readable(value) if isinstance(value, str) else value] for label, value in report.facts.items()]
    return Pause(
        run=held.run,
        checkpoint=checkpoint,
        step=held.head.next_step,
        phase=outcome.phase,
        question=codec.readable(outcome.question)[:300],
        content=content,
        patch_digest=patch,
        facts=facts,
        effects=[codec.readable(effect) for effect in report.effects],
        content_digest=codec.digest(codec.encode([content, patch, facts])),
        revision=Pause.objects.filter(run=held.run, step=held.head.next_step, phase=outcome.phase).count() + 1,
        max_revisions=outcome.max_revisions,
        ways=dict(outcome.ways),
        labels=dict(outcome.labels),
        opened_at=timezone.now(),
    )
