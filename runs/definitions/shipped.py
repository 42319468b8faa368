"""Load the workflows of this server: import the modules that register its steps, and save the
templates that these modules declare.

The extensions and `WAYSTATION_WORKFLOWS` name modules. Importing one registers its step functions
(`runs.workflows.registry.step`). It declares workflows (`runs.workflows.workflow`), or says the
same with `STEP_TEMPLATES` (slug → `title`, `function`, `config`, `sub_steps`) and `TEMPLATES` (slug
→ what a template's page asks for).
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
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
from runs.workflows import StepUse, Workflow, refusals
from runs.workflows.code.asked import targets
from runs.workflows.registry import find, is_known
from runs.workflows.sub_workflow import SUB_STEPS

logger = logging.getLogger(__name__)

TRIES = 10
"""How often saving a version is tried while other hosts save theirs at the same moment."""

BUILT_IN = (
    "runs.workflows.deliver",
    "runs.workflows.sub_workflow",
    "runs.workflows.wait_for_input",
    "runs.agents",
)
"""Steps of the core, which every server has."""


def register(*, authors: bool = True) -> None:
    """Register the step functions of the core, of the installed extensions, and of the modules that
    the setting names; without those of authors where these are loaded later.
    """
    for name in (*BUILT_IN, *(name for each in extension.installed() for name in each.steps)):
        import_module(name)
    if authors:
        loading.declared(loading.modules())
        return
    ours = {name for each in extension.installed() for name in each.workflows}
    for name in ours.intersection(loading.entries()):
        import_module(name)


_followers: list[Callable[[list[Workflow]], list[str]]] = []


def follow(settle: Callable[[list[Workflow]], list[str]]) -> None:
    """Let a layer above settle what stands beside workflows, once their templates are saved; it
    gives what cannot be kept, in sentences.
    """
    _followers.append(settle)


class TemplatesRefused(ImproperlyConfigured):
    """Declared templates that cannot be saved. The message names file, line and field."""


def load(replace: Collection[str] = ()) -> list[Template]:
    """Save what the modules declare, each in a transaction of its own, and give the templates.

    Args:
        replace: slugs of workflows where the code's version replaces one that a person saved.
    Raises:
        TemplatesRefused: some could not be saved; all others were.
    """
    kinds, workflows = loading.declared(loading.modules())
    lost = _leading_nowhere(kinds, workflows)
    kinds, workflows = (
        [one for one in some if one.workflow is None or one.workflow.slug not in lost]
        for some in (kinds, workflows)
    )
    refused = [
        *(words for each in lost.values() for words in each),
        *_publish(StepTemplate, kinds, templates.edit_step_template, replace),
        *_publish(Template, workflows, templates.edit_template, replace),
    ]
    declared = [one.workflow for one in workflows if one.workflow is not None]
    for settle in _followers:
        refused += settle(declared)
    if refused:
        raise TemplatesRefused(" ".join(refused))
    slugs = [declaration.slug for declaration in workflows]
    templates_now = Template.objects.current().filter(slug__in=slugs)
    current = {template.slug: template for template in templates_now}
    return [current[slug] for slug in slugs]


def _leading_nowhere(
    kinds: Sequence[Declared], workflows: Sequence[Declared]
) -> dict[str, list[str]]:
    """Find what the code of declared workflows leads to though no template that uses this code has
    such a step: slug → sentences. A function that a template uses which no `workflow` declares may
    lead to a step of that.
    """
    levels = [
        (one.workflow, level)
        for one in workflows
        if one.workflow is not None
        for level in _levels(one.workflow.steps)
    ]
    beside: dict[str, set[str]] = defaultdict(set)
    for _, level in levels:
        for use in level:
            beside[use.function] |= {other.name for other in level}
    elsewhere = {one.fields.get("function", SUB_STEPS) for one in kinds if one.workflow is None}
    people = StepTemplate.objects.current().filter(declared="")
    elsewhere |= set(people.values_list("function", flat=True))
    found: dict[str, list[str]] = defaultdict(list)
    for workflow, level in levels:
        for use in level:
            for target in targets(find(use.function)) if use.function not in elsewhere else ():
                if target.step not in beside[use.function]:
                    names = refusals.unknown("step", target.step, [other.name for other in level])
                    found[workflow.slug].append(
                        f"{use.place}: {workflow.slug}, the code of {use.name} leads to the step "
                        f"{refusals.in_json(target.step)} ({target.place}). {names}"
                    )
    return dict(found)


def _levels(uses: Sequence[StepUse]) -> Iterator[Sequence[StepUse]]:
    """Steps that stand beside each other: the workflow's, and the sub-steps of each."""
    if uses:
        yield uses
    for use in uses:
        yield from _levels(use.sub_steps)


