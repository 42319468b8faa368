"""Turns on a thread: new input continues where the thread stands, unless the caller says exactly
where to go on from and with what.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext

from checkpoints import store
from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.events import log
from checkpoints.models import Checkpoint, CheckpointStatus, Thread
from checkpoints.state import codec, redaction, reducers
from checkpoints.text.states import state_words
from runs import definitions, keyed, urgency
from runs.definitions import pictures, readiness, rights
from runs.engine import approvals
from runs.engine.drafts.events import line, unkept
from runs.engine.start import HeadMoved, Start, begin, edited_midway, following
from runs.models import Definition, Run, Template
from runs.services import FIRST_STATE, InputInvalid, check_input, take_up
from runs.services.forks import check_imported, terms
from runs.states import CANCELLED, FAILED, LIVE, RETRIED
from runs.tasks import nudge_on_commit
from runs.threads import conversation, memory, opening
from runs.workflows import attachments, owned, tool_calls
from runs.workflows.refusals import in_json

OFFERED_FOR = dt.timedelta(minutes=30)
"""How long after its failure a run is offered to be resumed when new input comes."""
PER_TURN = (
    "decided",
    "decided_content",
    "revision_feedback",
    owned.RESUME_CONTEXT,
    tool_calls.DECISIONS,
)
"""The engine's state keys that do not outlive a turn."""
NOT_KEPT = owned.Keeps()


class ThreadBusy(Exception):
    """A run of the thread is alive, so no other may begin."""

    code = "run_live"


