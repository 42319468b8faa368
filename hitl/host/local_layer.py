"""The embedded default's channel layer: groups within one process, to which any thread may send.

Channels' own in-memory layer puts into an asyncio queue from the sender's thread without waking the
receiver's loop, which then sleeps on for up to a second. This one hands each message to the loop
that owns the channel.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from channels.layers import BaseChannelLayer

Inbox = tuple[asyncio.AbstractEventLoop, "asyncio.Queue[dict[str, Any]]"]


class LocalChannelLayer(BaseChannelLayer):
    """Messages are hints: a full channel drops them."""

    extensions = ["groups"]

    def __init__(
        self, expiry: int = 60, capacity: int = 1000, channel_capacity: Any = None
    ) -> None:
        super().__init__(expiry=expiry, capacity=capacity, channel_capacity=channel_capacity)
        self._inboxes: dict[str, Inbox] = {}
        self._groups: dict[str, set[str]] = defaultdict(set)
        self._lock = threading.Lock()

    async def new_channel(self, prefix: str = "local") -> str:
        name = f"{prefix}.{secrets.token_hex(12)}"
        self._inbox(name)
        return name

    def _inbox(self, name: str) -> Inbox:
        with self._lock:
            if name not in self._inboxes:
                self._inboxes[name] = (asyncio.get_running_loop(), asyncio.Queue(self.capacity))
            return self._inboxes[name]

    async def send(self, channel: str, message: dict[str, Any]) -> None:
        self._send(channel, message)

    def _send(self, channel: str, message: dict[str, Any]) -> None:
        with self._lock:
            inbox = self._inboxes.get(channel)
        if inbox is not None:
            loop, queue = inbox
            if not loop.is_closed():
                loop.call_soon_threadsafe(_put, queue, message)

    async def receive(self, channel: str) -> dict[str, Any]:
        _, queue = self._inbox(channel)
        try:
            return await queue.get()
        except asyncio.CancelledError:
            self._forget(channel)
            raise

    def _forget(self, channel: str) -> None:
        with self._lock:
            self._inboxes.pop(channel, None)
            for name in [name for name, members in self._groups.items() if channel in members]:
                self._drop(name, channel)

    def _drop(self, group: str, channel: str) -> None:
        self._groups[group].discard(channel)
        if not self._groups[group]:
            del self._groups[group]

    async def group_add(self, group: str, channel: str) -> None:
        with self._lock:
            self._groups[group].add(channel)

    async def group_discard(self, group: str, channel: str) -> None:
        with self._lock:
            if group in self._groups:
                self._drop(group, channel)

    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        self.publish([(group, message)])

    def publish(self, messages: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        """Send each message to its group, from any thread."""
        for group, message in messages:
            with self._lock:
                members = list(self._groups.get(group, ()))
            for channel in members:
                self._send(channel, dict(message))

    async def flush(self) -> None:
        with self._lock:
            self._inboxes.clear()
            self._groups.clear()


def _put(queue: asyncio.Queue[dict[str, Any]], message: dict[str, Any]) -> None:
    if not queue.full():
        queue.put_nowait(message)
