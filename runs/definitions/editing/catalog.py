"""The step functions of this server, as those see them who put templates together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import getdoc, unwrap
from typing import Any

from runs.models import StepTemplate, Template
from runs.workflows import refusals, registry
from runs.workflows.wait_for_input import ELSEWHERE


class FunctionNotFound(Exception):
    code = "step_function_not_found"


@dataclass(frozen=True, kw_only=True)
class StepFunction:
    """A registered step function, and what it says of itself."""

    name: str
    version: int
    """The highest: what work takes that is ordered now."""
    summary: str
    """The first sentence of its docstring."""
    asks: bool
    """Whether it may ask somebody whatever its template says."""
    delivers: bool
    loops: bool
    needs_request: bool
    uses_models: bool
    config_schema: dict[str, Any] | None
    """JSON Schema of its configuration; None where it does not say."""
    reads_schema: dict[str, Any] | None
    """Of the keys of the state that it reads; None where it does not say."""
    writes_schema: dict[str, Any] | None


def functions() -> list[StepFunction]:
    """Give all step functions that a template may use, by name."""
    return [_described(name) for name in registry.known() if name != ELSEWHERE]


def function(name: str) -> StepFunction:
    """Give one; raises FunctionNotFound."""
    known = [each for each in registry.known() if each != ELSEWHERE]
    if name not in known:
        raise FunctionNotFound(refusals.unknown("step function", name, known))
    return _described(name)


def _described(name: str) -> StepFunction:
    traits = registry.traits_of(name)
    reads, writes = registry.state_schemas(name)
    words = getdoc(unwrap(registry.find(name))) or ""
    return StepFunction(
        name=name,
        version=registry.latest_version(name),
        summary=" ".join(words.split("\n\n")[0].split())[:300],
        asks=traits.asks,
        delivers=traits.delivers,
        loops=traits.loops,
        needs_request=traits.needs_request,
        uses_models=traits.uses_models,
        config_schema=registry.config_schema(name),
        reads_schema=reads,
        writes_schema=writes,
    )


def users_of(slug: str) -> list[Template]:
    """Give the templates whose current versions use a step template, directly."""
    return [
        template
        for template in Template.objects.current().order_by("title", "slug")
        if slug in {str(step.get("step_template_slug") or "") for step in template.steps}
    ]


def current_kinds() -> list[StepTemplate]:
    """Give the current version of every step template, by title."""
    return list(StepTemplate.objects.current().order_by("title", "slug"))


def kinds_by_workflow() -> list[tuple[str, list[StepTemplate]]]:
    """Give them by the title of the first template that uses each; those that none uses come last,
    under "".
    """
    first: dict[str, str] = {}
    for template in Template.objects.current().order_by("title", "slug"):
        for step in template.steps:
            first.setdefault(str(step.get("step_template_slug") or ""), template.title)
    found: dict[str, list[StepTemplate]] = {}
    for kind in current_kinds():
        found.setdefault(first.get(kind.slug, ""), []).append(kind)
    return sorted(found.items(), key=lambda group: (not group[0], group[0]))


def blank(schema: Mapping[str, Any] | None) -> bool:
    """Whether a configuration of this schema has no fields to fill in."""
    return schema is not None and not schema.get("properties")
