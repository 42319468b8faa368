"""What people and programs may ask of the machine.

Each outer function is one transaction and tells its whole story in order.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet

from checkpoints import store
from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.events import log
from checkpoints.models import Checkpoint, CheckpointStatus, EventKind, Thread
from checkpoints.state import codec, redaction, reducers
from checkpoints.store import Entry
from runs import definitions, hints, keyed, urgency
from runs.definitions import readiness, rights
from runs.engine import approvals, code_changes, commit, damage, ending, imported
from runs.engine.events import created, line, unkept
from runs.engine.interruptions import BEFORE, STOPS
from runs.engine.start import Start, again, ask_again, begin
from runs.git import repositories
from runs.models import Definition, Pause, Repository, Run, Template, WorkOrder
from runs.services import forks, uploads
from runs.services.forks import (
    ForkForbidden,
    NothingToFork,
    check_brought,
    check_imported,
    check_reason,
    origin_of,
    terms,
)
from runs.states import (
    FAILED,
    PAUSED,
    PENDING,
    RETRIED,
    RUNNING,
    FailureCode,
    Lifecycle,
    PauseStatus,
    RunEnded,
)
from runs.tasks import next_turn_on_commit, nudge_on_commit
from runs.urgency import Urgency
from runs.workflows import attachments, registry, schemas, sequence, tool_calls
from runs.workflows.base import DeliveryPolicy

FIRST_STATE = imported.NOTHING_ANSWERED
"""What every thread's first run starts from, beside its input."""


class InputInvalid(Exception):
    """A work order's input does not fit its template. `errors` maps a field to sentences."""

    code = "input_invalid"

    def __init__(self, errors: dict[str, list[str]]) -> None:
        super().__init__(
            "Nothing was begun: "
            + " ".join(f"{field}: {text}" for field, texts in errors.items() for text in texts)
        )
        self.errors = errors


class OrdersStopped(Exception):
    """An operator has stopped work orders on this repository."""

    code = "template_execution_off"


class PauseClosed(Exception):
    """The pause has been answered, or its run has ended."""

    code = "pause_closed"


def submit(
    template: str,
    *,
    by: User,
    title: str = "",
    request: str = "",
    input: Mapping[str, Any] | None = None,
    repository_url: str = "",
    team: Group | None = None,
    interrupt_before: Sequence[str] = (),
    interrupt_after: Sequence[str] = (),
    again_of: WorkOrder | None = None,
) -> WorkOrder:
    """Make a work order and start it.

    Args:
        template: "" for the repository's own; TemplateNotNamed where it has none. interrupt_before,
        interrupt_after: names of steps at which this run asks, whatever the template says;
        `step/sub-step` for those
            of its child runs.
        again_of: the earlier order that this one asks for again (`resubmit`).

    Raises:
        definitions.TemplateNotFound, InputInvalid, sources.BadSource, OrdersStopped,
        readiness.CannotRun: nothing was made; the message
            says what to change.
        rights.NotPermitted: the template or the repository is not for this person, or the work
        could not be delivered for them.
    """
    recipe = definitions.current(template or repositories.template_for(repository_url, by))
    rights.check_order(recipe.slug, by)
    readiness.require(recipe, team=team.pk if team else None)
    values = dict(input or {})
    check_words(title.strip(), request)
    check_input(recipe, values)
    values, brought = _take_in(recipe, values)
    source = _check_repository(recipe, repository_url)
    stops = {"interrupt_before": list(interrupt_before), "interrupt_after": list(interrupt_after)}
    said = {"title": title.strip(), "request": request}
    return _create(
        recipe,
        by=by,
        input=values,
        source=source,
        team=team,
        stops=stops,
        brought=brought,
        again_of=again_of,
        **said,
    )