def load_at_start() -> None:
    """Save what the modules declare, as `load_or_say`, for processes that serve.

    A thread of its own does it, so that no connection stays open and an event loop may run.
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
    """Save what the modules declare; a template that cannot be saved stops nothing.

    Its previous version stays current, and the log says why.
    """
    try:
        logger.info("Loaded workflows: %s", ", ".join(map(str, load())) or "none")
    except TemplatesRefused as error:
        logger.error("Some declared workflows are not current: %s", error)
    except Error as error:
        if not (outages.lacks_tables(error) or outages.is_trouble(error)):
            raise
        words = "Declared workflows were not saved, since the database cannot be used yet: %s"
        logger.warning(words, " ".join(str(error).split())[:300])
    for left_out in loading.left_out():
        logger.warning("Not loaded: %s", left_out)


def outdated(shown: Iterable[Template | StepTemplate]) -> dict[str, str]:
    """Find the templates, or step templates, that a person changed and whose declaration has
    changed since: slug → where the declaration stands.
    """
    edited = {row.slug: type(row) for row in shown if not row.declared}
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
        declaration.slug: declaration.place
        for declaration in _declarations(model)
        if declaration.slug in bases and bases[declaration.slug] != declaration.digest
    }


def _declarations(model: type[Template] | type[StepTemplate]) -> list[Declared]:
    kinds, workflows = loading.declared(loading.modules())
    return workflows if model is Template else kinds


class NothingNewer(Exception):
    """The code declares no other version than the current one, so nothing was saved."""

    code = "nothing_newer"


def waiting(row: Template | StepTemplate) -> Declared | None:
    """Find the declaration that waits behind a version that a person saved; None if none does."""
    if row.slug not in outdated([row]):
        return None
    return next(
        (declaration for declaration in _declarations(type(row)) if declaration.slug == row.slug),
        None,
    )


def fields_declared(row: Template | StepTemplate, one: Declared) -> dict[str, Any]:
    """Give the fields that the current version would have if the declaration were taken over."""
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
    declaration = waiting(row)
    if declaration is None:
        raise NothingNewer(
            f"The code declares no newer version of {row.slug}, so nothing was saved."
        )
    save: Callable[..., Kind] = (
        templates.edit_template if isinstance(row, Template) else templates.edit_step_template
    )
    return save(row.slug, after=after, declared=declaration.digest, **declaration.fields)


def _publish(
    model: type[Kind],
    declared: Sequence[Declared],
    save: Callable[..., Kind],
    replace: Collection[str],
) -> Iterator[str]:
    """Save the declarations that are new; for each that could not be saved, give a sentence."""
    for declaration in declared:
        owner = declaration.workflow.slug if declaration.workflow is not None else declaration.slug
        for attempt in range(TRIES):
            try:
                if _is_new(
                    model, declaration, replaced=not {declaration.slug, owner}.isdisjoint(replace)
                ):
                    save(declaration.slug, declared=declaration.digest, **declaration.fields)
            except TemplateInvalid as error:
                if "version" in error.errors and attempt + 1 < TRIES:
                    continue  # another host saved a version just now, perhaps of this declaration
                yield from (
                    f"{declaration.place_of(field)}: {declaration.slug}, {field}: {' '.join(texts)}"
                    for field, texts in error.errors.items()
                )
            break


def _is_new(model: type[Kind], one: Declared, *, replaced: bool) -> bool:
    """Whether the declaration differs from the last that was saved, and no version of a person
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
    # saved by a release that did not note the declaration's digest
    if isinstance(newest, StepTemplate):
        return newest.function != one.fields.get("function", SUB_STEPS) or _same(newest, one)
    if newest.created_by_id is None:
        return True
    base = Template.objects.filter(slug=one.slug, created_by=None).order_by("-version").first()
    if base is not None:  # as far as anybody knows, the person changed this version
        Template.objects.filter(pk=base.pk).update(declared=one.digest)
    return False


def _same(kind: StepTemplate, one: Declared) -> bool:
    """Whether a step template holds what is declared."""
    usual: dict[str, Any] = {"config": {}, "sub_steps": []}
    wanted = {**usual, **one.fields}
    return {name: getattr(kind, name) for name in wanted} == wanted
