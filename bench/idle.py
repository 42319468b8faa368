"""What a system costs in which ten thousand runs wait for people and nobody does anything (P7):
`make bench ARGS=idle`, `BENCH_IDLE=300` for fewer.

A worker as the Procfile has it, beat and a web server, on PostgreSQL and Redis. The statements of
an idle system are transactions each, so those are counted, by the server.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import redis
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection

from bench.workload import as_shipped, figure
from checkpoints.database import clock
from hitl.decisions import notifications
from runs import retention, services
from runs.engine.advance import advance
from runs.models import Pause, Run
from tests.servers.stack import Stack, threads_of, until

MANY = int(os.environ.get("BENCH_IDLE", "10000"))
AT_ONCE = 8
THREADS, POOL = 16, 8
"""Of the shipped worker, one connection each; connections of the web server's pool."""
FIRST = 60
"""Asked of the worker before anything is counted, so that all processes have what they keep."""
IDLE = 40.0
"""Seconds."""
OWN = 2
"""Transactions of the counting itself."""


def measure() -> Iterator[dict[str, Any]]:
    user = User.objects.get(username="bench")
    with as_shipped() as stack:
        none = held(stack)["connections"]
        stack.web()
        stack.worker(queues="control,steps,outbound", pool="threads", concurrency=THREADS)
        stack.beat()
        ask(user, FIRST)
        before = held(stack)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda _: wait(user), range(MANY)))
        tidy_up()
        after = held(stack)
        idle = transactions()
    for what in ("messages", "threads"):
        yield figure(f"{MANY} more paused runs: {what}", after[what] - before[what], "more", bar=0)
    connections = after["connections"] - none
    yield figure("connections of a worker and a web server", connections, "", bar=THREADS + POOL)
    yield figure("statements per idle second of a worker, beat and web", idle, "1/s", bar=0.5)
    leases = Run.objects.exclude(lease_until=None, lease_owner="").count()
    yield figure(f"{Pause.objects.open().count()} paused runs: leases", leases, "leases", bar=0)


def ask(user: User, many: int) -> None:
    asked = [services.submit("bench-ask", by=user).latest_run_id for _ in range(many)]
    until(
        lambda: Pause.objects.open().filter(run__in=asked).count() == many,
        seconds=600,
        what="the questions",
    )


def wait(user: User) -> None:
    """An order that asks, and waits, without the worker."""
    run_id = services.submit("bench-ask", by=user).latest_run_id
    assert run_id is not None
    advance(run_id, budget=60)
    connection.close()


def tidy_up() -> None:
    """What the questions leave to be done: people are told, and the round of keeping has been."""
    notifications.announce(limit=2 * MANY)
    retention.prune(now=clock.read())
    until(lambda: messages() == 0, what="an idle broker")
    time.sleep(2 * settings.WAYSTATION_SWEEP_SECONDS)


def messages() -> int:
    with redis.Redis.from_url(os.environ["REDIS_URL"]) as broker:
        return sum(
            int(broker.llen(key)) for key in broker.scan_iter() if broker.type(key) == b"list"
        )


def held(stack: Stack) -> dict[str, int]:
    """Connections to the database, threads of all processes, messages in the broker."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        connections = cursor.fetchone()[0]
    groups = {process.pid for process in stack.processes}
    return {"messages": messages(), "connections": connections, "threads": threads_of(groups)}


def transactions() -> float:
    """Transactions per second while nothing is asked of anybody; a statement alone is one."""

    def ended() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_clear_snapshot()")
            cursor.execute(
                "SELECT xact_commit + xact_rollback FROM pg_stat_database "
                "WHERE datname = current_database()"
            )
            return int(cursor.fetchone()[0])

    before = ended()
    time.sleep(IDLE)  # idleness is what is measured
    return (ended() - before - OWN) / IDLE
