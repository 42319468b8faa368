"""Hints to whoever watches: "thread X is at number N now". The only sender to the channel layer.

A hint may be lost or doubled: the log is the truth, and watchers read it. A hint carries the events
it announces when they are small, which saves an up-to-date watcher its read.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import uuid
from collections.abc import Mapping, Sequence
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

_giving = threading.Lock()
_waiting: dict[str, dict[str, Any]] = {}
"""Group → the hint that waits for its turn."""
_sent_at: dict[str, float] = {}
_sending: set[asyncio.Task[None]] = set()
_loops: dict[int, asyncio.AbstractEventLoop] = {}
_starting = threading.Lock()


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


def side_hint_on_commit(thread_id: uuid.UUID, topic: str) -> None:
    """Tell a thread's watchers, once the open transaction commits, that something beside its log
    changed: `topic` names what, in the words of who sends it. No event.
    """
    message = {
        "type": "thread.hint",
        "thread": thread_id.hex,
        "seq": 0,
        "events": [],
        "topics": [topic],
    }
    send_on_commit(group(thread_id), message)


def send_on_commit(to: str, message: dict[str, Any]) -> None:
    """Send a message to a channel group, once the open transaction commits.

    Of several that wait for their turn the group gets the last one only, so a message says no more
    than "look again".
    """
    transaction.on_commit(lambda: _send(to, message), robust=True)


def _send(to: str, message: dict[str, Any]) -> None:
    """Hand a hint to the sender's loop.

    One that still waits for its turn takes the next one in: then both cost one message.
    """
    with _giving:
        waiting = _waiting.get(to)
        _waiting[to] = message if waiting is None else _joined(waiting, message)
    if waiting is None:
        _loop().call_soon_threadsafe(_schedule, to)


def _joined(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Two hints as one. Their events stay with it while they follow one another."""
    if "seq" not in one:
        return other
    topics = sorted({*one.get("topics", ()), *other.get("topics", ())})
    beside = {"topics": topics} if topics else {}
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


def _schedule(to: str) -> None:
    """Send now, or as soon as GAP has passed since the last one to this group.

    On the sender's loop.
    """
    loop = asyncio.get_running_loop()
    pause = _sent_at.get(to, 0.0) + GAP - loop.time()
    if pause > 0:
        loop.call_later(pause, _start_sending, to)
    else:
        _start_sending(to)


def _start_sending(to: str) -> None:
    loop = asyncio.get_running_loop()
    with _giving:
        message = _waiting.pop(to, None)
    if len(_sent_at) > MANY:
        _sent_at.clear()
    _sent_at[to] = loop.time()
    if message is not None:
        task = loop.create_task(_group_send(to, message))
        _sending.add(task)
        task.add_done_callback(_sending.discard)


async def _group_send(to: str, message: dict[str, Any]) -> None:
    layer = get_channel_layer()
    if layer is None:
        return
    try:
        await asyncio.wait_for(layer.group_send(to, message), timeout=5)
    except Exception as error:  # noqa: BLE001  # best effort: the log has the event
        logger.warning("a live hint to %s was lost: %s", to, error)


def _loop() -> asyncio.AbstractEventLoop:
    """This process's sender loop, on a thread of its own: from a worker thread, `async_to_sync`
    opens a connection per call.

    Keyed by process id, since a forked worker inherits the variable but not the thread.
    """
    with _starting:
        pid = os.getpid()
        if pid not in _loops:
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="live-sender", daemon=True).start()
            _loops[pid] = loop
        return _loops[pid]


def _in_child() -> None:
    """A forked worker inherits neither the sender's thread nor what waited for it; a lock it may
    inherit held.
    """
    global _giving, _starting
    _giving, _starting = threading.Lock(), threading.Lock()
    _waiting.clear()
    _sent_at.clear()


os.register_at_fork(after_in_child=_in_child)
