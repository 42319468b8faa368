"""Templates as YAML, so that they can be kept in git: written out, compared and taken in.

A file has the words of `STEP_TEMPLATES` and `TEMPLATES` of a module (docs/reference/templates.md):

    step_templates: {<slug>: {title, function, config, sub_steps}}
    templates: {<slug>: {title, steps, …}}

What a file leaves out of a template is as usual, whatever the version before said.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import yaml
from django.db import transaction

from runs.definitions import templates
from runs.definitions.checks import check_keys
from runs.definitions.errors import TemplateInvalid, refused
from runs.definitions.freezing import freeze_steps
from runs.models import StepTemplate, Template
from runs.models.kinds import named_by
from runs.workflows import registry
from runs.workflows.registry import with_sub_steps

LONGEST = 1_000_000
"""Characters of a file."""
KIND_FIELDS = ("title", "function", "config", "sub_steps")
PARTS = {"step_templates": KIND_FIELDS, "templates": templates.EDITED}

State = Literal["new", "changed", "same"]
K = TypeVar("K")


@dataclass(frozen=True, kw_only=True)
class Applied:
    """What became of a template of a file."""

    slug: str
    state: State
    version: int
    """The version that is current then."""
    is_step: bool


def export(slugs: Collection[str] = ()) -> str:
    """Write the current versions of these templates, and of the step templates that they name; of
    all without slugs. The same templates give the same text.

    Raises TemplateNotFound.
    """
    found = (
        [templates.current(slug) for slug in sorted(slugs)]
        if slugs
        else list(Template.objects.current().order_by("slug"))
    )
    kinds = {kind.slug: kind for kind in StepTemplate.objects.order_by("slug", "version")}
    named = _named(found, kinds) if slugs else set(kinds)
    document = {
        "step_templates": {
            slug: _without({name: getattr(kind, name) for name in KIND_FIELDS}, _USUAL_KIND)
            for slug, kind in _parts_first(kinds, {k: v.sub_steps for k, v in kinds.items()})
            if slug in named
        },
        "templates": {
            template.slug: _without(
                {name: getattr(template, name) for name in templates.EDITED},
                {**templates.usual_fields(), "reducers": ...},
            )
            for template in found
        },
    }
    return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100, indent=2))


_USUAL_KIND: Mapping[str, Any] = {"config": {}, "sub_steps": []}


def _parts_first(
    kinds: Mapping[str, K], inner: Mapping[str, Sequence[Mapping[str, Any]]]
) -> Iterator[tuple[str, K]]:
    """Step templates, each after those that its sub-steps (`inner`) name; else in their order."""
    done: set[str] = set()

    def walk(slug: str, above: tuple[str, ...]) -> Iterator[tuple[str, K]]:
        if slug in done or slug in above or slug not in kinds:
            return
        for step in inner[slug] if isinstance(inner[slug], list) else []:
            if isinstance(step, dict):
                yield from walk(str(step.get("step_template_slug", "")), (*above, slug))
        done.add(slug)
        yield slug, kinds[slug]

    for slug in kinds:
        yield from walk(slug, ())


def _without(values: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if usual.get(name, ...) != value}


def _named(found: Iterable[Template], kinds: Mapping[str, StepTemplate]) -> set[str]:
    """The step templates that these use, at any depth."""
    named: set[str] = set()
    ahead = [step for template in found for step in with_sub_steps(template.steps)]
    while ahead:
        step = ahead.pop()
        slugs = named_by(step.get("step_template_slug", ""), step.get("step_type", ""))
        slug = next((slug for slug in slugs if slug in kinds), "")
        if slug and slug not in named:
            named.add(slug)
            ahead += kinds[slug].sub_steps
    return named


def read(text: str) -> dict[str, dict[str, dict[str, Any]]]:
    """What a file says, its shape checked. Raises TemplateInvalid, whose keys are places in it."""
    if len(text) > LONGEST:
        raise refused("file", f"It has more than {LONGEST:,} characters.")
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise refused("file", f"It is not YAML: {' '.join(str(error).split())[:300]}") from error
    if not isinstance(document, dict):
        raise refused("file", "It begins with step_templates: or templates:.")
    check_keys(document, PARTS)
    parts: dict[str, dict[str, dict[str, Any]]] = {}
    for part, fields in PARTS.items():
        values = {} if document.get(part) is None else document[part]
        if not isinstance(values, dict) or not all(
            isinstance(slug, str) and isinstance(value, dict) for slug, value in values.items()
        ):
            raise refused(part, "It maps slugs to fields.")
        for slug, value in values.items():
            with _at(f"{part}.{slug}"):
                check_keys(value, fields)
        parts[part] = values
    return parts


@transaction.atomic
def apply(text: str) -> list[Applied]:
    """Save what a file says that is not so already, all of it or nothing.

    Raises TemplateInvalid, whose keys are places in the file; nothing was saved then.
    """
    parts = read(text)
    applied = []
    kinds = parts["step_templates"]
    inner = {slug: fields.get("sub_steps", []) for slug, fields in kinds.items()}
    for slug, fields in _parts_first(kinds, inner):
        before = templates.newest_step(slug)
        with _at(f"step_templates.{slug}"):
            kind = templates.edit_step_template(slug, **{"title": slug, **fields})
        applied.append(_applied(slug, before, kind))
    for slug, fields in parts["templates"].items():
        last = templates.newest(slug)
        with _at(f"templates.{slug}"):
            usual = {**templates.usual_fields(), "title": slug}
            usual["reducers"] = registry.reducers_of(freeze_steps(fields.get("steps", [])))
            template = templates.edit_template(slug, **{**usual, **fields})
        applied.append(_applied(slug, last, template))
    return applied


def _applied(
    slug: str, before: Template | StepTemplate | None, after: Template | StepTemplate
) -> Applied:
    state: State = "same"
    if before is None or before.version != after.version:
        state = "new" if before is None else "changed"
    return Applied(
        slug=slug, state=state, version=after.version, is_step=isinstance(after, StepTemplate)
    )


@contextmanager
def _at(place: str) -> Iterator[None]:
    """Put a place in the file before the places of a refusal."""
    try:
        yield
    except TemplateInvalid as error:
        raise TemplateInvalid(
            {f"{place}.{field}": texts for field, texts in error.errors.items()}
        ) from error
    except (TypeError, AttributeError, KeyError) as error:
        raise refused(place, "A field is missing, or has a value of the wrong kind.") from error
