"""A client that does not read is waited for, and then cut; on a server that never waits, and on one that does."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from hitl import backpressure
from hitl.backpressure import Patient, Stalled, patient

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
async def test_sending_waits_while_the_clients_buffer_is_full(protocol, kind, message):
    send = await opened(protocol, kind)
    await send(message)
    protocol.valve.pauseProducing()
    waiting = asyncio.create_task(send(message))
    await asyncio.sleep(0.01)
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


async def test_a_server_that_waits_by_itself_is_given_as_long(monkeypatch):
    """uvicorn."""

    async def full(message):
        if message["type"].endswith("send"):
            await asyncio.sleep(3600)

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
