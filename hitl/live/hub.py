"""One hub per server process: whoever watches a thread here shares one group membership and one
read per hint.

The log is the truth. Hints may be lost, so every few seconds one query asks for the newest numbers
of all watched threads; a channel layer or a database that fails costs that delay and a log line,
never a watcher. Nothing is queued for a watcher: each takes the next page when its client has taken
the last one.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextlib import aclosing, asynccontextmanager
from typing import Any

from channels.layers import get_channel_layer

from checkpoints.database import outages
from checkpoints.database.outages import OutageAnswer
from checkpoints.events import live
from hitl.live import topics
from hitl.live.inbox_feed import Inbox, InboxNews, Teller
from hitl.live.outages import Outage
from hitl.live.topics import (
    ASKED_AT_ONCE,
    LiveEvent,
    NewestNumbers,
    Topic,
    in_database_thread,
)
from hitl.live.work_feed import WorkFeed
from runs import hints

logger = logging.getLogger(__name__)

JOIN_WITHIN = 2.0
"""Seconds for the channel layer to let a topic in; with one that hangs it goes on by reading."""
LOOK_EVERY = 5.0
"""Seconds after which the log is read without a hint, and a channel layer that failed is tried
again.
"""


def cursor(text: str) -> int:
    """A cursor as clients send it; raises ValueError unless it is a plain number from 0."""
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise ValueError(f"{text[:30]!r} is no event number")
    return int(text)


class Hub:
    """The topics of one event loop, the one channel by which hints reach it, and the one query that
    makes up for lost ones.
    """

    def __init__(self) -> None:
        self._topics: dict[uuid.UUID, Topic] = {}
        self._numbers = NewestNumbers()
        self._inbox = Inbox(in_database_thread, self._note)
        self.work = WorkFeed(in_database_thread)
        self._outage: OutageAnswer | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._channel = ""
        self._joined: set[str] = set()
        """Groups that the channel is in."""
        self._tried = asyncio.Event()
        """To have a channel: with or without one, who watches can begin."""

    async def follow(
        self, thread_id: uuid.UUID, seq: int, *, stirs: bool = False
    ) -> AsyncGenerator[list[LiveEvent] | Outage, None]:
        """Pages of a thread's events after `seq`, in order, each event once, for as long as the
        caller listens.

        With `stirs` there is an empty page whenever other people look at its question, or no
        longer, and one at the beginning: from then on nothing is missed. An Outage tells that the
        database went away, and that it is back.
        """
        async with self._watching(thread_id) as topic:
            heeded, outage = -1 if stirs else None, None
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

    async def pages(self, thread_id: uuid.UUID, seq: int) -> AsyncGenerator[list[LiveEvent], None]:
        """As `follow`, for who waits an outage out without a word."""
        async with aclosing(self.follow(thread_id, seq)) as following:
            async for page in following:
                if not isinstance(page, Outage):
                    yield page

    @asynccontextmanager
    async def _watching(self, thread_id: uuid.UUID) -> AsyncIterator[Topic]:
        topic = self._topics.get(thread_id)
        if topic is None:
            topic = self._topics[thread_id] = Topic(thread_id, self._numbers)
            topic.outage = self._outage
        topic.watchers += 1
        self._wake()
        try:
            if topic.seq < 0:
                # before the first look, so that nothing falls between
                await self._tried.wait()
                await self._join(live.group(thread_id))
                topic.look()
            yield topic
        finally:
            topic.watchers -= 1
            if topic.watchers == 0:
                topic.stop()
                self._topics.pop(thread_id, None)
                self._leave_group(live.group(thread_id))

    async def waiting(
        self, user_id: int, *, language: str = "", tell: Teller | None = None
    ) -> AsyncGenerator[InboxNews | Outage, None]:
        """What waits for a person: now, and each change, told to pages in a language; and outages,
        as `follow`.
        """
        self._inbox.watchers += 1
        self._wake()
        try:
            if self._inbox.watchers == 1:
                await self._join(hints.PAUSES)
            async with aclosing(self._inbox.news(user_id, language=language, tell=tell)) as told:
                async for news in told:
                    yield news
        finally:
            self._inbox.watchers -= 1
            if self._inbox.watchers == 0:
                self._inbox.stop()
                self._leave_group(hints.PAUSES)

    @property
    def _groups(self) -> set[str]:
        return {live.group(thread_id) for thread_id in self._topics} | (
            {hints.PAUSES} if self._inbox.watchers else set()
        )

    @property
    def watchers(self) -> dict[str, int]:
        """How many follow threads and inboxes here now; asked from any thread."""
        threads = sum(topic.watchers for topic in list(self._topics.values()))
        return {"threads": threads, "inboxes": self._inbox.watchers}

    def watching(self, thread_id: uuid.UUID) -> int:
        """How many follow a thread here now; asked from any thread."""
        topic = self._topics.get(thread_id)
        return 0 if topic is None else topic.watchers

    def beside(self, thread_id: uuid.UUID) -> tuple[int, str]:
        """What a thread's watchers are told beside its log: how often other people came or went,
        and how far its run's step is.
        """
        topic = self._topics.get(thread_id)
        return (0, "") if topic is None else (topic.others, topic.progress)

    def _wake(self) -> None:
        if not self._tasks:
            self._tasks = [
                asyncio.create_task(self._listen(), name="hub: hints"),
                asyncio.create_task(self._poll(), name="hub: poll"),
            ]

    def _leave_group(self, group: str) -> None:
        """Nobody here watches a group any more.

        Leaving may fail, so it is no part of what its last watcher does.
        """
        if not self._groups:
            for task in self._tasks:
                task.cancel()
            self._tasks, self._channel = [], ""
            self._tried.clear()
        elif group in self._joined:
            self._joined.discard(group)
            leaving = asyncio.create_task(_leave_all([group], self._channel))
            _leaving.add(leaving)
            leaving.add_done_callback(_leaving.discard)

    async def _join(self, group: str) -> None:
        """Get the hints of a group. Where that fails, the poll tries again."""
        if not self._channel or group in self._joined:
            return  # without a channel, _listen joins all groups
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
            self._tried.set()
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
            self._tried.set()
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
            if self._tried.is_set():
                topic.stir()
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
            newest = await topics.newest(threads)
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
        outage = None if error is None else outages.said(error, changing=False)
        if (outage is None) == (self._outage is None):
            return
        self._outage = outage
        for topic in self._topics.values():
            topic.tell(outage)
        self._inbox.tell(outage)


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


def watchers() -> Counter[str]:
    """How many follow threads and inboxes in this process."""
    found = Counter({"threads": 0, "inboxes": 0})
    for one in list(_hubs.values()):
        found.update(one.watchers)
    return found


def watching(thread_id: uuid.UUID) -> int:
    """How many follow a thread in this process."""
    return sum(one.watching(thread_id) for one in list(_hubs.values()))
