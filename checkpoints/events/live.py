"""Hints to whoever watches: "thread X is at number N now". The only sender to the channel layer.

A hint may be lost or doubled: the log is the truth, and watchers read it. A hint carries the events
it announces when they are small, which saves an up-to-date watcher its read.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from channels.layers import get_channel_layer
from django.db import transaction

logger = logging.getLogger(__name__)

INLINE_LIMIT = 20_000
"""Characters of events that a hint may carry."""
INLINE_EVENTS = 100
"""Events that a hint made of several may carry."""
GAP = 0.02
"""Seconds between two hints to one group: the first goes at once, what comes meanwhile goes
together.
"""
MANY = 10_000
"""Groups whose last hint is remembered."""
BATCH = 500
"""Hints that are sent together."""
PATIENCE = 5.0
"""Seconds that a batch may take over an event loop."""
NAMED = 3
"""Groups that a line of the log names."""

relay: Callable[[str, dict[str, Any]], None] | None = None
"""In a body process: hints are sent by its worker's process, for all of its body processes
together.
"""


def group(thread_id: uuid.UUID) -> str:
    """The channel group of a thread's watchers."""
    return f"thread.{thread_id.hex}"


def hint_on_commit(
    thread_id: uuid.UUID, seq: int, events: Sequence[Mapping[str, Any]], *, size: int
) -> None:
    """Announce events, whose data have so many characters, once the open transaction commits.

    A dead channel layer costs a log line, never the commit.
    """
    if size > INLINE_LIMIT:
        events = []
    message = {"type": "thread.hint", "thread": thread_id.hex, "seq": seq, "events": events}
    send_on_commit(group(thread_id), message)


def side_hint_on_commit(
    thread_id: uuid.UUID, topic: str, said: Mapping[str, Any] | None = None
) -> None:
    """Tell a thread's watchers, once the open transaction commits, that something beside its log
    changed: `topic` names what, in the words of who sends it, `said` how it is now. No event.
    """
    message = {
        "type": "thread.hint",
        "thread": thread_id.hex,
        "seq": 0,
        "events": [],
        "topics": [topic],
        **({"said": {topic: said}} if said is not None else {}),
    }
    send_on_commit(group(thread_id), message)


def send_on_commit(to: str, message: dict[str, Any]) -> None:
    """Send a message to a channel group, once the open transaction commits.

    Of several that wait for their turn the group gets the last one only, so a message says no more
    than "look again".
    """
    transaction.on_commit(lambda: _send(to, message), robust=True)


def _send(to: str, message: dict[str, Any]) -> None:
    if relay is not None:
        relay(to, message)
    else:
        give(to, message)


def give(to: str, message: dict[str, Any]) -> None:
    """Hand a hint to this process's sender.

    One that still waits for its turn takes the next one in: then both cost one message.
    """
    _sender.give(to, message)


def _joined(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Two hints as one. Their events stay with it while they follow one another."""
    if "seq" not in one:
        return other
    topics = sorted({*one.get("topics", ()), *other.get("topics", ())})
    beside: dict[str, Any] = {"topics": topics} if topics else {}
    if said := {**one.get("said", {}), **other.get("said", {})}:
        beside["said"] = said
    if not (one["seq"] and other["seq"]):  # one says nothing of the log
        return {**max(one, other, key=lambda hint: int(hint["seq"])), **beside}
    first, last = (one, other) if one["seq"] <= other["seq"] else (other, one)
    events = [*first["events"], *last["events"]]
    follow = (
        bool(first["events"])
        and bool(last["events"])
        and last["events"][0]["seq"] == first["seq"] + 1
    )
    return {**last, "events": events if follow and len(events) <= INLINE_EVENTS else [], **beside}


class Sender:
    """This process's thread that sends hints, in batches: what comes while one is on its way goes
    with the next.
    """

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._waiting: dict[str, dict[str, Any]] = {}
        """Group → the hint that waits for its turn."""
        self._due: list[tuple[float, str]] = []
        """A heap of the groups that wait, each with the time of its turn."""
        self._sent_at: dict[str, float] = {}
        self._thread: threading.Thread | None = None

    def give(self, to: str, message: dict[str, Any]) -> None:
        """Send this to the group at once, or as soon as GAP has passed since the last one."""
        with self._turn:
            waiting = self._waiting.get(to)
            self._waiting[to] = message if waiting is None else _joined(waiting, message)
            if waiting is not None:
                return
            heapq.heappush(self._due, (self._sent_at.get(to, 0.0) + GAP, to))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="live-sender", daemon=True)
                self._thread.start()
            self._turn.notify()

    def _run(self) -> None:
        while True:
            batch = self._next()
            try:
                _publish(batch)
            except Exception as error:  # noqa: BLE001  # best effort: the log has the events
                lost = ", ".join(to for to, _ in batch[:NAMED])
                logger.warning("%s live hints were lost, to %s: %s", len(batch), lost, error)

    def _next(self) -> list[tuple[str, dict[str, Any]]]:
        """What is due now; waits until something is."""
        with self._turn:
            while not self._due or (wait := self._due[0][0] - time.monotonic()) > 0:
                self._turn.wait(wait if self._due else None)
            now = time.monotonic()
            if len(self._sent_at) > MANY:
                self._sent_at.clear()
            batch: list[tuple[str, dict[str, Any]]] = []
            while self._due and self._due[0][0] <= now and len(batch) < BATCH:
                _, to = heapq.heappop(self._due)
                self._sent_at[to] = now
                batch.append((to, self._waiting.pop(to)))
            return batch


def _publish(batch: Sequence[tuple[str, dict[str, Any]]]) -> None:
    """Send each of them to its group: at once where the channel layer can be sent to from a
    thread, else over an event loop.
    """
    layer: Any = get_channel_layer()
    if layer is None:
        return
    if (publish := getattr(type(layer), "publish", None)) is not None:
        publish(layer, batch)
    else:
        asyncio.run_coroutine_threadsafe(_group_send(layer, batch), _loop()).result(PATIENCE)


async def _group_send(layer: Any, batch: Sequence[tuple[str, dict[str, Any]]]) -> None:
    await asyncio.gather(*(layer.group_send(to, message) for to, message in batch))


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """An event loop on a thread of its own: over `async_to_sync` each batch would open a connection
    of its own.
    """
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="live-loop", daemon=True).start()
    return loop


def _begin() -> None:
    """A forked worker inherits neither the sender's thread nor its loop, nor what waited for it; a
    lock it may inherit held.
    """
    global _sender
    _sender = Sender()
    _loop.cache_clear()


_sender = Sender()
os.register_at_fork(after_in_child=_begin)
