"""Sockets and streams: who is let in, in every state, and that what a client sends changes nothing
that is not listed (F4, F1).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any
from zlib import crc32

import pytest
from channels.testing import WebsocketCommunicator

from hitl.host import asgi
from hitl.live import consumers
from tests.databases.whole import file_database as file_database
from tests.hitl.live.sockets import elsewhere
from tests.hitl.live.streams import stream
from tests.matrix import world as worlds
from tests.matrix.addresses import METHODS
from tests.matrix.doors import PROTOCOLS, SERVED, SOCKETS, STREAMS, UNKNOWN_METHODS
from tests.matrix.walk import ARGUMENT, STRANGE, fill
from tests.matrix.world import ROLES, STATES, Role, World, digest

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("file_database")]

READING = {
    "ThreadConsumer", "RunConsumer", "ChatRunConsumer", "WorkflowConsumer", "InboxConsumer",
}  # fmt: skip
"""Consumers that read what a client sends, by `LiveConsumer.receive`; who may answer by it is tried
in tests/hitl/live/test_socket_answers.py.
What is sent here is nothing that they take, so it changes nothing."""
SENT = [
    "nonsense",
    "{",
    "[]",
    *(
        json.dumps({"type": kind, "decision": "approve", "content": "APPROVE"})
        for kind in ("claim", "approve", "undo")
    ),
]


def test_every_socket_and_stream_is_in_the_table() -> None:
    """F4."""
    sockets = {str(entry.pattern) for entry in SERVED}
    assert sockets == set(SOCKETS), (
        f"Say who may open {sorted(sockets ^ set(SOCKETS))}: a line each in SOCKETS in "
        "tests/matrix/doors.py."
    )
    streams = {str(entry.pattern) for entry in asgi.http} - {"", *PROTOCOLS}
    assert streams == STREAMS, (
        f"Say who may read {sorted(streams ^ STREAMS)}: a line each in STREAMS in "
        "tests/matrix/doors.py."
    )


def test_no_socket_reads_what_a_client_sends_unless_it_is_listed() -> None:
    """F4: a message that acts is a door; it needs its line in READING and a test that a stranger's
    does nothing.
    """
    kinds = {entry.callback.consumer_class for entry in SERVED}
    reading = {kind.__name__ for kind in kinds if kind.receive != consumers.NoSuchSocket.receive}
    assert reading == READING, (
        f"{sorted(reading ^ READING)}: see READING in tests/matrix/test_sockets.py."
    )


async def test_who_may_listen_and_that_listening_changes_nothing(
    transactional_db: None, settings: Any, tmp_path: Any
) -> None:
    """F4, C20, F1: every socket and stream × role × state.

    A transaction of its own for each thread, so the world is committed.
    """
    settings.WAYSTATION_DATA, settings.WAYSTATION_REPOSITORIES = tmp_path / "data", [tmp_path]

    def make() -> tuple[World, dict[str, str]]:
        worlds.load_templates()
        made = worlds.build()
        return made, digest()

    world, before = await elsewhere(make)
    wrong: list[str] = []
    async with asyncio.timeout(240):
        for role in (role for role in ROLES if role.name in STRANGE):  # before anybody is looked up
            for path in STREAMS:
                for method in {*METHODS, *UNKNOWN_METHODS} - {"GET"}:
                    async with stream(
                        fill(world, path, "paused")[0], world.headers(role), method
                    ) as opened:
                        if opened.status != 405:
                            wrong.append(
                                f"{role} {method} {path}: 405 was expected, not {opened.status}"
                            )
        for role in ROLES:
            for path in [*SOCKETS, *STREAMS]:
                for state in states_of(path, role):
                    url, present = fill(world, path, state)
                    wanted = expected(path, role, present=present)
                    got = await (
                        reading(world, role, url)
                        if path in STREAMS
                        else listening(world, role, url, wanted=wanted)
                    )
                    if got != wanted:
                        wrong.append(f"{role} {url} ({state}): {wanted} was expected, not {got}")
    assert not wrong, "\n".join(wrong[:40])
    assert await elsewhere(digest) == before


def states_of(path: str, role: Role) -> Iterable[str]:
    """All for a stranger and the owner; the rest see as much as one of these, or are not known, and
    try another for each address in turn.
    """
    if not ARGUMENT.search(path):
        return ["paused"]
    if role.name in {"stranger", "owner"}:
        return STATES
    return {"paused", list(STATES)[crc32(f"{path}{role}".encode()) % len(STATES)]}


def expected(path: str, role: Role, *, present: bool) -> int:
    """A close code or status; 0 for a socket that stays open."""
    stream = path in STREAMS
    if SOCKETS.get(path, True) is None:
        return 4404
    if not role.known:
        return 401 if stream else 4401
    if ARGUMENT.search(path) and not (role.sees and present):
        return 404 if stream else 4404
    return 200 if stream else 0


async def listening(world: World, role: Role, url: str, *, wanted: int) -> int:
    communicator = WebsocketCommunicator(asgi.application, url, headers=world.headers(role))
    accepted, code = await communicator.connect(timeout=10)
    if not accepted:
        return int(code or 1006)
    # a thread that has not run has nothing to tell
    if wanted or not await communicator.receive_nothing(timeout=0.2):
        message = await communicator.receive_output(timeout=10)
        if message["type"] == "websocket.close":
            return int(message["code"])
    for text in SENT:
        await communicator.send_to(text_data=text)
    await communicator.disconnect(timeout=10)
    return 0


async def reading(world: World, role: Role, url: str) -> int:
    async with stream(url, world.headers(role)) as opened:
        return int(opened.status)