def check_words(title: str, request: str) -> None:
    """Raise InputInvalid for words that no column takes."""
    errors = {}
    if len(title) > 200:
        errors["title"] = ["Up to 200 characters."]
    for name, text in (("title", title), ("request", request)):
        if text != codec.readable(text):
            errors[name] = [
                "There are characters in it that cannot be kept: a NUL, or bytes that are no UTF-8."
            ]
    if errors:
        raise InputInvalid(errors)


def check_input(template: Template, values: dict[str, Any]) -> None:
    """Raise InputInvalid where the values do not fit the template's input schema."""
    try:
        codec.check(values, "input")
    except codec.NotJson as error:
        raise InputInvalid({"input": [str(error)]}) from error
    if codec.holds_unreadable(values):
        raise InputInvalid(
            {
                "input": [
                    (
                        "The input holds characters that cannot be shown: a NUL, or bytes that "
                        "are no UTF-8."
                    )
                ]
            }
        )
    try:
        errors = schemas.validate_resume_payload(
            schemas.check(template.input_schema),
            values,
            longest=attachments.longest(template.input_schema),
        )
    except schemas.SchemaRefused as error:
        raise InputInvalid(
            {"input": [f"The template's input schema cannot be used: {error}"[:300]]}
        ) from error
    if errors:
        raise InputInvalid({field or "input": words for field, words in errors.items()})


def _take_in(
    template: Template, values: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, attachments.File]]:
    """The input with each file named instead of held, and the files for the run's first state."""
    try:
        return uploads.take_in(template.input_schema, values, folders=settings.WAYSTATION_FILES)
    except uploads.BadFile as error:
        raise InputInvalid({error.field: [str(error)]}) from error


def _check_repository(template: Template, url: str) -> str:
    if not template.needs_repository:
        return ""
    if not url.strip():
        raise InputInvalid(
            {"repository_url": ["This template works on a repository: name a local path or a URL."]}
        )
    return repositories.checked_source(url)


@transaction.atomic(durable=True)
def _create(
    template: Template,
    *,
    by: User,
    title: str,
    request: str,
    input: dict[str, Any],
    source: str,
    team: Group | None,
    stops: dict[str, list[str]],
    brought: dict[str, attachments.File],
    again_of: WorkOrder | None,
) -> WorkOrder:
    repository = Repository.objects.filter(url=source).first() if source else None
    if repository is not None and not repository.use_template_execution:
        raise OrdersStopped(
            f"Work orders on {repository.name} are switched off, so none was made. An "
            "operator can switch them on again."
        )
    rights.check_order(template.slug, by, repository=repository)
    definition = definitions.freeze(template)
    _check_delivery(definition, source, repository, input, by)
    if registry.need_request(definition.steps) and not request.strip():
        raise InputInvalid(
            {"request": ["Say in words what is wanted: the step gets exactly these words."]}
        )
    about = source.rstrip("/").rsplit("/", 1)[-1] or next(
        (file["name"] for file in brought.values()), ""
    )
    title = title or ": ".join(filter(None, [template.title, about]))[:200]
    thread = Thread.objects.create(owner=by, team=team, title=title)
    order = WorkOrder.objects.create(
        thread=thread,
        template=template,
        definition=definition,
        title=title,
        request=request,
        input=redaction.redact(input),
        repository=repository,
        repository_url=source,
        check_command=repository.check_command if repository else [],
        author=(repository.author if repository else "") or settings.WAYSTATION_GIT_AUTHOR,
        delivery=asdict(repository.delivery) if repository else {},
        created_by=by,
        again_of=again_of,
    )
    keyed.made(order.shown_id)
    for name in (*stops["interrupt_before"], *stops["interrupt_after"]):
        if name not in sequence.stops(definition.steps):
            raise InputInvalid(
                {"interrupt": [f"The template has no step {name[:100]!r} to stop at."]}
            )
    state = {**FIRST_STATE, **({attachments.KEY: dict(brought)} if brought else {})}
    start = Start(state=state, next_step=definition.steps[0]["name"])
    how = urgency.of_new(by)
    run = _follow(order, begin(thread, definition, order, start, started_by=by, **stops), how)
    asked = (
        [line(f"Started over from {again_of.shown_id}", again_of=again_of.shown_id)]
        if again_of is not None
        else []
    )
    if lines := [*asked, *unkept(input)]:
        log.append(thread.pk, run.pk, lines)
    return order


