"""The child runs on the page of an order or thread: how many stand how, and a page of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from checkpoints import ids
from hitl.rendering import paging
from hitl.rendering.paging import ListAddress, ListPage, NoSuchPlace
from hitl.views.family import Member
from runs.models import Run
from runs.states import COMPLETED, LIVE

SHOWN = 20
ASKS, WORKS, FAILED, DONE = "ask", "work", "failed", "done"
STANDINGS: dict[str, Promise] = {
    ASKS: gettext_lazy("Waiting for people"),
    WORKS: gettext_lazy("Under way"),
    FAILED: gettext_lazy("Not completed"),
    DONE: gettext_lazy("Completed"),
}


class Choice(NamedTuple):
    """One of the filters above the list."""

    words: str | Promise
    number: int
    address: str
    chosen: bool


class Children(NamedTuple):
    choices: list[Choice]
    """None where all child runs fit on a page."""
    filtered: bool
    """Those above the ones shown may not be shown."""
    page: ListPage[Member]
    unlisted: int = 0
    """How many more there are than the list may show."""


def of(members: Sequence[Member], here: ListAddress, above: Run | None = None) -> Children:
    """The child runs that an address asks for: `children` says how they stand, `child` after which
    one the page begins. Raises NoSuchPlace.

    `above` is the run that they work for: it says how many there are where not all were read.
    """
    asked = here.query.get("children", "")
    chosen = asked if asked in STANDINGS else ""
    fitting = [one for one in members if chosen in ("", standing_of(one))]

    def read(after: str, limit: int) -> list[Member]:
        return fitting[_after(fitting, after) :][:limit]

    def write(member: Member) -> str:
        return ids.show(Run.PREFIX, member.run.pk)

    page = paging.paged(here, "child", read, write, size=SHOWN, anchor="children-title")
    whole = len(members) <= SHOWN and not chosen
    counts = Counter(standing_of(one) for one in members)
    others = _unread(members, above)
    counts.update(others)
    choices = [] if whole and not others else _choices(counts, chosen, here)
    return Children(choices, bool(chosen), page, sum(others.values()))


def _unread(members: Sequence[Member], above: Run | None) -> dict[str, int]:
    """How many children of a run are not among the members that were read, or not started yet: as
    far as they are of its last gather.
    """
    if above is None or not above.gather_size:
        return {}
    own = Counter(standing_of(one) for one in members if one.level == 1)
    unread = max(0, above.gather_size - above.gather_queued - own.total())
    failed = min(unread, max(0, above.gather_failed - own[FAILED]))
    queued = above.gather_queued if above.awaited else 0
    return {name: count for name, count in
            ((WORKS, queued), (FAILED, failed), (DONE, unread - failed)) if count}  # fmt: skip


def standing_of(member: Member) -> str:
    if member.pause:
        return ASKS
    if member.run.status in LIVE:
        return WORKS
    return DONE if member.run.status == COMPLETED else FAILED


def _after(members: Sequence[Member], place: str) -> int:
    """How many come before the page; one that no longer fits a filter leads to its beginning."""
    if not place:
        return 0
    try:
        key = ids.parse(Run.PREFIX, place[: paging.LONGEST])
    except ValueError as error:
        raise NoSuchPlace("There is no such place in this list.") from error
    return next((at for at, one in enumerate(members, 1) if one.run.pk == key), 0)


def _choices(counts: Mapping[str, int], chosen: str, here: ListAddress) -> list[Choice]:
    def choice(name: str, words: str | Promise, count: int) -> Choice:
        address = here.to("children-title", children=name, child="")
        return Choice(words, count, address, name == chosen)

    return [
        choice("", gettext_lazy("All"), sum(counts.values())),
        *(choice(name, words, counts[name]) for name, words in STANDINGS.items()),
    ]