class NothingToResume(Exception):
    """There is no step to go on with: the message says why. Nothing was changed."""

    code = "nothing_to_resume"


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What a caller gives with a new run.

    With `input` alone (or nothing) the thread's latest checkpoint says where to go on, and `input`
    joins its state by the workflow's reducers. Each of the other three takes over, entirely: see
    `plan`.
    """

    template: str = ""
    """Slug; needed on a thread that has not run yet, else the one of its last run."""
    input: Mapping[str, Any] | None = None
    """The new part of the state."""
    state: Mapping[str, Any] | None = None
    """The whole state: nothing is loaded or merged."""
    resume_from: str = ""
    """The step to begin with."""
    checkpoint_id: uuid.UUID | None = None
    """The checkpoint to go on from, instead of the latest."""
    replaces: str = ""
    """The id of an earlier message that `input` takes the place of: as if it had been said then,
    with what came before it.
    """
    interrupt_before: Sequence[str] = ()
    interrupt_after: Sequence[str] = ()
    """Steps at which this run asks, whatever the template says; `step/sub-step` for those of its
    child runs.
    """
    reason: str = ""
    step_around: bool = False
    """Begin also behind a review that stands in the way; the caller records that, in the same
    transaction (`hitl.decisions.review_bypass`).
    """

    @property
    def manual(self) -> bool:
        return bool(self.state is not None or self.resume_from or self.checkpoint_id)

    @property
    def by_hand(self) -> bool:
        """It says itself what it goes on from, so it answers no question and waits for nobody."""
        return self.manual or bool(self.replaces)

    @property
    def steers(self) -> bool:
        """Whether more than a checkpoint as it stands is named: a step, a state, or input for the
        middle of a run.
        """
        return self.manual and bool(self.state is not None or self.resume_from or self.input)


@dataclass(frozen=True, kw_only=True)
class ThreadPosition:
    """Where a thread stands: what a turn goes on from."""

    thread: Thread
    head: Checkpoint | None
    last: Run | None
    """The run that wrote the head."""


open_thread = transaction.atomic(durable=True)(opening.make_thread)
"""A thread without a work order, in a transaction of its own."""


def place_of(thread_id: uuid.UUID) -> ThreadPosition:
    thread = Thread.objects.select_related("head").get(pk=thread_id)
    head = thread.head
    related = Run.objects.select_related("definition", "thread", "work_order")
    return ThreadPosition(
        thread=thread,
        head=head,
        last=related.filter(pk=head.run_id).first() if head else None,
    )


def offer(place: ThreadPosition, *, now: dt.datetime) -> dict[str, str] | None:
    """The failed run to resume instead, as `{"run_id", "checkpoint_id", "failed_at"}`."""
    last, head = place.last, place.head
    if last is None or head is None or not last.keeps_checkpoints or last.status != FAILED:
        return None
    if last.ended_at is None or last.ended_at < now - OFFERED_FOR:
        return None
    return {
        "run_id": last.shown_id,
        "checkpoint_id": head.shown_id,
        "failed_at": last.ended_at.isoformat(),
    }


def invoke(thread_id: uuid.UUID, turn: Turn, *, by: User) -> Run:
    """Begin a run on a thread that no live run holds: given input alone, all else follows from the
    thread's latest checkpoint.

    Raises:
        ThreadBusy: a run is alive; with its question open, that is to be answered first.
        NothingToResume: no input, and nothing that a run could go on with.
        InputInvalid, definitions.TemplateNotFound: what was given cannot be used.
        ReviewStands: the caller names a place behind a step that has review rules.
        rights.NotPermitted, readiness.CannotRun: the template is not for this person, or cannot run
            here.
        store.CheckpointDamaged, reducers.MergeFailed: the state cannot be loaded or merged; never a
            silent fresh start.
    """
    try:
        with transaction.atomic(durable=True):
            return take_turn(thread_id, turn, by=by)
    except IntegrityError as error:  # run_one_live_per_thread: of two turns at once one wins
        raise ThreadBusy(began_meanwhile()) from error


def began_meanwhile() -> str:
    return gettext("Another run of this thread began at the same moment. Nothing was changed.")


def take_turn(thread_id: uuid.UUID, turn: Turn, *, by: User) -> Run:
    """`invoke`, inside the caller's transaction; of two turns at once the other one gets the
    database's IntegrityError.
    """
    place = place_of(thread_id)
    check_free(place)
    if (
        place.last is not None
        and not turn.manual
        and turn.input is None
        and place.last.status in RETRIED
    ):
        return _retry(place, by)
    goes_on = turn.input is None and not turn.by_hand and edited_midway(place.head)
    if goes_on and place.head is not None:
        turn = replace(turn, checkpoint_id=place.head.pk)
    definition = definition_of(turn, place)
    rights.check_order(definition.template_slug, by)
    _check_stops(definition, turn)
    thread = place.thread
    memory.check(thread, turn.input, definition)
    before = memory.of(thread, definition) if place.head is None and not turn.manual else None
    start = plan(
        turn,
        place,
        definition,
        checkpoint_of(turn, place, thread_id),
        now=clock.now(),
        known=before,
    )
    check_imported(start.parent, definition.steps, start.next_step)
    if turn.manual:
        start = terms(
            definition,
            start,
            steered=turn.steers,
            wrote=_pinned(start.parent),
            around=turn.step_around,
        )
    keyed.made(thread.shown_id)
    soon = urgency.of_new(thread.owner, thread.team)
    run = begin(
        thread,
        definition,
        None,
        start,
        unmoved=True,
        input=redaction.redact(dict(turn.input or {})),
        interrupt_before=list(turn.interrupt_before),
        interrupt_after=list(turn.interrupt_after),
        forked_from=start.parent if (turn.checkpoint_id and not goes_on) or turn.replaces else None,
        reason=turn.reason,
        started_by=by,
    )
    because = f": {turn.reason}" if turn.reason else ""
    told = [f"{by.get_username()} began a run at step {start.next_step}{because}"]
    if before:
        told.append(
            f"Knows what was said on {before.thread}, with the same user in the same session"
        )
    given = {**(turn.state or {}), **(turn.input or {})}
    log.append(
        thread_id,
        run.pk,
        [*(line(words, start.next_step) for words in told), *unkept(given, start.next_step)],
    )
    nudge_on_commit(run.pk, run.queue, urgency=soon)
    keyed.made(run.shown_id)
    return run


def check_turn(thread_id: uuid.UUID, turn: Turn, *, by: User) -> ThreadPosition:
    """Raise what `invoke` would for this input, were the thread free; gives where the thread
    stands.
    """
    place = place_of(thread_id)
    definition = definition_of(turn, place)
    rights.check_order(definition.template_slug, by)
    _check_stops(definition, turn)
    _check_own(place)
    if turn.input:
        memory.check(Thread.objects.get(pk=thread_id), turn.input, definition)
    return place


def check_free(place: ThreadPosition) -> None:
    """Raise ThreadBusy where no run may begin."""
    last = place.last
    if last is not None and last.status in LIVE:
        raise ThreadBusy(
            gettext("%(shown_id)s is %(status)s on this thread. Answer, cancel or await it first.")
            % {"shown_id": last.shown_id, "status": state_words(last.status).lower()}
        )
    _check_own(place)


def _check_own(place: ThreadPosition) -> None:
    last = place.last
    if last is not None and last.parent_id is not None:
        words = gettext("This thread belongs to a child run; go on with the run that started it.")
        raise ThreadBusy(words)
    if last is not None and last.work_order_id is not None:
        words = gettext(
            "This thread belongs to a work order. Retry the order, or fork one of its checkpoints."
        )
        raise ThreadBusy(words)


def _retry(place: ThreadPosition, by: User) -> Run:
    """Nothing new was said: the run that failed goes on at the step that failed; what expired is
    asked again.
    """
    # looked at by the caller
    assert place.last is not None and place.head is not None  # noqa: PT018
    run = take_up(place.last, place.head)
    later = Checkpoint.objects.filter(thread=place.thread, graph=None, pk__gt=place.head.pk)
    if later.exclude(run_id=run.pk).exists():
        raise HeadMoved
    told = line(f"Resumed by {by.get_username()}", place.head.next_step)
    log.append(place.last.thread_id, run.pk, [told])
    nudge_on_commit(run.pk, run.queue)
    return run


def plan(
    turn: Turn,
    place: ThreadPosition,
    definition: Definition,
    checkpoint: Checkpoint | None,
    *,
    now: dt.datetime,
    known: memory.Remembered | None = None,
) -> Start:
    """Where the run begins, and with what state.

    By itself: a thread that has not run begins at the first step; after a completed run the input
    is the next turn, with the accumulated state; after a failed one too, with the offer to resume
    that one. By hand: `state` is the whole state and nothing is loaded; `resume_from` is the step,
    and what `input` comes with it is the whole state likewise; with `checkpoint_id` its state is
    loaded and `input` joins it.
    """
    before = store.load(checkpoint) if checkpoint else None
    if turn.manual:
        return _by_hand(turn, definition, checkpoint, before)
    if turn.input is None and checkpoint is not None:
        raise NothingToResume(
            "The last run of this thread has ended and no input came with this one, so there is "
            "nothing to go on with."
        )
    kept = {
        key: value
        for key, value in (before or (known.state if known else {})).items()
        if key not in PER_TURN and not owned.kept().get(key, NOT_KEPT).per_turn
    }
    kept = _with_cut_off(kept, _wrote(checkpoint) if turn.replaces else place.last, definition)
    state = reducers.apply({**FIRST_STATE, **kept}, turn.input or {}, definition.reducers)
    if offered := None if turn.replaces else offer(place, now=now):
        known_of_it = {key: offered[key] for key in ("checkpoint_id", "failed_at")}
        state = {**state, owned.RESUME_CONTEXT: known_of_it}
    return Start(
        state=state,
        next_step=definition.steps[0]["name"],
        parent=checkpoint,
        before=before,
        carried=("git",),
        metadata=approvals.staying(checkpoint.metadata if checkpoint else {}),
    )


def _by_hand(
    turn: Turn,
    definition: Definition,
    checkpoint: Checkpoint | None,
    before: dict[str, Any] | None,
) -> Start:
    if turn.state is not None:
        # decisions on tool calls are of another turn, and anybody may write them
        state = {key: value for key, value in turn.state.items() if key != tool_calls.DECISIONS}
    elif turn.resume_from and turn.input is not None and turn.checkpoint_id is None:
        state = dict(turn.input)
    elif before is not None and not turn.input:
        state = before  # as it stands, to the letter: what was approved of it holds
    else:
        state = reducers.apply(
            before if before is not None else FIRST_STATE, turn.input or {}, definition.reducers
        )
    return Start(
        state=state,
        next_step=turn.resume_from or _follows(checkpoint, definition.steps[0]["name"]),
        parent=checkpoint,
        before=before,
    )


def _pinned(checkpoint: Checkpoint | None) -> Definition | None:
    """What the run that wrote a checkpoint is pinned to; None where none of Waystation's own
    did.
    """
    wrote = _wrote(checkpoint)
    return wrote.frozen if wrote is not None else None


def _wrote(checkpoint: Checkpoint | None) -> Run | None:
    return Run.objects.filter(pk=checkpoint.run_id).first() if checkpoint is not None else None


def _with_cut_off(
    state: dict[str, Any], last: Run | None, definition: Definition
) -> dict[str, Any]:
    """The state with what was said in the run before, where that was cancelled before its step
    could keep it.
    """
    if (
        last is None
        or last.status != CANCELLED
        or definition.reducers.get(conversation.MESSAGES) != "upsert_by_id"
    ):
        return state
    cut_off = conversation.cut_off(last, state)
    return (
        reducers.apply(state, {conversation.MESSAGES: cut_off}, definition.reducers)
        if cut_off
        else state
    )


def _follows(checkpoint: Checkpoint | None, first: str) -> str:
    """The step that comes after a checkpoint, as it says itself.

    Where it asked, the step that asked.
    """
    if checkpoint is None:
        return first
    if checkpoint.status == CheckpointStatus.COMPLETED:
        raise NothingToResume(
            "Nothing follows this checkpoint: its run was complete. Name an earlier one, or "
            "the step to resume from."
        )
    return following(checkpoint)


def checkpoint_of(turn: Turn, place: ThreadPosition, thread_id: uuid.UUID) -> Checkpoint | None:
    if turn.replaces:
        return conversation.before(thread_id, place.head, turn.replaces)
    if turn.checkpoint_id is None:
        return place.head
    checkpoint = Checkpoint.objects.filter(pk=turn.checkpoint_id, thread=thread_id).first()
    if checkpoint is None:
        raise InputInvalid.of("checkpoint_id", "This thread has no such checkpoint.")
    wrote = _wrote(checkpoint)
    if wrote is not None and not wrote.keeps_checkpoints:
        raise NothingToResume(
            "The template of that run keeps no checkpoints to go on from. Send new input, "
            "which begins a new run."
        )
    return checkpoint


def definition_of(turn: Turn, place: ThreadPosition) -> Definition:
    """The template's current version; a run by hand from a checkpoint keeps to the definition that
    wrote it.
    """
    if turn.state is not None and turn.input is not None:
        raise InputInvalid.of("state", "Give the whole state or new input, not both.")
    if turn.replaces and (turn.manual or turn.input is None):
        raise InputInvalid.of(
            "replaces", "What takes a message's place is new input, and nothing else beside it."
        )
    _check_json(turn)
    if place.last is not None and turn.manual and not turn.template:
        return place.last.definition
    slug = turn.template or (place.last.definition.template_slug if place.last else "")
    if not slug:
        raise InputInvalid.of(
            "template", "This thread has not run yet: name the template of its first run."
        )
    template = definitions.current(slug)
    _check_template(template, turn)
    kinds = definitions.Kinds()
    readiness.require(template, team=place.thread.team_id, kinds=kinds)
    return definitions.freeze(template, kinds=kinds)


def _check_json(turn: Turn) -> None:
    for name in ("input", "state"):
        value = getattr(turn, name)
        try:
            codec.check(dict(value or {}), name)
        except codec.NotJson as error:
            raise InputInvalid.of(name, str(error)) from error
    if names := owned.named(turn.input):
        raise InputInvalid.of("input", owned.refusal(names))


def _check_template(template: Template, turn: Turn) -> None:
    if template.needs_repository:
        raise InputInvalid.of(
            "template", f"{template.title} works on a repository: make a work order of it."
        )
    if attachments.names_in(template.input_schema):
        raise InputInvalid.of(
            "template", f"{template.title} works on a file: make a work order of it."
        )
    if not turn.manual and template.input_schema:
        check_input(template, dict(turn.input or {}))


def _check_stops(definition: Definition, turn: Turn) -> None:
    steps = {step["name"] for step in definition.steps}
    stops = pictures.stops(definition.steps, [*turn.interrupt_before, *turn.interrupt_after])
    for field, names, known in [
        ("interrupt_before", turn.interrupt_before, stops),
        ("interrupt_after", turn.interrupt_after, stops),
        ("resume_from", [turn.resume_from] if turn.resume_from else [], steps),
    ]:
        if unknown := sorted(set(names) - known):
            there = ", ".join(sorted(known))
            raise InputInvalid.of(
                field, f"The template has no step {in_json(unknown[0], 100)}. It has {there}."
            )