def _check_delivery(
    definition: Definition,
    source: str,
    repository: Repository | None,
    input: Mapping[str, Any],
    by: User,
) -> None:
    """Raise rights.Forbidden for an order whose end is refused anyhow; what the push itself asks is
    `delivering.require_right`.
    """
    settled = repository.delivery if repository is not None else DeliveryPolicy()
    at = rights.delivering_step(definition.steps)
    if source and at and settled.pushes(asked=bool(input.get("push"))):
        rights.check_delivery(
            source,
            definition.template_slug,
            [by],
            reviewed=rights.is_reviewed(definition.steps, at),
        )


def allow_orders(repository_id: uuid.UUID, *, allowed: bool) -> Repository:
    """Allow or stop new work orders on a repository; those that run go on.

    Raises repositories.RepositoryNotFound.
    """
    if not Repository.objects.filter(pk=repository_id).update(use_template_execution=allowed):
        raise repositories.RepositoryNotFound("There is no such repository.")
    return Repository.objects.get(pk=repository_id)


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
        raise RunEnded("This work order is being retried already.") from error
    except store.StateLocked:
        raise
    except store.CheckpointDamaged as error:
        words = _fall_back(order_id)
        raise (
            store.CheckpointDamaged(f"{words} Nothing began yet; retry once more to go on so.")
            if words
            else error
        ) from error


@transaction.atomic(durable=True)
def _fall_back(order_id: uuid.UUID) -> str:
    """Put the last good state behind the damaged head of a failed order, as an incident; its words,
    or "" where there is none.
    """
    order = WorkOrder.objects.shown().get(pk=order_id)
    run, head = order.latest_run, order.thread.head
    found = damage.last_good(run, head) if run is not None and head is not None else None
    if run is None or found is None:
        return ""
    facts, checkpoint = damage.incident(run, found)
    if not Run.objects.filter(pk=run.pk, status=FAILED).update(
        error=found.words, failure_code=FailureCode.INCIDENT
    ):
        return ""
    if not Thread.objects.filter(pk=order.thread_id, head=head).update(head=checkpoint):
        return found.words  # another retry was as quick, and did this
    checkpoint.save(force_insert=True)
    # that was told when it failed
    log.append(order.thread_id, run.pk, [fact for fact in facts if fact[0] != EventKind.RUN_FAILED])
    return found.words


@transaction.atomic(durable=True)
def _retry(order_id: uuid.UUID, *, by: User) -> Run:
    order = WorkOrder.objects.shown().get(pk=order_id)
    run, head = order.latest_run, order.thread.head
    if run is None or head is None or run.status not in RETRIED:
        raise RunEnded(
            "Only a failed work order can be retried, or one that expired; one that was "
            "cancelled stays so."
        )
    keyed.made(order.shown_id)
    new = _follow(order, take_up(run, head))
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
        return again(run, head, state)
    asked = Pause.objects.filter(run=run, status=PauseStatus.EXPIRED).select_related(
        "checkpoint", "run__thread", "run__definition"
    )
    return ask_again(asked.get(), head, state)


def fork(
    checkpoint_id: uuid.UUID, *, by: User, reason: str, state: Mapping[str, Any] | None = None
) -> Run:
    """Go on from any checkpoint of a thread as a new run, with its state or an edited one; what
    came after stays as it was.

    The code's commit in the checkpoint comes along, so the fork forks the code too.

    Raises:
        ReasonMissing: no reason given, or none that can be kept. ReviewStands: the state is another
        one, and a step before has review rules. ForkForbidden: the person may not order by this
        template, or not on this repository. NothingToFork: no step follows there, another run of
        the thread is still alive, or the state is no JSON. store.CheckpointDamaged: the checkpoint
        cannot be read.
    """
    reason = check_reason(reason)
    try:
        with transaction.atomic(durable=True):
            return begin_fork(checkpoint_id, by=by, reason=reason, state=state)
    except IntegrityError as error:
        raise too_late_to_fork(checkpoint_id) from error
    except codec.NotJson as error:
        raise NothingToFork(str(error)) from error


