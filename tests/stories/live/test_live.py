"""Live, with clients that nobody here wrote, through a server that is killed; and a client that
does not read.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from httpx_sse import SSEError, connect_sse
from playwright.sync_api import expect
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.servers.stack import ROOT, Stack, until
from tests.stories.browser.devices import PHONE, card

pytestmark = pytest.mark.stack
UPGRADE = [
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: " + "x" * 22 + "==",
]
HUBS_AND_PAGES = 5
"""Connections of a server process: of the hub's threads, and of the one in which Django answers."""
EVENT_SOURCE = """(url) => {
  window.seen = [];
  const source = new EventSource(url);
  const kinds = ["log", "run_started", "step_started", "step_completed", "checkpoint_created", "await_human_input", "approval_requested", "approval_received",
    "run_paused", "run_resumed", "run_completed", "run_cancelled"];
  for (const kind of kinds) source.addEventListener(kind, ({ lastEventId }) => window.seen.push(Number(lastEventId)));
  window.source = source;
}"""
WRITE = """
from django.db import transaction
from checkpoints import ids
from checkpoints.events import log
from checkpoints.models import EventKind
thread = ids.parse("thr", "{thread}")
for _ in range({times}):
    with transaction.atomic():
        log.append(thread, None, [(EventKind.LOG, {{"message": "x" * {size}}})] * {each})
"""


class Follower(threading.Thread):
    """A client that comes back with its cursor whenever it loses the server, and stops at the
    end.
    """

    def __init__(self, stack: Stack, run: str, token: str) -> None:
        super().__init__(daemon=True)
        self.stack, self.run_id, self.token = stack, run, token
        self.seen: list[int] = []
        self.ended = False
        self.start()

    @property
    def last(self) -> int:
        return self.seen[-1] if self.seen else 0

    def run(self) -> None:
        while not self.ended:
            with contextlib.suppress(
                OSError, httpx.HTTPError, SSEError, ConnectionClosed, TimeoutError
            ):
                self.follow()
            time.sleep(0.1)  # as a client waits before it comes back

    def follow(self) -> None:
        raise NotImplementedError


class Websockets(Follower):
    def follow(self) -> None:
        url = (
            f"{self.stack.url.replace('http', 'ws')}/runs/{self.run_id}/stream/ws?after={self.last}"
        )
        with connect(
            url, additional_headers={"Authorization": f"Bearer {self.token}"}, open_timeout=5
        ) as opened:
            try:
                for text in opened:
                    if "seq" in (message := json.loads(text)):
                        self.seen.append(message["seq"])
            finally:
                self.ended = opened.close_code == 1000


class HttpxSse(Follower):
    def follow(self) -> None:
        headers = {
            "Authorization": f"Bearer {self.token}",
            **({"Last-Event-ID": str(self.last)} if self.seen else {}),
        }
        url = f"{self.stack.url}/api/v1/runs/{self.run_id}/stream"
        with (
            httpx.Client(timeout=30) as client,
            connect_sse(client, "GET", url, headers=headers) as source,
        ):
            self.ended = source.response.status_code == 204
            for frame in () if self.ended else source.iter_sse():
                if frame.data:
                    assert json.loads(frame.data)["event"] == frame.event
                    self.seen.append(int(frame.id))


