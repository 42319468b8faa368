"""Clients that come back however they are cut, a proxy that cuts them, and what all must have seen:
for a story, larger for a bench.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import httpx
from httpx_sse import SSEError, aconnect_sse
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from tests.doors.waiting import becomes
from tests.servers.private import Redis
from tests.servers.stack import Stack

BACKOFF = 0.05
"""Seconds between two attempts; a real client waits longer."""
SILENCE = 2.0
"""Seconds after which a client takes a connection that says nothing for dead; twice as many behind
each that said nothing until then.
"""
HELD = 65_536
CUTS = ("reset", "half a frame", "closed towards the client", "closed towards the server", "silent")

WRITE = """
import random, time
from django.db import transaction
from checkpoints import ids
from checkpoints.events import log
from checkpoints.models import EventKind
thread, run, left, dice = ids.parse("thr", "{thread}"), ids.parse("run", "{run}"), {count}, random.Random(7)
while left:
    batch = min(left, dice.choice([1, 1, 2, 7, 40]))
    with transaction.atomic():
        log.append(thread, run, [(EventKind.LOG, {{"message": "x" * dice.choice([1, 100, 400])}})] * batch)
    left -= batch
    time.sleep(batch * {pause})  # so many events a second
"""
"""Writes `count` events of a run, in batches, about `pause` seconds apart.

For `manage.py shell`.
"""


class Proxy:
    """Stands between clients and a server, and after some chunks of each connection has one of the
    accidents that networks have.
    """

    def __init__(self, port: int, *, rate: float, seed: int) -> None:
        self.target, self.rate, self.dice = port, rate, random.Random(seed)
        self.port = 0
        self._open: set[asyncio.Task[None]] = set()
        self.had = dict.fromkeys(CUTS, 0)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Proxy]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, backlog=512)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for task in self._open:
                task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)

    def _accept(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        """No coroutine: asyncio itself reports those that are cancelled as errors."""
        task = asyncio.create_task(self._serve(from_client, to_client))
        self._open.add(task)
        task.add_done_callback(self._open.discard)
        # also where it was cancelled before it came to anything
        task.add_done_callback(lambda _: to_client.transport.abort())

    async def _serve(
        self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:  # the server is away
            return
        asking = asyncio.create_task(self._carry(from_client, to_server))
        try:
            with suppress(OSError):
                await self._answer(from_server, to_client, to_server)
        finally:
            asking.cancel()
            to_server.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(HELD):
                writer.write(data)
                await writer.drain()
        writer.transport.abort()  # the client has gone

    async def _answer(
        self,
        reader: asyncio.StreamReader,
        to_client: asyncio.StreamWriter,
        to_server: asyncio.StreamWriter,
    ) -> None:
        """Carry what the server sends until it ends, or until an accident ends it."""
        while data := await reader.read(HELD):
            cut = self.dice.choice(CUTS) if self.dice.random() < self.rate else None
            if cut is None:
                to_client.write(data)
                await to_client.drain()
                continue
            self.had[cut] += 1
            if cut == "closed towards the server":  # which may still say something
                to_client.write(data)
                to_server.write_eof()
            elif cut == "silent":  # both sides believe that it is open
                await asyncio.sleep(3600)  # until the proxy ends this connection
            elif cut == "closed towards the client":
                to_client.write_eof()
                await asyncio.sleep(3600)  # until the proxy ends this connection
            else:
                to_client.write(data[: len(data) // 2] if cut == "half a frame" else b"")
                return


@dataclass
class Client:
    """Follows a run from a cursor to its end, and writes down what it was told."""

    port: int
    run: str
    token: str
    after: int
    lives: int | None
    """Events after which it leaves by itself; None stays."""
    seen: list[int] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    attempts: int = 0
    patience: float = SILENCE
    ended: bool = False

    @property
    def cursor(self) -> int:
        return self.seen[-1] if self.seen else self.after

    async def follow(self) -> None:
        while not self.ended:
            self.attempts += 1
            before, silent = self.cursor, False
            # TimeoutError is an OSError; httpx has its own, which mean no silence
            with suppress(OSError, WebSocketException, httpx.HTTPError, SSEError):
                try:
                    await self.attempt()
                except TimeoutError:
                    silent = True
            if self.cursor > before:
                self.patience = SILENCE
            elif (
                silent
            ):  # where nobody answers it is cut at once, again and again: that teaches nothing
                self.patience *= 2
            # as a browser waits before it comes back
            await asyncio.sleep(0 if self.lives == 1 else BACKOFF)

    async def attempt(self) -> None:
        raise NotImplementedError

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Callable[[], None]]:
        """Raises TimeoutError when nothing was heard for too long; call what it gives whenever
        something was.
        """
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self.patience) as limit:
            yield lambda: limit.reschedule(loop.time() + self.patience)

    def take(self, event: dict[str, Any]) -> bool:
        """Note an event; tells whether the client leaves now."""
        self.seen.append(event["seq"])
        self.kinds.append(event["event"])
        return self.lives is not None and len(self.seen) % self.lives == 0


class Socket(Client):
    """The library `websockets`."""

    async def attempt(self) -> None:
        url = f"ws://127.0.0.1:{self.port}/ws/runs/{self.run}/stream?after={self.cursor}"
        headers = {"Authorization": f"Bearer {self.token}"}
        async with (
            self.listening() as heard,
            connect(
                url, additional_headers=headers, max_queue=None, compression=None, close_timeout=0.2
            ) as opened,
        ):
            try:
                async for text in opened:
                    heard()
                    if "seq" in (message := json.loads(text)) and self.take(message):
                        return
            finally:
                self.ended = opened.close_code == 1000


@dataclass
class Stream(Client):
    """The library `httpx-sse`, with the standard's own way to come back."""

    # TLS would take long to set up
    http: httpx.AsyncClient = field(
        default_factory=partial(httpx.AsyncClient, timeout=None, verify=False)
    )

    async def attempt(self) -> None:
        url = f"http://127.0.0.1:{self.port}/api/v1/runs/{self.run}/stream"
        headers = {
            "Authorization": f"Bearer {self.token}",
            **({"Last-Event-ID": str(self.cursor)} if self.cursor else {}),
        }
        async with (
            self.listening() as heard,
            aconnect_sse(self.http, "GET", url, headers=headers) as source,
        ):
            self.ended = source.response.status_code == 204
            if self.ended:
                return
            async for frame in source.aiter_sse():
                heard()
                if frame.data and self.take(json.loads(frame.data)):
                    return


