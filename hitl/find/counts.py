"""How many rows each choice of a filter would leave.

Counted among the first rows of a list, some hundred and no more, whatever its length: a choice
that is counted less than all of them are says so with a `+`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext

from hitl.find.asking import ME, Asked, Parameter
from hitl.find.lists import Asker, Facts, List
from runs import phases

COUNTED = 300
"""Rows that are looked at, and after which is said that there are more."""
OFFERED = 40
"""Choices of one filter, those with most rows."""


@dataclass(frozen=True)
class Choice:
    """A value of a filter that a page offers."""

    value: str
    label: str
    count: str
    """Such as `12` or `12+`."""
    chosen: bool


@dataclass(frozen=True)
class Filter:
    """A filter as a page offers it."""

    parameter: Parameter
    choices: Sequence[Choice]

    @property
    def chosen(self) -> Choice | None:
        return next((choice for choice in self.choices if choice.chosen), None)


Part = tuple[List, QuerySet[Any]]
"""A list, and those of its rows that the person may see."""


def count(parts: Sequence[Part], asked: Asked, asker: Asker) -> list[Filter]:
    """Count the choices of a list's filters among the rows that a person may see.

    Each filter's choices are counted among the rows that fit all others. As many queries for many
    rows as for few.

    Args:
        parts: what is told as one list; its filters are the first part's.
    """
    facts, more = [], False
    for part, rows in parts:
        fitting = part.among(rows, asked, asker, counted=False)
        keys = list(part.order_of(asked)(fitting).values_list("pk", flat=True)[: COUNTED + 1])
        more = more or len(keys) > COUNTED
        facts += part.facts(keys[:COUNTED], asker) if keys else []
    asked_of, _ = parts[0]
    filters = []
    for parameter in asked_of.counted:
        others = _fitting(facts, asked, asked_of, asker, but=parameter)
        filters.append(_filter(parameter, others, asked, asker, more))
    return filters


def total(parts: Sequence[Part], asked: Asked, asker: Asker) -> str:
    """How many rows fit all that is asked, such as `12` or `300+`."""
    found = sum(
        part.among(rows, asked, asker).order_by().values("pk")[: COUNTED + 1].count()
        for part, rows in parts
    )
    return _told(min(found, COUNTED), found > COUNTED)


def _fitting(
    facts: list[Facts], asked: Asked, asked_of: List, asker: Asker, *, but: Parameter
) -> list[Facts]:
    """The rows that fit all filters but one."""
    wanted = {
        parameter.name: _value(asked[parameter.name], parameter, asker)
        for parameter in asked_of.counted
        if asked[parameter.name] and parameter is not but
    }
    return [
        row for row in facts if all(value in row.get(name, ()) for name, value in wanted.items())
    ]


def _value(value: str, parameter: Parameter, asker: Asker) -> str:
    return asker.user.get_username() if parameter.names_people and value == ME else value


def _filter(
    parameter: Parameter, rows: list[Facts], asked: Asked, asker: Asker, more: bool
) -> Filter:
    found = Counter(value for row in rows for value in row.get(parameter.name, ()))
    given = asked[parameter.name]
    values = list(parameter.choices) or [value for value, _ in found.most_common(OFFERED)]
    if parameter.names_people:
        found[ME] = found[asker.user.get_username()]
        values = [ME, *values]
    values = [value for value in values if found[value] or value == given]
    if given and given not in values:
        values.append(given)
    return Filter(
        parameter,
        [
            Choice(value, label_of(parameter, value), _told(found[value], more), value == given)
            for value in values
        ],
    )


def label_of(parameter: Parameter, value: str) -> str:
    """What pages call a value."""
    if parameter.names_people and value == ME:
        return gettext("Me")
    in_words = parameter.name in {"phase", "status"} and not parameter.choices
    if value in parameter.choices:
        return gettext(parameter.choices[value])
    return phases.words(value) if in_words else value


def _told(number: int, more: bool) -> str:
    return f"{number}+" if more else str(number)
