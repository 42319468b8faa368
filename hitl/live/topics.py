"""The events of watched threads: the newest ones of each stand in memory, and the log is read once
for all who watch.
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, islice
from typing import Any, NamedTuple, ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.db import close_old_connections

from checkpoints.database.outages import OutageAnswer
from checkpoints.events import log
from checkpoints.events.log import Envelope
from checkpoints.models import Thread
from hitl.decisions import presence
from runs.hints import PROGRESS

logger = logging.getLogger(__name__)

KEPT = 500
"""Events of a thread kept in memory for watchers that are nearly up to date,"""
KEPT_CHARACTERS = 2_000_000
"""and how much they may come to."""
PAGE_CHARACTERS = 256_000
"""What a page may come to: a client that does not read keeps one in memory."""
LEAST = 10
"""Events that are read at once, however large."""

_pool = ThreadPoolExecutor(4, thread_name_prefix="hub-database")
P = ParamSpec("P")
T = TypeVar("T")


def in_database_thread(function: Callable[P, T]) -> Callable[P, Any]:
    """Run a function that uses the database in the hub's own few threads, which leave no connection
    open.
    """

    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        close_old_connections()
        try:
            return function(*args, **kwargs)
        finally:
            close_old_connections()

    return sync_to_async(run, thread_sensitive=False, executor=_pool)


class LiveEvent(NamedTuple):
    """An event, its number, and its JSON text, which is written once for all who watch; as is its
    frame.
    """

    event: Envelope
    seq: int
    text: str
    frame: bytes
    """As server-sent events have it."""


def _told(events: Collection[Envelope]) -> list[LiveEvent]:
    return [_tell(event) for event in events]


def _tell(event: Envelope) -> LiveEvent:
    seq, text = event["seq"], json.dumps(event)
    return LiveEvent(
        event, seq, text, f"id: {seq}\nevent: {event['event']}\ndata: {text}\n\n".encode()
    )


def _page(events: list[LiveEvent]) -> list[LiveEvent]:
    """The first of some events, at least one."""
    sizes = accumulate(len(event.text) for event in events)
    return events[: max(1, sum(1 for size in sizes if size <= PAGE_CHARACTERS))]


@in_database_thread
def _read(thread_id: uuid.UUID, seq: int, limit: int) -> list[LiveEvent]:
    return _told(log.told_after(thread_id, seq, limit=limit))


@in_database_thread
def newest(thread_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, int]:
    return dict(Thread.objects.filter(pk__in=thread_ids).values_list("pk", "last_seq"))


ASKED_AT_ONCE = 500
"""Threads in one query for newest numbers."""


class NewestNumbers:
    """The newest numbers of threads, one query for all who ask while the one before is under way: a
    deploy's thousand readers come back at once.
    """

    def __init__(self) -> None:
        self._wanted: dict[uuid.UUID, asyncio.Future[int]] = {}
        self._asking: asyncio.Task[None] | None = None

    async def of(self, thread_id: uuid.UUID) -> int:
        """A thread's newest number, 0 where it has none. Raises what the database raises."""
        number = self._wanted.get(thread_id)
        if number is None:
            number = self._wanted[thread_id] = asyncio.get_running_loop().create_future()
            # whoever asked may have left meanwhile
            number.add_done_callback(lambda done: done.cancelled() or done.exception())
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask(), name="ask for newest numbers")
        return await asyncio.shield(number)

    async def _ask(self) -> None:
        try:
            while self._wanted:
                asked = dict(islice(self._wanted.items(), ASKED_AT_ONCE))
                for thread_id in asked:
                    del self._wanted[thread_id]
                try:
                    numbers = await newest(list(asked))
                # databases raise their clients' own errors; each who asked is told
                except Exception as error:  # noqa: BLE001
                    for number in asked.values():
                        number.set_exception(error)
                else:
                    for thread_id, number in asked.items():
                        number.set_result(numbers.get(thread_id, 0))
        finally:
            self._asking = None


NONE_YET: deque[LiveEvent] = deque(maxlen=0)
"""The memory of all threads that nothing has happened to, since even an empty deque has 600
bytes.
"""


