"""How many questions wait for whom, for all open inboxes of a process: one look at what changed, whatever their number, and then one
count per person, however many tabs.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import time
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeAlias

from django.contrib.auth.models import User
from django.utils import timezone

from hitl import postponing
from runs.models import Pause

logger = logging.getLogger(__name__)

QUIET = 0.1
"""Seconds between two counts for one person: a burst of questions is one change."""
COUNTS_PER_SECOND = 200
"""What all inboxes of a process together may ask of the database; more of them are told a little later."""
OLD = 30.0
"""Seconds after which is counted though no question changed: one that was hidden comes back, somebody stands in for another."""
BACK = dt.timedelta(minutes=1)
"""How far a look goes back. Far longer than a transaction and hosts' clocks differ: commits are not in the order of their times."""
LOOKED_AT = 1000
"""Changes that a look takes at most, the last ones: whatever came since the look before, one of them is new."""

Changes: TypeAlias = frozenset[tuple[uuid.UUID, dt.datetime]]
"""Questions, with when they changed."""
Signature = tuple[int, uuid.UUID | None]
"""How many, and the newest: one answered and another one asked is a change too."""


def signature(user: User) -> Signature:
    """The badge's own queryset (F9)."""
    mine = postponing.inbox(user)
    return mine.count(), mine.order_by("-pk").values_list("pk", flat=True).first()


def changes_of_late() -> Changes:
    """One query by an index, whoever asks."""
    return frozenset(Pause.objects.changed(since=timezone.now() - BACK, limit=LOOKED_AT))


class Inbox:
    """The open inboxes of one event loop."""

    def __init__(self, in_database_thread: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        self.watchers = 0
        self._read = in_database_thread(signature)
        self._changes_of_late = in_database_thread(changes_of_late)
        self._seen: Changes = frozenset()
        self._looking: asyncio.Task[None] | None = None
        self._again = False
        self._changes = 0
        self._changed = asyncio.Event()
        self._changed_at = time.monotonic()
        self._counts: dict[Any, tuple[int, asyncio.Future[Signature]]] = {}

    def look(self) -> None:
        """Count again if questions changed: a hint says so, or some may have been lost. All who wish so meanwhile share the next look."""
        if not self.watchers:
            return
        self._again = True
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name="look at the inboxes")

    async def _look(self) -> None:
        while self._again:
            self._again = False
            try:
                found = await self._changes_of_late()
            except Exception as error:  # noqa: BLE001  # databases raise their clients' own errors; the next look may succeed
                logger.warning("could not look for changed questions, will look again: %s", error)
                return
            if found - self._seen:
                self.stir()
            self._seen = found

    def stop(self) -> None:
        """Nobody watches any more."""
        if self._looking is not None:
            self._looking.cancel()

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

    async def counts(self, user: User) -> AsyncIterator[int]:
        told: Signature | None = None
        while True:
            changes, changed = self._changes, self._changed
            found = await self._count(user, changes)
            if found is not None and found != told:
                told = found
                yield found[0]
            await asyncio.sleep(max(QUIET, self.watchers / COUNTS_PER_SECOND))
            if self._changes == changes:
                await changed.wait()

    async def _count(self, user: User, changes: int) -> Signature | None:
        """Shared by all tabs of a person; None where the database cannot be asked just now."""
        at, reading = self._counts.get(user.pk, (-1, None))
        if reading is None or at != changes:
            reading = asyncio.ensure_future(self._read(user))
            self._counts[user.pk] = (changes, reading)
            reading.add_done_callback(lambda _: self._forget(user.pk, changes))
        try:
            return await asyncio.shield(reading)
        except Exception:  # noqa: BLE001  # databases raise their clients' own errors; the next look counts again
            self._seen = frozenset()
            return None

    def _forget(self, key: Any, changes: int) -> None:
        if self._counts.get(key, (-1, None))[0] == changes:
            del self._counts[key]
