"""Pauses: each is closed with an answer, on which its run acts, or at its deadline without one."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext

from checkpoints import store
from checkpoints.database import clock
from checkpoints.events import log
from checkpoints.models import Checkpoint, CheckpointStatus, EventKind
from checkpoints.state import reducers
from checkpoints.store import Entry
from checkpoints.store.prepared_queries import PreparedUpdate, Value
from runs import hints
from runs.engine import approvals, commit, ending
from runs.engine.commit.gathering import Closing
from runs.engine.drafts.events import EventDraft, asked, created, line, sleeping, unkept
from runs.models import Pause
from runs.services import forks
from runs.services.forks import check_brought
from runs.states import (
    BEFORE,
    PAUSED,
    PENDING,
    SLEEPS,
    STOPS,
    FailureCode,
    Lifecycle,
    PauseStatus,
)
from runs.tasks import next_turn_on_commit, nudge_on_commit
from runs.workflows import sequence


class PauseClosed(Exception):
    """The pause has been answered, or its run has ended."""

    code = "pause_closed"


class While:
    """What must still hold of a pause when it is closed: `While(lambda stage: Q(stage=stage), 2)`.

    The words of the closing update are made once for each `condition`, so that is a function of a
    module.
    """

    def __init__(self, condition: Callable[..., Q], *values: Value) -> None:
        self.condition, self.values = condition, values


@dataclass(frozen=True, kw_only=True)
class Resumption:
    """An answer to a pause, checked and decided: all that the machine acts on."""

    action: str
    """One of the pause's ways out; or CANCEL, which ends the run."""
    decision_id: str
    """Shown, `dec_…`."""
    by: str
    """The name of who answered, for the log."""
    at: dt.datetime
    """When the pause is closed."""
    while_: While
    feedback: str = ""
    update: Mapping[str, Any] | None = None
    """What joins the state, by the workflow's reducers."""
    edited: str = ""
    """The content as it was approved, where a reviewer edited it."""
    external: str = ""
    """The mail address of who answered without an account."""
    by_rules: bool = False
    """Nobody's answer: the rules' own, at the deadline."""
    goes_on_at: dt.datetime | None = None
    """When the run goes on; None for at once. Until then the answer may be taken back (`undo`)."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What the log tells of the answer besides."""


def goes_on_at(pause: Pause, action: str, *, now: dt.datetime) -> dt.datetime | None:
    """When the run goes on that gets this answer, where it may be taken back until then; None where
    it goes on at once.
    """
    seconds = pause.review.get("undo", 0)
    if not seconds or action in {sequence.REVISE, sequence.CANCEL}:
        return None
    return now + dt.timedelta(seconds=seconds)


def unmoved(pause: Pause) -> While:
    """That its deadline and its stage are as they were read."""
    assert pause.deadline_at is not None  # it is over
    return While(_as_read, pause.deadline_at, pause.stage)


def _as_read(deadline_at: dt.datetime, stage: int) -> Q:
    return Q(deadline_at=deadline_at, stage=stage)


@cache
def _closing(condition: Callable[..., Q], *kinds: type[Value]) -> PreparedUpdate:
    """Closes an open pause of a key. Prepared, since whoever answers waits."""
    return PreparedUpdate(
        lambda key, status, at, changed_at, *values: (
            Pause.objects.open().filter(condition(*values), pk=key),
            {"status": status, "closed_at": at, "changed_at": changed_at},
        ),
        *(uuid.UUID, str, dt.datetime, dt.datetime),
        *kinds,
    )


def close_pause(pause: Pause, status: PauseStatus, *, at: dt.datetime, while_: While) -> None:
    """Close an open pause, or raise PauseClosed, also where `while_` does not hold of it any more.

    Call inside a transaction. While something gathers, it is noted, for `unmoved` alone.
    """
    if (gathered := commit.current()) is not None:
        assert while_.condition is _as_read  # the one that is looked at for all together
        gathered.closings.append(Closing(pause, status, at))
        return
    closing = _closing(while_.condition, *map(type, while_.values))
    if not closing.run(pause.pk, status.value, at, clock.now(), *while_.values):
        raise PauseClosed(gettext("%(shown_id)s has been answered") % {"shown_id": pause.shown_id})
    hints.pauses_changed_on_commit()


