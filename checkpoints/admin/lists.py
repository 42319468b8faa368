"""Lists of rows that may be millions: pages by key instead of by number, nothing counted, and
filters that say how far they looked.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import PAGE_VAR
from django.core.exceptions import ValidationError
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext, gettext_lazy
from unfold.templatetags.unfold_list import UnfoldResultList, result_headers
from unfold.views import ChangeList

from checkpoints import ids
from checkpoints.admin import cells
from checkpoints.database import clock
from checkpoints.models import CheckpointStatus
from checkpoints.text.states import WORDS

BEFORE, AFTER = "before", "after"
SCAN = 10_000
"""Rows that a filter without an index looks through for one page."""
AGES = {
    "hour": (gettext_lazy("Past hour"), dt.timedelta(hours=1)),
    "day": (gettext_lazy("Past day"), dt.timedelta(days=1)),
    "week": (gettext_lazy("Past 7 days"), dt.timedelta(days=7)),
    "month": (gettext_lazy("Past 30 days"), dt.timedelta(days=30)),
    "older": (gettext_lazy("Older than 30 days"), dt.timedelta(days=30)),
}
SIZES = {
    "1k": (gettext_lazy("From 1 KB"), 1_000),
    "10k": (gettext_lazy("From 10 KB"), 10_000),
    "100k": (gettext_lazy("From 100 KB"), 100_000),
    "1m": (gettext_lazy("From 1 MB"), 1_000_000),
}


class OnePage(Paginator):  # type: ignore[type-arg]  # generic in the stubs only
    """Stands where Django's admin wants a paginator; counts nothing."""

    template_name = "admin/keyset_pagination.html"
    count = num_pages = 1


class KeysetChangeList(ChangeList):
    """Newest first; `?before=<key>` and `?after=<key>` are the pages.

    A page costs the same wherever it is.
    """

    newer = older = further = ""
    """Query strings of the neighbouring pages, and of the rows that a filter has not looked through
    yet.
    """

    def get_filters_params(self, params: Any = None) -> Any:
        kept = super().get_filters_params(params)
        return {name: value for name, value in kept.items() if name not in {BEFORE, AFTER}}

    def get_results(self, request: HttpRequest) -> None:
        rows: QuerySet[Any] = self.queryset
        before, after = self._key(BEFORE), self._key(AFTER)
        if after is not None:
            page = list(rows.filter(pk__gt=after).order_by("pk")[: self.list_per_page + 1])[::-1]
            newer, older = len(page) > self.list_per_page, True
            page = page[-self.list_per_page :]
        else:
            page = self.read(rows if before is None else rows.filter(pk__lt=before))
            newer, older = before is not None, len(page) > self.list_per_page
            page = page[: self.list_per_page]
        self.newer = self._page({AFTER: str(page[0].pk)} if page and newer else {}) if newer else ""
        self.older = self._page({BEFORE: str(page[-1].pk)}) if page and older else ""
        # equal: no total is shown
        self.result_list, self.result_count, self.full_result_count = page, len(page), len(page)
        self.show_full_result_count, self.show_admin_actions = False, True
        self.can_show_all = self.multi_page = False
        # they are above the list
        self.has_filters = self.has_filters and not any(
            isinstance(spec, FilterField) for spec in self.filter_specs
        )
        self.paginator = OnePage(page, self.list_per_page)

    @cached_property
    def headings(self) -> list[dict[str, Any]]:
        return list(result_headers(self))  # type: ignore[no-untyped-call]

    @cached_property
    def rows(self) -> list[UnfoldResultList]:
        """What templates/admin/keyset_list.html shows."""
        return cells.rows(self, self.headings)

    def read(self, rows: QuerySet[Any]) -> list[Any]:
        """One row more than a page has, newest first."""
        return list(rows[: self.list_per_page + 1])

    def _key(self, name: str) -> Any:
        if name not in self.params:
            return None
        try:
            return self.opts.pk.to_python(self.params[name])
        except ValidationError as error:
            raise IncorrectLookupParameters(error) from error

    def _page(self, place: dict[str, str]) -> str:
        return str(self.get_query_string(place, remove=[BEFORE, AFTER, PAGE_VAR]))


class FarChangeList(KeysetChangeList):
    """Checkpoints.

    Where a filter has no index, a page looks through `SCAN` rows at most and offers to look
    further.
    """

    def read(self, rows: QuerySet[Any]) -> list[Any]:
        """The filtering is done here: the database's planner may take a rare value for a frequent
        one, and read all there is.
        """
        wanted = [
            spec
            for spec in self.filter_specs
            if isinstance(spec, FilterField) and spec.column and spec.value()
        ]
        if not wanted:
            return super().read(rows)
        looked = list(rows.values_list("pk", *(spec.column for spec in wanted))[:SCAN])
        fitting = [
            key
            for key, *values in looked
            if all(spec.fits(value) for spec, value in zip(wanted, values, strict=True))
        ]
        keys = fitting[: self.list_per_page + 1]
        if len(looked) == SCAN and len(keys) <= self.list_per_page:
            self.further = self._page({BEFORE: str(looked[-1][0])})
        by_key = rows.order_by().in_bulk(keys)
        return [by_key[key] for key in keys if key in by_key]


@dataclass(frozen=True)
class FilterChoice:
    value: str
    words: str
    chosen: bool


class FilterField(admin.SimpleListFilter):
    """A filter that is a field of the form above the list, which needs no JavaScript."""

    words: dict[str, Any] = {}
    column = ""
    """What it looks at, where no index serves it."""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return list(self.words.items()) or [("", "")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Model]) -> QuerySet[Model]:
        chosen = self.value()
        if chosen and self.words and chosen not in self.words:
            raise IncorrectLookupParameters(
                gettext("%(name)s is one of %(values)s")
                % {"name": self.parameter_name, "values": ", ".join(self.words)}
            )
        return self.narrow(queryset, chosen) if chosen else queryset

    def narrow(self, rows: QuerySet[Model], chosen: str) -> QuerySet[Model]:
        return rows

    def fits(self, value: Any) -> bool:
        """Whether a row with this value of `column` is shown."""
        return True

    @property
    def options(self) -> list[FilterChoice]:
        return [
            FilterChoice(value, label, value == self.value()) for value, label in self.words.items()
        ]


class StatusField(FilterField):
    title, parameter_name = gettext_lazy("Status"), "status"
    words = {str(value): gettext_lazy(WORDS[value]) for value in CheckpointStatus}

    def narrow(self, rows: QuerySet[Model], chosen: str) -> QuerySet[Model]:
        return rows.filter(status=chosen)


class NodeField(FilterField):
    title, parameter_name = gettext_lazy("Step"), "node"
    column = "node_id"

    def fits(self, value: Any) -> bool:
        return bool(value == (self.value() or "").strip())


class AgeField(FilterField):
    title, parameter_name = gettext_lazy("Age"), "age"
    words = {name: words for name, (words, _) in AGES.items()}

    def narrow(self, rows: QuerySet[Model], chosen: str) -> QuerySet[Model]:
        bound = ids.floor(clock.now() - AGES[chosen][1])  # keys are time-ordered
        return rows.filter(pk__lt=bound) if chosen == "older" else rows.filter(pk__gte=bound)


class SizeField(FilterField):
    title, parameter_name = gettext_lazy("Size"), "size"
    column = "size"
    words = {name: words for name, (words, _) in SIZES.items()}

    def fits(self, value: Any) -> bool:
        return bool(value >= SIZES[self.value() or "1k"][1])
