"""The workflows of this server: the modules that register its steps, and the templates that these
bring along.

`WAYSTATION_WORKFLOWS` names modules. Importing one registers its step functions
(`runs.workflows.registry.step`); it may have `STEP_TEMPLATES` (slug → `title`, `function`,
`config`, `sub_steps`) and `TEMPLATES` (slug → what a template's page asks for).
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from runs.definitions import templates
from runs.models import StepTemplate, Template

BUILT_IN = (
    "runs.workflows.deliver",
    "runs.workflows.sub_workflow",
    "runs.workflows.wait_for_input",
    "runs.agents",
    "runs.langgraph.step",
)
"""Steps that every server has."""


def modules() -> list[ModuleType]:
    """The modules that the setting names, imported.

    Raises ImproperlyConfigured, naming the one that cannot be, and why.
    """
    found = []
    for name in settings.WAYSTATION_WORKFLOWS:
        try:
            found.append(import_module(name))
        except Exception as error:
            raise ImproperlyConfigured(
                f"WAYSTATION_WORKFLOWS: {name!r} cannot be imported: "
                f"{type(error).__name__}: {error}"
            ) from error
    return found


def register() -> None:
    """Make the step functions known: those that every server has, and those of the modules that the
    setting names.
    """
    for name in BUILT_IN:
        import_module(name)
    modules()


def load() -> list[Template]:
    """Write what is shipped; what is there already in the same form stays as it is, and a version
    that a person edited stays current.
    """
    found = modules()
    for module in found:
        for slug, fields in getattr(module, "STEP_TEMPLATES", {}).items():
            last = StepTemplate.objects.filter(slug=slug).order_by("-version").first()
            # else its title and configuration are the operator's
            if last is None or last.function != fields["function"]:
                templates.edit_step_template(slug, **fields)
    return [
        _load(slug, fields)
        for module in found
        for slug, fields in getattr(module, "TEMPLATES", {}).items()
    ]


def _load(slug: str, fields: Mapping[str, Any]) -> Template:
    last = Template.objects.filter(slug=slug).order_by("-version").first()
    if last is not None and last.created_by_id is not None:
        return last
    return templates.edit_template(slug, **fields)
