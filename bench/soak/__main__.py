"""`make soak`: an hour of steady load with retention at work, and what must stay flat stays flat.

    make soak ARGS="--minutes 180 --rate 4"

A web server, a worker, beat, PostgreSQL and Redis. Orders of ten steps of 1 KiB and orders that ask
come at a steady rate by REST, each under an Idempotency-Key, and a person answers. What is old is
dropped after seconds instead of a year, so an hour holds what years do: some hundred lives of a
checkpoint. Once what lives longest has come and gone, the means of two halves are compared: memory,
descriptors and threads of each process, connections, dead rows, Redis, the rows that end, and the
rows per order of those that are kept by promise. One line for each; exits with 1 where one grew.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import redis as redis_client
from psycopg import sql

from bench.chaos import tables
from tests.run import install_missing
from tests.servers.private import PostgreSQL, redis
from tests.servers.stack import Stack

TEAM = "soak"
WARM, WARM_SECONDS = 0.4, 60
"""Before anything is compared: this share of the time, and never less than what lives longest takes
to come and go on a busy machine. Before that every table still fills.
"""
SHORTEST = 2.0
"""Minutes: each half compared is longer than a round of keeping, whose rows go all at once."""
SAMPLES = 40
"""In all."""
LOOKS = 2
"""Seconds between two looks for what asks."""
ASKS_EVERY = 4
"""Each order of this number asks."""
SOON = {
    "WAYSTATION_KEEP_DAYS": "0.0002",
    "WAYSTATION_KEEP_HOURS": "0.001",
    "WAYSTATION_KEEP_CHUNK_HOURS": "0.001",
    "WAYSTATION_IDEMPOTENCY_HOURS": "0.01",
    "WAYSTATION_SWEEP_SECONDS": "2",
}
"""What production keeps for a year or a day: some 17 seconds, and 36."""
VACUUM = {"autovacuum_naptime": "5s", "autovacuum_vacuum_cost_delay": "0"}
"""It comes once in a minute elsewhere, and would hardly come at all in a short run."""
ENDING = ("checkpoints_event", "checkpoints_memo", "hitl_idempotencykey")
"""Tables whose rows go away by themselves; of the log but the last of each thread."""
ALLOWED = {
    "MB of": (1.10, 12),
    "descriptors of": (1.0, 12),
    "threads of": (1.0, 4),
    "connections": (1.0, 4),
    "dead rows": (1.5, 3000),
    "Redis: connections": (1.0, 4),
    "Redis: keys": (1.0, 20),
    "Redis: MB": (1.1, 2),
    "rows of": (1.15, 150),
    "rows per order of": (1.05, 0.05),
}
"""Beginning of a gauge's name → by which factor, and how much more, the second half may be over the
first.
"""


class Soak:
    def __init__(self, stack: Stack, token: str, options: argparse.Namespace) -> None:
        self.stack, self.token, self.options = stack, token, options
        self.processes: dict[str, int] = {}
        self.samples: list[dict[str, float]] = []
        self.asked = self.answered = 0

    def run(self) -> None:
        seconds = self.options.minutes * 60
        began, looked = time.monotonic(), 0.0
        while (now := time.monotonic() - began) < seconds:
            if now >= len(self.samples) * seconds / SAMPLES:
                self.samples.append(self.sample())
            if now >= looked:
                self.answer()
                looked = now + LOOKS
            due = began + self.asked / self.options.rate
            if due <= time.monotonic():
                self.ask()
            else:
                time.sleep(min(0.1, due - time.monotonic()))  # the rate is what is wanted

    def ask(self) -> None:
        asks = self.asked % ASKS_EVERY == 0
        body = {"template": "bench-ask" if asks else "bench-steps", "title": "Soak", "team": TEAM}
        status, answer = self.stack.call(
            "POST",
            "/api/v1/work-orders",
            body,
            token=self.token,
            headers={"Idempotency-Key": f"soak-{self.asked}"},
        )
        assert status == 201, answer
        self.asked += 1

    def answer(self) -> None:
        status, answer = self.stack.call("GET", "/api/v1/pauses?open=1", token=self.token)
        assert status == 200, answer
        for pause in answer["results"]:
            body = {"decision": "approve", "revision": pause["revision"]}
            status, answer = self.stack.call(
                "POST", f"/api/v1/pauses/{pause['id']}/decisions", body, token=self.token
            )
            assert status == 201, answer
            self.answered += 1

    def sample(self) -> dict[str, float]:
        seen: dict[str, float] = {}
        for name, group in self.processes.items():
            for gauge, value in _of_group(group).items():
                seen[f"{gauge} of {name}"] = value
        with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as session:
            tables = session.execute(
                "SELECT relname, n_dead_tup, pg_total_relation_size(relid) FROM pg_stat_user_tables"
            ).fetchall()
            # the server's own estimate of living rows is seconds behind, and each vacuum moves it
            rows = {
                table: _count(session, table)
                for table, *_ in tables
                if table.startswith(("checkpoints_", "hitl_", "runs_"))
            }
            row = session.execute(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid != pg_backend_pid()"
            ).fetchone()
        assert row is not None
        seen["connections"] = float(row[0])
        seen["dead rows"] = float(sum(dead for _, dead, _ in tables))
        seen["MB of all tables"] = sum(size for *_, size in tables) / 1e6
        for table, live in rows.items():
            if table in ENDING:
                kept = self.asked if table == "checkpoints_event" else 0  # each log's last stays
                seen[f"rows of {table}"] = float(live - kept)
            elif (
                table == "checkpoints_restingthread"
            ):  # of ever more threads nothing is left to free
                seen["rows of threads that keeping looks at"] = float(self.asked - live)
            elif live > self.asked / 10:
                seen[f"rows per order of {table}"] = live / max(1, self.asked)
        with redis_client.Redis.from_url(os.environ["REDIS_URL"]) as server:
            seen["Redis: connections"] = float(server.info("clients")["connected_clients"])
            seen["Redis: keys"] = float(server.dbsize())
            seen["Redis: MB"] = float(server.info("memory")["used_memory"]) / 1e6
        return seen

    def report(self) -> list[dict[str, Any]]:
        """A line for each gauge."""
        seconds = self.options.minutes * 60
        warm = max(WARM, WARM_SECONDS / seconds)
        kept = self.samples[int(len(self.samples) * warm) :]
        early, late = kept[: len(kept) // 2], kept[len(kept) // 2 :]
        values: dict[str, list[list[float]]] = defaultdict(lambda: [[], []])
        for half, samples in enumerate((early, late)):
            for sample in samples:
                for gauge, value in sample.items():
                    values[gauge][half].append(value)
        return [
            compare(gauge, statistics.mean(first), statistics.mean(second))
            for gauge, (first, second) in sorted(values.items())
            if first and second
        ]


def _count(session: psycopg.Connection[Any], table: str) -> int:
    row = session.execute(
        sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))
    ).fetchone()
    assert row is not None
    return int(row[0])


def _of_group(group: int) -> dict[str, float]:
    """Of all processes that one start made."""
    kilobytes = descriptors = threads = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(folder.name)) != group:
                continue
            descriptors += len(os.listdir(folder / "fd"))
            words = dict(
                line.split(":", 1) for line in (folder / "status").read_text().splitlines()
            )
            kilobytes += int(words.get("VmRSS", "0 kB").split()[0])
            threads += int(words["Threads"])
        except (ProcessLookupError, FileNotFoundError):
            continue  # it has just ended
    return {"MB": kilobytes / 1000, "descriptors": descriptors, "threads": threads}


def compare(gauge: str, first: float, second: float) -> dict[str, Any]:
    allowed = next((rule for start, rule in ALLOWED.items() if gauge.startswith(start)), None)
    if gauge == "MB of all tables":
        allowed = None  # what is kept by promise grows with the orders
    return {
        "gauge": gauge,
        "first_half": round(first, 2),
        "second_half": round(second, 2),
        "flat": None if allowed is None else second <= first * allowed[0] + allowed[1],
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="make soak ARGS=…",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=60, help="how long (60)")
    parser.add_argument("--rate", type=float, default=2, help="orders in a second (2)")
    options = parser.parse_args(arguments)
    if options.minutes < SHORTEST:
        parser.error(
            f"--minutes: {SHORTEST:g} at least; every table grows until what is old has gone"
        )
    install_missing()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started ends as well
    with ExitStack() as ends:
        folder = Path(
            ends.enter_context(
                tempfile.TemporaryDirectory(prefix="waystation-soak-", ignore_cleanup_errors=True)
            )
        )
        folder.chmod(0o755)
        postgresql = PostgreSQL(folder / "pg", more=VACUUM)
        ends.callback(postgresql.kill)
        tables.create(postgresql, folder)
        environment = {
            "DATABASE_URL": postgresql.url,
            "REDIS_URL": ends.enter_context(redis(folder)),
            "DJANGO_SETTINGS_MODULE": "bench.settings",
            "API_RATE": "1000000",
            "LOG_LEVEL": "ERROR",
            **SOON,
        }
        stack = Stack(folder, environment)
        ends.callback(stack.stop)
        os.environ.update(stack.environment)
        soak = Soak(stack, _people(), options)
        soak.processes = {
            "web": stack.web().pid,
            "worker": stack.worker(pool="threads", concurrency=8).pid,
            "beat": stack.beat().pid,
        }
        soak.run()
        lines = soak.report()
        clean = "invariants hold" in stack.manage("invariants", "--deep", check=False)
    for line in lines:
        print(json.dumps(line), flush=True)
    grew = [line["gauge"] for line in lines if line["flat"] is False]
    counts = {"orders": soak.asked, "answers": soak.answered, "minutes": options.minutes}
    print(json.dumps({"ok": clean and not grew, "grew": grew, "invariants": clean, **counts}))
    return 0 if clean and not grew else 1


def _people() -> str:
    """The templates, and somebody who orders and answers; gives the token."""
    import django

    django.setup()
    from django.contrib.auth.models import Group, User

    from bench import workload
    from hitl.models import ApiToken

    workload.load()
    user = User.objects.create_user("sona")
    user.groups.add(Group.objects.create(name=TEAM))
    return ApiToken.make(user, name=TEAM)[1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
