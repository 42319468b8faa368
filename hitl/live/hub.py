"""One hub per server process: whoever watches a thread here shares one group membership and one
read per hint.

The log is the truth. Hints may be lost, so every few seconds one query asks for the newest numbers
of all watched threads; a channel layer or a database that fails costs that delay and a log line,
never a watcher. Nothing is queued for a watcher: each takes the next page when its client has taken
the last one.
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from itertools import accumulate, islice
from typing import Any, NamedTuple, ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer
from django.db import close_old_connections

from checkpoints.database import outages
from checkpoints.database.outages import OutageAnswer
from checkpoints.events import live, log
from checkpoints.events.log import Envelope
from checkpoints.models import Thread
from hitl.decisions import presence
from hitl.live.inbox_feed import Inbox, News
from hitl.live.outages import Outage
from runs import hints

logger = logging.getLogger(__name__)

KEPT = 500
"""Events of a thread kept in memory for watchers that are nearly up to date,"""
KEPT_CHARACTERS = 2_000_000
"""and how much they may come to."""
PAGE_CHARACTERS = 256_000
"""What a page may come to: a client that does not read keeps one in memory."""
LEAST = 10
"""Events that are read at once, however large."""
JOIN_WITHIN = 2.0
"""Seconds for the channel layer to let a topic in; with one that hangs it goes on by reading."""
LOOK_EVERY = 5.0
"""Seconds after which the log is read without a hint, and a channel layer that failed is tried
again.
"""
ASKED_AT_ONCE = 500
"""Threads in one query for newest numbers."""

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


def cursor(text: str) -> int:
    """A cursor as clients send it; raises ValueError unless it is a plain number from 0."""
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise ValueError(f"{text[:30]!r} is no event number")
    return int(text)


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


def _page(told: list[LiveEvent]) -> list[LiveEvent]:
    """The first of some events, at least one."""
    sizes = accumulate(len(one.text) for one in told)
    return told[: max(1, sum(1 for size in sizes if size <= PAGE_CHARACTERS))]


@in_database_thread
def _read(thread_id: uuid.UUID, seq: int, limit: int) -> list[LiveEvent]:
    return _told(log.told_after(thread_id, seq, limit=limit))


@in_database_thread
def _newest(thread_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, int]:
    return dict(Thread.objects.filter(pk__in=thread_ids).values_list("pk", "last_seq"))


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
        "_pages",
        "_reading",
        "_usual",
        "_weight",
        "outage",
        "recent",
        "seq",
        "stirs",
        "thread_id",
        "watchers",
    )

    def __init__(self, thread_id: uuid.UUID) -> None:
        self.thread_id = thread_id
        self.watchers = 0
        self.seq = -1
        """Not known yet."""
        self.stirs = 0
        """How often other people began or ceased to look at its question."""
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
        found = list(islice(self.recent, self._place_behind(seq), None))
        return found if self._weight <= PAGE_CHARACTERS else _page(found)

    async def _read(self, seq: int) -> list[LiveEvent]:
        """A page of the log, of so many events as came to a page's size before."""
        found: list[LiveEvent] = await _read(
            self.thread_id, seq, max(LEAST, min(log.PAGE, PAGE_CHARACTERS // self._usual))
        )
        if found:
            self._usual = max(1, sum(len(told.text) for told in found) // len(found))
        return _page(found)

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

    def take(self, hint: dict[str, Any]) -> None:
        """Use the events that a hint carries when they follow what is known; read the log
        otherwise.
        """
        if presence.TOPIC in hint.get("topics", ()):
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
            found = await _newest([self.thread_id])
            self.seq = max(self.seq, found.get(self.thread_id, 0))
            self._ring()
            return
        while events := await self._read(self.seq):
            self._extend(events)

    def _extend(self, events: list[LiveEvent]) -> None:
        # a hint may have been quicker than the read
        fresh = [told for told in events if told.seq > self.seq]
        if not fresh:
            return
        # numbers are missing: a line says why
        if self.recent and fresh[0].seq > self.recent[-1].seq + 1:
            self.recent, self._weight = NONE_YET, 0
        if self.recent is NONE_YET:
            self.recent = deque()
        # what is missing between its numbers is told by a line among them
        self.recent.extend(fresh)
        self._weight += sum(len(told.text) for told in fresh)
        while len(self.recent) > KEPT or self._weight > KEPT_CHARACTERS:
            self._weight -= len(self.recent.popleft().text)
        self._pages.clear()
        self.seq = fresh[-1].seq
        self._ring()


class Hub:
    """The topics of one event loop, the one channel by which hints reach it, and the one query that
    makes up for lost ones.
    """

    def __init__(self) -> None:
        self._topics: dict[uuid.UUID, Topic] = {}
        self._inbox = Inbox(in_database_thread, self._note)
        self._outage: OutageAnswer | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._channel = ""
        self._joined: set[str] = set()
        """Groups that the channel is in."""

    async def follow(
        self, thread_id: uuid.UUID, seq: int, *, stirs: bool = False
    ) -> AsyncIterator[list[LiveEvent] | Outage]:
        """Pages of a thread's events after `seq`, in order, each event once, for as long as the
        caller listens.

        With `stirs` there is an empty page whenever other people look at its question, or no
        longer. An Outage tells that the database went away, and that it is back.
        """
        async with self._watching(thread_id) as topic:
            heeded, outage = topic.stirs if stirs else None, None
            while True:
                await topic.beyond(seq, stirs=heeded, outage=outage)
                if topic.seq > seq and (page := await topic.since(seq)):
                    seq = page[-1].seq
                    yield page
                if heeded is not None and topic.stirs != heeded:
                    heeded = topic.stirs
                    yield []
                if topic.outage is not outage:
                    outage = topic.outage
                    yield Outage(outage)

    @asynccontextmanager
    async def _watching(self, thread_id: uuid.UUID) -> AsyncIterator[Topic]:
        topic = self._topics.get(thread_id)
        if topic is None:
            topic = self._topics[thread_id] = Topic(thread_id)
            topic.outage = self._outage
        topic.watchers += 1
        self._wake()
        try:
            if topic.seq < 0:
                # before the first look, so that nothing falls between
                await self._join(live.group(thread_id))
                topic.look()
            yield topic
        finally:
            topic.watchers -= 1
            if topic.watchers == 0:
                topic.stop()
                self._topics.pop(thread_id, None)
                self._left(live.group(thread_id))

    async def waiting(self, user_id: int) -> AsyncIterator[News | Outage]:
        """How many questions wait for a person and which of them went: now, and whenever other ones
        wait; and outages, as `follow`.
        """
        self._inbox.watchers += 1
        self._wake()
        try:
            if self._inbox.watchers == 1:
                await self._join(hints.PAUSES)
            async for news in self._inbox.news(user_id):
                yield news
        finally:
            self._inbox.watchers -= 1
            if self._inbox.watchers == 0:
                self._inbox.stop()
                self._left(hints.PAUSES)

    @property
    def _groups(self) -> set[str]:
        return {live.group(thread_id) for thread_id in self._topics} | (
            {hints.PAUSES} if self._inbox.watchers else set()
        )

    def _wake(self) -> None:
        if not self._tasks:
            self._tasks = [
                asyncio.create_task(self._listen(), name="hub: hints"),
                asyncio.create_task(self._poll(), name="hub: poll"),
            ]

    def _left(self, group: str) -> None:
        """Nobody here watches a group any more.

        Leaving may fail, so it is no part of what its last watcher does.
        """
        if not self._groups:
            for task in self._tasks:
                task.cancel()
            self._tasks, self._channel = [], ""
        elif group in self._joined:
            self._joined.discard(group)
            leaving = asyncio.create_task(_leave_all([group], self._channel))
            _leaving.add(leaving)
            leaving.add_done_callback(_leaving.discard)

    async def _join(self, group: str) -> None:
        """Get the hints of a group. Where that fails, the poll tries again."""
        if not self._channel or group in self._joined:
            return  # without a channel yet, _listen joins all groups
        layer: Any = get_channel_layer()
        try:
            async with asyncio.timeout(JOIN_WITHIN):
                await layer.group_add(group, self._channel)
            self._joined.add(group)
        except Exception as error:  # noqa: BLE001  # as in _listen
            logger.warning("%s is watched by reading for now: %s", group, error)

    async def _listen(self) -> None:
        """Take hints from the channel layer; after an error, begin again with a channel of its
        own.
        """
        while True:
            try:
                await self._take_hints()
            # layers raise their clients' own errors; watchers must outlive them
            except Exception as error:  # noqa: BLE001
                logger.warning(
                    "no live hints, watching goes on by reading every %s s: %s", LOOK_EVERY, error
                )
            await asyncio.sleep(LOOK_EVERY)

    async def _take_hints(self) -> None:
        layer: Any = get_channel_layer()
        # not `wait_for`, which in Python 3.11 may swallow a cancellation
        async with asyncio.timeout(JOIN_WITHIN):
            channel: str = await layer.new_channel()
        joined: set[str] = set()
        self._channel, self._joined = channel, joined
        try:
            for group in self._groups:  # a set of its own, whatever comes meanwhile
                async with asyncio.timeout(JOIN_WITHIN):
                    await layer.group_add(group, channel)
                joined.add(group)
            self._look_everywhere()  # at what happened while there was no channel
            while True:
                self._take(await layer.receive(channel))
        finally:
            if self._channel == channel:
                self._channel, self._joined = "", set()
            await _leave_all(joined, channel)

    def _take(self, hint: dict[str, Any]) -> None:
        if hint["type"] == hints.PAUSES_CHANGED:
            self._inbox.look()
        elif topic := self._topics.get(uuid.UUID(hint["thread"])):
            topic.take(hint)

    def _look_everywhere(self) -> None:
        for topic in self._topics.values():
            topic.look()
        self._inbox.look()

    async def _poll(self) -> None:
        """Find what no hint told: one query for all watched threads, and one for all inboxes."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            for group in self._groups - self._joined:
                await self._join(group)
            watched = list(self._topics)
            for first in range(0, len(watched), ASKED_AT_ONCE):
                await self._ask(watched[first : first + ASKED_AT_ONCE])
            self._inbox.look()
            self._inbox.grow_old()

    async def _ask(self, threads: list[uuid.UUID]) -> None:
        try:
            newest = await _newest(threads)
        except Exception as error:  # noqa: BLE001  # as in Topic._look
            logger.warning("could not look for news, will look again: %s", error)
            self._note(error)
            return
        self._note(None)
        for thread_id, seq in newest.items():
            topic = self._topics.get(thread_id)
            if topic is not None and topic.seq < seq:
                topic.look()

    def _note(self, error: Exception | None) -> None:
        """Tell all who watch that the database is away, or is back; each once."""
        said = None if error is None else outages.said(error, changing=False)
        if (said is None) == (self._outage is None):
            return
        self._outage = said
        for topic in self._topics.values():
            topic.tell(said)
        self._inbox.tell(said)


async def _leave_all(groups: Collection[str], channel: str) -> None:
    layer: Any = get_channel_layer()
    try:
        for group in list(groups):
            async with asyncio.timeout(JOIN_WITHIN):
                await layer.group_discard(group, channel)
    # as in _listen; hints of a group that nobody watches are dropped
    except Exception as error:  # noqa: BLE001
        logger.warning("could not leave %d groups: %s", len(groups), error)


_hubs: dict[asyncio.AbstractEventLoop, Hub] = {}
_leaving: set[asyncio.Task[None]] = set()


def hub() -> Hub:
    """The hub of the running event loop."""
    loop = asyncio.get_running_loop()
    for closed in [other for other in _hubs if other.is_closed()]:
        del _hubs[closed]
    return _hubs.setdefault(loop, Hub())
