"""Long lists a page at a time.

A page begins after a row, not after a number of rows: what comes or goes before it moves nothing.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import urlencode

from django.db.models import F, Model, Q, QuerySet
from django.http import Http404

from checkpoints import ids

M = TypeVar("M", bound=Model)
Row = TypeVar("Row")
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MICROSECOND = dt.timedelta(microseconds=1)
LONGEST = 200
"""Characters of a place in an address."""
OURS = ("live", "seen")
"""What an address says to the server alone; no link repeats it."""


class NoSuchPlace(Http404):
    """The address names no place in a list."""


class RowPosition(NamedTuple):
    """Where a row stands in a list."""

    at: dt.datetime | None
    key: uuid.UUID | int


@dataclass(frozen=True)
class ListOrder:
    """An order of rows in which each has one place: by a time, where one is named, and by their
    keys.
    """

    time: str = ""
    """A column."""
    newest: bool = False
    timeless: bool = False
    """Some rows have no time: they come last."""
    key: str = "pk"
    prefix: str = ""
    """Of the shown ids; "" where a key is a number."""

    def __call__(self, rows: QuerySet[M], after: RowPosition | None = None) -> QuerySet[M]:
        """The rows in this order, those after a place."""
        ordered = rows.order_by(*(self._column(name) for name in (self.time, self.key) if name))
        return ordered if after is None else ordered.filter(self.beyond(after))

    def _column(self, name: str) -> Any:
        # said without need it would keep an index out
        nulls = {"nulls_last": True} if self.timeless and name == self.time else {}
        return F(name).desc(**nulls) if self.newest else F(name).asc(**nulls)

    def beyond(self, place: RowPosition) -> Q:
        """Of the rows after a place."""
        sign = "lt" if self.newest else "gt"
        further = Q(**{f"{self.key}__{sign}": place.key})
        if not self.time:
            return further
        if place.at is None:
            return Q(**{self.time: None}) & further
        rest = Q(**{f"{self.time}__{sign}": place.at}) | (Q(**{self.time: place.at}) & further)
        # a range of the index, where the column is never empty: what is before it is not looked at
        return (
            rest | Q(**{self.time: None})
            if self.timeless
            else Q(**{f"{self.time}__{sign}e": place.at}) & rest
        )

    def place(self, row: Any) -> RowPosition:
        return RowPosition(getattr(row, self.time) if self.time else None, getattr(row, self.key))

    def write(self, place: RowPosition) -> str:
        """A place as an address holds it."""
        key = (
            ids.show(self.prefix, place.key)
            if isinstance(place.key, uuid.UUID) and self.prefix
            else str(place.key)
        )
        if not self.time:
            return key
        return f"{'' if place.at is None else (place.at - EPOCH) // MICROSECOND}.{key}"

    def read(self, text: str) -> RowPosition:
        """The place that an address holds. Raises NoSuchPlace."""
        at, _, key = text.rpartition(".") if self.time else ("", "", text)
        try:
            if len(text) > LONGEST or not text.isascii() or not (at or "0").isdecimal():
                raise ValueError("no place has so many signs, or such ones")
            when = EPOCH + int(at) * MICROSECOND if at else None
            if self.prefix:
                return RowPosition(when, ids.parse(self.prefix, key))
            if not key.isdecimal() or len(key) > 18:
                raise ValueError("no number")
            return RowPosition(when, int(key))
        except (ValueError, OverflowError) as error:
            raise NoSuchPlace(f"There is no such place in this list: {text[:60]!r}.") from error


@dataclass(frozen=True)
class ListAddress:
    """The address of a page with lists: what its links keep, and where each list is cut."""

    path: str
    query: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.to()

    def to(self, anchor: str = "", **changed: str) -> str:
        """The same address but for what is changed; "" leaves a name out."""
        kept = {
            name: value
            for name, value in {**self.query, **changed}.items()
            if value and name not in OURS
        }
        return (
            self.path + (f"?{urlencode(kept)}" if kept else "") + (f"#{anchor}" if anchor else "")
        )

    def only(self, *names: str) -> ListAddress:
        """Without what else stands in the query, which may be anything."""
        return replace(self, query={name: self.query[name] for name in names if name in self.query})


@dataclass(frozen=True)
class ListPage(Generic[Row]):
    """Some rows of a list, and the addresses of the rest."""

    rows: list[Row]
    next: str = ""
    """The address of the page after this one; "" where this is the last."""
    first: str = ""
    """The address of the first page; "" where this is it."""

    @property
    def cut(self) -> bool:
        """Whether there are rows beside these."""
        return bool(self.next or self.first)


def paged(
    here: ListAddress,
    name: str,
    read: Callable[[str, int], list[Row]],
    write: Callable[[Row], str],
    *,
    size: int,
    anchor: str = "",
) -> ListPage[Row]:
    """The page of a list that an address asks for.

    Args:
        name: the parameter that holds the place after which the page begins.
        read: gives up to so many rows after a place, which is "" for the first page. Raises
            NoSuchPlace.
        write: gives the place of a row.
    """
    after = here.query.get(name, "")
    found = read(after, size + 1)
    rows = found[:size]
    return ListPage(
        rows,
        next=here.to(anchor, **{name: write(rows[-1])}) if len(found) > size else "",
        first=here.to(anchor, **{name: ""}) if after else "",
    )


def in_order(
    rows: QuerySet[M],
    order: ListOrder,
    here: ListAddress,
    name: str,
    *,
    size: int,
    whole: QuerySet[M] | None = None,
    anchor: str = "",
) -> ListPage[M]:
    """The page of these rows, in that order.

    Args:
        whole: reads the rows of the page with all that is shown of them. Found first and read then:
            with many joins PostgreSQL plans badly, and joins rows that no page shows.
    """

    def read(after: str, limit: int) -> list[M]:
        found = order(rows, order.read(after) if after else None)
        if whole is None:
            return list(found[:limit])
        keys = list(found.values_list("pk", flat=True)[:limit])
        read_whole = whole.in_bulk(keys)
        return [read_whole[key] for key in keys if key in read_whole]

    return paged(
        here, name, read, lambda row: order.write(order.place(row)), size=size, anchor=anchor
    )
