"""What a thousand questions that wait cost in processes (P7): `make bench ARGS=waiting`,
`BENCH_WAITING=200` for fewer.

A worker with two children and beat, on PostgreSQL and Redis. All numbers are what is more than
before the questions were asked.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import redis
from django.contrib.auth.models import User
from django.db import connection

from bench.workload import figure
from runs import services
from runs.models import Pause, Run
from tests.servers.stack import Stack, until

MANY = int(os.environ.get("BENCH_WAITING", "1000"))
IDLE = 40.0
"""Seconds."""
OWN = 2
"""Transactions of the counting itself."""
FIRST = 60
"""Asked before anything is counted, so that all processes have what they keep."""


def measure() -> Iterator[dict[str, Any]]:
    user = User.objects.get(username="bench")
    with tempfile.TemporaryDirectory(
        prefix="waystation-bench-", ignore_cleanup_errors=True
    ) as folder:
        kept = {
            name: os.environ[name]
            for name in ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE", "WAYSTATION_DATA")
        }
        stack = Stack(Path(folder), kept)
        for setting in ("LEASE", "SWEEP", "PATIENCE"):  # of tests; the product's own are measured
            del stack.environment[f"WAYSTATION_{setting}_SECONDS"]
        try:
            stack.worker()
            stack.beat()
            ask(user, FIRST)
            before = held(stack)
            ask(user, MANY)
            after = held(stack)
            idle = transactions()
        finally:
            stack.stop()
    for what in before:
        yield figure(
            f"{MANY} more questions that wait: {what}", after[what] - before[what], "more", bar=0
        )
    yield figure("transactions of an idle worker and beat, per second", idle, "1/s", bar=0.5)
    leases = Run.objects.exclude(lease_until=None, lease_owner="").count()
    yield figure(f"{MANY + FIRST} questions that wait: leases", leases, "leases", bar=0)


def ask(user: User, many: int) -> None:
    asked = [services.submit("bench-ask", by=user).latest_run_id for _ in range(many)]
    until(
        lambda: Pause.objects.open().filter(run__in=asked).count() == many,
        seconds=600,
        what="the questions",
    )
    until(lambda: messages() == 0, what="an idle broker")


def messages() -> int:
    with redis.Redis.from_url(os.environ["REDIS_URL"]) as broker:
        return sum(
            int(broker.llen(key)) for key in broker.scan_iter() if broker.type(key) == b"list"
        )


def held(stack: Stack) -> dict[str, int]:
    """Connections to the database, threads of worker and beat, messages in the broker."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        connections = cursor.fetchone()[0]
    groups = {process.pid for process in stack.processes}
    threads = [
        path for path in Path("/proc").glob("[0-9]*/task/*") if _group(int(path.parts[2])) in groups
    ]
    return {"messages": messages(), "connections": connections, "threads": len(threads)}


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

    time.sleep(IDLE / 4)  # what the questions left to be done is done
    before = ended()
    time.sleep(IDLE)  # idleness is what is measured
    return (ended() - before - OWN) / IDLE


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:  # it has ended since it was listed
        return 0