def test_everybody_sees_the_whole_story_though_the_server_is_killed_and_the_laptop_is_closed(
    stack, open_page, token
):
    """S2-9..12, S2-31, S0-8, S0-9, S0-56, S0-69, S0-70, S4-8, P9.

    An EventSource of Chromium, httpx-sse, websockets and curl, as the documents have it, follow one
    run. The server dies, somebody answers meanwhile by command, the server comes back; the laptop's
    browser is closed; a phone, which has never seen the question, answers it.
    """
    laptop = open_page("ana", "/", cut=True)
    made = {
        "template": "repo-tidy",
        "repository_url": str(stack.folder / "celery"),
        "input": {"rules": "I", "paths": "src/sample"},
        "team": "platform",
    }
    status, order = stack.call("POST", "/api/v1/work-orders", made, token=token("ana"))
    assert status == 201
    watching = open_page("ben", f"/work-orders/{order['id']}/", cut=True)
    laptop.goto(f"/work-orders/{order['id']}/")
    laptop.evaluate(EVENT_SOURCE, f"/api/v1/runs/{order['run_id']}/stream")
    programs = [
        Websockets(stack, order["run_id"], token("ana")),
        HttpxSse(stack, order["run_id"], token("ana")),
    ]
    stack.paused(order["id"], token("ana"), "awaiting_plan_approval")
    expect(card(laptop, "Waiting for Plan Approval")).to_be_visible(timeout=30_000)
    expect(laptop.locator(".live")).to_contain_text("Live")
    server = next(process for process in stack.processes if "daphne" in process.args)
    stack.kill(server)
    expect(laptop.locator(".live")).to_contain_text("Reconnecting", timeout=30_000)
    stack.manage("workorder", "--user", "ben", "approve", order["id"])
    stack.web()
    expect(card(laptop, "Waiting for Implementation Review")).to_be_visible(timeout=60_000)
    expect(watching.locator("[data-answered]")).to_contain_text("Ben approved at")
    expect(laptop.locator(".live")).to_contain_text("Live", timeout=30_000)
    last = stack.call("GET", f"/api/v1/threads/{order['thread_id']}", token=token("ana"))[1][
        "last_seq"
    ]
    laptop.wait_for_function("last => window.seen.at(-1) === last", arg=last, timeout=30_000)
    assert laptop.evaluate("window.seen") == list(range(1, last + 1))
    laptop.context.close()
    phone = open_page("ben", "/", **PHONE)
    assert phone.title().startswith("(")
    pending = stack.call("GET", "/api/v1/runs?status=pending_input", token=token("ben"))[1][
        "results"
    ]
    assert order["run_id"] in {run["id"] for run in pending}, "S0-57"
    phone.goto(f"/work-orders/{order['id']}/")
    phone.locator("[data-cancel]").click()
    phone.get_by_role("button", name="Yes, Cancel").click()
    expect(watching.locator("main")).to_contain_text("Cancelled by user at executing phase")
    end = stack.call("GET", f"/api/v1/threads/{order['thread_id']}", token=token("ana"))[1][
        "last_seq"
    ]
    for program in programs:
        program.join(30)
        assert program.seen == list(range(1, end + 1)), type(program)
    for page in ("docs/how-to/rest.md", "docs/how-to/live.md"):
        assert numbers_by_curl(page, stack, order, token("ana")) == list(range(1, end + 1)), page


def numbers_by_curl(page: str, stack: Stack, order: dict[str, Any], token: str) -> list[int]:
    """What the command that stands in a page of ours shows of an order, as a shell runs it."""
    [command] = re.findall(r"^curl -N .*$", (ROOT / page).read_text(), re.MULTILINE)
    command = (
        command.replace("http://127.0.0.1:8000", stack.url)
        .replace("wo_…", order["id"])
        .replace("run_…", order["run_id"])
    )
    environment = {"TOKEN": token, "PATH": os.environ["PATH"]}
    shown = subprocess.run(
        ["bash", "-c", command], env=environment, capture_output=True, timeout=30, check=True
    )
    return [int(found) for found in re.findall(r"^id: (\d+)$", shown.stdout.decode(), re.MULTILINE)]


def resident(process: subprocess.Popen[bytes]) -> int:
    return (
        int(re.findall(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())[0])
        // 1024
    )


def dull(stack: Stack, path: str, token: str, *upgrade: str) -> socket.socket:
    """A client that asks and then never reads."""
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    opened.connect(("127.0.0.1", stack.port))
    opened.sendall(
        "\r\n".join(
            [
                f"GET {path} HTTP/1.1",
                "Host: localhost",
                f"Authorization: Bearer {token}",
                *upgrade,
                "",
                "",
            ]
        ).encode()
    )
    return opened