def resume(pause: Pause, answer: Resumption) -> None:
    """Close a pause, read `answerable`, and let its run go on as the answer says, or end.

    Call inside a transaction. Raises PauseClosed, reducers.MergeFailed, and forks.ReviewStands
    where the answer to a stop would change what was approved.
    """
    if answer.action == sequence.CANCEL:
        close_pause(pause, PauseStatus.CANCELLED, at=answer.at, while_=answer.while_)
        code = FailureCode.CANCELLED_BY_POLICY if answer.by_rules else FailureCode.CANCELLED_BY_USER
        received = _received(pause, answer, to="")
        _wake_after_end(
            pause, ending.cancel_asking(pause, by=answer.by, first=[received], code=code)
        )
    else:
        close_pause(pause, PauseStatus.ANSWERED, at=answer.at, while_=answer.while_)
        _go_on(pause, answer)


def _go_on(pause: Pause, answer: Resumption) -> None:
    """Write the answer as a checkpoint: its `next_step` is the way out, its state holds the
    feedback and the update, and under `decided_content` the content as it was edited.
    """
    run, action, to = pause.run, answer.action, pause.answers[answer.action]
    check_update(pause, action, answer.update)
    queue = sequence.queue_of(run.frozen.steps, to)
    before = store.load(pause.checkpoint)
    state = reducers.apply(before, answer.update, run.frozen.reducers) if answer.update else before
    verdict = {} if pause.phase in STOPS else {pause.step: action}
    state = {
        **state,
        "revision_feedback": answer.feedback if action == sequence.REVISE else "",
        "decided": {**state.get("decided", {}), **verdict},
        **_content(state, pause.step, answer.edited),
    }
    checkpoint = _checkpoint(pause, answer, state, before)
    lines = [
        line(f"Workflow resumed with decision: {action}", step=pause.step, by=answer.by),
        *unkept(answer.update or {}, pause.step),
    ]
    if action == sequence.REVISE:
        lines += [
            line(f"Re-running step: {to} with feedback", step=to),
            line(f"Revision feedback: {answer.feedback}", step=to),
        ]
    at, slept = _sleeps(pause, action, answer)
    lines += slept
    resumed_to = {"decision": action, "step": to, "lifecycle": Lifecycle.RESUMED.value}
    resumed = (
        EventKind.RUN_RESUMED,
        {
            **resumed_to,
            **({"goes_on_at": answer.goes_on_at.isoformat()} if answer.goes_on_at else {}),
        },
    )
    fields = {"status": PENDING, "due_at": at or clock.FromNow(), "queue": queue}
    facts = [_received(pause, answer, to=to), created(checkpoint), resumed, *lines]
    if not commit.write_or_note(
        run, commit.Fence(epoch=run.epoch, status=PAUSED), fields, facts, checkpoint
    ):
        raise PauseClosed(
            gettext("%(shown_id)s no longer waits for an answer") % {"shown_id": run.shown_id}
        )
    ending.note_on_parent(
        run, f"answered with {action} by {answer.by}", decision_id=answer.decision_id
    )
    nudge_on_commit(run.pk, queue, at=at)


def _sleeps(
    pause: Pause, action: str, answer: Resumption
) -> tuple[dt.datetime | None, list[EventDraft]]:
    """When the run goes on, where an approval leads to a timer, with the line that says so; else as
    the answer says, with no line.
    """
    timer = pause.checkpoint.metadata.get(SLEEPS) if action == sequence.APPROVE else None
    if not timer:
        return answer.goes_on_at, []
    begins = answer.goes_on_at or answer.at
    until = (
        dt.datetime.fromisoformat(timer["until"])
        if "until" in timer
        else begins + dt.timedelta(seconds=timer["seconds"])
    )
    if until <= begins:
        return answer.goes_on_at, []
    return until, [sleeping(until, timer["reason"], pause.step)]


