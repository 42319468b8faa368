"""The embedded default: a server and its supervisor, on SQLite in an empty folder."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import signal
import socket
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.databases import copies
from tests.servers.private import children_of, processor_seconds
from tests.servers.stack import Stack, until
from tests.worlds.repositories import git

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """As a newcomer has it, without the libraries of vendors and forges; in a folder that an
    earlier version left.
    """
    stack = Stack(tmp_path_factory.mktemp("alone"), {})
    del stack.environment["WAYSTATION_LEASE_SECONDS"]
    data = stack.folder / "data"
    stack.environment |= {
        "DJANGO_SETTINGS_MODULE": "tests.programs.lean",
        "CHECKPOINTS_URL": f"file://{data / 'states'}",
    }
    left = data / "mail" / "old.log"
    left.parent.mkdir(parents=True)
    left.write_text("a link")
    for path in (data, left.parent):  # as an earlier version left them
        path.chmod(0o755)
    copies.sqlite(data)  # tests/project/test_installing.py has it make its tables
    for path in (left, data / "waystation.sqlite3"):
        path.chmod(0o644)
    stack.standalone("--demo")
    yield stack
    stack.stop()


@pytest.fixture
def ready(tmp_path: Path) -> Stack:
    """Its folder is not quite empty: the tables are there."""
    copies.sqlite(tmp_path / "data")
    return Stack(tmp_path, {})


TOKEN = "wst_the-reviewer-of-the-demo"
GRANT = """
INSERT OR IGNORE INTO hitl_apitoken (id, user_id, name, scope, digest, created_at)
SELECT ?, id, 'tests', 'write', ?, CURRENT_TIMESTAMP FROM auth_user WHERE username = 'reviewer'
"""


def token_of(stack: Stack) -> str:
    """One of the reviewer's, without the command that makes one."""
    with closing(sqlite3.connect(stack.folder / "data" / "waystation.sqlite3")) as database:
        digest = hashlib.sha256(TOKEN.encode()).hexdigest()
        database.execute(GRANT, [uuid.uuid4().hex, digest])
        database.commit()
    return TOKEN


def printed(stack: Stack) -> tuple[str, str]:
    """The password and the order that the first start printed."""
    text = (stack.folder / "standalone.log").read_text()
    password = re.search(r"password\s+(\S+)", text)
    order = re.search(r"wo_[0-9a-z]{26}", text)
    assert password and order, text
    return password[1], order[0]


def test_killed_at_a_pause_and_in_a_step_it_goes_on_by_itself_and_runs_none_twice(alone):
    """P2, P5, S2-32, S2-33: kill -9 of everything, start again, approve; and once more while the
    next step works. It is ready by itself, and the doctor finds nothing wrong.
    """
    process, order, token = alone.processes[-1], printed(alone)[1], token_of(alone)
    asked = alone.paused(order, token, "awaiting_plan_approval")
    until(lambda: alone.call("GET", "/readyz")[0] == 200, what="readiness", every=0.5)
    assert "0 wrong" in alone.manage("doctor")
    books_the_demo_invoices(alone, token)
    alone.kill(process)
    process = alone.standalone("--demo")
    assert alone.paused(order, token, "awaiting_plan_approval")["id"] == asked["id"]
    alone.answer(order, token, "approve")
    alone.wait_for_log(order, token, "Fix ")
    alone.kill(process)
    alone.standalone("--demo")
    state = alone.paused(order, token, "awaiting_implementation_review")
    workspace = alone.folder / "data" / "workspaces" / order
    subjects = git(workspace, "log", "--format=%s", "origin/HEAD..HEAD").splitlines()
    assert len(subjects) == len(set(subjects)) == int(state["facts"]["Commits"])
    alone.answer(order, token, "skip_review")
    alone.ended(order, token)
    books_the_demo_invoices(alone, token)
    started = [
        event["data"]["step"]
        for event in alone.events(order, token)
        if event["event"] == "step_started"
    ]
    assert list(dict.fromkeys(started)) == ["planning", "execute", "deliver"]
    assert (started.count("planning"), started.count("deliver")) == (1, 1)


