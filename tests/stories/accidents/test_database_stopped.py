"""The database is stopped under whoever watches: sockets, streams and pages say so in words, and go
on by themselves.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse
from typing import Any

import psycopg
import pytest
from playwright.sync_api import Browser, expect
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.databases.copies import PASSWORD, TOKENS
from tests.servers.stack import Stack
from tests.stories.conftest import make_stack, shot

pytestmark = pytest.mark.stack

AS_ANA = {"Authorization": f"Bearer {TOKENS['ana']}"}
WITHIN = 30
"""Seconds: a look every 5 s, and as much as a loaded machine needs besides."""


class Database:
    """The stack's own, on the tests' server: stopped it ends all sessions and takes no new ones."""

    def __init__(self, stack: Stack) -> None:
        self.name = stack.environment["DATABASE_URL"].split("?")[0].split("/")[-1]

    def stop(self) -> None:
        self._allow("false")
        self._run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", self.name
        )

    def start(self) -> None:
        self._allow("true")

    def _allow(self, word: str) -> None:
        self._run(f'ALTER DATABASE "{self.name}" ALLOW_CONNECTIONS {word}')

    def _run(self, statement: str, *values: str) -> None:
        with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
            connection.execute(statement, values or None)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    stack = make_stack(tmp_path_factory.mktemp("stopped"), "accidents")
    try:
        stack.web()
        yield stack
    finally:
        Database(stack).start()
        stack.stop()


def next_event(response: HTTPResponse, name: str) -> dict[str, str]:
    """The fields of the next frame of this name; comments, and frames of other names, are passed
    over.
    """
    fields: dict[str, str] = {}
    for line in response:
        text = line.decode().strip()
        if text and not text.startswith(":"):
            field, _, value = text.partition(": ")
            fields[field] = value
        elif not text and fields.get("event") == name:
            return fields
        elif not text:
            fields = {}
    raise AssertionError(f"the stream ended before {name}")


def hear(socket: ClientConnection) -> dict[str, Any]:
    """The next message that is no ping."""
    while (message := json.loads(socket.recv(WITHIN)))["type"] == "ping":
        pass
    heard: dict[str, Any] = message
    return heard


def test_sockets_streams_and_pages_say_that_the_database_is_away_and_that_it_is_back(
    own: Stack, chromium: Browser
) -> None:
    """P9, P12: they said nothing; a socket closed with 1011, and a page showed "Live" over a
    database that was away.
    """
    status, thread = own.call("POST", "/api/v1/threads", {"title": "Watched"}, token=TOKENS["ana"])
    assert status == 201, thread
    database, at = Database(own), f"{own.url.removeprefix('http://')}"
    stream, place = (
        f"/api/v1/threads/{thread['id']}/stream",
        f"ws://{at}/ws/threads/{thread['id']}/stream",
    )
    page = chromium.new_page(base_url=own.url)
    page.goto("/login?next=/")
    page.get_by_label("Username").fill("ana")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    line = page.locator("[data-state-of-connection]")
    expect(line).to_have_text("Live")
    with (
        closing(HTTPConnection(at, timeout=WITHIN)) as asking,
        connect(place, additional_headers=AS_ANA) as socket,
    ):
        asking.request("GET", stream, headers=AS_ANA)
        reading = asking.getresponse()
        database.stop()
        told = next_event(reading, "error")
        assert (told["retry"], json.loads(told["data"])["code"], "id" in told) == (
            "5000",
            "database_unavailable",
            False,
        )
        heard = hear(socket)
        assert (
            heard["type"],
            heard["problem"]["status"],
            heard["problem"]["code"],
            heard["retry"],
        ) == (
            "error",
            503,
            "database_unavailable",
            5,
        )
        socket.send('{"type": "input", "id": "1", "content": "Hello"}')
        assert hear(socket)["problem"]["code"] == "database_unavailable"

        database.start()
        assert next_event(reading, "recovered")["retry"] == "2000"
        assert hear(socket) == {"type": "recovered"}

    database.stop()
    expect(line).to_have_text("Waiting for the database; nothing is lost", timeout=WITHIN * 1000)
    shot(page, "database-stopped")

    refused, sent, problem = own.exchange("GET", stream, token=TOKENS["ana"])
    assert (
        refused,
        sent["Retry-After"],
        json.loads(problem)["code"] if isinstance(problem, str) else problem["code"],
    ) == (
        503,
        "5",
        "database_unavailable",
    )
    with (
        connect(place, additional_headers=AS_ANA) as other,
        pytest.raises(ConnectionClosed) as closed,
    ):
        other.recv(WITHIN)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4503  # Daphne sends no reasons
    database.start()
    expect(line).to_have_text("Live", timeout=WITHIN * 1000)
    page.close()
