"""How a run begins: its row, and the checkpoint that it goes on from."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from django.conf import settings
from django.db import IntegrityError

from checkpoints import store
from checkpoints.database import clock, statements
from checkpoints.events import log
from checkpoints.models import Checkpoint, CheckpointStatus, Thread
from checkpoints.state import codec
from checkpoints.store import Entry
from runs import hints
from runs.definitions import due_times
from runs.definitions.freezing import ending_content
from runs.engine import approvals, imported, questions
from runs.engine.drafts.events import CARRIED, EventDraft, Events, asking, created, line
from runs.engine.interruptions import LOOP_LIMIT
from runs.models import Definition, Pause, Run, WorkOrder
from runs.states import EXPIRED, FAILURE, FailureCode, PauseStatus, RunEnded, RunStatus
from runs.workflows import sequence
from runs.workflows.sequence import ON_CANCEL, ON_EXPIRE, FrozenStep

EDITED_AS = "edited_as"
"""Metadata of the checkpoint of a state that was edited between runs: the step that is taken to
have written it, or "".
"""
STEERED = tuple(
    name for name in (*CARRIED, "outputs") if name not in {approvals.KEY, approvals.SKIPPED}
)
"""Metadata that comes along to a run that begins with what a person named, or edited."""
SAME = (
    "parent",
    "child_name",
    "optional",
    "depth",
    "input",
    "interrupt_before",
    "interrupt_after",
    "started_by_id",
)
"""What a run that goes on for another one is like it in."""


ANEW = {
    "id",
    "run",
    "checkpoint",
    "status",
    "opened_at",
    "closed_at",
    "changed_at",
    "told",
    "approvals",
    "turn",
    "claimed_by",
    "claimed_until",
    *due_times.COLUMNS,
}
"""Columns of a pause that are not taken over when it is asked again."""


class NothingKept(RunEnded):
    """The run's template keeps no checkpoints, so no other run goes on where it failed.

    Nothing was changed.
    """

    code = "checkpoints_off"


class HeadMoved(IntegrityError):
    """Another run began and ended, or somebody edited the state, since the thread was read."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """Where a run begins, and what it begins with."""

    state: dict[str, Any]
    next_step: str
    """ "" for one that goes on waiting for child runs."""
    parent: Checkpoint | None = None
    """The checkpoint it goes on from; None for a thread's first."""
    before: dict[str, Any] | None = None
    """The state at `parent`."""
    carried: tuple[str, ...] = (*CARRIED, "outputs")
    """Metadata that comes along from `parent`."""
    metadata: Mapping[str, Any] | None = None


def begin(
    thread: Thread,
    definition: Definition,
    order: WorkOrder | None,
    start: Start,
    *,
    told: Sequence[EventDraft] = (),
    unmoved: bool = False,
    **fields: Any,
) -> Run:
    """Write a new run that waits for a worker, with its checkpoint and events; a thread and an
    order that are yet to be written with it, as its own.

    Call inside a transaction; the nudge is the caller's. Raises reducers.StateTooLarge.

    Args:
        told: events that follow the checkpoint's.
        unmoved: raise HeadMoved where the thread has another head by now than `thread` names.
        fields: further columns of the run.
    """
    start = _trusted(definition, start)
    queue = sequence.queue_of(definition.steps, start.next_step)
    run = Run(
        thread=thread,
        definition=definition,
        work_order=order,
        due_at=clock.FromNow(),
        queue=queue,
        **fields,
    )
    checkpoint = store.build(
        thread.pk,
        run.pk,
        start.state,
        entry_of(definition, start),
        parent=start.parent,
        before=start.before,
        most=settings.WAYSTATION_STATE_BYTES,
    )
    facts = [created(checkpoint), *told]
    if thread._state.adding:
        thread.head, thread.last_seq = checkpoint, len(facts)
        if order is not None:
            order.latest_run = run
        events = log.numbered(thread.pk, run.pk, facts)
        statements.write([thread, *([order] if order else []), run, checkpoint, *events])
        log.announce(events)
    else:
        statements.write([run])
        # from here on no other run of the thread can begin
        if unmoved and not Thread.objects.filter(pk=thread.pk, head=thread.head_id).exists():
            raise HeadMoved
        store.insert(checkpoint)
        log.append(thread.pk, run.pk, facts)
    run.due_at = clock.now()  # about what was written
    return run