def books_the_demo_invoices(stack: Stack, token: str) -> None:
    """S3-49, S3-50, offline: one books itself, one waits for a bookkeeper, one for the supplier; a
    second start makes no more.
    """

    def phases() -> list[str]:
        orders = stack.call("GET", "/api/v1/work-orders", token=token)[1]["results"]
        return sorted(
            order["current_phase"] for order in orders if order["template"] == "smart-booking"
        )

    expected = ["completed", "missing_supplier_data", "needs_bookkeeper_decision"]
    until(lambda: phases() == expected, what="the three invoices", every=0.5)
    ledger = stack.folder / "data" / "shared" / "booking" / "ledger.csv"
    assert len(ledger.read_text().splitlines()) == 5


def only_child_of(pid: int) -> int:
    [child] = children_of(pid)
    return child


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


LOOP = "twisted.internet.reactor"


def test_a_supervisor_makes_no_event_loop_that_its_servers_would_share(ready):
    """What one server listens on stays known to a loop that outlives it: now and then the next one
    could not listen (File exists), and the supervisor ended with it.
    """
    imports = "import sys, hitl.management.commands.standalone, project.urls"
    said = ready.manage("shell", "-v0", "-c", f"{imports}; print({LOOP!r} in sys.modules)")
    assert said.split() == ["False"]


def test_a_server_that_cannot_start_is_not_begun_again(ready):
    ready.environment["WAYSTATION_WORKFLOWS"] = "no.such.module"
    words = ready.manage("standalone", "--port", str(ready.port), check=False)
    assert "no.such.module" in words and "begun again" not in words


NOTES = """
import time
from pathlib import Path
from runs.workflows import Context, Done, Go, Outcome, Report, Review, State, step, use, workflow

@step("notes.draft")
def draft(state: State, context: Context) -> Outcome:
    if (slow := Path(__file__).with_name("slow")).exists():
        slow.with_name("began").touch()
        time.sleep(4)
    return Go(update={"text": "WORDS"}, report=Report(content="WORDS"))

@step("notes.finish")
def finish(state: State, context: Context) -> Outcome:
    return Done(update={"done": state["text"]})

plan = use(draft, pause_phase="awaiting_plan_approval", review=REVIEW)
notes = workflow("notes", title="Notes", steps=[plan, finish])
"""


@dataclass
class Demo:
    """A demo that loads again what its author saves."""

    stack: Stack
    token: str = ""
    supervisor: int = 0

    def save(self, words: str, review: str = "Review()") -> None:
        text = NOTES.replace("WORDS", words).replace("REVIEW", review)
        (self.stack.folder / "flows" / "notes.py").write_text(text)

    def order(self) -> str:
        """One of the author's."""
        body = {"template": "notes", "title": "Notes"}
        status, made = self.stack.call("POST", "/api/v1/work-orders", body, token=self.token)
        assert status == 201, made
        return str(made["id"])

    def asking(self) -> tuple[str, str]:
        """One that asks, and what it says."""
        order = self.order()
        asked = self.stack.paused(order, self.token, "awaiting_plan_approval")
        return order, str(asked["pause_content"])

    def log(self) -> str:
        return (self.stack.folder / "standalone.log").read_text()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    demo = Demo(Stack(tmp_path_factory.mktemp("demo"), {}))
    copies.sqlite(demo.stack.folder / "data")
    (demo.stack.folder / "flows").mkdir()
    # which a demo serves by itself, near
    del (
        demo.stack.environment["WAYSTATION_LEASE_SECONDS"],
        demo.stack.environment["WAYSTATION_LANGGRAPH"],
    )
    yield demo
    demo.stack.stop()


@pytest.fixture
def demo(kept: Demo) -> Demo:
    """One that runs, perhaps from the test before; a test may end it."""
    if not kept.supervisor or is_gone(kept.supervisor):
        kept.stack.environment["WAYSTATION_WORKFLOWS"] = f"+{kept.stack.folder / 'flows'}"
        kept.save("first words")
        kept.supervisor = kept.stack.standalone("--demo", "--reload").pid
        kept.token = token_of(kept.stack)
    return kept


