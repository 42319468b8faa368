"""Sockets of clients: opened, read with patience, and closed."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
from channels.testing import WebsocketCommunicator
from django.db import connection, transaction

from checkpoints.events import log
from checkpoints.models import EventKind
from hitl.models import ApiToken
from project.asgi import application

PATIENCE = 10


def bearer(user, **kwargs):
    return [(b"authorization", f"Bearer {ApiToken.make(user, name='test', **kwargs)[1]}".encode())]


@asynccontextmanager
async def socket(path, headers=()):
    """An open socket; whatever happens the test ends."""
    async with asyncio.timeout(3 * PATIENCE):
        communicator = WebsocketCommunicator(application, path, headers=list(headers))
        accepted, _ = await communicator.connect(timeout=PATIENCE)
        assert accepted
        yield communicator
        await communicator.disconnect(timeout=PATIENCE)


async def closed_with(path, headers=()):
    """The close code of a socket that is not served."""
    async with asyncio.timeout(3 * PATIENCE):
        communicator = WebsocketCommunicator(application, path, headers=list(headers))
        await communicator.connect(timeout=PATIENCE)
        message = await communicator.receive_output(timeout=PATIENCE)
    assert message["type"] == "websocket.close"
    return message["code"]


async def receive(communicator, count):
    return [await communicator.receive_json_from(timeout=PATIENCE) for _ in range(count)]


async def elsewhere(function):
    """Run a function that uses the database in a thread of its own, as another process would."""

    def run():
        try:
            return function()
        finally:
            connection.close()

    return await asyncio.to_thread(run)


def write(order, *messages):
    with transaction.atomic():
        log.append(
            order.thread_id, None, [(EventKind.LOG, {"message": message}) for message in messages]
        )


@pytest.fixture
def url(paused):
    return f"/ws/threads/{paused.thread.shown_id}/stream"


@pytest.fixture
def as_ana(ana):
    return bearer(ana)
