"""What the pages of lists have in common: the bar with search, filters, order and saved views.

An address that is not understood shows what was wrong with it and no rows: 422.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.contrib.auth.models import Group
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext

from checkpoints.database import clock
from hitl.find import asking, counts, saved
from hitl.find.asking import SINCE, SORT, UNTIL, Asked, NotUnderstood, Parameter
from hitl.find.counts import Choice, Filter, Part
from hitl.find.lists import OPEN, Asker, List
from hitl.models import SavedView
from hitl.rendering.paging import ListAddress, ListOrder
from hitl.views.common import person


@dataclass(frozen=True)
class Chip:
    """A filter that holds, and the address without it."""

    label: str
    value: str
    without: str


class Listing:
    """A list as a request asks for it."""

    def __init__(self, request: HttpRequest, asked_of: List) -> None:
        self.asked_of = asked_of
        self.asker = Asker(person(request), clock.now())
        self.path = reverse(asked_of.address)
        self.refused: NotUnderstood | None = None
        self.asked = Asked()
        try:
            self.asked = asking.read(
                request.GET.lists(),
                asked_of.parameters,
                beside=asked_of.beside,
                now=self.asker.now,
            )
        except NotUnderstood as error:
            self.refused = error
        names = (parameter.name for parameter in asked_of.parameters)
        self.here = ListAddress(self.path, request.GET.dict()).only(*names, *asked_of.beside)

    @property
    def status(self) -> int:
        return 422 if self.refused else 200

    @property
    def order(self) -> ListOrder:
        return self.asked_of.order_of(self.asked)

    def among(self, rows: QuerySet[Any]) -> Any:
        """Those among the rows that the person may see that are asked for."""
        return rows.none() if self.refused else self.asked_of.among(rows, self.asked, self.asker)

    def bar(
        self,
        rows: QuerySet[Any],
        *parts: Part,
        shows: object,
        has_views: bool = True,
        counted: int | None = None,
    ) -> Bar:
        """The bar above these rows, which are all that the person may see, and above those of
        other parts of the list.

        Args:
            shows: what the page shows of them: where that is nothing, and nothing is asked, there
                is nothing to look for.
            has_views: False where the person is known to have no saved views of this list.
            counted: how many fit, where the page has counted them.
        """
        return Bar(self, ((self.asked_of, rows), *parts), bool(shows), has_views, counted)


@dataclass(frozen=True)
class Bar:
    """What `hitl/lists/_filters.html` shows. Its choices are counted where they are looked at: on a
    page that is asked for them, and by `choices`.
    """

    listing: Listing
    parts: tuple[Part, ...]
    shows: bool
    has_views: bool = True
    counted: int | None = None
    """How many rows fit, where the page has counted them: it says no other number."""

    @property
    def is_open(self) -> bool:
        """Whether the page has the choices of its filters."""
        return OPEN in self.listing.here.query

    @property
    def choices_at(self) -> str:
        """The address of the choices alone, which static/js/filters.js puts into the page."""
        path = reverse("hitl:choices", args=[self.asked_of.name])
        return f"{path}?{self.query}" if self.query else path

    @cached_property
    def filters(self) -> Sequence[Filter]:
        """What there is to choose from, with how many rows each choice leaves."""
        return () if self.refused else counts.count(self.parts, self.asked, self.listing.asker)

    @property
    def chosen(self) -> list[Filter]:
        """The filters that hold, each with nothing but its value to choose."""
        return [
            Filter(parameter, [Choice(value, counts.label_of(parameter, value), "", True)])
            for parameter in self.asked_of.counted
            if (value := self.asked[parameter.name])
        ]

    @cached_property
    def total(self) -> str:
        """How many rows fit, such as `12` or `300+`."""
        return counts.total(self.parts, self.asked, self.listing.asker)

    @property
    def asked_of(self) -> List:
        return self.listing.asked_of

    @property
    def asked(self) -> Asked:
        return self.listing.asked

    @property
    def refused(self) -> NotUnderstood | None:
        return self.listing.refused

    @property
    def path(self) -> str:
        return self.listing.path

    @property
    def shown(self) -> bool:
        """Whether there is anything to look for."""
        return bool(self.asked) or self.shows

    @property
    def query(self) -> str:
        """What is asked, to be kept as a view."""
        return self.asked.query

    @property
    def words(self) -> str:
        return self.asked[asking.WORDS]

    @property
    def whose(self) -> str:
        """The tab that stays while filters change."""
        return self.asked[asking.WHOSE]

    @property
    def since(self) -> str:
        return self.asked[SINCE]

    @property
    def until(self) -> str:
        return self.asked[UNTIL]

    @cached_property
    def views(self) -> list[tuple[SavedView, str, bool]]:
        """The saved views of this list, their addresses, and which of them this is."""
        if not self.has_views:
            return []
        return [
            (view, saved.address_of(view), view.query == self.asked.query)
            for view in saved.offered(self.listing.asker.user, self.asked_of.name)
        ]

    @property
    def is_view(self) -> bool:
        return any(here for *_, here in self.views)

    @cached_property
    def teams(self) -> list[Group]:
        """With whom a view may be shared."""
        return list(self.listing.asker.user.groups.order_by("name"))

    @property
    def sorts(self) -> list[tuple[str, str, bool]]:
        """Value, label and whether it holds."""
        parameter = self._named[SORT]
        chosen = self.asked[SORT] or next(iter(parameter.choices))
        return [
            (value, gettext(label), value == chosen) for value, label in parameter.choices.items()
        ]

    @cached_property
    def chips(self) -> list[Chip]:
        return [
            Chip(
                gettext(self._named[name].label),
                counts.label_of(self._named[name], value),
                self._address(self.asked.but(**{name: ""})),
            )
            for name, value in self.asked.given.items()
            if name not in {SORT, asking.WHOSE}
        ]

    @property
    def narrowed(self) -> int:
        """How many filters hold beside the words."""
        return sum(name not in {SORT, asking.WHOSE, asking.WORDS} for name in self.asked.given)

    @property
    def _named(self) -> dict[str, Parameter]:
        return {parameter.name: parameter for parameter in self.asked_of.parameters}

    def _address(self, query: str) -> str:
        return f"{self.path}?{query}" if query else self.path