def test_a_server_that_falls_is_begun_again_and_no_page_is_refused(demo):
    """Issue 31, 1: killed, or without the server of its bodies, it took pages and workers down
    until somebody began it again by hand.
    """
    ready, token, supervisor = demo.stack, demo.token, demo.supervisor
    assert ready.call("GET", "/langgraph/ok") == (200, {"ok": True})
    brought = {"X-Forwarded-For": "192.0.2.7"}
    assert ready.call("GET", "/langgraph/ok", headers=brought)[0] == 404
    first, second = demo.asking()[0], demo.asking()[0]
    os.kill(server := only_child_of(supervisor), signal.SIGKILL)
    # what it had accepted dies with it; who comes from now on waits for the next one
    until(lambda: is_gone(server), what="its end", every=0.005)
    assert ready.call("GET", "/login")[0] == 200
    ready.answer(first, token, "approve")
    ready.ended(first, token)

    server, before = only_child_of(supervisor), server
    assert server != before
    os.kill(bodies := only_child_of(server), signal.SIGKILL)
    ready.answer(second, token, "approve")
    until(lambda: is_gone(server), what="the end of a server without bodies")
    ready.ended(second, token)
    assert only_child_of(supervisor) not in {server, before}
    said = demo.log()
    assert "The server ended (signal 9). It is begun again" in said
    assert "The server ended (code 0). It is begun again" in said, bodies


def test_a_saved_workflow_is_loaded_beside_the_one_that_serves_and_nobody_is_refused(demo):
    """Issue 37, 2: each save took the server away for 10 to 20 s, and a group that a saved file
    named first was no reason to make it, but one to load nothing.
    """
    ready, token, supervisor = demo.stack, demo.token, demo.supervisor
    folder, log = ready.folder / "flows", demo.log

    before, _ = demo.asking()
    (folder / "slow").touch()
    at_work = demo.order()
    until((folder / "began").exists, what="a step at work")
    (folder / "slow").unlink()

    refused: list[str] = []
    over = threading.Event()

    def visit() -> None:
        while not over.wait(0.05):
            try:
                if (status := ready.call("GET", "/livez")[0]) != 200:
                    refused.append(str(status))
            except OSError as error:
                refused.append(repr(error))

    visitor = threading.Thread(target=visit)
    visitor.start()
    try:
        server, loaded = only_child_of(supervisor), log().count("Reloaded")
        demo.save("second words", 'Review(reviewers={"groups": ["counsel"]})')
        until(lambda: log().count("Reloaded") == loaded + 1, what="the new file", every=0.02)
        assert processor_seconds(children_of(supervisor)[-1]) < 2, "what a saver waits for, alone"
        until(lambda: is_gone(server), what="the end of the server before")
        assert demo.asking()[1] == "second words"
        assert "Made group    counsel" in log()
        server = only_child_of(supervisor)
        (folder / "notes.py").write_text("def broken(:\n")
        until(lambda: "Not reloaded" in log(), what="a word about the broken file")
        assert "notes.py, line 1: SyntaxError" in log()
        assert not is_gone(server)
        assert demo.asking()[1] == "second words"
    finally:
        over.set()
        visitor.join()
    assert refused == []
    # what was at work, and what waited, goes on
    for order in (before, at_work):
        ready.paused(order, token, "awaiting_plan_approval")
        ready.answer(order, token, "approve")
        ready.ended(order, token)


