"""A client that does not read is waited for, and then cut; on a server that never waits, and on one
that does.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
import uvicorn
from autobahn.exception import Disconnected
from uvicorn.protocols.utils import ClientDisconnected

from hitl.live import backpressure
from hitl.live.backpressure import Gone, Patient, Stalled, patient
from tests.doors.waiting import becomes

BODY = {"type": "http.response.body", "body": b"x", "more_body": True}
TEXT = {"type": "websocket.send", "text": "x"}


class Transport:
    """As Twisted's: tells its producer when the buffer is full."""

    def __init__(self):
        self.producer: Any = "the HTTP channel"
        self.aborted = False

    def registerProducer(self, producer, streaming):
        assert streaming
        assert self.producer is None, "Twisted allows one"
        self.producer = producer

    def unregisterProducer(self):
        self.producer = None

    def abortConnection(self):
        self.aborted = True


class Protocol:
    def __init__(self):
        self.transport, self.sent, self.producer = Transport(), [], None

    def registerProducer(self, producer, streaming):
        self.producer = producer

    @property
    def valve(self):
        return self.producer or self.transport.producer


async def handle_reply(protocol, message):
    protocol.sent.append(message)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(backpressure, "PATIENCE", 0.05)


@pytest.fixture
def protocol():
    return Protocol()


async def opened(protocol, kind):
    send = Patient({"type": kind}, partial(handle_reply, protocol))
    await send({"type": "http.response.start"} if kind == "http" else {"type": "websocket.accept"})
    return send


@pytest.mark.parametrize(("kind", "message"), [("http", BODY), ("websocket", TEXT)])
async def test_sending_waits_while_the_clients_buffer_is_full(protocol, kind, message, monkeypatch):
    monkeypatch.setattr(backpressure, "PATIENCE", 60)  # on a busy machine a moment is long
    send = await opened(protocol, kind)
    await send(message)
    protocol.valve.pauseProducing()
    waiting = asyncio.create_task(send(message))
    await asyncio.sleep(0.01)  # what must not happen has the time to
    assert len(protocol.sent) == 2
    protocol.valve.resumeProducing()
    await waiting
    assert len(protocol.sent) == 3
    assert not protocol.transport.aborted


async def test_a_stream_that_nobody_reads_is_cut(protocol):
    send = await opened(protocol, "http")
    protocol.valve.pauseProducing()
    with pytest.raises(Stalled):
        await send(BODY)
    assert protocol.transport.aborted
    await send(BODY)
    assert len(protocol.sent) == 1, "what comes later goes nowhere"


async def test_a_socket_that_nobody_reads_is_closed_with_its_reason(protocol):
    """4408: come back with your cursor."""
    send = await opened(protocol, "websocket")
    protocol.valve.pauseProducing()
    with pytest.raises(Stalled):
        await send(TEXT)
    assert protocol.sent[-1] == {"type": "websocket.close", "code": 4408}


async def test_a_connection_that_is_gone_holds_nobody_up(protocol):
    send = await opened(protocol, "websocket")
    protocol.valve.pauseProducing()
    protocol.valve.stopProducing()
    await send(TEXT)


async def test_a_client_that_left_before_the_answer_is_no_error(protocol):
    """Twisted's request has no channel then, and fails at whoever registers."""
    protocol.channel = protocol.registerProducer = None
    await opened(protocol, "http")
    assert len(protocol.sent) == 1


async def test_a_server_that_waits_by_itself_is_given_as_long(monkeypatch):
    """uvicorn."""

    async def full(message):
        if message["type"].endswith("send"):
            await asyncio.sleep(3600)  # a client that takes nothing

    send = Patient({"type": "websocket"}, full)
    await send({"type": "websocket.accept"})
    with pytest.raises(Stalled):
        await send(TEXT)


async def test_the_server_does_not_hear_of_a_client_that_was_cut(protocol):
    async def application(scope, receive, send):
        await send({"type": "http.response.start"})
        protocol.valve.pauseProducing()
        await send(BODY)

    await patient(application)({"type": "http"}, None, partial(handle_reply, protocol))
    assert protocol.transport.aborted


@pytest.mark.parametrize("how", [ClientDisconnected, Disconnected, ConnectionResetError])
async def test_a_client_that_left_is_no_error_of_ours(how):
    """Whatever the server calls it; nothing is sent after it."""
    sent = []

    async def leaving(message):
        sent.append(message)
        if len(sent) == 2:
            raise how

    send = Patient({"type": "websocket"}, leaving)
    await send({"type": "websocket.accept"})
    with pytest.raises(Gone):
        await send(TEXT)
    await send(TEXT)
    assert len(sent) == 2


async def test_a_long_page_lets_others_have_their_turn(protocol):
    """Neither server yields by itself while its buffer has room."""
    send = await opened(protocol, "websocket")
    turns = []

    async def other():
        while True:
            turns.append(len(protocol.sent))
            await asyncio.sleep(0)  # others get their turn

    task = asyncio.create_task(other())
    for _ in range(500):
        await send(TEXT)
    task.cancel()
    assert len(turns) >= 500 // backpressure.IN_A_ROW


def endless(counts):
    """Sends without end, as fast as it may, and counts."""

    async def application(scope, receive, send):
        kind = scope["type"]
        await receive()
        await send(
            {"type": "http.response.start", "status": 200}
            if kind == "http"
            else {"type": "websocket.accept"}
        )
        while True:
            await send(
                {**BODY, "body": b"x" * 10_000}
                if kind == "http"
                else {**TEXT, "text": "x" * 10_000}
            )
            counts[kind] += 1

    return patient(application)


@pytest.mark.parametrize("kind", ["http", "websocket"])
async def test_on_uvicorn_a_client_that_stops_reading_is_sent_no_more_and_cut(kind):
    """S2-31, F24: a real uvicorn and a real connection.

    Its `send` waits, so a client holds what two sockets hold; then it is gone.
    """
    counts = {"http": 0, "websocket": 0}
    server = uvicorn.Server(
        uvicorn.Config(endless(counts), port=0, lifespan="off", log_config=None)
    )
    serving = asyncio.create_task(server.serve())
    async with asyncio.timeout(20):
        await becomes(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1000)
        upgrade = (
            (
                "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                "Sec-WebSocket-Key: "
            )
            + "x" * 22
            + "==\r\n"
        )
        writer.write(
            (
                f"GET / HTTP/1.1\r\nHost: localhost\r\n{upgrade if kind == 'websocket' else ''}\r\n"
            ).encode()
        )
        await becomes(lambda: counts[kind] and not server.server_state.connections)
        assert 0 < counts[kind] * 10_000 < 10_000_000, "the system's own buffers are the bound"
        writer.transport.abort()
        server.should_exit = True
        await serving
