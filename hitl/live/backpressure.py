"""Streams and sockets wait for their clients, and cut one that does not read.

uvicorn makes `send` wait while a client's buffer is full. Daphne never does (django/daphne#170), so
a client that stops reading would let this process grow without end; but Twisted tells who registers
with it when a transport's buffer, 64 KiB, is full and when it is not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

from autobahn.exception import Disconnected

PATIENCE = 20.0
"""Seconds that a client may take nothing before it is cut.

It comes back with its cursor and misses nothing.
"""
TOO_SLOW = 4408
IN_A_ROW = 32
"""Messages of one connection after which others have their turn: a page of the log may have
hundreds, and no server yields between them.
"""

Send = Callable[[dict[str, Any]], Awaitable[None]]


class Gone(ConnectionError):
    """The client has left. The server will say so as well, by a disconnect."""


class Stalled(Gone):
    """The client did not read; its connection was cut."""


class Valve:
    """A producer of Twisted's: open while the transport takes more."""

    __slots__ = ("_opens",)

    def __init__(self) -> None:
        self._opens: asyncio.Event | None = None
        """While it is shut: nearly all are open, always."""

    @property
    def is_open(self) -> bool:
        return self._opens is None

    async def room(self) -> None:
        while self._opens is not None:
            await self._opens.wait()

    def pauseProducing(self) -> None:  # Twisted's names
        self._opens = self._opens or asyncio.Event()

    def resumeProducing(self) -> None:
        if self._opens is not None:
            self._opens.set()
            self._opens = None

    def stopProducing(self) -> None:
        """The connection is gone; what is sent now goes nowhere, and the server says so by a
        disconnect.
        """
        self.resumeProducing()


class Patient:
    """`send` of one connection that waits for its client."""

    __slots__ = ("_cut", "_in_a_row", "_is_socket", "_send", "_valve")

    def __init__(self, scope: Any, send: Send) -> None:
        self._send = send
        self._is_socket = scope["type"] == "websocket"
        self._valve: Valve | None = None
        self._cut = False
        self._in_a_row = 0

    async def __call__(self, message: dict[str, Any]) -> None:
        """Raises Gone, or Stalled; what is sent after that goes nowhere."""
        if self._cut:
            return
        self._in_a_row += 1
        if self._in_a_row > IN_A_ROW:
            self._in_a_row = 0
            await asyncio.sleep(0)  # others get their turn
        try:
            await self._pass(message)
        except Stalled:
            raise
        except (OSError, Disconnected) as error:  # uvicorn's, as ASGI has it, and Daphne's
            self._cut = True
            raise Gone("the client has left") from error
        if message["type"] in {"http.response.start", "websocket.accept"}:
            self._register()
        elif message["type"] == "http.response.body" and not message.get("more_body"):
            self._valve = None

    async def _pass(self, message: dict[str, Any]) -> None:
        if self._valve is not None and self._valve.is_open and self._is_middle(message):
            # the usual way: Daphne takes it at once, and a clock would cost more than sending
            await self._send(message)
            return
        try:
            async with asyncio.timeout(PATIENCE):
                if self._valve is not None:
                    await self._valve.room()
                await self._send(message)
        except TimeoutError as error:
            await self._stop()
            raise Stalled("the client does not read") from error

    @staticmethod
    def _is_middle(message: dict[str, Any]) -> bool:
        return message["type"] == "websocket.send" or bool(message.get("more_body"))

    @property
    def _protocol(self) -> Any:
        """Daphne's protocol of this connection, which its `send` is bound to; None on other
        servers.
        """
        arguments = self._send.args if isinstance(self._send, partial) else ()
        return arguments[0] if arguments and hasattr(arguments[0], "transport") else None

    def _register(self) -> None:
        protocol = self._protocol
        if protocol is None or protocol.transport is None:
            return
        if getattr(protocol, "channel", protocol) is None:
            return  # the client left before the answer
        # the transport still has the HTTP channel that the handshake came through
        if self._is_socket:
            protocol.transport.unregisterProducer()
            protocol.transport.registerProducer(valve := Valve(), True)
        else:
            protocol.registerProducer(valve := Valve(), True)
        self._valve = valve

    async def _stop(self) -> None:
        """Cut.

        A socket is told why, where that can still be queued; its close frame waits behind what was
        not read.
        """
        self._cut = True
        if not self._is_socket:
            self._abort()
            return
        try:
            async with asyncio.timeout(1):
                await self._send({"type": "websocket.close", "code": TOO_SLOW})
        except TimeoutError:  # uvicorn queues nothing for it
            self._abort()

    def _abort(self) -> None:
        """End the connection; a server that closes it would wait until the client has read."""
        # Daphne's; uvicorn's, whose method `send` is
        protocol = self._protocol or getattr(self._send, "__self__", None)
        transport = getattr(protocol, "transport", None)
        abort = getattr(transport, "abortConnection", None) or getattr(transport, "abort", None)
        if abort is not None:
            abort()


def patient(application: Any) -> Any:
    """An ASGI application whose `send` waits for the client, and raises Gone where that has left or
    stalls.
    """

    async def serve(scope: Any, receive: Any, send: Send) -> None:
        with suppress(Gone):
            await application(scope, receive, Patient(scope, send))

    return serve
