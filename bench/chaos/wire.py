"""The ways between the product's processes and its servers: proxies that pass everything on, until
they are told otherwise.

A `Link` is one process's way to one server. Silent, it stops reading on both sides and keeps the
sockets open, as a cable does that was pulled: neither side learns anything from its kernel, so
nothing but the product's own settings ends the wait. Cut, it resets both sides. Repointed, it leads
to another server. A `Trap` springs at a statement: the link reads PostgreSQL's protocol as clients
speak it.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import struct
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

Target = Path | int | tuple[str, int]
"""A socket's path, a port of the loopback, or one of another address."""
T = TypeVar("T")
AGAIN = 0.3
"""Seconds until TCP sends again what was lost, about: a proxy cannot lose a packet, but can wait as
the receiver of a lost one does.
"""
_STARTUP = 196608
"""Version 3.0 of the protocol; other first messages ask for encryption, or cancel."""
_READY = b"Z\x00\x00\x00\x05"


class When(Enum):
    """Where in a statement's life a trap springs."""

    BEFORE = "before it reached the server"
    AFTER = "while the server was at it"
    ANSWERED = "when it was done and its answer on the way"


@dataclass
class Trap:
    """Springs once, at the first statement for which `catches(statement, statements of its
    transaction before it)` holds.
    """

    catches: Callable[[str, list[str]], bool]
    when: When
    spring: Callable[[Link, Flow], None]
    """Called in the wire's thread."""
    sprung: threading.Event = field(default_factory=threading.Event)
    heard: bytes = b""
    """All that was said in the transaction of the statement, to find in it whom it is about."""


@dataclass(frozen=True)
class Weather:
    """What a way does to each packet: seconds that it takes more, and the share that is lost."""

    delay: float
    loss: float

    def seconds(self) -> float:
        """How long this one takes; they differ by half."""
        return self.delay * random.uniform(0.5, 1.5)  # guards nothing

    def loses(self) -> bool:
        return random.random() < self.loss  # guards nothing


class Wire:
    """The thread in which all links work."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.links: list[Link] = []
        self._thread = threading.Thread(target=self.loop.run_forever, name="wire", daemon=True)
        self._thread.start()

    def link(
        self, name: str, target: Target, *, postgresql: bool = False, address: str = "127.0.0.1"
    ) -> Link:
        """A new way, which listens from now on."""
        link = Link(self, name, target, postgresql=postgresql, address=address)
        self.do(link.listen())
        self.links.append(link)
        return link

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it in the wire's thread, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    def stop(self) -> None:
        """All sockets are closed after this."""
        self.do(self._end())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()

    async def _end(self) -> None:
        for link in self.links:
            link.close_here()
        connecting = asyncio.all_tasks() - {asyncio.current_task()}
        for task in connecting:
            task.cancel()
        await asyncio.gather(*connecting, return_exceptions=True)
        await asyncio.sleep(0)  # what was aborted closes its socket in the loop's next round


class Link:
    def __init__(
        self, wire: Wire, name: str, target: Target, *, postgresql: bool, address: str
    ) -> None:
        self.wire, self.name, self.target, self.postgresql, self.address = (
            wire,
            name,
            target,
            postgresql,
            address,
        )
        self.port = 0
        self.silent = False
        self.weather: Weather | None = None
        self.beside: Link | None = None
        """The same process's way to the other one of two databases, of which one is the primary."""
        self.flows: set[Flow] = set()
        self.trap: Trap | None = None
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """PostgreSQL's, over this way."""
        places = [f"{link.address}:{link.port}" for link in (self, self.beside) if link is not None]
        return f"postgresql://waystation@{','.join(places)}/postgres?sslmode=disable&gssencmode=disable"

    async def listen(self) -> None:
        self._server = await self.wire.loop.create_server(lambda: Flow(self), self.address, 0)
        self.port = int(self._server.sockets[0].getsockname()[1])

    def silence(self) -> None:
        """Pass nothing on, in neither direction.

        What connects from now on is not answered either. Call it anywhere.
        """
        self._soon(self.silence_here)

    def silence_here(self) -> None:
        """The same in the wire's thread, at once."""
        self.silent = True
        for flow in self.flows:
            flow.hush()
        if self.beside is not None:
            self.beside.silence_here()

    def heal(self) -> None:
        """What was held back goes on its way."""
        self._soon(self._heal)

    def _heal(self) -> None:
        self.silent = False
        for flow in list(self.flows):
            flow.go_on()
        if self.beside is not None:
            self.beside._heal()

    def cut(self) -> None:
        """Reset all connections; new ones are passed on."""
        self._soon(self._cut)

    def _cut(self) -> None:
        for flow in list(self.flows):
            flow.cut()

    def repoint(self, target: Target) -> None:
        """Lead to another server from now on; connections to the one before are reset."""
        self.target = target
        self.cut()

    def lay(self, trap: Trap | None) -> None:
        """The next statement that it catches springs it."""
        self.trap = trap

    def close_here(self) -> None:
        """Listen no more, and reset all connections. In the wire's thread."""
        if self._server is not None:
            self._server.close()
        self._cut()

    def _soon(self, work: Callable[[], None]) -> None:
        async def doing() -> None:
            work()

        self.wire.do(doing())


