"""Hints to whoever watches: "thread X is at number N now". The only sender to the channel layer.

A hint may be lost or doubled: the log is the truth, and watchers read it. A hint carries the events it announces when they are
small, which saves an up-to-date watcher its read.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import uuid
from typing import Any

from channels.layers import get_channel_layer
from django.db import transaction

logger = logging.getLogger(__name__)

INLINE_LIMIT = 20_000
"""Characters of events that a hint may carry."""
INBOX = "inbox"
"""The group that hears of every pause that opened or closed."""

_loops: dict[int, asyncio.AbstractEventLoop] = {}
_starting = threading.Lock()


def group(thread_id: uuid.UUID) -> str:
    """The channel group of a thread's watchers."""
    return f"thread.{thread_id.hex}"


def hint_on_commit(thread_id: uuid.UUID, seq: int, events: list[dict[str, Any]]) -> None:
    """Announce events once the open transaction commits. A dead channel layer costs a log line, never the commit."""
    if sum(len(str(event)) for event in events) > INLINE_LIMIT:
        events = []
    message = {"type": "thread.hint", "thread": thread_id.hex, "seq": seq, "events": events}
    transaction.on_commit(lambda: _send(group(thread_id), message), robust=True)


def inbox_hint_on_commit() -> None:
    """Tell every open inbox to look again, once the open transaction commits."""
    transaction.on_commit(lambda: _send(INBOX, {"type": "inbox.hint"}), robust=True)


def _send(to: str, message: dict[str, Any]) -> None:
    asyncio.run_coroutine_threadsafe(_group_send(to, message), _loop())


async def _group_send(to: str, message: dict[str, Any]) -> None:
    layer = get_channel_layer()
    if layer is None:
        return
    try:
        await asyncio.wait_for(layer.group_send(to, message), timeout=5)
    except Exception as error:  # noqa: BLE001  # a hint is best effort: whatever the layer raises, the log has the event
        logger.warning("a live hint to %s was lost: %s", to, error)


def _loop() -> asyncio.AbstractEventLoop:
    """This process's sender loop, on a thread of its own: from a worker thread, `async_to_sync` opens a connection per call.

    Keyed by process id, since a forked worker inherits the variable but not the thread.
    """
    with _starting:
        pid = os.getpid()
        if pid not in _loops:
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="live-sender", daemon=True).start()
            _loops[pid] = loop
        return _loops[pid]
