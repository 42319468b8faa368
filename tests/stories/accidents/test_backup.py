"""Backups that were restored: a dump, and a base backup with the log, to a moment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.databases import copies
from tests.servers.private import PostgreSQL, find
from tests.servers.stack import SlowStack, until

pytestmark = [pytest.mark.stack]

WORK = """
import json
from django.contrib.auth.models import User
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs import services as runs
from runs.engine.advance import advance
from runs.models import Pause, WorkOrder
ana, ben = User.objects.get(username="ana"), User.objects.get(username="ben")
def drive(order):
    order.refresh_from_db()
    while advance(order.latest_run_id, budget=60):
        pass
    order.refresh_from_db()
    return order.latest_run.status
def asking(title):
    order = runs.submit("slow-asking", by=ana, title=title)
    assert drive(order) == "paused"
    return order
def answer(order, action):
    pause = Pause.objects.open().get(run__thread=order.thread_id)
    services.decide(pause.pk, Answer(action, Via.PAGE), by=ana)
"""
FINE = """
import sys
from django.core.management import call_command
for words in (["invariants", "--deep"], ["verify_checkpoints"], ["verify_ledger"]):
    try:
        call_command(*words, stdout=sys.stderr)
    except SystemExit as end:
        assert not end.code, words
"""
RESTORED = """
there = {order.title: order.latest_run.status for order in WorkOrder.objects.all()}
waits = WorkOrder.objects.get(title="before")
answer(waits, "approve")
then = drive(waits)
print(json.dumps({"there": there, "then": then}))
"""


LATER = """
answer(WorkOrder.objects.get(title="before"), "cancel")
asking("after it")
print("{}")
"""


class Database(PostgreSQL):
    """One with a folder for its log, where `archive_command` of the page copies it."""

    @property
    def archive(self) -> Path:
        return self.folder / "archive"

    def _settle(self) -> None:
        super()._settle()
        self.archive.mkdir()
        if self.as_user:
            shutil.chown(self.archive, "postgres", "postgres")

    def take(self, base: Path) -> None:
        """Have the files of a base backup; to be started, and it recovers."""
        self._settle()
        subprocess.run(["cp", "-a", str(base), str(self.folder / "db")], check=True)
        (self.folder / "db" / "recovery.signal").touch()

    def run(self, program: str, *words: str, **how: Any) -> None:
        command = [*self.as_user, str(find(program)), "-h", str(self.folder), "-U", "waystation"]
        subprocess.run([*command, *words], check=True, stdout=subprocess.DEVNULL, **how)

    def ask(self, statement: str) -> str:
        with psycopg.connect(self.url, autocommit=True) as connection:
            row = connection.execute(statement.encode()).fetchone()
            assert row is not None
            return str(row[0])


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    folder = tmp_path_factory.mktemp("backup")
    for each in (folder, *folder.parents[:3]):
        each.chmod(0o755)  # the server is another user
    server = Database(folder / "pg")
    copy = f'test ! -f "{server.archive}/%f" && cp "%p" "{server.archive}/%f"'
    server.more = {"archive_mode": "on", "archive_command": copy}
    server.create()
    server.start()
    yield server
    server.stop()
    shutil.rmtree(folder)  # 280 MB, and the tests' files may lie in memory


def said(stack: SlowStack, code: str) -> dict[str, object]:
    answer: dict[str, object] = json.loads(stack.manage("shell", "-v", "0", "-c", WORK + code))
    return answer


def test_a_dump_and_a_moment_are_restored_and_a_paused_run_goes_on(server, tmp_path):
    """docs/how-to/backup.md was never tried. What was decided after the moment is gone, as it has
    to be, and everything before it holds together.
    """
    name = f"kept_{os.environ.get('PYTEST_XDIST_WORKER', 'gw0')}"
    command = [str(find("pg_dump")), "-O", copies.postgresql(name)]
    people = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    server.run("psql", "-q", "-d", "postgres", input=people)
    stack = SlowStack(tmp_path, {"DATABASE_URL": server.url})
    stack.load(WORK + 'asking("before")')

    base, dump = server.folder / "base", server.folder / "waystation.dump"
    server.run("pg_basebackup", "-D", str(base), "-c", "fast")
    said(stack, 'asking("since the backup"); print("{}")')
    server.run("pg_dump", "-Fc", "-d", "postgres", "-f", str(dump))
    moment = server.ask("SELECT clock_timestamp()")
    said(stack, LATER)
    last = server.ask("SELECT pg_walfile_name(pg_switch_wal())")
    until(lambda: (server.archive / last).exists(), what="the last piece of the log")
    server.stop()

    # to a moment
    other = Database(server.folder.parent / "restored")
    other.more = {
        "restore_command": f'cp "{server.archive}/%f" "%p"',
        "recovery_target_time": moment,
        "recovery_target_action": "promote",
    }
    other.take(base)
    other.start()
    try:
        until(lambda: other.ask("SELECT pg_is_in_recovery()") == "False", what="the end of it")
        stack.environment["DATABASE_URL"] = other.url
        expected = {
            "there": {"before": "paused", "since the backup": "paused"},
            "then": "completed",
        }
        assert said(stack, FINE + RESTORED + FINE) == expected

        # from the dump, into an empty database
        other.run("createdb", "anew")
        other.run("pg_restore", "-O", "-d", "anew", str(dump))
        stack.environment["DATABASE_URL"] = other.url.replace("/postgres?", "/anew?")
        assert said(stack, FINE + RESTORED + FINE) == expected
    finally:
        other.stop()
