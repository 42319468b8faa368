"""What people and programs may ask of the machine.

Each outer function is one transaction and tells its whole story in order.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext

from checkpoints.database.people import User
from checkpoints.models import Thread
from checkpoints.state import codec, encryption, redaction
from runs import definitions, keyed, urgency
from runs.definitions import loading, pictures, readiness, rights
from runs.engine import ending, imported
from runs.engine.drafts.events import line, unkept
from runs.engine.recovery import code_changes
from runs.engine.start import Start, begin
from runs.git import repositories
from runs.models import Definition, Repository, Run, Template, WorkOrder
from runs.models.priority import HIGHEST, LOWEST, NORMAL
from runs.services import uploads
from runs.states import (
    PAUSED,
    PENDING,
    RUNNING,
    RunEnded,
)
from runs.tasks import next_turn_on_commit, nudge_on_commit
from runs.urgency import Urgency
from runs.workflows import attachments, registry, schemas
from runs.workflows.base import DeliveryPolicy
from runs.workflows.base.typed import faults
from runs.workflows.refusals import FieldsRefused, as_text, in_json

LONGEST_TITLE, LONGEST_ABOUT = 120, 60
"""Characters of a title that is made of a request, and of what it takes from an input."""
FIRST_STATE = imported.NOTHING_ANSWERED
"""What every thread's first run starts from, beside its input."""


class InputInvalid(FieldsRefused):
    """A work order's input does not fit its template."""

    code = "input_invalid"

    def told(self, errors: Mapping[str, list[str]]) -> str:
        return gettext("Nothing was begun: ") + as_text(errors)


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
    priority: int = NORMAL,
) -> WorkOrder:
    """Make a work order and start it.

    Args:
        template: "" for the default of the repository or of the instance; TemplateNotNamed where
            neither says which.
        interrupt_before, interrupt_after: names of steps at which this run asks, whatever the
            template says; `step/sub-step` for those of its child runs; before, `step/node` for
            nodes of a step's graph.
        again_of: the earlier order that this one asks for again (`resubmit`).
        priority: from LOWEST to HIGHEST (`runs.models.priority`); above 0 it takes a right.

    Raises:
        definitions.TemplateNotFound, InputInvalid, sources.BadSource, OrdersStopped,
            readiness.CannotRun: nothing was made; the message says what to change.
        rights.NotPermitted: the template or the repository is not for this person, or the work
            could not be delivered for them.
    """
    chosen_template = definitions.current(template or _default_template(repository_url, by))
    rights.check_order(chosen_template.slug, by)
    kinds = definitions.Kinds()
    readiness.require(chosen_template, team=team.pk if team else None, kinds=kinds)
    check_priority(priority, by)
    check_words(title.strip(), request)
    values, brought = _take_in(chosen_template, dict(input or {}), by)
    values = _check_shape(chosen_template, values)
    _check_by_type(chosen_template, values)
    source = _check_repository(chosen_template, repository_url)
    stops = {"interrupt_before": list(interrupt_before), "interrupt_after": list(interrupt_after)}
    texts = {"title": title.strip(), "request": request}
    return _create(
        chosen_template,
        kinds=kinds,
        by=by,
        input=values,
        source=source,
        team=team,
        stops=stops,
        brought=brought,
        again_of=again_of,
        priority=priority,
        **texts,
    )


def _default_template(url: str, by: User) -> str:
    """Give the template of an order that names none. What is wrong with its repository is said
    first: no template would help there.
    """
    source = repositories.checked_source(url) if url.strip() else ""
    repository = Repository.objects.filter(url=source).first() if source else None
    if repository is not None:
        repositories.check_open(repository)
        rights.check_repository(repository, by)
    return repositories.template_for(repository, by, named=bool(source))