def test_another_on_its_folder_or_port_is_refused_until_it_ends_however_it_ends(
    demo, tmp_path_factory
):
    """Each says why; SIGTERM stops it cleanly, so that whoever it took is answered, and a server
    whose supervisor is gone ends.
    """
    ready = demo.stack
    del ready.environment["WAYSTATION_WORKFLOWS"]  # its file may be broken by now
    words = ready.manage("standalone", "--port", "1", check=False)
    assert "Another Waystation already works in" in words
    other = Stack(tmp_path_factory.mktemp("other"), {})
    words = other.manage("standalone", "--port", str(ready.port), check=False)
    assert f"Port {ready.port} on 127.0.0.1 cannot be used" in words
    ready.processes[-1].kill()
    ready.processes[-1].wait()

    def is_free() -> bool:
        with (ready.folder / "data" / "standalone.lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    until(is_free, what="the folder")
    process, before = ready.standalone(), demo.log()
    silent, halting, spare = (socket.create_connection(("127.0.0.1", ready.port)) for _ in range(3))
    halting.sendall(b"GET /livez HTTP/1.1\r\n")
    time.sleep(0.2)  # until it has taken them
    process.send_signal(signal.SIGTERM)
    time.sleep(1)  # longer than a server waits for those that were answered before
    silent.sendall(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    halting.sendall(b"Host: 127.0.0.1\r\n\r\n")
    assert [each.recv(12) for each in (silent, halting)] == [b"HTTP/1.1 200"] * 2
    assert process.wait(20) == 0
    for each in (silent, halting, spare):
        each.close()
    assert "Stopping" in demo.log().removeprefix(before)


def test_nothing_that_it_keeps_can_be_read_by_other_users_of_the_machine(alone):
    """Before, the database, mails with live links, workspaces and states were 0644 in folders of
    0755: every local user could read them.
    """
    stack, data = alone, alone.folder / "data"
    mail = (
        "from django.core.mail import send_mail; send_mail('A link', 'https://…', None, "
        "['ana@example.org'])"
    )
    stack.manage("shell", "-c", mail)  # by a command as well
    wanted = {"mail", "secret_key", "states", "waystation.sqlite3", "waystation.sqlite3-wal"}
    wanted |= {"workspaces", "shared"}
    until(lambda: wanted <= {path.name for path in data.iterdir()}, what="all that it keeps")
    kept = [path for path in data.rglob("*") if not path.is_symlink()]
    assert len(list((data / "mail").iterdir())) >= 2
    assert [
        f"{path}: {path.stat().st_mode:o}" for path in [data, *kept] if path.stat().st_mode & 0o077
    ] == []
    lines = [
        line
        for line in (stack.folder / "standalone.log").read_text().splitlines()
        if "could be read by other users" in line
    ]
    assert len(lines) == 1


def test_without_the_libraries_of_vendors_and_forges_the_demo_works_and_a_step_says_what_is_missing(
    alone,
):
    """Before, every server installed the SDKs of two models' vendors and two forges, whether
    anything asked them or not.
    """
    stack, token = alone, token_of(alone)

    def call(method: str, path: str, body: object = None) -> Any:
        status, answer = stack.call(method, f"/api/v1/{path}", body, token=token)
        assert status < 300, answer
        return answer

    books_the_demo_invoices(stack, token)
    config = {"model": "openai:gpt-5-mini"}
    line = "pip install -r requirements-agents.txt"
    saved = call(
        "PUT", "templates/steps/asking", {"title": "Asking", "function": "agent", "config": config}
    )
    assert line in saved["warnings"][0]
    steps = [{"step_type": "execute", "step_template_slug": "asking"}]
    saved = call(
        "PUT",
        "templates/workflows/asking",
        {"title": "Asking", "needs_repository": False, "steps": steps},
    )
    assert line in saved["warnings"][0]
    assert call("GET", "templates/workflows/chat-agent")["warnings"] == []
    status, refused = stack.call(
        "POST", "/api/v1/work-orders", {"template": "asking", "user_request": "Hello"}, token=token
    )
    assert (status, refused["code"], line in refused["detail"]) == (422, "not_installed", True)
    said = call("POST", "work-orders", {"template": "chat-agent", "input": {"input": "Hello"}})
    stack.ended(said["id"], token)
    repository = call("GET", "repositories")["results"][0]
    given = {"forge": "github", "forge_project": "ada/engine"}
    assert (
        "pip install -r requirements-forges.txt"
        in call("PUT", f"repositories/{repository['id']}", given)["warnings"][0]
    )