class Flow(asyncio.Protocol):
    """One connection through a link; this is its side to the client."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.client: asyncio.Transport | None = None
        self.server: asyncio.Transport | None = None
        self.said: list[str] = []
        """Statements of the open transaction so far; none outside of one."""
        self._open, self._heard = False, bytearray()
        self._statement, self._prepared = "", dict[str, str]()
        self._buffer, self._started = bytearray(), False
        self._arrived: dict[asyncio.Transport, float] = {}
        """When the last of what is on its way to each side arrives."""
        self._connecting: asyncio.Task[None] | None = None
        self.mute = False
        """What the server answers is dropped; with its last word the connection is cut."""
        self._after: Trap | None = None
        self._answered: Trap | None = None
        self._kept = b""
        """A message that a trap kept from the server."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.client = transport
        self.link.flows.add(self)
        # a turn later: Python before 3.11.4 begins to read after this, also where it is to pause
        self.link.wire.loop.call_soon(transport.pause_reading)
        if not self.link.silent:
            self._connect()

    def _connect(self) -> None:
        self._connecting = self.link.wire.loop.create_task(self._reach())

    async def _reach(self) -> None:
        loop, target = self.link.wire.loop, self.link.target
        try:
            if isinstance(target, Path):
                transport, _ = await loop.create_unix_connection(lambda: Back(self), str(target))
            else:
                address, port = target if isinstance(target, tuple) else ("127.0.0.1", target)
                transport, _ = await loop.create_connection(lambda: Back(self), address, port)
        except OSError:
            self.cut()
            return
        self.server = transport
        if self.client is None or self.client.is_closing():
            return self.cut()  # it has gone meanwhile: nobody would ever close this one
        if self.link.silent:
            transport.pause_reading()
        else:
            self.client.resume_reading()
        return None

    def hush(self) -> None:
        for side in (self.client, self.server):
            if side is not None and not side.is_closing():
                side.pause_reading()

    def go_on(self) -> None:
        if self.server is None and (self._connecting is None or self._connecting.done()):
            return self._connect()
        for side in (self.client, self.server):
            if side is not None and not side.is_closing():
                side.resume_reading()
        if self.server is not None and (self._kept or self._buffer):
            self.server.write(self._kept)
            self._kept = b""
            self.data_received(b"")
        return None

    def cut(self) -> None:
        for side in (self.client, self.server):
            if side is not None:
                side.abort()
        self.link.flows.discard(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.link.flows.discard(self)
        if self.server is not None and not self.link.silent:
            self.server.close()

    def pause_writing(self) -> None:
        if self.server is not None:
            self.server.pause_reading()

    def resume_writing(self) -> None:
        if self.server is not None and not self.link.silent:
            self.server.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self.server is None or self.server.is_closing():
            return  # cut, with something still on its way
        if not self.link.postgresql:
            self._send(self.server, data)
            return
        self._buffer += data
        with contextlib.suppress(_Sprung):
            while not self.link.silent and (message := self._next()):
                self._kept = message
                self._hear(message)
                self._kept = b""
                self._send(self.server, message)
                self._strike(message)

    def _send(self, side: asyncio.Transport, data: bytes) -> None:
        weather, loop = self.link.weather, self.link.wire.loop
        if weather is None and side not in self._arrived:
            return side.write(data)
        delay = weather.seconds() + AGAIN * weather.loses() if weather else 0.0
        # the loop keeps no order among what is due at the same time
        last = self._arrived.get(side, 0.0) + 1e-6
        self._arrived[side] = at = max(loop.time() + delay, last)
        loop.call_at(at, side.write, data)
        return None

    def _next(self) -> bytes:
        """The next whole message; none where it has not come yet.

        Only the first ones have no letter before their length.
        """
        start = 1 if self._started else 0
        if len(self._buffer) < start + 4:
            return b""
        (length,) = struct.unpack_from("!i", self._buffer, start)
        if len(self._buffer) < start + length:
            return b""
        message = bytes(self._buffer[: start + length])
        del self._buffer[: start + length]
        if not self._started and struct.unpack_from("!i", message, 4)[0] == _STARTUP:
            self._started = True
        return message

    def _hear(self, message: bytes) -> None:
        """Keep in mind which statement it is about; where it is run, a trap may spring before, or
        is set to spring after.
        """
        if not self._started:
            return
        body = message[5:]
        if message[:1] in b"BQ":
            self._heard += body
        match message[:1]:
            case b"P":
                name, query = body.split(b"\0", 2)[:2]
                self._prepared[name.decode()] = self._statement = query.decode(errors="replace")
            case b"B":
                self._statement = self._prepared.get(body.split(b"\0", 2)[1].decode(), "")
            case b"E":
                self._run(self._statement)
            case b"Q":
                self._run(body.rstrip(b"\0").decode(errors="replace"))

    def _run(self, statement: str) -> None:
        word = statement[:8].upper()
        trap = self.link.trap
        if trap is not None and trap.catches(statement, self.said):
            self.link.trap, trap.heard = None, bytes(self._heard)
            if trap.when is When.BEFORE:
                trap.spring(self.link, self)
                trap.sprung.set()
                raise _Sprung  # what is left waits with it, until the link is heard again
            self._after = trap
        if word.startswith(("BEGIN", "COMMIT")) or statement.upper().strip() == "ROLLBACK":
            self._open = word.startswith("BEGIN")
            self.said.clear()
        elif self._open:
            self.said.append(statement)
        if not self._open:
            self._heard.clear()

    def _strike(self, message: bytes) -> None:
        trap = self._after
        if trap is None or message[:1] not in b"SQ":
            return
        self._after = None
        if trap.when is When.ANSWERED:
            self.mute = True
            self._answered = trap
            return
        trap.spring(self.link, self)
        trap.sprung.set()
        raise _Sprung

    def heard(self, data: bytes) -> None:
        if not self.mute:
            if self.client is not None:
                self._send(self.client, data)
        elif self._answered is not None and data[-6:-1] == _READY:
            self._answered.spring(self.link, self)
            self._answered.sprung.set()


class Back(asyncio.Protocol):
    """The side of a flow to the server."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow

    def data_received(self, data: bytes) -> None:
        self.flow.heard(data)

    def connection_lost(self, error: Exception | None) -> None:
        if self.flow.client is not None and not self.flow.link.silent:
            self.flow.client.close()

    def pause_writing(self) -> None:
        if self.flow.client is not None:
            self.flow.client.pause_reading()

    def resume_writing(self) -> None:
        if self.flow.client is not None and not self.flow.link.silent:
            self.flow.client.resume_reading()


class _Sprung(Exception):
    """A trap has sprung: the client is heard no further for now."""
