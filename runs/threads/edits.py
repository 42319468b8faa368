"""A thread's state, edited between its runs as if one of its steps had written it.

Every checkpoint belongs to a run, and one that has ended writes nothing more: so an edit is a run
of its own that no worker takes, written with its end and its one checkpoint in one transaction. The
next run goes on from that.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils.translation import gettext

from checkpoints import lineage, store
from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.models import Checkpoint, CheckpointStatus, Thread
from checkpoints.state import codec, redaction, reducers
from runs import keyed
from runs.definitions import rights
from runs.engine import approvals
from runs.engine.drafts.events import line
from runs.engine.start import EDITED_AS, STEERED, Start, begin, following
from runs.models import Definition, QueuedTurn, Run
from runs.services import FIRST_STATE, InputInvalid
from runs.services.forks import check_imported, terms
from runs.states import COMPLETED, RUNNING
from runs.tasks import next_turn_on_commit
from runs.threads import memory, turns
from runs.threads.turns import NothingToResume, ThreadBusy, ThreadPosition, Turn
from runs.workflows import owned, schemas, sequence
from runs.workflows.refusals import in_json

ONLY = Q(status=COMPLETED, started_at=None)
"""Which runs are such edits: those that are complete and that no worker took."""
START = "__start__"
"""In place of a step's name: the first step follows."""


class OfWorkOrder(ThreadBusy):
    """The thread's state is a work order's record: it is forked, and never edited."""

    code = "work_order_state"


def is_edit(run: Run) -> bool:
    """Whether a run is one of ONLY."""
    return run.status == COMPLETED and run.started_at is None


def edit(
    thread_id: uuid.UUID,
    updates: Sequence[Mapping[str, Any]],
    *,
    by: User,
    step: str = "",
    checkpoint_id: uuid.UUID | None = None,
    template: str = "",
) -> Checkpoint:
    """Let what a person names join a thread's state, by the workflow's reducers; gives the
    checkpoint that holds it.

    Approvals of what came before do not count behind it, and the log says so.

    Args:
        updates: new parts of the state, one after the other.
        step: the step that is taken to have written it, or START; "" where what follows stays.
        checkpoint_id: an earlier checkpoint of the thread that it joins, instead of the latest.
        template: slug; for a thread that has not run yet.
    Raises:
        OfWorkOrder, ThreadBusy: the thread is a work order's; or a run is alive, messages wait, or
            it is a child run's.
        InputInvalid: a field that the workflow's state has not, or the engine's own; no such step.
        ReviewStands, ImportStands: a step with review rules would lie behind the edit, and another
            one follows it.
        NothingToResume, rights.NotPermitted, store.CheckpointDamaged, reducers.MergeFailed.
    """
    try:
        with transaction.atomic(durable=True):
            place = turns.place_of(thread_id)
            if place.last is not None and place.last.work_order_id is not None:
                raise OfWorkOrder(
                    gettext(
                        "The state of a work order is not edited: fork one of its checkpoints, "
                        "with other values if need be."
                    )
                )
            turns.check_free(place)
            if QueuedTurn.objects.waiting().filter(thread=thread_id).exists():
                raise ThreadBusy(turns.began_meanwhile())
            turn = Turn(template=template, state={}, checkpoint_id=checkpoint_id)
            return _edit(thread_id, turn, updates, place, by=by, step=step)
    except IntegrityError as error:  # run_one_live_per_thread
        raise ThreadBusy(turns.began_meanwhile()) from error


