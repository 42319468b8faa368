"""One event to many watchers, by socket and by server-sent events: commit → client, against plain
Redis in the same run; what it costs.

`BENCH_WATCHERS=1,100` measures fewer, `BENCH_SERVERS=uvicorn` one of the two servers.
Clients and server share this machine's processors, so read the ratio.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import psycopg
import redis
from django.contrib.auth.models import User
from django.db import transaction

from bench.workload import figure, percentile
from checkpoints.events import log
from checkpoints.models import EventKind, Thread
from hitl.models import ApiToken
from runs.threads import turns
from tests.servers.stack import ROOT, Stack

EVENTS, EVERY = 20, 0.4  # one after the other, so that no wait holds that of the event before
OF_EACH = 2
"""Events of each of many threads: every one is a commit of its own."""
REDIS_BAR, KIB_BAR, CONNECTIONS_BAR = 7.0, 50.0, 10
MANY_BARS = {"ws": 600.0, "sse": 800.0}
"""Milliseconds, 1 000 watchers of as many threads at the 99th percentile."""
PATHS = {"ws": "/ws/threads/{}/stream", "sse": "/api/v1/threads/{}/stream", "redis": "{}"}


def measure() -> Iterator[dict[str, Any]]:
    counts = [int(count) for count in os.environ.get("BENCH_WATCHERS", "1,100,1000").split(",")]
    ways = [
        Way(kind, server)
        for server in os.environ.get("BENCH_SERVERS", "daphne,uvicorn").split(",")
        for kind in ("ws", "sse")
    ]
    user = User.objects.get(username="bench")
    token = ApiToken.make(user, name="fanout")[1]
    for count in counts:
        floor = percentile(_redis(count), 0.99) * 1000
        yield figure(f"plain Redis → {count} subscribers, p99", floor, "ms")
        for way in ways:
            bar = REDIS_BAR if count >= 1000 else None
            yield from _case(
                way,
                [turns.open_thread(by=user)] * count,
                token,
                floor=floor,
                bar=bar,
                what="of one thread",
            )
    most = max(counts)
    for way in ways:
        many = [turns.open_thread(by=user) for _ in range(most)]
        bar = MANY_BARS[way.kind] if most >= 1000 else None
        yield from _case(way, many, token, floor=None, bar=bar, what=f"of {most} threads")


class Way(NamedTuple):
    kind: str
    server: str


def _case(
    way: Way,
    watched: list[Thread],
    token: str,
    *,
    floor: float | None,
    bar: float | None,
    what: str,
) -> Iterator[dict[str, Any]]:
    kind, events = way.kind, EVENTS if len(set(watched)) == 1 else OF_EACH
    name = f"{len(watched)} {kind} {what}, {way.server}"
    with _server(way.server) as stack:
        before = _resident(stack)
        paths = [PATHS[kind].format(thread.shown_id) for thread in watched]
        with _watchers(
            {"kind": kind, "port": stack.port, "token": token, "paths": paths, "events": events}
        ) as clients:
            kib = (_resident(stack) - before) / len(watched) / 1024
            for _ in range(events):
                for thread in set(watched):
                    _write(thread)
                time.sleep(EVERY)  # so many events a second
            connections = _connections()
            seen = json.loads(clients.stdout.readline())
    assert seen["ordered"]
    last = percentile(seen["waits"], 0.99) * 1000
    yield figure(f"commit → {name}, p50", percentile(seen["waits"], 0.5) * 1000, "ms")
    yield figure(
        f"commit → {name}, p99",
        last,
        "ms",
        floor=floor,
        ratio=last / floor if floor else None,
        bar=bar,
    )
    if len(set(watched)) > 1:
        # the first event comes while the server still lets in the last of those who came at once
        later = percentile(seen["later"], 0.99) * 1000
        yield figure(f"commit → {name}, p99 from each one's second event on", later, "ms")
    yield figure(f"{name}: missed or doubled", seen["missed"] + seen["doubled"], "events", bar=0)
    yield figure(f"{name}: database connections", connections, "connections", bar=CONNECTIONS_BAR)
    if len(watched) >= 100:
        # of a hundred it is mostly what the process itself grows by at its first watcher
        yield figure(
            f"{name}: memory of each", kib, "KiB", bar=KIB_BAR if len(watched) >= 1000 else None
        )


def _write(thread: Thread) -> None:
    with transaction.atomic():
        log.append(thread.pk, None, [(EventKind.LOG, {"message": "x" * 200, "sent": time.time()})])


def _redis(count: int) -> list[float]:
    port = urlsplit(os.environ["REDIS_URL"]).port
    server = redis.Redis.from_url(os.environ["REDIS_URL"])
    with _watchers(
        {"kind": "redis", "redis_port": port, "paths": [""] * count, "events": EVENTS}
    ) as clients:
        for number in range(EVENTS):
            server.publish(
                "bench-fanout",
                json.dumps({"seq": number, "data": {"message": "x" * 200, "sent": time.time()}}),
            )
            time.sleep(EVERY)  # so many events a second
        waits: list[float] = json.loads(clients.stdout.readline())["waits"]
    return waits


@contextmanager
def _server(server: str) -> Iterator[Stack]:
    """A server process of its own for each case, which has served a request."""
    with tempfile.TemporaryDirectory(
        prefix="waystation-bench-", ignore_cleanup_errors=True
    ) as folder:
        kept = {
            name: os.environ[name]
            for name in ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE", "WAYSTATION_DATA")
        }
        kept["WAYSTATION_PERSON_STREAMS"] = "5000"  # one token watches here for all
        stack = Stack(Path(folder), kept)
        try:
            stack.web(server)
            yield stack
        finally:
            stack.stop()


@contextmanager
def _watchers(wish: dict[str, Any]) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "bench.clients.watchers"]
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdin
        assert process.stdout
        process.stdin.write(json.dumps(wish) + "\n")
        process.stdin.flush()
        opened = json.loads(process.stdout.readline() or '{"open": 0}')["open"]
        assert opened == len(wish["paths"]), (
            f"{opened} of {len(wish['paths'])} watchers were let in"
        )
        yield process
    finally:
        process.kill()
        process.wait()


def _resident(stack: Stack) -> int:
    """Bytes of the server's memory."""
    pages = int(Path(f"/proc/{stack.processes[-1].pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _connections() -> int:
    """Of all clients but this process's own two."""
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as asking:
        row = asking.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
        ).fetchone()
    assert row
    return int(row[0]) - 2
