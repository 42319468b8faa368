"""Which questions wait for whom, for all open inboxes of a process: one look at what changed,
whatever their number, and then one count per person, however many tabs.

A socket is told ids of questions that waited for its own person when it was told before, and no
others: what went is the difference of two lists that the badge's own query gave for that person,
whose rights are read anew each time.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import time
import uuid
from collections.abc import AsyncIterator, Callable, Collection
from typing import Any, NamedTuple, TypeAlias

from checkpoints.database import clock
from checkpoints.database.outages import OutageAnswer
from checkpoints.database.people import User
from hitl.decisions.deadlines import changes as deadline_changes
from hitl.live.outages import Outage
from runs.models import Pause

logger = logging.getLogger(__name__)

QUIET = 0.1
"""Seconds between two counts for one person: a burst of questions is one change."""
COUNTS_PER_SECOND = 200
"""What all inboxes of a process together may ask of the database; more of them are told a little
later.
"""
OLD = 30.0
"""Seconds after which is counted though no question changed: one that was hidden comes back,
somebody stands in for another.
"""
SHOWN = 50
"""Questions on a page of the inbox; of those on its first page can be named which went."""
BACK = dt.timedelta(minutes=1)
"""How far a look goes back.

Far longer than a transaction and hosts' clocks differ: commits are not in the order of their times.
"""
LOOKED_AT = 1000
"""Changes that a look takes at most, the last ones: whatever came since the look before, one of
them is new.
"""

Changes: TypeAlias = frozenset[tuple[uuid.UUID, dt.datetime]]
"""Questions, with when they changed."""


class Waiting(NamedTuple):
    """What waits for a person: one answered and another one asked is a change too."""

    number: int
    """Up to `deadline_changes.MOST_COUNTED`."""
    newest: uuid.UUID | None
    first: tuple[uuid.UUID, ...]
    """Those on the first page of the inbox, in its order."""

    def missing_since(self, before: Waiting) -> list[uuid.UUID]:
        """Of the first at that time those that are not among the first any more."""
        now = set(self.first)
        return [pk for pk in before.first if pk not in now]

    @property
    def cut(self) -> bool:
        """Whether more wait than are listed: what is missing may be among them, pushed out by what
        is due before it.
        """
        return self.number > len(self.first)


NOTHING = Waiting(0, None, ())


class News(NamedTuple):
    """What an inbox is told: how many questions wait now, and which of those that did wait no
    longer, at most SHOWN.
    """

    number: int
    gone: list[uuid.UUID]


def waiting_now(user_id: int) -> Waiting:
    """By the badge's own queryset (F9).

    The person is read anew: a socket stays open longer than somebody stays a superuser.
    """
    user = User.objects.filter(pk=user_id, is_active=True).first()
    if user is None:
        return NOTHING
    mine = deadline_changes.inbox(user)
    first = tuple(deadline_changes.SOONEST(mine).values_list("pk", flat=True)[: SHOWN + 1])
    if len(first) <= SHOWN:
        return Waiting(len(first), max(first, default=None), first)
    newest = mine.order_by("-pk").values_list("pk", flat=True).first()
    return Waiting(max(deadline_changes.count(mine), len(first)), newest, first[:SHOWN])


def still_waiting(user_id: int, pause_ids: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Those of some questions that wait for a person."""
    user = User.objects.filter(pk=user_id, is_active=True).first()
    return (
        set()
        if user is None
        else set(deadline_changes.inbox(user).filter(pk__in=pause_ids).values_list("pk", flat=True))
    )


def changes_of_late() -> Changes:
    """One query by an index, whoever asks."""
    return frozenset(Pause.objects.changed(since=clock.now() - BACK, limit=LOOKED_AT))


