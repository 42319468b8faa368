"""Steps per second beside DBOS and LangGraph with its PostgresSaver, each in two processes, on the
same database server, with the same payload, in turns: `make bench ARGS=peers`.

Waystation is measured through Redis and Celery workers, as the Procfile starts them, with either
pool, and with beat. The other two have no queue and no events to write here, which is to their
advantage: they run in the processes that start them. DBOS is installed from its registry into an
environment of its own. Each has run before the clock begins: its connections are open, its
statements prepared. The clock begins with all the work accepted (of DBOS: before it is), and ends
with the last of it.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
from django.contrib.auth.models import User
from django.db import connection
from psycopg.sql import SQL, Identifier

from bench.workload import STEPS, Floor, as_shipped, figure
from runs import services
from runs.models import Run
from tests.servers.stack import ROOT, until

TURNS = int(os.environ.get("PEERS_TURNS", "3"))
WORK = int(os.environ.get("PEERS_WORK", "300"))
"""Workflows of STEPS steps in a turn."""
PROCESSES, THREADS = 2, 16
POOLS = {
    "Waystation, two prefork children": ("prefork", "processes"),
    "Waystation, two times 16 threads": ("threads", "processes"),
    "Waystation, two times 16 threads, bodies in them": ("threads", "threads"),
}
"""Case → pool, and where bodies run."""
SHIPPED = "Waystation, two times 16 threads"
DBOS = "dbos==3.4.0"
HERE = Path(__file__).parent


def measure() -> Iterator[dict[str, Any]]:
    floor, floors = Floor(), []
    rates: dict[str, list[float]] = {name: [] for name in (*POOLS, "DBOS", "LangGraph")}
    python = install()
    dbos_url, langgraph_url = database("peers_dbos"), database("peers_langgraph")
    prepare(langgraph_url)
    commands: dict[str, list[str]] = {
        "DBOS": [str(python), str(HERE / "dbos_work.py"), dbos_url],
        "LangGraph": [sys.executable, str(HERE / "langgraph_work.py"), langgraph_url],
    }
    for _ in range(TURNS):
        floors.append(floor.sample(100))
        for name, (pool, bodies) in POOLS.items():
            rates[name].append(ours(pool, bodies))
        for name, command in commands.items():
            rates[name].append(theirs(command))
    bare = statistics.median(floors)
    for name, found in rates.items():
        middle = statistics.median(found)
        case = f"{name}: steps per second, {PROCESSES} processes"
        spread = {"from": round(min(found)), "to": round(max(found))}
        yield {**figure(case, middle, "1/s", floor=1 / bare), **spread}
    for name in POOLS:
        for peer in commands:
            ratio = statistics.median(rates[peer]) / statistics.median(rates[name])
            bar = 0.2 if (name, peer) == (SHIPPED, "DBOS") else None
            yield figure(
                f"{peer}'s steps per second over those of {name}", ratio, "", ratio=ratio, bar=bar
            )


def install() -> Path:
    """A Python that has DBOS."""
    folder = ROOT / "tests" / ".artifacts" / "peers"
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    command = [str(ROOT / ".venv/bin/uv"), "pip", "install", "--quiet", "--python", str(python)]
    subprocess.run([*command, DBOS, "psycopg[binary]"], check=True)
    return python


def database(name: str) -> str:
    """The URL of an empty database on the same server."""
    url = os.environ["DATABASE_URL"]
    with psycopg.connect(url, autocommit=True) as session:
        for statement in ("DROP DATABASE IF EXISTS {}", "CREATE DATABASE {}"):
            session.execute(SQL(statement).format(Identifier(name)))
    head, _, tail = url.partition("?")
    return f"{head.rpartition('/')[0]}/{name}{'?' + tail if tail else ''}"


def prepare(url: str) -> None:
    from langgraph.checkpoint.postgres import PostgresSaver

    with PostgresSaver.from_conn_string(url) as saver:
        saver.setup()


def theirs(command: list[str]) -> float:
    """Steps per second of so many processes that begin together."""
    arguments = [*command, str(WORK // PROCESSES), str(STEPS)]
    started = [
        subprocess.Popen(
            arguments, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(PROCESSES)
    ]
    for process in started:
        assert process.stdout
        assert process.stdout.readline() == "ready\n", process.wait(60)
    for process in started:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    took = [float(process.stdout.readline()) for process in started if process.stdout]
    for process in started:
        process.communicate()
    return WORK // PROCESSES * PROCESSES * STEPS / max(took)


def ours(pool: str, bodies: str) -> float:
    """Steps per second of Celery workers, as the Procfile starts them but for the pool."""
    user = User.objects.get(username="bench")
    with as_shipped() as stack:
        stack.environment["WAYSTATION_BODIES"] = bodies
        if pool == "prefork":
            workers = [stack.worker(concurrency=PROCESSES)]
        else:
            workers = [
                stack.worker(f"worker{number}", pool=pool, concurrency=THREADS)
                for number in range(PROCESSES)
            ]
        stack.beat()
        done(submit(user, 64))
        for worker in workers:
            os.killpg(worker.pid, signal.SIGSTOP)
        runs = submit(user, WORK)
        began = time.perf_counter()
        for worker in workers:
            os.killpg(worker.pid, signal.SIGCONT)
        done(runs)
        return WORK * STEPS / (time.perf_counter() - began)


def submit(user: User, many: int) -> list[Any]:
    return [services.submit("bench-steps", by=user).latest_run_id for _ in range(many)]


def done(runs: list[Any]) -> None:
    def left() -> int:
        return Run.objects.filter(pk__in=runs).exclude(status="completed").count()

    until(lambda: not left(), seconds=600, what="the work")
    connection.close()