def _edit(
    thread_id: uuid.UUID,
    turn: Turn,
    updates: Sequence[Mapping[str, Any]],
    place: ThreadPosition,
    *,
    by: User,
    step: str,
) -> Checkpoint:
    base = turns.checkpoint_of(turn, place, thread_id)
    definition = _definition(turn, place, base)
    rights.check_order(definition.template_slug, by)
    thread = place.thread
    before = store.load(base) if base is not None else None
    state = dict(before if before is not None else FIRST_STATE)
    for update in updates:
        _check(update, state, definition, thread)
        state = reducers.apply(state, update, definition.reducers)
    given = {key: value for update in updates for key, value in update.items()}
    _check_types(given, state, definition)
    start = _terms(
        definition,
        Start(
            state=state,
            next_step=_next(definition, base, step),
            parent=base,
            before=before,
            metadata={EDITED_AS: step},
        ),
    )
    check_imported(base, definition.steps, start.next_step)
    run = begin(
        thread,
        definition,
        None,
        start,
        told=[_told(by, step, base)],
        unmoved=True,
        status=RUNNING,
        input=redaction.redact(given),
        forked_from=base if turn.checkpoint_id else None,
        started_by=by,
    )
    Run.objects.filter(pk=run.pk).move({RUNNING}, COMPLETED, ended_at=clock.now())
    keyed.made(run.shown_id)
    next_turn_on_commit(thread_id)
    written = lineage.latest(thread_id)
    assert written is not None  # just now
    return written


def _definition(turn: Turn, place: ThreadPosition, base: Checkpoint | None) -> Definition:
    """What the run that wrote the checkpoint is pinned to; of a new thread its template's."""
    if base is None:
        return turns.definition_of(turn, place)
    wrote = Run.objects.select_related("definition").filter(pk=base.run_id).first()
    if wrote is None or not wrote.keeps_checkpoints:
        raise NothingToResume(
            "No run of this server wrote this checkpoint, or its template keeps no checkpoints to "
            "go on from: it can be looked at, not edited. Send new input, which begins a new run."
        )
    return wrote.definition


def _check(
    update: Mapping[str, Any], state: Mapping[str, Any], definition: Definition, thread: Thread
) -> None:
    """Raise InputInvalid for what is no part of this state."""
    try:
        codec.check(dict(update), "values")
    except codec.NotJson as error:
        raise InputInvalid.of("values", str(error)) from error
    if names := owned.named(update):
        raise InputInvalid.of("values", owned.refusal(names))
    memory.check(thread, update, definition)
    known = {*schemas.declared(definition.state_schema), *definition.reducers, *state}
    if definition.state_schema and (unknown := sorted(set(update) - known)):
        there = ", ".join(sorted(known - owned.keys()))
        words = f"The workflow's state has no {in_json(unknown[0], 100)}. It has {there}."
        raise InputInvalid.of("values", words)


def _check_types(
    given: Mapping[str, Any], state: Mapping[str, Any], definition: Definition
) -> None:
    """Raise InputInvalid where a field is not as the workflow declares it, once it has joined."""
    schema = definition.state_schema
    written = {key: state[key] for key in given if key in schemas.declared(schema)}
    faults = schemas.validate_resume_payload(schema, written) if written else {}
    faults.pop("", None)  # others than these are missing
    if faults:
        raise InputInvalid({f"values.{field}": texts for field, texts in faults.items()})


def _next(definition: Definition, base: Checkpoint | None, step: str) -> str:
    steps = definition.steps
    if step == START or (not step and base is None):
        return steps[0]["name"]
    if not step and base is not None:
        return "" if base.status == CheckpointStatus.COMPLETED else following(base)
    try:
        return sequence.following(steps, step)
    except sequence.UnknownName as error:
        there = ", ".join(known["name"] for known in steps)
        words = f"The template has no step {in_json(step, 100)}. It has {there}."
        raise InputInvalid.of("as_node", words) from error


def _terms(definition: Definition, start: Start) -> Start:
    """As of whoever steers; where nothing follows no effect lies behind a review, and the next turn
    begins before it. That the state was edited holds for the thread's later turns, too.
    """
    if start.next_step:
        start = terms(definition, start, steered=True, wrote=definition)
    else:
        gone = approvals.dropped(start.parent.metadata if start.parent else {})
        start = replace(start, carried=STEERED, metadata={**(start.metadata or {}), **gone})
    return replace(start, metadata={**(start.metadata or {}), approvals.EDITED: approvals.STAYS})


def _told(by: User, step: str, base: Checkpoint | None) -> Any:
    how = f" as if {step} had written it" if step else ""
    gone = base is not None and any(approvals.named(base.metadata).values())
    said = ". What was approved before does not count any more" if gone else ""
    name = by.get_full_name() or by.get_username()
    return line(f"The state was edited by {name}{how}{said}", step, edited=True)
