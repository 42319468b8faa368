"""How many questions wait for whom, for all open inboxes of a process: one count per person and change, however many tabs."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

from django.contrib.auth.models import User

from hitl import postponing

QUIET = 0.25
"""Seconds between two counts for one person: a burst of questions is one change."""
COUNTS_PER_SECOND = 200
"""What all inboxes of a process together may ask of the database; more of them are told a little later."""
OLD = 30.0
"""Seconds after which is counted without a hint."""

Signature = tuple[int, uuid.UUID | None]
"""How many, and the newest: one answered and another one asked is a change too."""


def signature(user: User) -> Signature:
    """The badge's own queryset (F9)."""
    mine = postponing.inbox(user)
    return mine.count(), mine.order_by("-pk").values_list("pk", flat=True).first()


class Inbox:
    """The open inboxes of one event loop."""

    def __init__(self, in_database_thread: Callable[[Callable[[User], Signature]], Callable[[User], Any]]) -> None:
        self.watchers = 0
        self._read = in_database_thread(signature)
        self._changes = 0
        self._changed = asyncio.Event()
        self._changed_at = time.monotonic()
        self._counts: dict[Any, tuple[int, asyncio.Future[Signature]]] = {}

    def stir(self) -> None:
        """Something may wait, or no longer."""
        self._changes += 1
        self._changed_at = time.monotonic()
        self._changed.set()
        self._changed = asyncio.Event()

    def grow_old(self) -> None:
        """Hints may be lost."""
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
        except Exception:  # noqa: BLE001  # databases raise their clients' own errors; the next change, or OLD, counts again
            return None

    def _forget(self, key: Any, changes: int) -> None:
        if self._counts.get(key, (-1, None))[0] == changes:
            del self._counts[key]