def clients(count: int, *, port: int, run: str, token: str, late: int) -> list[Client]:
    """Half sockets, half streams.

    Two begin at number `late` and leave after every single event, the others more rarely or never.
    """
    lives = [None, 1000, 300, 100]
    made: list[Client] = []
    for index in range(count):
        kind, often = (
            (Socket, Stream)[index % 2],
            1 if index < 2 else lives[index // 2 % len(lives)],
        )
        made.append(kind(port, run, token, late if often == 1 else 0, often))
    return made


async def follow_all(
    following: Collection[Client], *, while_: Coroutine[Any, Any, None], seconds: float
) -> None:
    """Let all follow while the accidents happen.

    Who does not come to the end in time shows in `faults`.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            group.create_task(while_)
            for client in following:
                group.create_task(client.follow())


async def storm(
    web: Stack,
    server: subprocess.Popen[bytes],
    redis: Redis,
    following: Collection[Client],
    *,
    events: int,
    end: Callable[[], None],
) -> None:
    """While they follow: Redis is killed and comes back, the server is killed and comes back as
    another one; then the run is ended.
    """
    await _reached(following, events // 4)
    await asyncio.to_thread(redis.kill)
    await _reached(following, events // 3)
    await asyncio.to_thread(redis.start)
    await _reached(following, events // 2)
    await asyncio.to_thread(web.kill, server)
    await asyncio.to_thread(web.web, "uvicorn")
    await _reached(following, events)
    await asyncio.to_thread(end)


async def _reached(following: Collection[Client], seq: int) -> None:
    """Wait until somebody has seen so far."""
    await becomes(
        lambda: max((client.seen[-1] for client in following if client.seen), default=0) >= seq,
        seconds=3600,
    )


def faults(following: Collection[Client], *, last: int) -> list[str]:
    """What is wrong with what they saw: nothing, if each saw every number once and in order, and
    the run's end with its checkpoint.
    """
    found = []
    for client in following:
        name = f"{type(client).__name__} that leaves after {client.lives}"
        expected = list(range(client.after + 1, last + 1))
        if client.seen != expected:
            at = next(
                (
                    index
                    for index, pair in enumerate(zip(client.seen, expected, strict=False))
                    if pair[0] != pair[1]
                ),
                len(expected),
            )
            found.append(
                f"{name}: {len(client.seen)} of {len(expected)} in {client.attempts} "
                f"attempts; at {at} {client.seen[at : at + 3]}"
            )
        if not {"run_cancelled", "checkpoint_created"} <= set(client.kinds[-3:]):
            found.append(f"{name}: the end was {client.kinds[-3:]}")
    return found