def too_late_to_fork(checkpoint_id: uuid.UUID) -> NothingToFork:
    """What to raise where the database refused a fork: `run_one_live_per_thread`, or `retention`
    was faster.
    """
    if not Checkpoint.objects.filter(pk=checkpoint_id).exists():
        return NothingToFork(
            "This checkpoint was dropped just now, since it was older than is kept. Choose "
            "a newer one."
        )
    return NothingToFork("A run of this thread is still alive. Cancel it or let it end, then fork.")


def begin_fork(
    checkpoint_id: uuid.UUID,
    *,
    by: User,
    reason: str,
    state: Mapping[str, Any] | None,
    around: bool = False,
) -> Run:
    """`fork`, inside the caller's transaction; with `around` also behind a review, which the caller
    then records
    (`hitl.decisions.review_bypass`)."""
    checkpoint = Checkpoint.objects.select_related("thread").get(pk=checkpoint_id)
    wrote, next_step = origin_of(checkpoint)
    _check_fork(wrote, by)
    before = store.load(checkpoint)
    after = before if state is None else dict(state)
    if after.get(tool_calls.DECISIONS, {}) != before.get(tool_calls.DECISIONS, {}):  # F6
        raise NothingToFork(
            f"{tool_calls.DECISIONS!r} is written by answers to questions about tool calls "
            "alone; leave it as it is."
        )
    check_imported(checkpoint, wrote.definition.steps, next_step)
    edited = codec.encode(after) != codec.encode(before)  # to Python, true is 1
    start = Start(state=after, next_step=next_step, parent=checkpoint, before=before)
    start = terms(wrote.definition, start, steered=edited, wrote=wrote.definition, around=around)
    stops = {"interrupt_before": wrote.interrupt_before, "interrupt_after": wrote.interrupt_after}
    run = begin(
        checkpoint.thread,
        wrote.definition,
        wrote.work_order,
        start,
        forked_from=checkpoint,
        reason=reason,
        started_by=by,
        **stops,
    )
    keyed.made(run.shown_id if wrote.work_order is None else wrote.work_order.shown_id)
    _follow(wrote.work_order, run)
    name = by.get_full_name() or by.get_username()
    words = (
        f"Forked by {name} from {checkpoint.shown_id}, at "
        f"{f'step {next_step}' if next_step else 'the end'}: {reason}"
    )
    log.append(
        checkpoint.thread_id, run.pk, [line(words, step=next_step, edited=state is not None)]
    )
    return run


def _check_fork(wrote: Run, by: User) -> None:
    repository = (
        Repository.objects.filter(url=wrote.work_order.repository_url).first()
        if wrote.work_order
        else None
    )
    try:
        rights.check_order(wrote.definition.template_slug, by, repository=repository)
    except rights.NotPermitted as error:
        raise ForkForbidden(str(error), code=error.code) from error


def suspend(order_id: uuid.UUID, *, by: User) -> None:
    """Ask what works for an order, or waits for a worker, to stop at its next step boundary.

    Raises RunEnded where nothing does.
    """
    _suspend(Run.objects.filter(work_order=order_id), by, "This work order")


def suspend_run(run: Run, *, by: User) -> None:
    """As `suspend`, of a run and its child runs."""
    family = level = [run.pk]
    while level := list(Run.objects.live().filter(parent__in=level).values_list("pk", flat=True)):
        family = [*family, *level]
    _suspend(Run.objects.filter(pk__in=family), by, "This run")