def test_clients_that_do_not_read_cost_no_memory_and_idle_ones_few_connections(stack, token):
    """P7, F24: Daphne itself would take 20 MB for each of them.

    All who wait share the hub's four connections to the database.
    """
    thread = stack.call("POST", "/api/v1/threads", {}, token=token("ana"))[1]["id"]
    server = next(process for process in reversed(stack.processes) if "daphne" in process.args)
    socket_path, stream_path = f"/ws/threads/{thread}/stream", f"/api/v1/threads/{thread}/stream"
    before_all = database_connections(stack)
    with contextlib.ExitStack() as clients:
        for _ in range(20):
            clients.enter_context(dull(stack, stream_path, token("ana")))
            clients.enter_context(dull(stack, socket_path, token("ana"), *UPGRADE))
        until(
            lambda: database_connections(stack) <= before_all + 4,
            what="the hub's connections alone",
        )
        before = resident(server)
        stack.manage("shell", "-c", WRITE.format(thread=thread, times=10, each=100, size=20_000))
        events: list[Any] = []
        url = stack.url.replace("http", "ws") + socket_path
        with connect(
            url,
            additional_headers={"Authorization": f"Bearer {token('ana')}"},
            max_size=None,
            compression=None,
        ) as reader:
            while len(events) < 1000:
                events.append(json.loads(reader.recv(timeout=30)))
        grown = resident(server) - before
    assert [event["seq"] for event in events] == list(range(1, 1001)), "who reads is served as ever"
    assert grown < 100, f"{grown} MB for 40 clients that would be sent 800"


def test_the_connections_to_the_database_do_not_depend_on_how_many_watch(stack, beside, token):
    """P7: 40 watchers or 240, of six threads and the inbox: the hub's four threads ask for all, and
    one answers pages.

    A server of the test's own, whose connections have a name; nothing but the watchers speaks to
    it.
    """
    beside.environment |= {"PGAPPNAME": "watched", "WAYSTATION_PERSON_STREAMS": "1000"}
    beside.web()
    threads = [
        stack.call("POST", "/api/v1/threads", {}, token=token("ana"))[1]["id"] for _ in range(6)
    ]
    held = {}
    with contextlib.ExitStack() as clients:
        opened = 0
        for many in (40, 240):
            for number in range(opened, many):
                clients.enter_context(watcher(beside, number, threads, token("ana")))
            opened, held[many] = many, connections_named(stack, "watched")
    assert all(1 <= count <= HUBS_AND_PAGES for count in held.values()), held


def watcher(stack: Stack, number: int, threads: list[str], token: str) -> socket.socket:
    """A client that was let in and says no more: every third one a stream, a socket of a thread, an
    inbox.
    """
    thread = threads[number % len(threads)]
    path = [f"/api/v1/threads/{thread}/stream", f"/ws/threads/{thread}/stream", "/ws/inbox"][
        number % 3
    ]
    opened = dull(stack, path, token, *([] if path.startswith("/api") else UPGRADE))
    opened.settimeout(30)
    told = b""
    while (b"retry: 2000" if path.startswith("/api") else b"\r\n\r\n") not in told:
        piece = opened.recv(4096)
        assert piece, f"{path} was closed: {told!r}"
        told += piece
    assert told.startswith((b"HTTP/1.1 200", b"HTTP/1.1 101")), told
    return opened


def connections_named(stack: Stack, name: str) -> int:
    with psycopg.connect(stack.environment["DATABASE_URL"]) as asking:
        row = asking.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", [name]
        ).fetchone()
    assert row
    return int(row[0])


def database_connections(stack: Stack) -> int:
    with psycopg.connect(stack.environment["DATABASE_URL"]) as asking:
        row = asking.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        ).fetchone()
    assert row
    return int(row[0])
