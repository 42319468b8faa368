"""The workflows of this server: the modules that register its steps, and the templates that these
bring along.

The extensions and `WAYSTATION_WORKFLOWS` name modules. Importing one registers its step functions
(`runs.workflows.registry.step`). It declares workflows (`runs.workflows.workflow`), or says the
same with `STEP_TEMPLATES` (slug → `title`, `function`, `config`, `sub_steps`) and `TEMPLATES` (slug
→ what a template's page asks for).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import Error, connection
from django.db.models import Manager

from checkpoints import extension
from checkpoints.database import outages
from checkpoints.state import codec
from runs.definitions import loading, templates
from runs.definitions.errors import TemplateInvalid
from runs.definitions.loading import Declared
from runs.definitions.templates import Kind
from runs.models import StepTemplate, Template
from runs.workflows.registry import is_known
from runs.workflows.sub_workflow import SUB_STEPS

logger = logging.getLogger(__name__)

TRIES = 10
"""How often a version is tried that other hosts save at the same moment."""

BUILT_IN = (
    "runs.workflows.deliver",
    "runs.workflows.sub_workflow",
    "runs.workflows.wait_for_input",
    "runs.agents",
)
"""Steps of the core, which every server has."""


def register() -> None:
    """Make the step functions known: those of the core, of the installed extensions, and of the
    modules that the setting names.
    """
    for name in (*BUILT_IN, *(name for each in extension.installed() for name in each.steps)):
        import_module(name)
    loading.declared(loading.modules())


class TemplatesRefused(ImproperlyConfigured):
    """Declared templates that cannot be saved. The message names file, line and field."""


def load(replace: Collection[str] = ()) -> list[Template]:
    """Save what the modules declare, each in a transaction of its own, and give the templates.

    Args:
        replace: slugs of workflows whose versions that people saved give way to the code's.
    Raises:
        TemplatesRefused: some could not be saved; all others were.
    """
    kinds, found = loading.declared(loading.modules())
    refused = [
        *_publish(StepTemplate, kinds, templates.edit_step_template, replace),
        *_publish(Template, found, templates.edit_template, replace),
    ]
    if refused:
        raise TemplatesRefused(" ".join(refused))
    slugs = [one.slug for one in found]
    current = {one.slug: one for one in Template.objects.current().filter(slug__in=slugs)}
    return [current[slug] for slug in slugs]


def load_at_start() -> None:
    """Save what the modules declare, for processes that serve: as `load_or_say`.

    It has a thread of its own, so that no connection stays open and an event loop may run.
    """

    def work() -> None:
        try:
            load_or_say()
        finally:
            connection.close()

    if settings.WAYSTATION_PUBLISH:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(work).result()


def load_or_say() -> None:
    """Save what the modules declare; what cannot be saved stops nobody.

    The version before stays current, and the log says why.
    """
    try:
        load()
    except TemplatesRefused as error:
        logger.error("Some declared workflows are not current: %s", error)
    except Error as error:
        if not (outages.lacks_tables(error) or outages.is_trouble(error)):
            raise
        words = "Declared workflows were not saved, since the database cannot be used yet: %s"
        logger.warning(words, " ".join(str(error).split())[:300])


def outdated(shown: Iterable[Template | StepTemplate]) -> dict[str, str]:
    """The templates, or step templates, that a person changed and whose declaration has changed
    since: slug → where the declaration stands.
    """
    edited = {one.slug: type(one) for one in shown if not one.declared}
    if not edited:
        return {}
    model = next(iter(edited.values()))
    manager: Manager[Any] = model._default_manager
    bases = dict(
        manager.filter(slug__in=edited)
        .exclude(declared="")
        .order_by("version")
        .values_list("slug", "declared")
    )
    return {
        one.slug: one.place
        for one in _declarations(model)
        if one.slug in bases and bases[one.slug] != one.digest
    }


def _declarations(model: type[Template] | type[StepTemplate]) -> list[Declared]:
    kinds, found = loading.declared(loading.modules())
    return found if model is Template else kinds


class NothingNewer(Exception):
    """The code declares no other version than the current one, so nothing was saved."""

    code = "nothing_newer"


def waiting(row: Template | StepTemplate) -> Declared | None:
    """The declaration that waits behind a version that a person saved; None where none does."""
    if row.slug not in outdated([row]):
        return None
    return next((one for one in _declarations(type(row)) if one.slug == row.slug), None)


def fields_declared(row: Template | StepTemplate, one: Declared) -> dict[str, Any]:
    """What the declaration would make of the current version, by its fields."""
    if isinstance(row, Template):
        fields: dict[str, Any] = json.loads(
            codec.encode(templates.checked(row.slug, None, one.fields))
        )
        return fields
    return {"title": "", "config": {}, "sub_steps": [], "function": SUB_STEPS, **one.fields}


def take_over(row: Kind, *, after: int) -> Kind:
    """Make the code's declaration the next version of a template, or step template, that a person
    changed.

    Raises NothingNewer where none waits, and as `edit_template`.
    """
    one = waiting(row)
    if one is None:
        raise NothingNewer(
            f"The code declares no newer version of {row.slug}, so nothing was saved."
        )
    save: Callable[..., Kind] = (
        templates.edit_template if isinstance(row, Template) else templates.edit_step_template
    )
    return save(row.slug, after=after, declared=one.digest, **one.fields)


def _publish(
    model: type[Kind],
    declared: Sequence[Declared],
    save: Callable[..., Kind],
    replace: Collection[str],
) -> Iterator[str]:
    """Save those that are new; give, in words, those that could not be saved."""
    for one in declared:
        owner = one.workflow.slug if one.workflow is not None else one.slug
        for attempt in range(TRIES):
            try:
                if _is_new(model, one, replaced=not {one.slug, owner}.isdisjoint(replace)):
                    save(one.slug, declared=one.digest, **one.fields)
            except TemplateInvalid as error:
                if "version" in error.errors and attempt + 1 < TRIES:
                    continue  # another host saved one at the same moment: perhaps this very one
                yield from (
                    f"{one.place_of(field)}: {one.slug}, {field}: {' '.join(texts)}"
                    for field, texts in error.errors.items()
                )
            break


def _is_new(model: type[Kind], one: Declared, *, replaced: bool) -> bool:
    """Whether the declaration is another one than the last that was saved, and no person's version
    stands in its way.
    """
    manager: Manager[Kind] = model._default_manager
    versions = manager.filter(slug=one.slug).order_by("-version")
    newest = versions.first()
    if newest is None:
        return True
    if newest.declared or replaced:
        return newest.declared != one.digest
    if isinstance(newest, StepTemplate) and not is_known(newest.function):
        return True
    last = versions.exclude(declared="").first()
    if last is not None:
        return False
    # saved by a release that did not note this
    if isinstance(newest, StepTemplate):
        return newest.function != one.fields.get("function", SUB_STEPS) or _same(newest, one)
    if newest.created_by_id is None:
        return True
    base = Template.objects.filter(slug=one.slug, created_by=None).order_by("-version").first()
    if base is not None:  # what the person changed was this, as far as anybody knows
        Template.objects.filter(pk=base.pk).update(declared=one.digest)
    return False


def _same(kind: StepTemplate, one: Declared) -> bool:
    """Whether a step template holds what is declared."""
    usual: dict[str, Any] = {"config": {}, "sub_steps": []}
    wanted = {**usual, **one.fields}
    return {name: getattr(kind, name) for name in wanted} == wanted
