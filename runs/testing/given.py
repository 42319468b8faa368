"""What a test gives as a workflow: a slug, a module, or its templates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from runs.definitions import shipped, templates

Hire = Callable[[str, Sequence[str]], object]


def load(workflow: Any, template: str = "", *, hire: Hire) -> str:
    """Save a workflow's templates in the database at hand; give the slug of the one to run.

    Args:
        workflow: the slug of a template that a module of WAYSTATION_WORKFLOWS has, a module with
            TEMPLATES, or a mapping with `TEMPLATES` and `STEP_TEMPLATES`.
        template: which of several.
        hire: makes the people and groups that review rules name: (name, its groups).
    """
    if isinstance(workflow, str):
        modules = shipped.modules()
        slug = workflow
    else:
        modules = [workflow]
        slug = template
    found: dict[str, Mapping[str, Any]] = {}
    for module in modules:
        kinds, wholes = _part(module, "STEP_TEMPLATES"), _part(module, "TEMPLATES")
        for review in _reviews([*kinds.values(), *wholes.values()]):
            _hire(review, hire)
        for name, fields in kinds.items():
            templates.edit_step_template(name, **fields)
        for name, fields in wholes.items():
            found[name] = fields
            templates.edit_template(name, **fields)
    if not slug and len(found) == 1:
        [slug] = found
    if slug not in found:
        raise LookupError(
            f"There is no template {slug!r}; known are {', '.join(sorted(found)) or 'none'}. "
            "Name one with `template=`, or its module in WAYSTATION_WORKFLOWS."
        )
    return slug


def _part(module: ModuleType | Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = module.get(name) if isinstance(module, Mapping) else getattr(module, name, None)
    return found or {}


def _reviews(wholes: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for whole in wholes:
        for step in [*whole.get("steps", ()), *whole.get("sub_steps", ())]:
            if step.get("review"):
                yield step["review"]


def _hire(review: Mapping[str, Any], hire: Hire) -> None:
    """Make the people that these rules name; a group gets a member."""
    for actors in [review.get("reviewers", {}), *review.get("escalation", [])]:
        for name in actors.get("users", ()):
            hire(name, ())
        for group in actors.get("groups", ()):
            hire(f"{group}-1", [group])