def _usual_title(
    template: Template,
    request: str,
    source: str,
    brought: Sequence[uploads.Brought],
    input: Mapping[str, Any],
) -> str:
    """Name an order that nobody named: by the first line of its request, else by what it is about:
    its repository, its file, or what its input names first.

    The title of a template of code is in the language of who orders, where a catalogue has it.

    A title is read in lists and by databases, so no words that are sealed stand in it.
    """
    sealed, open_input = encryption.in_use(), redaction.redact(dict(input))
    if sealed:
        request, open_input = "", {}
    if line := next((" ".join(line.split()) for line in request.splitlines() if line.strip()), ""):
        return line if len(line) <= LONGEST_TITLE else f"{line[: LONGEST_TITLE - 1]}…"
    values = (
        str(value)
        for name, value in open_input.items()
        if isinstance(value, str | int) and value == input[name]
    )
    about = source.rstrip("/").rsplit("/", 1)[-1] or next(
        (file.name for file in brought),
        next((value for value in values if value.strip() and len(value) <= LONGEST_ABOUT), ""),
    )
    called = gettext(template.title) if template.declared and template.title else template.title
    return ": ".join(filter(None, [called, about]))[:200]


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


def check_priority(priority: int, by: User) -> None:
    """Raise InputInvalid for a number out of range, rights.Forbidden for one that this person may
    not give.
    """
    if not LOWEST <= priority <= HIGHEST:
        words = f"A whole number from {LOWEST} to {HIGHEST}; {NORMAL} is normal."
        raise InputInvalid.of("priority", words)
    if priority > NORMAL and priority > rights.highest_priority(by):
        raise rights.Forbidden(
            "priority_not_allowed",
            f"You may give work a priority up to {NORMAL}. An operator can give you the right "
            "“Can raise the priority of work”, or raise it. Nothing was changed.",
        )


def check_input(template: Template, values: dict[str, Any]) -> None:
    """Raise InputInvalid where the values do not fit the template's input schema, or its author's
    own validators refuse them.
    """
    _check_shape(template, values)
    if not attachments.names_in(template.input_schema):  # files are looked at as they are kept
        _check_by_type(template, values)


def _check_by_type(template: Template, values: Mapping[str, Any]) -> None:
    shape = loading.input_type(template.slug, template.input_schema)
    if shape is not None and (errors := faults(shape, values)):
        raise InputInvalid({field or "input": texts for field, texts in errors.items()})


def _check_shape(template: Template, values: dict[str, Any]) -> dict[str, Any]:
    """The values with the schema's defaults for what they leave out; raises InputInvalid."""
    try:
        codec.check(values, "input")
    except codec.NotJson as error:
        raise InputInvalid.of("input", str(error)) from error
    if codec.holds_unreadable(values):
        raise InputInvalid.of(
            "input",
            "The input holds characters that cannot be shown: a NUL, or bytes that are no UTF-8.",
        )
    try:
        schema = schemas.check(attachments.as_kept(template.input_schema))
        errors = schemas.validate_resume_payload(schema, values)
    except schemas.SchemaRefused as error:
        raise InputInvalid.of(
            "input", f"The template's input schema cannot be used: {error}"[:300]
        ) from error
    if errors:
        raise InputInvalid({field or "input": texts for field, texts in errors.items()})
    return schemas.with_defaults(schema, values)


def _take_in(
    template: Template, values: dict[str, Any], by: User
) -> tuple[dict[str, Any], list[uploads.Brought]]:
    """The input with each file named instead of held, and the files that come along."""
    desk = uploads.Desk(owner=by, folders=settings.WAYSTATION_FILES)
    taken, errors = uploads.take_in(template.input_schema, values, desk)
    if errors:
        raise InputInvalid(errors)
    return taken, desk.brought


def _check_repository(template: Template, url: str) -> str:
    if not template.needs_repository:
        return ""
    if not url.strip():
        raise InputInvalid.of(
            "repository_url", "This template works on a repository: name a local path or a URL."
        )
    return repositories.checked_source(url)


