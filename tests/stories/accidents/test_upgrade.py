"""An upgrade under load: the next version beside this one, while people ask and answer.

The next version is this one with a migration more, of the kinds that two phases allow, on the
tables that every step writes. Set UPGRADE_FROM to a folder with older code, such as a work tree of
git, to upgrade from that one to this instead.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tests.databases.copies import PASSWORD, PEOPLE, TOKENS
from tests.hitl.forms.controls import Controls
from tests.servers.stack import ROOT, SlowStack, until
from tests.stories.conftest import make_slow_stack

pytestmark = pytest.mark.stack

TOKEN = TOKENS["ana"]
PARTS = (
    "extensions",
    "checkpoints",
    "runs",
    "hitl",
    "project",
    "templates",
    "static",
    "tests/servers",
)
LATER = """
    later = models.CharField(max_length=20, default="new", db_default="old", editable=False)
"""
COLUMNS = """
from django.db import migrations, models
class Migration(migrations.Migration):
    dependencies = [("runs", "{before}")]
    operations = [
        migrations.AddField(
            model,
            "later",
            models.CharField(max_length=20, default="new", db_default="old", editable=False),
        )
        for model in ("run", "pause")
    ]
"""
INDEX = """
from django.db import migrations, models
from checkpoints.database.migrating import AddIndexBeside
class Migration(migrations.Migration):
    atomic = False
    dependencies = [("runs", "{before}")]
    operations = [AddIndexBeside("run", models.Index(fields=["later"], name="run_by_later"))]