def _received(pause: Pause, answer: Resumption, *, to: str) -> EventDraft:
    """The event that tells the answer."""
    label = {"label": pause.labels[answer.action]} if answer.action in pause.labels else {}
    return EventKind.APPROVAL_RECEIVED, {
        "decision_id": answer.decision_id,
        "decision": answer.action,
        "feedback": answer.feedback,
        "by": answer.by,
        **answer.details,
        **label,
        "pause_id": pause.shown_id,
        "step": pause.step,
        "to": to,
    }


def check_update(pause: Pause, action: str, update: Mapping[str, Any] | None) -> None:
    """Raise forks.ReviewStands where an answer brings what no step asked for, and that would change
    the state behind a reviewed step.
    """
    if action in pause.answers and brings(pause, update):
        check_brought(pause.run, pause.answers[action])


def tell_again(pause: Pause, **details: Any) -> None:
    """Tell those who watch once more what is asked. Call inside a transaction."""
    log.append(pause.run.thread_id, pause.run_id, asked(pause, again=True, **details))


def brings(pause: Pause, update: Mapping[str, Any] | None) -> bool:
    """Whether an answer brings what no step asked for: a stop asks for nothing."""
    return pause.phase in STOPS and bool(update)


def _content(state: Mapping[str, Any], step: str, edited: str) -> dict[str, dict[str, str]]:
    """The contents as reviewers edited them, by step; an answer without an edit takes back what was
    edited before.
    """
    before = state.get("decided_content", {})
    after = {name: text for name, text in before.items() if name != step} | (
        {step: edited} if edited else {}
    )
    return {} if after == before else {"decided_content": after}


@transaction.atomic(durable=True)
def expire(pause: Pause, *, now: dt.datetime) -> None:
    """Close an open question, `answerable`, whose deadline has passed unanswered, and end its run.

    Raises PauseClosed where it was answered, or its deadline moved, since it was read; nothing is
    written then.
    """
    expire_within(pause, now=now)


def expire_within(pause: Pause, *, now: dt.datetime) -> None:
    """`expire`, inside a transaction."""
    assert pause.deadline_at is not None and pause.deadline_at <= now  # noqa: PT018  # never early
    close_pause(
        pause,
        PauseStatus.EXPIRED,
        at=now,
        while_=unmoved(pause),
    )
    _wake_after_end(pause, ending.expire(pause, now=now))


def _wake_after_end(pause: Pause, woken: list[ending.Wake] | None) -> None:
    if woken is None:
        raise PauseClosed(
            gettext("%(shown_id)s no longer waits for an answer") % {"shown_id": pause.run.shown_id}
        )
    for run_id, queue in woken:
        nudge_on_commit(run_id, queue)
    if (gathered := commit.current()) is not None:
        gathered.ended_on.append(pause.run.thread_id)
    else:
        next_turn_on_commit(pause.run.thread_id)


def _checkpoint(
    pause: Pause, answer: Resumption, state: dict[str, Any], before: dict[str, Any]
) -> Checkpoint:
    steps, next_step = pause.run.frozen.steps, pause.answers[answer.action]
    gone = {"blocking_reason", "next_deadline", approvals.MATERIAL, approvals.KEY}
    gone |= {approvals.APPROVES, SLEEPS}
    kept = {
        **{key: value for key, value in pause.checkpoint.metadata.items() if key not in gone},
        **approvals.answered(pause, answer.action, answer.decision_id, external=answer.external),
    }
    if brings(pause, answer.update):
        kept = forks.brought(kept)
    until, slept = _sleeps(pause, answer.action, answer)
    if slept and until is not None:
        reason = pause.checkpoint.metadata[SLEEPS]["reason"]
        kept |= {"sleep_until": until.isoformat(), "sleep_reason": reason}
    if pause.phase == BEFORE:
        kept["cleared"] = next_step  # asked about already: the step begins now
    entry = Entry(
        status=CheckpointStatus.ACTIVE,
        node_id=pause.checkpoint.node_id,
        next_step=next_step,
        loop_num=pause.checkpoint.loop_num,
        completed_nodes=sequence.completed(steps, next_step),
        total_nodes=len(steps),
        metadata=kept,
    )
    return store.build(
        pause.run.thread_id,
        pause.run_id,
        state,
        entry,
        parent=pause.checkpoint,
        before=before,
        most=settings.WAYSTATION_STATE_BYTES,
    )