def _trusted(definition: Definition, start: Start) -> Start:
    """Where a run really begins: from imported work at or before the first step that asks, with
    nothing that the document decided.
    """
    if not imported.is_imported(start.parent):
        return start
    at = imported.place(definition.steps, start.next_step)
    return replace(
        start,
        state=imported.cleaned(start.state),
        next_step=at,
        carried=(),
        metadata={**(start.metadata or {}), approvals.EDITED: True},
    )


def entry_of(definition: Definition, start: Start) -> Entry:
    """What a run's first checkpoint records."""
    steps, parent = definition.steps, start.parent
    kept = (
        {key: parent.metadata[key] for key in start.carried if key in parent.metadata}
        if parent
        else {}
    )
    waiting = parent is not None and not start.next_step
    return Entry(
        status=CheckpointStatus.ACTIVE,
        node_id=parent.node_id if waiting and parent else "",
        loop_num=parent.loop_num if waiting and parent else 1,
        next_step=start.next_step,
        completed_nodes=sequence.completed(steps, start.next_step),
        total_nodes=len(steps),
        metadata={**kept, **(start.metadata or {})},
    )


def edited_midway(head: Checkpoint | None) -> bool:
    """Whether a thread's state was edited since its last run, and a step follows."""
    return head is not None and EDITED_AS in head.metadata and bool(head.next_step)


def following(checkpoint: Checkpoint) -> str:
    """The step that a new run does next from a checkpoint; "" where nothing is left but to end.

    Where it waited, for a person or for child runs, that is the step that made it wait. One of a
    run that was cancelled, or that expired, says only where it was.
    """
    ended_waiting = (
        checkpoint.status == CheckpointStatus.CANCELLED
        or checkpoint.metadata.get("failure_code") == FailureCode.EXPIRED
    )
    if ended_waiting and checkpoint.parent is not None:
        return following(checkpoint.parent)
    waits = (
        checkpoint.status not in {CheckpointStatus.ACTIVE, CheckpointStatus.FAILED}
        or "gather" in checkpoint.metadata
    )
    return checkpoint.next_step or (checkpoint.node_id if waits else "")


def start_again(run: Run, head: Checkpoint, state: dict[str, Any], **fields: Any) -> Run:
    """A run that goes on where `run` stopped: at the step that failed, or waiting for the child
    runs that did not complete.

    It is the same execution: what is recorded under its key holds. Call inside a transaction.
    Raises NothingKept.
    """
    if not run.keeps_checkpoints:
        raise NothingKept(
            "This run's template keeps no checkpoints, so there is nothing to go on from. "
            "Begin the work anew."
        )
    foreign = imported.is_imported(head)
    gathering = "gather" in head.metadata and not head.next_step and not foreign
    metadata: dict[str, Any] = (
        {"gather": {**head.metadata["gather"], "again": True}} if gathering else {}
    )
    # the limit is one of a run, and this is another
    if head.metadata.get("failure_code") == LOOP_LIMIT and not foreign:
        metadata["loops_before"] = head.metadata.get("loops", {})
    start = Start(
        state=state,
        next_step="" if gathering else following(head),
        parent=head,
        before=state,
        carried=(*CARRIED, "outputs", "scope"),
        metadata=metadata,
    )
    same = {name: getattr(run, name) for name in SAME}
    return begin(
        run.thread, run.definition, run.work_order, start, retry_of=run, **{**same, **fields}
    )


def ask_again(pause: Pause, head: Checkpoint, state: dict[str, Any], **fields: Any) -> Run:
    """A run that waits with the question of one that was cancelled or expired while it asked, which
    gets its whole time anew.

    Nothing that came before it is done again. Call inside a transaction.
    """
    asked, run, now = pause.checkpoint, pause.run, clock.now()
    same = {name: getattr(run, name) for name in SAME}
    columns = {
        **same,
        "retry_of": run,
        "status": RunStatus.PAUSED,
        "due_at": now,
        "started_at": now,
        "queue": run.queue,
        **fields,
    }
    new = Run.objects.create(
        thread=run.thread, definition=run.definition, work_order=run.work_order, **columns
    )
    entry = replace(store.entry_of(asked), status=CheckpointStatus.PENDING_INPUT, next_step="")
    checkpoint = store.save(run.thread_id, new.pk, state, entry, parent=head, before=state)
    copied = {
        field.attname: getattr(pause, field.attname)
        for field in Pause._meta.concrete_fields
        if field.name not in ANEW
    }
    copied |= questions.opens(pause.review, run.thread, at=now)
    opened = Pause.objects.create(**copied, run=new, checkpoint=checkpoint, status=PauseStatus.OPEN)
    hints.pauses_changed_on_commit()
    log.append(run.thread_id, new.pk, asking(opened, checkpoint))
    return new


