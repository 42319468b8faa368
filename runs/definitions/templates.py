"""Templates as rows: how an edit makes a version, and how a work order's definition is frozen."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, Group
from django.db import IntegrityError, transaction

from checkpoints.database.people import NAME, User
from checkpoints.state import codec, redaction
from runs import keyed
from runs.definitions import step_options
from runs.models import Definition, StepTemplate, Template
from runs.models.frequency import Frequency, needs_checkpoints
from runs.workflows import refusals, registry, schemas
from runs.workflows.base import ConfigInvalid
from runs.workflows.code import extras
from runs.workflows.code.fingerprint import fingerprint
from runs.workflows.registry import NotReady, UnknownStep, asks_by_itself, check_config, find
from runs.workflows.sequence import Choice, FrozenStep
from runs.workflows.sub_workflow import SUB_STEPS

MAX_STEPS = 50
SAVED_MEANWHILE = (
    "Somebody saved this template at the same moment. Look at the new version and save again."
)
EDITED = (
    "title", "description", "input_schema", "needs_repository", "steps", "reducers", "frequency",
    "retention", "size_budget",
)  # fmt: skip
RESERVED = {"approve", "revise", "cancel"}
CHOICE_KEYS = ("name", "label", "to")
STEP_KEYS = frozenset({
    "name", "step_type", "step_template_slug", "pause_after", "pause_phase", "revise_to", "choices",
    "max_revisions",
    *step_options.SCHEMA["properties"],
})  # fmt: skip
"""All that a step of a template may say.