@transaction.atomic(durable=True)
def _create(
    template: Template,
    *,
    kinds: definitions.Kinds,
    by: User,
    title: str,
    request: str,
    input: dict[str, Any],
    source: str,
    team: Group | None,
    stops: dict[str, list[str]],
    brought: list[uploads.Brought],
    again_of: WorkOrder | None,
    priority: int,
) -> WorkOrder:
    repository = Repository.objects.filter(url=source).first() if source else None
    if repository is not None:
        repositories.check_open(repository)
        rights.check_use(repository, template.slug, by)
    definition = definitions.freeze(template, kinds=kinds)
    _check_delivery(definition, source, repository, input, by)
    if registry.need_request(definition.steps) and not request.strip():
        raise InputInvalid.of(
            "request", "Say in words what is wanted: the step gets exactly these words."
        )
    title = title or _usual_title(template, request, source, brought, input)
    thread = Thread(owner=by, team=team, title=title)
    order = WorkOrder(
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
        priority=priority,
    )
    keyed.made(order.shown_id)
    named = [*stops["interrupt_before"], *stops["interrupt_after"]]
    known = pictures.stops(definition.steps, named)
    for name in named:
        if name not in known:
            raise InputInvalid.of(
                "interrupt", f"The template has no step {in_json(name, 100)} to stop at."
            )
    files = {
        name: input[name] for name in attachments.names_in(template.input_schema) if name in input
    }
    state = {**FIRST_STATE, **({attachments.KEY: files} if files else {})}
    start = Start(state=state, next_step=definition.steps[0]["name"])
    how = urgency.of_new(by, team, priority=priority)
    asked = (
        [line(f"Started over from {again_of.shown_id}", again_of=again_of.shown_id)]
        if again_of is not None
        else []
    )
    told = [*asked, *unkept(input)]
    given: dict[str, Any] = {"started_by": by, **stops}
    run = begin(thread, definition, order, start, told=told, **given)
    uploads.keep(run, start.next_step, brought)
    nudge_on_commit(run.pk, run.queue, urgency=how)
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
        raise repositories.RepositoryNotFound(gettext("There is no such repository."))
    return Repository.objects.get(pk=repository_id)


def suspend(order_id: uuid.UUID, *, by: User, reason: str = "") -> None:
    """Ask what works for an order, or waits for a worker, to stop at its next step boundary.

    Raises RunEnded where nothing does.
    """
    _suspend(Run.objects.filter(work_order=order_id), by, reason, "This work order")


def suspend_run(run: Run, *, by: User, reason: str = "") -> None:
    """As `suspend`, of a run and its child runs."""
    family = level = [run.pk]
    while level := list(Run.objects.live().filter(parent__in=level).values_list("pk", flat=True)):
        family = [*family, *level]
    _suspend(Run.objects.filter(pk__in=family), by, reason, "This run")


def _suspend(wanted: QuerySet[Run], by: User, reason: str, what: str) -> None:
    name = by.get_full_name() or by.get_username()
    wish = {"suspend_by": name[:150], "suspend_because": " ".join(reason.split())}
    works = Q(status__in=[PENDING, RUNNING]) | Q(status=PAUSED, gather_queued__gt=0)
    if not wanted.filter(works).update(**wish):
        raise RunEnded(
            gettext("%(what)s does not work at the moment, so there is nothing to suspend.")
            % {"what": what}
        )


def accept_code(run_id: uuid.UUID, *, by: User) -> Run:
    """Let a run that is held for it go on with the changed code of its next step.

    Raises code_changes.NotHeld.
    """
    run = code_changes.accept(run_id, by=by)
    nudge_on_commit(run.pk, run.queue)
    return run


def follow(order: WorkOrder | None, run: Run, how: Urgency = Urgency.GOING_ON) -> Run:
    """Make a new run its order's latest, if it has one, and tell a worker.

    Call inside the transaction that made it.
    """
    if order is not None:
        order.latest_run = run
        order.save(update_fields=["latest_run"])
    nudge_on_commit(run.pk, run.queue, urgency=how)
    return run


def cancel(order_id: uuid.UUID, *, by: User) -> None:
    """End a work order that is waiting for a worker, for its child runs, or being worked on.

    Raises RunEnded where it has ended, or waits for a person: that is answered with `decide`, so
    that the ledger holds it.
    """
    run = WorkOrder.objects.shown().get(pk=order_id).latest_run
    if run is None:
        raise RunEnded(gettext("This work order has not begun, so there was nothing to cancel."))
    cancel_run(run, by=by)


def cancel_run(run: Run, *, by: User, reason: str = "") -> None:
    """End a run and its child runs. As `cancel`."""
    ending.undisturbed(lambda: _cancel(run, by, reason))


def _cancel(run: Run, by: User, reason: str) -> None:
    keyed.made(run.shown_id)
    who = by.get_username()
    woken = ending.cancel(run, {PENDING, RUNNING}, by=who, first=[], reason=reason)
    if woken is None:
        raise RunEnded(gettext("This has ended already, so there was nothing to cancel."))
    for run_id, queue in woken:
        nudge_on_commit(run_id, queue)
    next_turn_on_commit(run.thread_id)