def _suspend(wanted: QuerySet[Run], by: User, what: str) -> None:
    name = by.get_full_name() or by.get_username()
    if not wanted.filter(status__in=[PENDING, RUNNING]).update(suspend_by=name[:150]):
        raise RunEnded(f"{what} does not work at the moment, so there is nothing to suspend.")


def accept_code(run_id: uuid.UUID, *, by: User) -> Run:
    """Let a run that is held for it go on with the changed code of its next step.

    Raises code_changes.NotHeld.
    """
    run = code_changes.accept(run_id, by=by)
    nudge_on_commit(run.pk, run.queue)
    return run


def _follow(order: WorkOrder | None, run: Run, how: Urgency = Urgency.GOING_ON) -> Run:
    """Make a new run its order's latest, if it has one, and tell a worker.

    Call inside the transaction that made it.
    """
    if order is not None:
        order.latest_run = run
        order.save(update_fields=["latest_run"])
    nudge_on_commit(run.pk, run.queue, urgency=how)
    return run


def close_pause(pause: Pause, status: PauseStatus, *, at: dt.datetime, while_: Q) -> None:
    """Close an open pause, or raise PauseClosed, also where `while_` does not hold of it any more.

    Call inside a transaction.
    """
    if not Pause.objects.open().filter(while_, pk=pause.pk).change(status=status, closed_at=at):
        raise PauseClosed(f"{pause.shown_id} has been answered")
    hints.pauses_changed_on_commit()


def resume(
    pause: Pause,
    *,
    action: str,
    by: str,
    feedback: str,
    answer: dict[str, Any],
    update: Mapping[str, Any] | None = None,
    edited: str = "",
    external: str = "",
    at: dt.datetime | None = None,
) -> None:
    """Let a paused run go on the way that `action` names.

    Call inside the transaction that closed the pause, which is `answerable`.

    The answer becomes a checkpoint: its `next_step` is the way out, its state holds the feedback
    and `update`, joined by the workflow's reducers, and under `decided_content` the content as it
    was `edited`. With `at` the run goes on then, and may be taken back before (`undo`). `external`
    is the mail address of who answered without an account. Raises reducers.MergeFailed, and
    forks.ReviewStands where the answer to a stop would change what was approved.
    """
    run, to = pause.run, pause.ways[action]
    if edits := brings(pause, update):
        check_brought(run, to)
    queue = sequence.queue_of(run.frozen.steps, to)
    before = store.load(pause.checkpoint)
    words = feedback if action == sequence.REVISE else ""
    verdict = {} if pause.phase in STOPS else {pause.step: action}
    state = reducers.apply(before, update, run.frozen.reducers) if update else before
    state = {
        **state,
        "revision_feedback": words,
        "decided": {**state.get("decided", {}), **verdict},
        **_content(state, pause.step, edited),
    }
    approved = approvals.answered(pause, action, answer["decision_id"], external=external)
    checkpoint = _after_answer(
        pause,
        state,
        before,
        next_step=to,
        status=CheckpointStatus.ACTIVE,
        approved=approved,
        edits=edits,
    )
    lines = [
        line(f"Workflow resumed with decision: {action}", step=pause.step, by=by),
        *unkept(update or {}, pause.step),
    ]
    if action == sequence.REVISE:
        lines += [
            line(f"Re-running step: {to} with feedback", step=to),
            line(f"Revision feedback: {feedback}", step=to),
        ]
    label = {"label": pause.labels[action]} if action in pause.labels else {}
    received = (
        EventKind.APPROVAL_RECEIVED,
        {**answer, **label, "pause_id": pause.shown_id, "step": pause.step, "to": to},
    )
    resumed_to = {"decision": action, "step": to, "lifecycle": Lifecycle.RESUMED.value}
    resumed = (
        EventKind.RUN_RESUMED,
        {**resumed_to, **({"goes_on_at": at.isoformat()} if at else {})},
    )
    fields = {"status": PENDING, "due_at": at or clock.FromNow(), "queue": queue}
    facts = [received, created(checkpoint), resumed, *lines]
    if not commit.write(
        run, commit.Fence(epoch=run.epoch, status=PAUSED), fields, facts, checkpoint
    ):
        raise PauseClosed(f"{run.shown_id} no longer waits for an answer")
    ending.note_on_parent(run, f"answered with {action} by {by}")
    nudge_on_commit(run.pk, queue, at=at)


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