def step_after(run: Run, end: RunStatus) -> FrozenStep | None:
    """The step that follows this end of a run; None where its workflow names none. A child run has
    none of its own.
    """
    name = ON_EXPIRE if end == EXPIRED else ON_CANCEL
    step: FrozenStep | None = run.frozen.content.get("endings", {}).get(name)
    return step if run.parent_id is None else None


def follow(
    run: Run, end: RunStatus, *, code: str, words: str, after: float = 0.0
) -> list[tuple[uuid.UUID, str]]:
    """Let the step begin, `after` so many seconds, that follows the end of a run, which was written
    just now; give its run, which wants a message, with its queue.

    Call inside the transaction of that end, so that it begins once, or not at all.
    """
    step = step_after(run, end)
    if step is None:
        return []
    head = Thread.objects.select_related("head").get(pk=run.thread_id).head
    assert head is not None  # written with the run
    try:
        state = store.load(head)
    except store.CheckpointDamaged as error:
        note = f"{step['title']} cannot begin, since the state cannot be read: {error}"
        log.append(run.thread_id, run.pk, [line(note, step["name"], level="error")])
        return []
    due = cast(Any, clock.FromNow(after))
    new = _write_following(run, step, head, state, why=_why(head, code, words), due_at=due)
    return [(new.pk, new.queue)]


def _why(head: Checkpoint, code: str, words: str) -> dict[str, Any]:
    """How the run ended, for `context.failure`."""
    return {
        "step": head.node_id,
        "loop_num": head.loop_num,
        "message": words[:1_000],
        "type": "Expired" if code == "expired" else "Cancelled",
        "code": code,
        "tries": 0,
    }


def _write_following(
    run: Run,
    step: FrozenStep,
    head: Checkpoint,
    state: dict[str, Any],
    *,
    why: dict[str, Any],
    due_at: Any,
) -> Run:
    """The rows of the step's run."""
    kept = {key: head.metadata[key] for key in ("git",) if key in head.metadata}
    if approvals.EDITED in head.metadata:
        kept[approvals.EDITED] = approvals.ABOVE
    definition = _ending_definition(run.definition, step)
    start = Start(state=state, next_step=step["name"], metadata={**kept, FAILURE: why})
    thread = Thread(
        owner_id=run.thread.owner_id,
        team_id=run.thread.team_id,
        title=f"{run.thread.title}: {step['title']}"[:200],
    )
    new = Run(
        thread=thread,
        definition=definition,
        work_order_id=run.work_order_id,
        parent_id=run.pk,
        child_name=definition.content["ending"],
        optional=True,
        depth=run.depth + 1,
        started_by_id=run.started_by_id,
        due_at=due_at,
        queue=sequence.queue_of(definition.steps, step["name"]),
    )
    first = store.build(
        thread.pk, new.pk, state, entry_of(definition, start),
        parent=None, before=None, most=settings.WAYSTATION_STATE_BYTES,
    )  # fmt: skip
    facts: Events = [created(first)]
    thread.head, thread.last_seq = first, len(facts)
    events = log.numbered(thread.pk, new.pk, facts)
    statements.write([thread, new, first, *events])
    log.announce(events)
    note = line(f"{step['title']} begins.", step["name"], child=new.child_name,
                child_run_id=new.shown_id)  # fmt: skip
    log.append(run.thread_id, run.pk, [note])
    return new


def _ending_definition(above: Definition, step: FrozenStep) -> Definition:
    content = ending_content(above.content, step)
    values = {
        "template_slug": above.template_slug,
        "template_version": above.template_version,
        "content": content,
    }
    return Definition.objects.get_or_create(
        digest=codec.digest(codec.encode(content)), defaults=values
    )[0]