class Inbox:
    """The open inboxes of one event loop."""

    def __init__(
        self,
        in_database_thread: Callable[[Callable[..., Any]], Callable[..., Any]],
        note: Callable[[Exception | None], None],
    ) -> None:
        self.watchers = 0
        self.outage: OutageAnswer | None = None
        self._note = note
        """Is told of each look whether the database answered."""
        self._read = in_database_thread(waiting_now)
        self._still_waiting = in_database_thread(still_waiting)
        self._changes_of_late = in_database_thread(changes_of_late)
        self._seen: Changes = frozenset()
        self._looking: asyncio.Task[None] | None = None
        self._again = False
        self._changes = 0
        self._changed = asyncio.Event()
        self._changed_at = time.monotonic()
        self._counts: dict[int, tuple[int, asyncio.Future[Waiting]]] = {}

    def look(self) -> None:
        """Count again if questions changed: a hint says so, or some may have been lost.

        All who wish so meanwhile share the next look.
        """
        if not self.watchers:
            return
        self._again = True
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name="look at the inboxes")

    async def _look(self) -> None:
        while self._again:
            self._again = False
            try:
                changes = await self._changes_of_late()
            # databases raise their clients' own errors; the next look may succeed
            except Exception as error:  # noqa: BLE001
                logger.warning("could not look for changed questions, will look again: %s", error)
                self._note(error)
                return
            self._note(None)
            if changes - self._seen:
                self.stir()
            self._seen = changes

    def stop(self) -> None:
        """Nobody watches any more."""
        if self._looking is not None:
            self._looking.cancel()

    def tell(self, outage: OutageAnswer | None) -> None:
        """The database is away, or is back."""
        self.outage = outage
        self.stir()

    def stir(self) -> None:
        """Something may wait, or no longer."""
        self._changes += 1
        self._changed_at = time.monotonic()
        self._changed.set()
        self._changed = asyncio.Event()

    def grow_old(self) -> None:
        """Time alone changes what waits, too."""
        if time.monotonic() - self._changed_at > OLD:
            self.stir()

    async def news(self, user_id: int) -> AsyncIterator[News | Outage]:
        """For one socket: what waits now, which names nothing as gone, and then each change; and
        that the database went away or is back.
        """
        previous: Waiting | None = None
        outage: OutageAnswer | None = None
        while True:
            changes, changed = self._changes, self._changed
            if self.outage is not outage:
                outage = self.outage
                yield Outage(outage)
            waiting = await self._count(user_id, changes)
            if waiting is not None and waiting != previous:
                gone = await self._gone(user_id, waiting, previous) if previous is not None else []
                previous = waiting
                yield News(waiting.number, gone)
            await asyncio.sleep(max(QUIET, self.watchers / COUNTS_PER_SECOND))
            if self._changes == changes:
                await changed.wait()

    async def _gone(self, user_id: int, waiting: Waiting, previous: Waiting) -> list[uuid.UUID]:
        """The questions that were told and wait no longer.

        Where the database cannot say, none: the page's next look finds them.
        """
        missing = waiting.missing_since(previous)
        if not missing or not waiting.cut:
            return missing
        try:
            still = await self._still_waiting(user_id, missing)
        except Exception:  # noqa: BLE001  # as in `_count`
            self._seen = frozenset()
            return []
        return [pk for pk in missing if pk not in still]

    async def _count(self, user_id: int, changes: int) -> Waiting | None:
        """Shared by all tabs of a person; None where the database cannot be asked just now."""
        at, reading = self._counts.get(user_id, (-1, None))
        if reading is None or at != changes:
            reading = asyncio.ensure_future(self._read(user_id))
            self._counts[user_id] = (changes, reading)
            reading.add_done_callback(lambda _: self._forget(user_id, changes))
        try:
            return await asyncio.shield(reading)
        # databases raise their clients' own errors; the next look counts again
        except Exception:  # noqa: BLE001
            self._seen = frozenset()
            return None

    def _forget(self, user_id: int, changes: int) -> None:
        if self._counts.get(user_id, (-1, None))[0] == changes:
            del self._counts[user_id]
