"""What a test gives as a workflow: a slug, a module, or its templates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from runs.definitions import loading, templates
from runs.workflows import Workflow

Templates = Mapping[str, Mapping[str, Any]]
Hire = Callable[[str, Sequence[str]], object]


def load(workflow: Any, template: str = "", *, hire: Hire) -> str:
    """Save a workflow's templates in the database at hand; give the slug of the one to run.

    Args:
        workflow: a declared workflow; the slug of a template that a module of
            WAYSTATION_WORKFLOWS has; a module that declares workflows; or a mapping with
            `TEMPLATES` and `STEP_TEMPLATES`.
        template: which of several.
        hire: makes the people and groups that review rules name: (name, its groups).
    """
    slug = workflow if isinstance(workflow, str) else template
    kinds, found = _declared(workflow)
    for review in _reviews([*kinds.values(), *found.values()]):
        _hire(review, hire)
    for name, fields in kinds.items():
        templates.edit_step_template(name, **fields)
    for name, fields in found.items():
        templates.edit_template(name, **fields)
    if not slug and len(found) == 1:
        [slug] = found
    if slug not in found:
        raise LookupError(
            f"There is no template {slug!r}; known are {', '.join(sorted(found)) or 'none'}. "
            "Name one with `template=`, or its module in WAYSTATION_WORKFLOWS."
        )
    return slug


def _declared(workflow: Any) -> tuple[Templates, Templates]:
    """Step templates, and templates, by slug."""
    if isinstance(workflow, Workflow):
        return workflow.step_templates, {workflow.slug: workflow.template}
    if isinstance(workflow, Mapping):
        return workflow.get("STEP_TEMPLATES") or {}, workflow.get("TEMPLATES") or {}
    modules = loading.modules() if isinstance(workflow, str) else [workflow]
    kinds, templates = loading.declared(modules)
    return {kind.slug: kind.fields for kind in kinds}, {
        kind.slug: kind.fields for kind in templates
    }


def _reviews(wholes: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for whole in wholes:
        for step in [*whole.get("steps", ()), *whole.get("sub_steps", ())]:
            if step.get("review"):
                yield step["review"]


def _hire(review: Mapping[str, Any], hire: Hire) -> None:
    """Make the people that these rules name; a group gets a member."""
    stages = [stage.get("reviewers", {}) for stage in review.get("stages", [])]
    for actors in [review.get("reviewers", {}), *stages, *review.get("escalation", [])]:
        for name in actors.get("users", ()):
            hire(name, ())
        for group in actors.get("groups", ()):
            hire(f"{group}-1", [group])
