"""WebSockets: catch up, then follow. A reconnect is a plain connect with `?after=<seq>`.

Close codes: 4400 malformed request, 4401 not logged in, 4404 no such thread for you.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import Any
from urllib.parse import parse_qs

from channels.generic.websocket import AsyncJsonWebsocketConsumer
from django.contrib.auth.models import User

from checkpoints import live
from hitl import postponing, sight
from hitl.authentication import person_of
from hitl.hub import cursor, hub, in_database_thread

PING_EVERY = 25.0


class Refused(Exception):
    """The connection is not served; `code` is the close code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@in_database_thread
def sees_thread(user: User, thread_id: uuid.UUID) -> bool:
    return sight.sees(thread_id, by=user)


@in_database_thread
def waiting(user: User) -> int:
    return postponing.inbox(user).count()


class Pumping(AsyncJsonWebsocketConsumer):
    """A consumer whose one task sends for as long as the socket is open."""

    async def connect(self) -> None:
        await self.accept()  # first: a browser learns the close code only from a socket that was open
        try:
            user = await in_database_thread(person_of)(self.scope)
            if user is None:
                raise Refused(4401)
            self.user: User = user
            await self.enter()
        except Refused as refusal:
            await self.close(code=refusal.code)
            return
        self.tasks = [asyncio.create_task(self.pump()), asyncio.create_task(self._ping())]

    async def enter(self) -> None:
        """Check what this socket asks for; raises Refused."""

    async def pump(self) -> None:
        raise NotImplementedError

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(PING_EVERY)
            await self.send_json({"type": "ping"})

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None, **kwargs: Any) -> None:
        """Nothing is read from these sockets, and whatever a client sends is no reason for a traceback."""

    async def disconnect(self, code: int) -> None:
        for task in getattr(self, "tasks", []):
            task.cancel()


class ThreadConsumer(Pumping):
    """Sends a thread's events after `?after=<seq>`, in order, each once."""

    async def enter(self) -> None:
        self.thread_id: uuid.UUID = self.scope["url_route"]["kwargs"]["thread_id"]
        try:
            self.seq = cursor(parse_qs(self.scope["query_string"].decode("latin-1")).get("after", ["0"])[0])
        except ValueError as error:
            raise Refused(4400) from error
        if not await sees_thread(self.user, self.thread_id):
            raise Refused(4404)

    async def pump(self) -> None:
        async for events in hub().follow(self.thread_id, self.seq):
            for event in events:
                await self.send_json(event)


class InboxConsumer(Pumping):
    """Sends how many questions wait for this person, now and whenever that may have changed."""

    async def enter(self) -> None:
        self.sent = -1
        await self.channel_layer.group_add(live.INBOX, self.channel_name)

    async def pump(self) -> None:
        while True:
            await self._tell()
            await asyncio.sleep(30)  # hints may be lost

    async def inbox_hint(self, message: dict[str, Any]) -> None:
        await self._tell()

    async def _tell(self) -> None:
        count = await waiting(self.user)
        if count != self.sent:
            self.sent = count
            await self.send_json({"type": "inbox", "waiting": count})

    async def disconnect(self, code: int) -> None:
        await super().disconnect(code)
        await self.channel_layer.group_discard(live.INBOX, self.channel_name)


class NoSuchSocket(AsyncJsonWebsocketConsumer):
    """Every other address."""

    async def connect(self) -> None:
        await self.accept()
        await self.close(code=4404)
