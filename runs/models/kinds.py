"""The kinds of steps that templates name, as they are now: read together, once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from checkpoints.store.prepared_queries import Prepared
from runs.models.templates import StepTemplate


@cache
def _current(count: int) -> Prepared[StepTemplate]:
    """So many kinds by their slugs: every order reads those of its template."""
    return Prepared(
        lambda *slugs: StepTemplate.objects.current().filter(slug__in=slugs), *[str] * count
    )


class Kinds:
    """Current versions of step templates: each is read once, those of a template's steps in one
    query.

    Whoever looks at a template more than once gives it on, so that all looks see the same.
    """

    def __init__(self) -> None:
        self._known: dict[str, StepTemplate | None] = {}
        self._all = False

    @classmethod
    def every(cls) -> Kinds:
        """All there are, for who looks at many templates."""
        kinds = cls()
        kinds._known.update((kind.slug, kind) for kind in StepTemplate.objects.current())
        kinds._all = True
        return kinds

    def learn(self, steps: Iterable[Mapping[str, Any]]) -> None:
        """Read what these steps name; not what lies inside that."""
        wanted = {name for step in steps for name in _names_of(step)} - self._known.keys()
        if not wanted or self._all:
            return
        self._known.update(dict.fromkeys(wanted))
        found = _current(len(wanted)).get(*sorted(wanted))
        self._known.update((kind.slug, kind) for kind in found)

    def of(self, step: Mapping[str, Any]) -> StepTemplate | None:
        """What a step of a template means; None where there is none by now."""
        self.learn([step])
        found = (self._known.get(name) for name in _names_of(step))
        return next((kind for kind in found if kind is not None), None)


def named_by(slug: str, step_type: str) -> tuple[str, ...]:
    """Slugs of the step template that a step means, first choice first: without one
    `standard-<type>`, else the type's.
    """
    return (slug,) if slug else (f"standard-{step_type}", step_type)


def _names_of(step: Mapping[str, Any]) -> tuple[str, ...]:
    slug, step_type = (str(step.get(name) or "") for name in ("step_template_slug", "step_type"))
    return named_by(slug, step_type)


def usual(step_type: str) -> StepTemplate | None:
    """The step template of a step that names its type alone."""
    return Kinds().of({"step_type": step_type})