def cancel_paused(
    pause: Pause,
    *,
    by: str,
    answer: dict[str, Any],
    code: FailureCode = FailureCode.CANCELLED_BY_USER,
) -> None:
    """End the run of a pause that was answered with cancel.

    Call inside the transaction that closed the pause.
    """
    received = (
        EventKind.APPROVAL_RECEIVED,
        {**answer, "pause_id": pause.shown_id, "step": pause.step, "to": ""},
    )
    _ended(pause, ending.cancel_asking(pause, by=by, first=[received], code=code))


@transaction.atomic(durable=True)
def expire(pause: Pause, *, now: dt.datetime) -> None:
    """Close an open question, `answerable`, whose deadline has passed unanswered, and end its run.

    Raises PauseClosed where it was answered, or its deadline moved, since it was read; nothing is
    written then.
    """
    assert pause.deadline_at is not None and pause.deadline_at <= now  # noqa: PT018  # never early
    close_pause(
        pause,
        PauseStatus.EXPIRED,
        at=now,
        while_=Q(deadline_at=pause.deadline_at, stage=pause.stage),
    )
    _ended(pause, ending.expire(pause, now=now))


def _ended(pause: Pause, woken: list[ending.Wake] | None) -> None:
    if woken is None:
        raise PauseClosed(f"{pause.run.shown_id} no longer waits for an answer")
    for run_id, queue in woken:
        nudge_on_commit(run_id, queue)
    next_turn_on_commit(pause.run.thread_id)


def cancel(order_id: uuid.UUID, *, by: User) -> None:
    """End a work order that is waiting for a worker, for its child runs, or being worked on.

    Raises RunEnded where it has ended, or waits for a person: that is answered with `decide`, so
    that the ledger holds it.
    """
    run = WorkOrder.objects.shown().get(pk=order_id).latest_run
    if run is None:
        raise RunEnded("This work order has not begun, so there was nothing to cancel.")
    cancel_run(run, by=by)


def cancel_run(run: Run, *, by: User) -> None:
    """End a run and its child runs. As `cancel`."""
    ending.undisturbed(lambda: _cancel(run, by))


def _cancel(run: Run, by: User) -> None:
    keyed.made(run.shown_id)
    woken = ending.cancel(run, {PENDING, RUNNING}, by=by.get_username(), first=[])
    if woken is None:
        raise RunEnded("This has ended already, so there was nothing to cancel.")
    for run_id, queue in woken:
        nudge_on_commit(run_id, queue)
    next_turn_on_commit(run.thread_id)


def _after_answer(
    pause: Pause,
    state: dict[str, Any],
    before: dict[str, Any],
    *,
    next_step: str,
    status: CheckpointStatus,
    approved: Mapping[str, Any],
    edits: bool,
) -> Checkpoint:
    steps = pause.run.frozen.steps
    gone = {"blocking_reason", "next_deadline", approvals.MATERIAL, approvals.KEY}
    kept = {
        **{key: value for key, value in pause.checkpoint.metadata.items() if key not in gone},
        **approved,
    }
    if edits:
        kept = forks.brought(kept)
    if pause.phase == BEFORE:
        kept["cleared"] = next_step  # asked about already: the step begins now
    entry = Entry(
        status=status,
        node_id=pause.checkpoint.node_id,
        next_step=next_step,
        loop_num=pause.checkpoint.loop_num,
        completed_nodes=sequence.completed(steps, next_step),
        total_nodes=len(steps),
        metadata=kept,
    )
    return store.build(
        pause.run.thread_id, pause.run_id, state, entry, parent=pause.checkpoint, before=before
    )
