"""What drills share that look at the product from outside: private servers, rows by SQL, logs."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import redis as redis_client

from tests.run import install_missing
from tests.servers.private import postgresql, redis
from tests.servers.stack import ROOT, Stack

LIVE = ("pending", "running", "paused")
ENDS = """
    SELECT w.title, r.status FROM runs_workorder w JOIN runs_run r ON r.id = w.latest_run_id"""
DECISIONS = """
    SELECT w.title, d.action FROM hitl_decision d JOIN runs_pause p ON p.id = d.pause_id
    JOIN runs_run r ON r.id = p.run_id JOIN runs_workorder w ON w.id = r.work_order_id"""
EVENTS = """
    SELECT e.seq FROM checkpoints_event e JOIN runs_workorder w ON w.thread_id = e.thread_id
    WHERE w.title = %s ORDER BY e.seq"""
RUNS = "SELECT w.title FROM runs_run r JOIN runs_workorder w ON w.id = r.work_order_id"
OPEN = """
    SELECT w.title FROM runs_pause p JOIN runs_run r ON r.id = p.run_id
    JOIN runs_workorder w ON w.id = r.work_order_id WHERE p.status = 'open'"""


@contextmanager
def servers() -> Iterator[tuple[Path, str, str]]:
    """A folder, a PostgreSQL and a Redis for a while, by their URLs."""
    install_missing()
    with tempfile.TemporaryDirectory(
        prefix="waystation-drill-", ignore_cleanup_errors=True
    ) as name:
        folder = Path(name)
        folder.chmod(0o755)
        with postgresql(folder / "pg", durable=True) as url, redis(folder) as broker:
            yield folder, url, broker


def database(server: str, name: str) -> str:
    """A new and empty one; gives its URL."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return server.replace("/postgres?", f"/{name}?")


def rows(url: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(statement.encode(), values).fetchall()


def left(url: str) -> list[tuple[Any, ...]]:
    """Orders whose run is not at its end, and how it stands."""
    return [row for row in rows(url, ENDS) if row[1] in LIVE]


@contextmanager
def work_tree(commit: str, where: Path) -> Iterator[Path]:
    """The code of a commit of this repository, for a while."""
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "-q", "--detach", str(where), commit], check=True)
    try:
        yield where
    finally:
        subprocess.run([*git, "remove", "--force", str(where)], check=True)


def doctor(stack: Stack) -> list[tuple[str, str]]:
    """Subjects and words of what `manage.py doctor` finds."""
    told = json.loads(stack.manage("doctor", "--json", check=False).partition("\nTrace")[0])
    return [(found["subject"], found["words"]) for found in told["findings"]]


def said(stack: Stack, *words: str) -> list[str]:
    """The lines of a command, without the warnings of checks, which come after them."""
    told = stack.manage(*words, check=False)
    return told.partition("System check identified")[0].strip().splitlines() or [""]


def mailed_links(stack: Stack) -> list[str]:
    """In the order in which they were mailed."""
    folder = Path(stack.environment["WAYSTATION_DATA"]) / "mail"
    text = "\n".join(path.read_text() for path in sorted(folder.glob("*.log")))
    found = re.findall(r"http://\S+?(/l/[\w-]+)", text.replace("=\n", ""))
    return list(dict.fromkeys(found))


def waiting(broker: str) -> dict[str, int]:
    """The lists of messages in Redis that have some, and how many."""
    client = redis_client.Redis.from_url(broker)
    lists = [key for key in client.scan_iter() if client.type(key) == b"list"]
    return {key.decode(errors="replace"): int(client.llen(key)) for key in lists}


def tracebacks(folder: Path) -> list[str]:
    """The ends of the first ones in the processes' logs."""
    logs = "".join(path.read_text(errors="replace") for path in folder.glob("*.log"))
    return [part.partition("\n\n")[0][-600:] for part in logs.split("Traceback")[1:4]]
