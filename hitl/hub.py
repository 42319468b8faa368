"""One hub per server process: whoever watches a thread here shares one group membership and one read per hint.

The log is the truth. Hints may be lost, so each topic also looks every few seconds; a channel layer that fails costs that delay
and a log line, never a watcher.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer
from django.db import close_old_connections

from checkpoints import live, log
from checkpoints.log import Envelope
from checkpoints.models import Thread

logger = logging.getLogger(__name__)

KEPT = 500
"""Events of a thread kept in memory for watchers that are nearly up to date."""
JOIN_WITHIN = 2.0
"""Seconds for the channel layer to let a watcher in; with one that hangs it goes on by reading."""
LOOK_EVERY = 5.0
"""Seconds after which a topic reads the log without a hint."""

_pool = ThreadPoolExecutor(4, thread_name_prefix="hub-database")
P = ParamSpec("P")
T = TypeVar("T")


def in_database_thread(function: Callable[P, T]) -> Callable[P, Any]:
    """Run a function that uses the database in the hub's own few threads, which leave no connection open."""

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


@in_database_thread
def _read(thread_id: uuid.UUID, seq: int) -> list[Envelope]:
    return log.told_after(thread_id, seq)


@in_database_thread
def _last_seq(thread_id: uuid.UUID) -> int:
    return Thread.objects.values_list("last_seq", flat=True).get(pk=thread_id)


class Topic:
    """One thread as this process sees it: the newest number, and the newest events."""

    def __init__(self, thread_id: uuid.UUID) -> None:
        self.thread_id = thread_id
        self.watchers = 0
        self.seq = -1
        self.recent: deque[Envelope] = deque(maxlen=KEPT)
        self._news = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=f"topic {thread_id}")

    def stop(self) -> None:
        self._task.cancel()

    async def since(self, seq: int) -> list[Envelope]:
        """The events after `seq`: from memory where they are all there, else a page of the log."""
        if self.recent and self.recent[0]["seq"] <= seq + 1:
            return [event for event in self.recent if event["seq"] > seq]
        if 0 <= self.seq <= seq:
            return []
        return list(await _read(self.thread_id, seq))

    async def beyond(self, seq: int) -> None:
        """Wait until there is more than `seq`."""
        while self.seq <= seq:
            news = self._news
            await news.wait()

    def _announce(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def _run(self) -> None:
        while True:
            try:
                await self._follow()
            except asyncio.CancelledError:
                raise
            except Exception as error:  # noqa: BLE001  # layer and database raise their clients' own errors; watchers must outlive them
                logger.warning("watching %s goes on by reading every %s s: %s", self.thread_id, LOOK_EVERY, error)
                await asyncio.sleep(LOOK_EVERY)
                await self._look_quietly()

    async def _follow(self) -> None:
        """Join the group first and look then, so that nothing falls between."""
        layer: Any = get_channel_layer()
        channel = await layer.new_channel()
        await asyncio.wait_for(layer.group_add(live.group(self.thread_id), channel), timeout=JOIN_WITHIN)
        receiving: asyncio.Task[dict[str, Any]] | None = None
        try:
            await self._look()
            while True:
                receiving = receiving or asyncio.create_task(layer.receive(channel))
                done, _ = await asyncio.wait({receiving}, timeout=LOOK_EVERY)
                hint = receiving.result() if done else None
                receiving = None if done else receiving
                await self._take(hint)
        finally:
            if receiving is not None:
                receiving.cancel()
            await layer.group_discard(live.group(self.thread_id), channel)

    async def _take(self, hint: dict[str, Any] | None) -> None:
        """Use the events that a hint carries when they follow what is known; read the log otherwise."""
        if hint is not None and hint["seq"] <= self.seq:
            return
        events = hint["events"] if hint else []
        if events and events[0]["seq"] == self.seq + 1:
            self._extend(events)
        else:
            await self._look()

    async def _look(self) -> None:
        if self.seq < 0:
            self.seq = await _last_seq(self.thread_id)
            self._announce()
            return
        while events := await _read(self.thread_id, self.seq):
            self._extend(events)

    async def _look_quietly(self) -> None:
        try:
            await self._look()
        except Exception as error:  # noqa: BLE001  # as in _run: the next look may succeed
            logger.warning("could not read the log of %s: %s", self.thread_id, error)

    def _extend(self, events: list[Envelope]) -> None:
        self.recent.extend(events)
        self.seq = events[-1]["seq"]
        self._announce()


class Hub:
    """The topics of one event loop."""

    def __init__(self) -> None:
        self._topics: dict[uuid.UUID, Topic] = {}

    async def follow(self, thread_id: uuid.UUID, seq: int) -> AsyncIterator[list[Envelope]]:
        """Pages of a thread's events after `seq`, in order, each event once, for as long as the caller listens."""
        topic = self._topics.get(thread_id)
        if topic is None:
            topic = self._topics[thread_id] = Topic(thread_id)
        topic.watchers += 1
        try:
            while True:
                await topic.beyond(seq)
                if page := await topic.since(seq):
                    seq = page[-1]["seq"]
                    yield page
        finally:
            topic.watchers -= 1
            if topic.watchers == 0:
                topic.stop()
                self._topics.pop(thread_id, None)


_hubs: dict[asyncio.AbstractEventLoop, Hub] = {}


def hub() -> Hub:
    """The hub of the running event loop."""
    loop = asyncio.get_running_loop()
    for closed in [other for other in _hubs if other.is_closed()]:
        del _hubs[closed]
    return _hubs.setdefault(loop, Hub())