A key that is misspelt would be a rule that nobody keeps.
"""


def setting(name: str) -> Any:
    """What operators settled, for what steps say of themselves
    (`runs.workflows.registry.ServerSide`).
    """
    return getattr(settings, name)


class TemplateInvalid(Exception):
    """A template cannot be saved. `errors` maps a field to sentences."""

    code = "template_invalid"

    def __init__(self, errors: dict[str, list[str]]) -> None:
        super().__init__(
            "The template was not saved: "
            + " ".join(text for texts in errors.values() for text in texts)
        )
        self.errors = errors


class TemplateNotFound(Exception):
    code = "template_not_found"


class TemplateNotNamed(TemplateNotFound):
    """An order names no template, and its repository has none of its own.

    The message lists those that would do.
    """

    code = "template_required"


def current(slug: str) -> Template:
    """The newest version of a template; raises TemplateNotFound."""
    template = Template.objects.filter(slug=slug).order_by("-version").first()
    if template is None:
        raise TemplateNotFound(f"There is no template {slug!r}.")
    return template


@transaction.atomic
def edit_template(
    slug: str, *, by: AbstractBaseUser | None = None, after: int | None = None, **fields: Any
) -> Template:
    """Save a template as its next version; orders made before keep theirs.

    The same content again makes no new version.

    Args:
        after: the version that was looked at; where another one is current by now, nothing is
            saved.
        fields: `steps` (as in S4-9), and where they change others of EDITED.
    Raises:
        TemplateInvalid: a step names an unknown step template, a way leads nowhere, or the input
            schema is none.
    """
    last = Template.objects.filter(slug=slug).order_by("-version").first()
    if after is not None and (last is None or last.version != after):
        raise TemplateInvalid({"version": [SAVED_MEANWHILE]})
    kept = {name: getattr(last, name) for name in EDITED} if last else {"title": slug}
    values = {**kept, **fields}
    _check_texts(slug, fields)
    frozen_steps = freeze_steps(values.get("steps", []))
    if last is None and "reducers" not in fields:
        values["reducers"] = registry.reducers_of(frozen_steps) or values.get("reducers", {})
    _check_people(values["steps"], "steps")
    _check_schema(values.get("input_schema", {}))
    _check_reducers(values.get("reducers", {}))
    _check_keeping(values)
    if values.get("frequency") == Frequency.OFF:
        _check_off(frozen_steps, needs_repository=values.get("needs_repository", True))
    values |= {
        "input_schema": schemas.in_order(values.get("input_schema", {})),
        "steps": [_in_order(one) for one in values["steps"]],
    }
    if last and values == kept:
        return last
    keyed.made("")
    try:
        with transaction.atomic():
            return Template.objects.create(
                slug=slug,
                version=last.version + 1 if last else 1,
                created_by_id=by.pk if by else None,
                **values,
            )
    except IntegrityError as error:  # template_version_once
        raise TemplateInvalid({"version": [SAVED_MEANWHILE]}) from error


@transaction.atomic
def edit_step_template(
    slug: str,
    *,
    title: str,
    function: str = "",
    config: Mapping[str, Any] | None = None,
    sub_steps: Sequence[Mapping[str, Any]] = (),
) -> StepTemplate:
    """Save a step template as its next version. The same content again makes no new version.

    Args:
        function: a registered step function; `flow.sub_steps` where it is left empty and there are
            sub-steps.
        sub_steps: as a template's steps; they run as child runs (see
            `runs.workflows.sub_workflow`).
    Raises:
        TemplateInvalid: no such function, a configuration that it cannot use, or sub-steps that
            cannot be frozen.
    """
    function = function or (SUB_STEPS if sub_steps else "")
    values: dict[str, Any] = {
        "title": title,
        "function": function,
        "config": _in_order(config or {}),
        "sub_steps": [_in_order(step) for step in sub_steps],
    }
    _check_texts(slug, values)
    try:
        find(function)
    except UnknownStep as error:
        raise TemplateInvalid({"function": [str(error)]}) from error
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
        _check_people(values["sub_steps"], "sub_steps")
    last = StepTemplate.objects.filter(slug=slug).order_by("-version").first()
    if last and {name: getattr(last, name) for name in values} == values:
        return last
    keyed.made("")
    try:
        with transaction.atomic():
            return StepTemplate.objects.create(
                slug=slug, version=last.version + 1 if last else 1, **values
            )
    except IntegrityError as error:  # step_template_version_once
        raise TemplateInvalid({"version": [SAVED_MEANWHILE]}) from error


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
    found = StepTemplate.objects.filter(slug=slug).order_by("-version").first()
    if found is None:
        raise TemplateNotFound(f"There is no step template {slug!r}.")
    return found


def frozen(template: Template) -> dict[str, Any]:
    """What a definition of the template holds."""
    steps = freeze_steps(template.steps)
    content: dict[str, Any] = {
        "template": template.slug,
        "version": template.version,
        "steps": steps,
        "reducers": template.reducers,
    }
    if template.frequency != Frequency.STEP:
        content["frequency"] = template.frequency
    if template.size_budget is not None:
        content["size_budget"] = template.size_budget
    return content


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


def below(above: Definition, digest: str) -> Definition | None:
    """The definition of that digest among those of the child runs that a definition's steps may
    start: of all sub-steps, or of one.

    Call inside a transaction.
    """
    for step in above.steps:
        subs = step.get("sub_steps", [])
        for steps in [subs, *([sub] for sub in subs)] if subs else ():
            content = {**above.content, "steps": steps}
            if codec.digest(codec.encode(content)) == digest:
                facts = {
                    "template_slug": above.template_slug,
                    "template_version": above.template_version,
                    "content": content,
                }
                return Definition.objects.get_or_create(digest=digest, defaults=facts)[0]
    return None


def freeze(template: Template) -> Definition:
    """The template with its current step templates, under the digest of that content.

    Call inside a transaction. Raises NotReady.
    """
    content = frozen(template)
    registry.require(content["steps"], setting)
    digest = codec.digest(codec.encode(content))
    definition, _ = Definition.objects.get_or_create(
        digest=digest,
        defaults={
            "template_slug": template.slug,
            "template_version": template.version,
            "content": content,
        },
    )
    return definition


def freeze_steps(steps: Any, *, inside: tuple[str, ...] = ()) -> list[FrozenStep]:
    """A template's steps with everything filled in; raises TemplateInvalid.

    `inside` names the step templates they are sub-steps of.
    """
    if len(inside) > settings.WAYSTATION_GATHER_DEPTH:
        raise TemplateInvalid(
            {
                "sub_steps": [
                    (
                        f"Sub-steps may be nested {settings.WAYSTATION_GATHER_DEPTH} deep: "
                        f"{' > '.join(inside)}."
                    )
                ]
            }
        )
    if (
        not isinstance(steps, list)
        or not steps
        or len(steps) > MAX_STEPS
        or not all(isinstance(step, dict) for step in steps)
    ):
        raise TemplateInvalid(
            {"steps": [f"A template has between 1 and {MAX_STEPS} steps, each an object."]}
        )
    frozen: list[FrozenStep] = []
    for position, step in enumerate(steps):
        frozen.append(
            _freeze_step(step, position, taken={other["name"] for other in frozen}, inside=inside)
        )
    _check_ways(frozen)
    return frozen


def _freeze_step(
    step: Mapping[str, Any], position: int, *, taken: set[str], inside: tuple[str, ...]
) -> FrozenStep:
    if misspelt := [name for name in step if name not in STEP_KEYS]:
        raise TemplateInvalid(
            {
                f"steps.{position}.{name}": [refusals.unknown("key", str(name), STEP_KEYS)]
                for name in misspelt
            }
        )
    step_type = str(step.get("step_type") or "")
    slug = str(step.get("step_template_slug") or "")
    kind = (
        StepTemplate.objects.filter(slug=slug).order_by("-version").first()
        if slug
        else usual(step_type)
    )
    if kind is None and not slug and step_type:
        raise TemplateInvalid({f"steps.{position}.step_type": [_no_usual(step_type)]})
    if kind is None:
        known = StepTemplate.objects.order_by("slug").values_list("slug", flat=True).distinct()
        raise TemplateInvalid(
            {
                f"steps.{position}.step_template_slug": [
                    refusals.unknown("step template", slug, known)
                ]
            }
        )
    name = str(step.get("name") or step_type or slug)
    if name in taken or not name or len(name) > 100:
        raise TemplateInvalid(
            {
                f"steps.{position}.name": [
                    f"Each step needs a name of its own; {name!r} is taken, empty or too long."
                ]
            }
        )
    rounds = step.get("max_revisions", 3)
    if type(rounds) is not int or not 0 <= rounds <= 10:
        raise TemplateInvalid({f"steps.{position}.max_revisions": ["Between 0 and 10 rounds."]})
    pause_after = step.get("pause_after", False)
    if type(pause_after) is not bool:
        raise TemplateInvalid({f"steps.{position}.pause_after": ["true or false."]})
    frozen: FrozenStep = {
        "name": name,
        "step_type": step_type,
        "title": kind.title,
        "step_template_slug": kind.slug,
        "step_template_version": kind.version,
        "function": kind.function,
        "fingerprint": fingerprint_of(kind.function),
        "config": registry.traits_of(kind.function).server.completed(kind.config, setting),
        "pause_after": pause_after,
        "pause_phase": str(step.get("pause_phase") or "")[:64],
        "revise_to": str(step.get("revise_to") or name),
        "choices": _choices(step.get("choices", []), position),
        "max_revisions": rounds,
    }
    if (version := registry.latest_version(kind.function)) > 1:
        frozen["function_version"] = version  # said only where there is more than one
    try:
        # just the keys that policies may have
        frozen.update(step_options.freeze(step))  # type: ignore[typeddict-item]
    except step_options.PolicyInvalid as error:
        raise TemplateInvalid({f"steps.{position}.{error.field}": [str(error)]}) from error
    check_no_secrets(frozen.get("required_inputs", {}), f"steps.{position}.required_inputs")
    if kind.slug in inside:
        raise TemplateInvalid(
            {
                f"steps.{position}.step_template_slug": [
                    f"{kind.slug!r} would be a sub-step of itself."
                ]
            }
        )
    if kind.sub_steps:
        frozen["sub_steps"] = freeze_steps(kind.sub_steps, inside=(*inside, kind.slug))
    return frozen


def usual(step_type: str) -> StepTemplate | None:
    """The step template of a step that names its type alone."""
    found = StepTemplate.objects.filter(slug__in=named_by("", step_type)).order_by("-version")
    return min(found, key=lambda kind: kind.slug == step_type, default=None)


def named_by(slug: str, step_type: str) -> tuple[str, ...]:
    """Slugs of the step template that a step means, first choice first: without one
    `standard-<type>`, else the type's (S4, level 9).
    """
    return (slug,) if slug else (f"standard-{step_type}", step_type)


def _no_usual(step_type: str) -> str:
    known = (
        StepTemplate.objects.filter(slug__startswith="standard-")
        .values_list("slug", flat=True)
        .distinct()
    )
    words = refusals.unknown(
        "usual step template of the type",
        step_type,
        [slug.removeprefix("standard-") for slug in known],
    )
    return f"{words} A step of another type names its step_template_slug."


def fingerprint_of(name: str) -> str:
    """What the step function of that name does; "" where this code has no such step any more: the
    run says so when it gets there.
    """
    try:
        return fingerprint(find(name))
    except UnknownStep:
        return ""


def _choices(choices: Any, position: int) -> list[Choice]:
    known = isinstance(choices, list) and all(
        isinstance(choice, dict) and choice.keys() == set(CHOICE_KEYS) for choice in choices
    )
    if not known or any(not 0 < len(str(choice["name"])) <= 64 for choice in choices):
        raise TemplateInvalid(
            {
                f"steps.{position}.choices": [
                    "A list of objects with name (up to 64 characters), label and to."
                ]
            }
        )
    return [
        {"name": str(choice["name"]), "label": str(choice["label"]), "to": str(choice["to"])}
        for choice in choices
    ]


def _check_ways(steps: Sequence[FrozenStep]) -> None:
    names = {step["name"] for step in steps}
    for step in steps:
        for name, to in [
            ("revise", step["revise_to"]),
            *((choice["name"], choice["to"]) for choice in step["choices"]),
        ]:
            if to not in names:
                raise TemplateInvalid(
                    {
                        f"steps.{step['name']}": [
                            (
                                f"The answer {name!r} leads to {to!r}, which is no step of this "
                                "template."
                            )
                        ]
                    }
                )
        if RESERVED & {choice["name"] for choice in step["choices"]}:
            raise TemplateInvalid(
                {
                    f"steps.{step['name']}.choices": [
                        "approve, revise and cancel are answers already."
                    ]
                }
            )
        if step["pause_after"] and not step["pause_phase"]:
            raise TemplateInvalid(
                {f"steps.{step['name']}.pause_phase": ["A step that pauses needs a pause_phase."]}
            )


def _check_people(steps: Sequence[Mapping[str, Any]], field: str) -> None:
    """Raise TemplateInvalid where the rules of a step name somebody who is not there: nobody would
    be asked in that name.
    """
    named: dict[str, dict[str, list[str]]] = {"users": {}, "groups": {}}
    for position, step in enumerate(steps):
        review = step.get("review") or {}
        places = [("reviewers", review.get("reviewers", {}))]
        places += [
            (f"escalation.{number}", stage)
            for number, stage in enumerate(review.get("escalation", []))
        ]
        for place, actors in places:
            for kind, found in named.items():
                for name in actors.get(kind, []):
                    found.setdefault(name, []).append(f"{field}.{position}.review.{place}.{kind}")
    errors: dict[str, list[str]] = {}
    for kind, what, known in (
        (
            "users",
            "person with an active account",
            User.objects.filter(is_active=True).values_list(NAME, flat=True),
        ),
        ("groups", "group", Group.objects.values_list("name", flat=True)),
    ):
        names = set(named[kind])
        there = (
            set(known.filter(**{f"{NAME}__in" if kind == "users" else "name__in": names}))
            if names
            else names
        )
        for name in sorted(names - there):
            for place in named[kind][name]:
                errors.setdefault(place, []).append(
                    refusals.unknown(what, name, known.order_by("pk")[:1_000])
                )
    if errors:
        raise TemplateInvalid(errors)


def check_keys(given: Iterable[str], known: Collection[str]) -> None:
    """Raise TemplateInvalid for keys of a document that nobody would read."""
    if errors := {
        str(name)[:100]: [refusals.unknown("key", str(name), known)]
        for name in given
        if name not in known
    }:
        raise TemplateInvalid(errors)


def _check_texts(slug: str, fields: Mapping[str, Any]) -> None:
    """What the columns cannot hold."""
    if len(slug) > 80:
        raise TemplateInvalid({"slug": ["Up to 80 characters."]})
    for name, value in fields.items():
        try:
            codec.check(value, name)
        except codec.NotJson as error:
            raise TemplateInvalid({name: [str(error)]}) from error
        if codec.holds_unreadable(value):
            raise TemplateInvalid(
                {
                    name: [
                        (
                            f"{name} holds characters that cannot be kept: a NUL, or bytes that "
                            "are no UTF-8."
                        )
                    ]
                }
            )


def _check_reducers(rules: Any) -> None:
    try:
        step_options.check_reducers(rules)
    except step_options.PolicyInvalid as error:
        raise TemplateInvalid({error.field: [str(error)]}) from error


def fields_of(schema: Any) -> Iterator[str]:
    """The names of all fields that a schema asks for, at any depth, save those that are only true
    or false.
    """
    if isinstance(schema, dict):
        for name, inner in _object(schema.get("properties")).items():
            if not (isinstance(inner, dict) and inner.get("type") == "boolean"):
                yield name
        yield from (
            name
            for name in _list(schema.get("required"))
            if name not in _object(schema.get("properties"))
        )
    parts = list(schema.values()) if isinstance(schema, dict) else _list(schema)
    for part in parts:
        yield from fields_of(part)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def check_no_secrets(schema: Any, field: str) -> None:
    """Raise TemplateInvalid where a form would ask for what is not kept: no step would ever get
    it.
    """
    asked = sorted(
        {name for name in fields_of(schema) if isinstance(name, str) and redaction.is_secret(name)}
    )
    if asked:
        words = (
            f"{', '.join(map(repr, asked))}: named like a secret. What is given under such a "
            "name is not kept, so no step would get it."
        )
        raise TemplateInvalid(
            {field: [f"{words} Let the step read it from its environment, or choose another name."]}
        )


def _check_keeping(values: Mapping[str, Any]) -> None:
    try:
        step_options.check_keeping(values)
    except step_options.PolicyInvalid as error:
        raise TemplateInvalid({error.field: [str(error)]}) from error


def _check_off(steps: Sequence[FrozenStep], *, needs_repository: bool) -> None:
    """Raise TemplateInvalid where a template without checkpoints would promise what only they can
    keep (S0-17).
    """
    found = [
        (step["name"], needs_checkpoints(step, asks=asks_by_itself(step["function"])))
        for step in steps
    ]
    errors = [
        f"The step {name!r} {words}, which takes checkpoints." for name, words in found if words
    ]
    if needs_repository:
        errors.append(
            "Work on a repository takes checkpoints: each commit is found by them. Set "
            "needs_repository to false."
        )
    if errors:
        raise TemplateInvalid({"frequency": errors})


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


def _check_schema(schema: Any) -> None:
    try:
        schemas.check(schema)
    except schemas.SchemaRefused as error:
        raise TemplateInvalid(
            {"input_schema": [f"No JSON Schema that can be used: {error}"]}
        ) from error
    check_no_secrets(schema, "input_schema")