"""
PACE = 0.5
"""Seconds after an order in which its client does something else."""
CYCLES = 2
"""Orders of each client that are begun, answered and ended in each stretch of the upgrade."""


def next_version(folder: Path) -> Path:
    """This code with a column more on the busiest tables, and an index that is built beside
    writers.
    """
    for part in PARTS:
        # with what Python has translated, which holds for files of the same age
        skipped = shutil.ignore_patterns(".artifacts", "node_modules")
        shutil.copytree(ROOT / part, folder / part, ignore=skipped)
    for name in ("manage.py", "pyproject.toml", "tests/__init__.py"):
        shutil.copy(ROOT / name, folder / name)
    for module, model in (("runs", "Run"), ("pauses", "Pause")):
        path = folder / "runs" / "models" / f"{module}.py"
        head, rest = re.split(rf"^(?=class {model}\()", path.read_text(), flags=re.M)
        before, meta, after = rest.partition("\n    class Meta:")
        assert meta, path
        path.write_text(head + before + LATER + meta + after)
    return folder


@dataclass
class Client(threading.Thread):
    """Orders work, answers it and waits for its end, again and again, at the servers in turn."""

    servers: list[SlowStack]
    number: int
    ended: list[str] = field(default_factory=list)
    failure: BaseException | None = None
    over: bool = False

    def __post_init__(self) -> None:
        super().__init__(daemon=True)

    def __hash__(self) -> int:
        return id(self)

    def run(self) -> None:
        try:
            while not self.over:
                servers = list(self.servers)
                asks = servers[self.number % len(servers)]
                answers = servers[(self.number + 1) % len(servers)]
                order = asks.begin("slow-asking", TOKEN)
                asks.paused(order, TOKEN, "awaiting_plan_approval")
                answers.answer(order, TOKEN, "approve")
                self.ended.append(asks.ended(order, TOKEN)["run_id"])
                time.sleep(PACE)  # people are not that fast
        except BaseException as error:  # noqa: BLE001  # told by the test, in its own thread
            self.failure = error


@pytest.fixture
def old(tmp_path: Path) -> Iterator[SlowStack]:
    stack = make_slow_stack(tmp_path, "upgrade")
    if elsewhere := os.environ.get("UPGRADE_FROM"):
        stack.root = Path(elsewhere).resolve()
        _empty(stack.environment["DATABASE_URL"])
        stack.manage("migrate", "-v", "0")
        stack.load(PEOPLE)
    yield stack
    stack.stop()


def _empty(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")


@pytest.fixture
def new(old: SlowStack, tmp_path: Path) -> Iterator[SlowStack]:
    """The next version: on the same database, Redis and folders."""
    stack = SlowStack(tmp_path, old.environment)
    if "UPGRADE_FROM" not in os.environ:
        stack.root = next_version(tmp_path / "next")
        migrations = stack.root / "runs" / "migrations"
        last = max(path.stem for path in migrations.glob("0*.py"))
        (migrations / "9998_next.py").write_text(COLUMNS.format(before=last))
        (migrations / "9999_next_index.py").write_text(INDEX.format(before="9998_next"))
        path = stack.root / "runs" / "models" / "runs.py"
        head, found, rest = path.read_text().rpartition("        indexes = [")
        assert found
        more = 'models.Index(fields=["later"], name="run_by_later"),'
        path.write_text(f"{head}{found}\n            {more}{rest}")
    yield stack
    stack.stop()


def test_old_and_new_code_work_side_by_side_and_no_answer_page_or_stream_is_lost(old, new):
    """P1, P2, P4, P5, P9, P10 through a deploy: two versions of web and worker, a migration of the
    busiest tables under load, a question, a page and a stream that were there before.
    """
    old.web()
    worker, beat = old.worker("old", pool="threads"), old.beat()
    kept = old.begin("slow-asking", TOKEN)
    old.paused(kept, TOKEN, "awaiting_plan_approval")
    busy = old.begin("slow-ticks", TOKEN)
    person = Person(old, kept)
    stream: list[dict[str, Any]] = []
    reader = threading.Thread(target=lambda: stream.extend(old.events(kept, TOKEN)), daemon=True)
    reader.start()
    servers = [old]
    clients = [Client(servers, number) for number in range(2)]
    for client in clients:
        client.start()
    _more(clients)

    told = new.manage("start", "prepare")
    assert "Migrating the database." in told
    if (old.root / "hitl/management/commands/start.py").exists():  # it leaves newer tables alone
        assert "Migrating" not in old.manage("start", "prepare")
    _more(clients)  # old code on new tables

    web = old.processes[0]
    new.web()
    new.worker("new", pool="threads")
    servers.append(new)  # asked at the old server, answered at the new one, and the other way round
    new.beat()
    _more(clients)
    for process in (worker, beat):
        _ends(process)
    person.answers(new)
    reader.join(60)
    servers.remove(old)
    _more(clients)
    _ends(web)
    for client in clients:
        client.over = True
    for client in clients:
        client.join(60)
        assert client.failure is None
    new.ended(busy, TOKEN)

    assert new.order(kept, TOKEN)["status"] == "completed"
    numbers = [event["seq"] for event in stream]
    assert numbers == list(range(1, len(numbers) + 1))
    assert "run_completed" in {event["event"] for event in stream}
    runs = [run for client in clients for run in client.ended]
    runs += [new.order(order, TOKEN)["run_id"] for order in (kept, busy)]
    for run in runs:
        done = new.noted("done", run)
        assert len(done) == len(set(done)) and done, run
    new.manage("invariants", "--deep")
    told = "".join(path.read_text() for path in new.folder.glob("*.log"))
    assert "Traceback" not in told and " ERROR " not in told
    print(f"{len(runs)} orders during the upgrade")


def _more(clients: list[Client]) -> None:
    """Wait until each client has had some orders more."""
    wanted = {client: len(client.ended) + CYCLES for client in clients}
    until(
        lambda: all(client.failure or len(client.ended) >= wanted[client] for client in clients),
        what="the clients",
    )
    failures = [client.failure for client in clients if client.failure]
    assert not failures, failures


def _ends(process: Any) -> None:
    os.kill(process.pid, signal.SIGTERM)
    process.wait(30)


class Person:
    """Who opened the page of an order before the upgrade, and answers on it after."""

    def __init__(self, stack: SlowStack, order: str) -> None:
        self.client = httpx.Client(follow_redirects=True, timeout=30)
        login = self.client.get(f"{stack.url}/login").text
        who = {"username": "ana", "password": PASSWORD}
        self.client.post(f"{stack.url}/login", data={**untouched(login), **who})
        page = self.client.get(f"{stack.url}/work-orders/{order}/")
        form = re.search(r'<form\b[^>]* action="(\S+/decide)".*?</form>', page.text, re.DOTALL)
        assert page.status_code == 200 and form is not None
        self.action, self.fields = form[1], untouched(form[0])

    def answers(self, stack: SlowStack) -> None:
        sent = {**self.fields, "action": "approve"}
        answer = self.client.post(f"{stack.url}{self.action}", data=sent)
        assert answer.status_code == 200, answer.text[:500]
        self.client.close()


def untouched(html: str) -> dict[str, str]:
    """What a browser would post of these forms."""
    controls = Controls()
    controls.feed(html)
    return dict(controls.posted)