class Topic:
    """One thread as this process sees it: the newest number, and the newest events.

    There may be a thousand, and most are quiet.
    """

    __slots__ = (
        "_again",
        "_bell",
        "_looking",
        "_numbers",
        "_pages",
        "_reading",
        "_usual",
        "_weight",
        "others",
        "outage",
        "progress",
        "recent",
        "seq",
        "stirs",
        "thread_id",
        "watchers",
    )

    def __init__(self, thread_id: uuid.UUID, numbers: NewestNumbers) -> None:
        self.thread_id = thread_id
        self._numbers = numbers
        self.watchers = 0
        self.seq = -1
        """Not known yet."""
        self.stirs = 0
        """How often something beside its log changed."""
        self.others = 0
        """How often other people began or ceased to look at its question."""
        self.progress = ""
        """How far its run's step is, as its watchers are sent it; "" where nothing was said yet."""
        self.outage: OutageAnswer | None = None
        """The database's trouble, while it has some."""
        self.recent = NONE_YET
        self._weight = 0
        self._usual = 200
        """Characters of an event, lately."""
        self._bell = asyncio.Event()
        """Set and cleared at once: it wakes those who wait by then."""
        self._looking: asyncio.Task[None] | None = None
        self._again = False
        self._reading: dict[int, asyncio.Future[list[LiveEvent]]] = {}
        self._pages: dict[int, list[LiveEvent]] = {}
        """What was given from memory since the last event, by number: nearly all who watch ask for
        the same.
        """

    def stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()

    async def since(self, seq: int) -> list[LiveEvent]:
        """The events after `seq`: from memory where they are all there, else a page of the log,
        read once for all who need it.
        """
        if self.recent and self.recent[0].seq <= seq + 1:
            page = self._pages.get(seq)
            if page is None:
                page = self._pages[seq] = self._from_memory(seq)
            return page
        reading = self._reading.get(seq)
        if reading is None:
            reading = self._reading[seq] = asyncio.ensure_future(self._read(seq))
            reading.add_done_callback(lambda _: self._reading.pop(seq, None))
        return await asyncio.shield(reading)

    def _place_behind(self, seq: int) -> int:
        """Where in memory the events after `seq` begin.

        Numbers that are folded away are missing, so it may be earlier than they count.
        """
        place = min(max(0, seq + 1 - self.recent[0].seq), len(self.recent))
        while place > 0 and self.recent[place - 1].seq > seq:
            place -= 1
        return place

    def _from_memory(self, seq: int) -> list[LiveEvent]:
        events = list(islice(self.recent, self._place_behind(seq), None))
        return events if self._weight <= PAGE_CHARACTERS else _page(events)

    async def _read(self, seq: int) -> list[LiveEvent]:
        """A page of the log, of so many events as came to a page's size before."""
        events: list[LiveEvent] = await _read(
            self.thread_id, seq, max(LEAST, min(log.PAGE, PAGE_CHARACTERS // self._usual))
        )
        if events:
            self._usual = max(1, sum(len(event.text) for event in events) // len(events))
        return _page(events)

    async def beyond(
        self, seq: int, *, stirs: int | None = None, outage: OutageAnswer | None = None
    ) -> None:
        """Wait until there is more than `seq`, or, with `stirs`, until it has been stirred oftener
        than that, or another outage.
        """
        while self.seq <= seq and (stirs is None or self.stirs == stirs) and self.outage is outage:
            await self._bell.wait()

    def _ring(self) -> None:
        self._bell.set()
        self._bell.clear()

    def tell(self, outage: OutageAnswer | None) -> None:
        """The database is away, or is back."""
        self.outage = outage
        self._ring()

    def stir(self) -> None:
        """Other people look at its question, or no longer; or may, where no hint could say so."""
        self.others += 1
        self.stirs += 1
        self._ring()

    def take(self, hint: dict[str, Any]) -> None:
        """Use the events that a hint carries when they follow what is known; read the log
        otherwise.
        """
        if presence.TOPIC in hint.get("topics", ()):
            self.stir()
        if (said := hint.get("said", {}).get(PROGRESS)) is not None:
            self.progress = json.dumps({"type": PROGRESS, **said})
            self.stirs += 1
            self._ring()
        if hint["seq"] <= self.seq:
            return
        events = hint["events"]
        if self.seq >= 0 and events and events[0]["seq"] == self.seq + 1:
            self._extend(_told(events))
        else:
            self.look()

    def look(self) -> None:
        """Read the log soon; all who wish so while it is being read share the next time."""
        self._again = True
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(), name=f"look at {self.thread_id}")

    async def _look(self) -> None:
        try:
            await self._look_while_wished()
        finally:
            self._looking = None  # a task that is done keeps as much as one that is not

    async def _look_while_wished(self) -> None:
        while self._again:
            self._again = False
            try:
                await self._read_on()
            # databases raise their clients' own errors; the next look may succeed
            except Exception as error:  # noqa: BLE001
                logger.warning(
                    "could not read the log of %s, will look again: %s", self.thread_id, error
                )

    async def _read_on(self) -> None:
        if self.seq < 0:
            self.seq = max(self.seq, await self._numbers.of(self.thread_id))
            self._ring()
            return
        while events := await self._read(self.seq):
            self._extend(events)

    def _extend(self, events: list[LiveEvent]) -> None:
        # a hint may have been quicker than the read
        fresh = [event for event in events if event.seq > self.seq]
        if not fresh:
            return
        # numbers are missing: a line says why
        if self.recent and fresh[0].seq > self.recent[-1].seq + 1:
            self.recent, self._weight = NONE_YET, 0
        if self.recent is NONE_YET:
            self.recent = deque()
        # what is missing between its numbers is told by a line among them
        self.recent.extend(fresh)
        self._weight += sum(len(event.text) for event in fresh)
        while len(self.recent) > KEPT or self._weight > KEPT_CHARACTERS:
            self._weight -= len(self.recent.popleft().text)
        self._pages.clear()
        self.seq = fresh[-1].seq
        self._ring()
