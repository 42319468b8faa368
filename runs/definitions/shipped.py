"""The workflows of this server: the modules that register its steps, and the templates that these
bring along.

`WAYSTATION_WORKFLOWS` names modules. Importing one registers its step functions
(`runs.workflows.registry.step`). It declares workflows (`runs.workflows.workflow`), or says the
same with `STEP_TEMPLATES` (slug → `title`, `function`, `config`, `sub_steps`) and `TEMPLATES` (slug
→ what a template's page asks for).
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from runs.definitions import loading, templates
from runs.models import StepTemplate, Template

BUILT_IN = (
    "runs.workflows.deliver",
    "runs.workflows.sub_workflow",
    "runs.workflows.wait_for_input",
    "runs.agents",
    "runs.langgraph.step",
)
"""Steps that every server has."""


def register() -> None:
    """Make the step functions known: those that every server has, and those of the modules that the
    setting names.
    """
    for name in BUILT_IN:
        import_module(name)
    loading.declared(loading.modules())


def load() -> list[Template]:
    """Write what is shipped; what is there already in the same form stays as it is, and a version
    that a person edited stays current.
    """
    kinds, found = loading.declared(loading.modules())
    for kind in kinds:
        last = StepTemplate.objects.filter(slug=kind.slug).order_by("-version").first()
        # else its title and configuration are the operator's
        if last is None or last.function != kind.fields["function"]:
            templates.edit_step_template(kind.slug, **kind.fields)
    return [_load(one.slug, one.fields) for one in found]


def _load(slug: str, fields: Mapping[str, Any]) -> Template:
    last = Template.objects.filter(slug=slug).order_by("-version").first()
    if last is not None and last.created_by_id is not None:
        return last
    return templates.edit_template(slug, **fields)
