"""What the lists that people search have in common.

A list is asked within the rows that a person may see, which its caller gives: each condition here
only leaves some of them out.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Q, QuerySet
from django.db.models.expressions import RawSQL
from django.utils.translation import gettext_noop

from checkpoints.database.people import NAME, User
from hitl.find import fulltext
from hitl.find.asking import ME, MOMENT, Asked, Parameter
from hitl.rendering.paging import ListOrder
from runs.states import PauseKind
from runs.workflows.tool_calls import RISKS

OPEN = "filters"
"""What the address of a page says that shows the choices of its filters."""
NEWEST, OLDEST, DUE = "newest", "oldest", "due"
DONE = "completed"
DAY = dt.timedelta(days=1)
KINDS = {
    PauseKind.APPROVAL.value: gettext_noop("Approvals"),
    PauseKind.INPUT.value: gettext_noop("Data"),
    PauseKind.TOOLS.value: gettext_noop("Tool calls"),
    PauseKind.EXTERNAL.value: gettext_noop("Wait gates"),
}
DUES = {
    "overdue": gettext_noop("Overdue"),
    "today": gettext_noop("Within a day"),
    "week": gettext_noop("Within a week"),
    "none": gettext_noop("No deadline"),
}
STATUSES = {
    "pending": gettext_noop("Pending"),
    "running": gettext_noop("Running"),
    "paused": gettext_noop("Paused"),
    DONE: gettext_noop("Completed"),
    "failed": gettext_noop("Failed"),
}

WORDS = Parameter(
    "q",
    gettext_noop("Search"),
    "Words that it has, each by its beginning; an id finds the row itself.",
)
PHASE = Parameter(
    "phase", gettext_noop("Phase"), "The phase that it is in, such as awaiting_plan_approval."
)
TEMPLATE = Parameter("template", gettext_noop("Template"), "Slug of the template.")
TEAM = Parameter("team", gettext_noop("Team"), "Name of the team.")
REPOSITORY = Parameter("repository", gettext_noop("Repository"), "Name of the repository.")
RISK = Parameter(
    "risk",
    gettext_noop("Risk"),
    "The highest risk of what is asked.",
    dict(
        zip(RISKS, (gettext_noop("Low"), gettext_noop("Normal"), gettext_noop("High")), strict=True)
    ),
)
DUE_BY = Parameter("due", gettext_noop("Due"), "When the question is due.", DUES)
KIND = Parameter("kind", gettext_noop("Kind"), "What the question wants.", KINDS)
FAILURE = Parameter(
    "failure_code", gettext_noop("Failure"), "Code of the failure, such as step_error."
)


def person(about: str) -> Parameter:
    return Parameter("person", gettext_noop("Person"), f"{about}: a user name, or {ME}.")


def times(what: str) -> tuple[Parameter, Parameter]:
    return (
        Parameter("since", gettext_noop("Since"), f"{what} since then. {MOMENT}"),
        Parameter("until", gettext_noop("Until"), f"{what} until then. {MOMENT}"),
    )


def sort(**labels: str) -> Parameter:
    first = next(iter(labels))
    return Parameter(
        "sort", gettext_noop("Sort"), f"The order; {first} where it is left out.", labels
    )


@dataclass(frozen=True)
class Asker:
    """Who asks, and when."""

    user: User
    now: dt.datetime


Condition = Callable[[str, Asker], Q]
Facts = dict[str, list[str]]
"""Parameter → the values that a row has."""


@dataclass(frozen=True, kw_only=True)
class List:
    """A list, and what it can be asked."""

    name: str
    title: str
    address: str
    """Name of its page."""
    parameters: Sequence[Parameter]
    conditions: Mapping[str, Condition]
    """Parameter → which rows have a value; of the parameters that are `counted`."""
    found_by: Callable[[RawSQL], Q]
    """Which rows have a word, given the keys of all that has it."""
    at: str
    """The time that `since` and `until` are about."""
    orders: Mapping[str, ListOrder] = field(default_factory=dict)
    facts: Callable[[Sequence[Any], Asker], list[Facts]] = lambda keys, asker: []
    """The values of some rows."""
    beside: tuple[str, ...] = ()
    """Names that its page reads for itself, in the same query."""
    identified: Mapping[str, str] = field(default_factory=dict)
    """Prefix of a shown id → the column that it is looked up in."""

    @property
    def counted(self) -> list[Parameter]:
        return [parameter for parameter in self.parameters if parameter.counted]

    def order_of(self, asked: Asked) -> ListOrder:
        return self.orders[asked["sort"] or next(iter(self.orders))]

    def among(
        self, rows: QuerySet[Any], asked: Asked, asker: Asker, *, counted: bool = True
    ) -> QuerySet[Any]:
        """Those among some rows that are asked for; without `counted`, by words and times alone."""
        for prefix, key in asked.ids:
            column = self.identified.get(prefix)
            rows = rows.filter(**{column: key}) if column else rows.none()
        for word in asked.words:
            rows = rows.filter(self.found_by(fulltext.having(word)))
        if asked.since:
            rows = rows.filter(**{f"{self.at}__gte": asked.since})
        if asked.until:
            rows = rows.filter(**{f"{self.at}__lt": asked.until})
        for name, condition in self.conditions.items() if counted else ():
            if value := asked[name]:
                rows = rows.filter(condition(value, asker))
        return rows


def called(path: str) -> Condition:
    """Of rows with that person."""

    def condition(value: str, asker: Asker) -> Q:
        return Q(**{path: asker.user.pk}) if value == ME else Q(**{f"{path}__{NAME}": value})

    return condition


def has(path: str) -> Condition:
    return lambda value, asker: Q(**{path: value})
