"""Templates as rows: their current versions, and how an edit makes the next one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import IntegrityError, transaction
from django.utils.translation import gettext

from checkpoints.state import codec
from checkpoints.store.prepared_queries import Prepared
from runs import keyed
from runs.definitions import rights, step_options
from runs.definitions.checks import (
    check_off,
    check_people,
    check_schema,
    check_texts,
)
from runs.definitions.errors import (
    SavedMeanwhile,
    TemplateInvalid,
    TemplateNotFound,
    refused,
    refusing,
)
from runs.definitions.freezing import freeze, freeze_endings, freeze_steps, frozen, setting
from runs.models import Definition, StepTemplate, Template
from runs.models.frequency import Frequency
from runs.workflows import registry, schemas
from runs.workflows.base import ConfigInvalid
from runs.workflows.code import extras
from runs.workflows.registry import NotReady, UnknownStep, check_config, find
from runs.workflows.sub_workflow import SUB_STEPS

EDITED = (
    "title", "description", "input_schema", "needs_repository", "steps", "reducers", "frequency",
    "retention", "size_budget", "state_schema",
)  # fmt: skip
SCHEMAS = ("input_schema", "state_schema")
Kind = TypeVar("Kind", Template, StepTemplate)


_newest = Prepared(lambda slug: Template.objects.filter(slug=slug).order_by("-version")[:1], str)
_newest_step = Prepared(
    lambda slug: StepTemplate.objects.filter(slug=slug).order_by("-version")[:1], str
)


def newest(slug: str) -> Template | None:
    """The newest version of a template, where there is one."""
    return next(iter(_newest.get(slug)), None)


def newest_step(slug: str) -> StepTemplate | None:
    """The newest version of a step template, where there is one."""
    return next(iter(_newest_step.get(slug)), None)


def current(slug: str) -> Template:
    """The newest version of a template; raises TemplateNotFound."""
    template = newest(slug)
    if template is None:
        raise TemplateNotFound(gettext("There is no template %(slug)s.") % {"slug": repr(slug)})
    return template


@transaction.atomic
def edit_template(
    slug: str,
    *,
    by: AbstractBaseUser | None = None,
    after: int | None = None,
    declared: str = "",
    default: bool | None = None,
    **fields: Any,
) -> Template:
    """Save a template as its next version; orders made before keep theirs.

    The same content again makes no new version.

    Args:
        after: the version that was looked at, 0 for none; where another one is current by now,
            nothing is saved.
        declared: digest of the declaration in code that this is; then `fields` are all of it, and
            what they leave out is as usual.
        default: whether orders that name no template go by this one; None leaves that as it is.
        fields: `steps`, and where they change others of EDITED.
    Raises:
        TemplateInvalid: a step names an unknown step template, a way leads nowhere, or the input
            schema is none.
        SavedMeanwhile: another version than `after` is current, or another template was made the
            default at the same moment.
    """
    last = newest(slug)
    if after is not None and after != (last.version if last else 0):
        raise SavedMeanwhile
    values = checked(slug, last if not declared else None, fields)
    if default is not None:
        make_default(slug, default=default)
    if last and values == {name: getattr(last, name) for name in EDITED}:
        return _keep_as_declared(last, declared)
    keyed.made("")
    try:
        with transaction.atomic():
            return Template.objects.create(
                slug=slug,
                version=last.version + 1 if last else 1,
                created_by_id=by.pk if by else None,
                declared=declared,
                **values,
            )
    except IntegrityError as error:  # template_version_once
        raise SavedMeanwhile from error


def make_default(slug: str, *, default: bool) -> None:
    """Make a template the one of orders that name none, in place of the one that was; or take that
    back. Raises SavedMeanwhile where another one is made it at the same moment.
    """
    try:
        with transaction.atomic():
            rights.settle_default(slug, default=default)
    except IntegrityError as error:  # template_default_once
        raise SavedMeanwhile from error


def checked(slug: str, last: Template | None, fields: Mapping[str, Any]) -> dict[str, Any]:
    """All that a template would hold with these fields, by the names of EDITED. Writes nothing.

    Args:
        last: the version whose fields stay where `fields` does not name them; None where those are
            as usual.
    Raises:
        TemplateInvalid: as `edit_template`.
    """
    kept = (
        {name: getattr(last, name) for name in EDITED}
        if last
        else {**usual_fields(), "title": slug}
    )
    values = {**kept, **fields}
    check_texts(slug, fields)
    frozen_steps = freeze_steps(values.get("steps", []))
    if last is None and "reducers" not in fields:
        values["reducers"] = registry.reducers_of(frozen_steps) or values.get("reducers", {})
    check_people(values["steps"], "steps")
    for name in SCHEMAS:
        check_schema(values[name], name)
    with refusing():
        step_options.check_reducers(values.get("reducers", {}))
        step_options.check_keeping(values)
    if values.get("frequency") == Frequency.OFF:
        endings = freeze_endings(values["steps"]).values()
        check_off([*frozen_steps, *endings], needs_repository=values.get("needs_repository", True))
    values |= {name: schemas.in_order(values[name]) for name in SCHEMAS}
    values["steps"] = [_in_order(one) for one in values["steps"]]
    return values


def usual_fields() -> dict[str, Any]:
    """What a template has where nothing is said, by the names of EDITED."""
    usual = Template()
    return {name: getattr(usual, name) for name in EDITED}


def _keep_as_declared(last: Kind, declared: str) -> Kind:
    """The version that is there already, which is this declaration from now on."""
    if declared and last.declared != declared:
        last.declared = declared
        last.save(update_fields=["declared"])
    return last


@transaction.atomic
def edit_step_template(
    slug: str,
    *,
    title: str,
    function: str = "",
    config: Mapping[str, Any] | None = None,
    sub_steps: Sequence[Mapping[str, Any]] = (),
    after: int | None = None,
    declared: str = "",
) -> StepTemplate:
    """Save a step template as its next version. The same content again makes no new version.

    Args:
        after: as of `edit_template`.
        declared: digest of the declaration in code that this is.
        function: a registered step function; SUB_STEPS where it is left empty and there are
            sub-steps.
        sub_steps: as a template's steps; they run as child runs (see
            `runs.workflows.sub_workflow`).
    Raises:
        TemplateInvalid: no such function, a configuration that it cannot use, or sub-steps that
            cannot be frozen.
        SavedMeanwhile: another version than `after` is current.
    """
    function = function or (SUB_STEPS if sub_steps else "")
    values: dict[str, Any] = {
        "title": title,
        "function": function,
        "config": _in_order(config or {}),
        "sub_steps": [_in_order(step) for step in sub_steps],
    }
    check_texts(slug, values)
    try:
        find(function)
    except UnknownStep as error:
        raise refused("function", str(error)) from error
    try:
        check_config(function, values["config"])
        registry.traits_of(function).server.check(values["config"], setting)
    except ConfigInvalid as error:
        raise TemplateInvalid(
            {
                f"config.{place}" if place else "config": texts
                for place, texts in error.errors.items()
            }
        ) from error
    if sub_steps:
        freeze_steps(values["sub_steps"], inside=(slug,))
        check_people(values["sub_steps"], "sub_steps")
    last = newest_step(slug)
    if after is not None and after != (last.version if last else 0):
        raise SavedMeanwhile
    if last and {name: getattr(last, name) for name in values} == values:
        return _keep_as_declared(last, declared)
    keyed.made("")
    try:
        with transaction.atomic():
            return StepTemplate.objects.create(
                slug=slug, version=last.version + 1 if last else 1, declared=declared, **values
            )
    except IntegrityError as error:  # step_template_version_once
        raise SavedMeanwhile from error


def warnings_of(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    """What a template can be saved with and cannot be run with on this server, in sentences."""
    try:
        return extras.warnings_of(freeze_steps(steps), default=settings.WAYSTATION_MODEL.model)
    except TemplateInvalid:
        return []


def warnings_of_kind(kind: StepTemplate) -> list[str]:
    """The same of a step template."""
    about = {"function": kind.function, "config": kind.config}
    own = extras.warnings_of([about], default=settings.WAYSTATION_MODEL.model)
    return sorted({*own, *(warnings_of(kind.sub_steps) if kind.sub_steps else ())})


def current_step_template(slug: str) -> StepTemplate:
    """The newest version of a step template; raises TemplateNotFound."""
    kind = newest_step(slug)
    if kind is None:
        raise TemplateNotFound(
            gettext("There is no step template %(slug)s.") % {"slug": repr(slug)}
        )
    return kind


def of_today(digest: str, slug: str) -> Definition | None:
    """The definition of that digest, where the template's current version and its current step
    templates give just it.

    For documents: whoever writes one names no definition of before, such as one without a review
    that was added since. Call inside a transaction.
    """
    try:
        template = current(slug)
        return freeze(template) if codec.digest(codec.encode(frozen(template))) == digest else None
    except (TemplateNotFound, TemplateInvalid, NotReady):
        return None


def _in_order(values: Mapping[str, Any]) -> dict[str, Any]:
    """A step, or a configuration, whose form keeps the order of its fields: the database keeps that
    of no object's names.
    """
    asks = "required_inputs" in values
    return (
        {**values, "required_inputs": schemas.in_order(values["required_inputs"])}
        if asks
        else dict(values)
    )
