"""What differs between two versions of a template, by step and by field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal

from checkpoints.forensics import diff
from checkpoints.forensics.diff import Change, Differences
from runs.definitions.templates import EDITED
from runs.models import StepTemplate, Template

Fields = Mapping[str, Any]
KIND_FIELDS = ("title", "function", "config", "sub_steps")


@dataclass(frozen=True, kw_only=True)
class StepDifference:
    """A step that is another one in the newer version."""

    name: str
    kind: Literal["added", "removed", "changed"]
    was_at: int | None
    """Its place in the older version, from 1; None where it was not there."""
    is_at: int | None
    moved: bool
    """Whether it comes in another order among the steps that both versions have."""
    changes: Sequence[Change] = ()


@dataclass(frozen=True, kw_only=True)
class VersionDifferences:
    fields: Differences
    """Of everything but the steps."""
    steps: Sequence[StepDifference]
    """In the order of the newer version; those that are gone come last."""

    @property
    def total(self) -> int:
        return self.fields.total + len(self.steps)


def fields_of(version: Template | StepTemplate) -> dict[str, Any]:
    """What of a version is compared."""
    names = EDITED if isinstance(version, Template) else KIND_FIELDS
    return {name: getattr(version, name) for name in names}


def compare(old: Fields, new: Fields) -> VersionDifferences:
    """Compare two versions by their fields, as `fields_of` gives them.

    A step is the same where its name is. What is listed has the bounds of
    `checkpoints.forensics.diff`.
    """
    apart = {"steps", "sub_steps"}
    then, now = (
        [step for name in sorted(apart) for step in side.get(name) or ()] for side in (old, new)
    )
    rest = (
        {name: value for name, value in side.items() if name not in apart} for side in (old, new)
    )
    return VersionDifferences(fields=diff.compare(*rest), steps=_steps(then, now))


def _steps(then: Sequence[Fields], now: Sequence[Fields]) -> list[StepDifference]:
    before, after = _by_name(then), _by_name(now)
    common = [name for name in before if name in after]
    again = [name for name in after if name in before]
    stays: set[str] = set()
    for match in SequenceMatcher(None, common, again, autojunk=False).get_matching_blocks():
        stays |= set(common[match.a : match.a + match.size])
    found = []
    for name, (place, step) in after.items():
        if name not in before:
            found.append(
                StepDifference(name=name, kind="added", was_at=None, is_at=place, moved=False)
            )
            continue
        was, earlier = before[name]
        changes = diff.compare(earlier, step).changes
        if changes or name not in stays:
            found.append(
                StepDifference(
                    name=name,
                    kind="changed",
                    was_at=was,
                    is_at=place,
                    moved=name not in stays,
                    changes=changes,
                )
            )
    gone = [(name, place) for name, (place, _) in before.items() if name not in after]
    found += [
        StepDifference(name=name, kind="removed", was_at=place, is_at=None, moved=False)
        for name, place in gone
    ]
    return found


def _by_name(steps: Sequence[Fields]) -> dict[str, tuple[int, Fields]]:
    """Name → place, from 1, and the step; a name that stands twice counts with its place."""
    found: dict[str, tuple[int, Fields]] = {}
    for place, step in enumerate(steps, 1):
        name = str(step.get("name") or step.get("step_type") or step.get("step_template_slug"))
        found[name if name not in found else f"{name} ({place})"] = (place, step)
    return found
