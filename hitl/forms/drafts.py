"""A template's steps while somebody works on them: the fields of a page that is not saved yet.

Steps are added, removed and put in another order by buttons that send the form (`change`), which
decides nothing and loses nothing: the fields of step n are named `n.<field>`, and so they move.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict

from runs.models import StepTemplate, Template

MOST = 50
"""Steps of a template."""


@dataclass(frozen=True)
class Row:
    """A step of the draft: one of the version that was looked at, or a new one."""

    base: int | None = None
    kind: str = ""
    """Slug of the step template, of a new one."""

    def step(self, template: Template) -> dict[str, Any]:
        """What the step says before the form's fields are put to it."""
        if self.base is not None:
            return dict(template.steps[self.base])
        return {"step_template_slug": self.kind, "step_type": self.kind}


def rows_of(data: Mapping[str, str] | None, template: Template) -> list[Row]:
    """The steps that a form speaks of; all of the template's where it does not say."""
    if data is None or "rows" not in data:
        return [Row(number) for number in range(len(template.steps))]
    return [_row(data, number, template) for number in range(_number(data.get("rows"), MOST))]


def _row(data: Mapping[str, str], number: int, template: Template) -> Row:
    base = data.get(f"{number}.base", "")
    if base.isdecimal() and int(base[:4]) < len(template.steps):
        return Row(int(base[:4]))
    return Row(None, data.get(f"{number}.kind", "")[:80])


def _number(text: str | None, most: int) -> int:
    return min(int(text), most) if text and text.isdecimal() and len(text) < 6 else 0


def count(data: Mapping[str, str]) -> int:
    """How many steps a posted form has."""
    return _number(data.get("rows"), MOST)


def changed(data: QueryDict, change: str) -> tuple[QueryDict, int | None]:
    """The form after one of its buttons, and the number of the step that it was about.

    Args:
        change: `up:n`, `down:n`, `remove:n`, or `add` for the step template of the field `add`.
            Buttons of a list within a step, such as `add:0.choices`, are its own form's to follow.
    """
    what, _, where = change.partition(":")
    if "." in where:
        return data, None
    count = _number(data.get("rows"), MOST)
    order, at = list(range(count)), _number(where, MOST)
    focus: int | None = at
    if what == "remove" and at < count:
        del order[at]
        focus = max(0, at - 1)
    elif what == "up" and 0 < at < count:
        order[at - 1], order[at] = order[at], order[at - 1]
        focus = at - 1
    elif what == "down" and at + 1 < count:
        order[at + 1], order[at] = order[at], order[at + 1]
        focus = at + 1
    kind = data.get("add", "") if what == "add" else ""
    made = _moved(data, order)
    if kind and len(order) < MOST and StepTemplate.objects.filter(slug=kind).exists():
        focus = add(made, kind)
    return made, focus


def add(data: QueryDict, kind: str) -> int:
    """Put a step of this step template to the end of a draft; gives its number."""
    number = _number(data.get("rows"), MOST)
    names = {data.get(f"{at}.name", "") for at in range(number)}
    name, again = kind, 2
    while name in names:
        name, again = f"{kind[:90]}-{again}", again + 1
    data[f"{number}.kind"], data[f"{number}.name"] = kind, name
    data["rows"] = str(number + 1)
    return number


def _moved(data: QueryDict, order: list[int]) -> QueryDict:
    """The same fields, with those of the steps under their new numbers."""
    places = {str(old): str(new) for new, old in enumerate(order)}
    made = QueryDict(mutable=True)
    for name, values in data.lists():
        number, dot, field = name.partition(".")
        if not (dot and number.isdecimal()):
            made.setlist(name, values)
        elif number in places:
            made.setlist(f"{places[number]}.{field}", values)
    made["rows"] = str(len(order))
    made.pop("change", None)
    return made
