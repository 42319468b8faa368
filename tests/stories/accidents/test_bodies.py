"""Steps that do what steps should not: each ends as it should, others go on, and nothing is left.

The table of `tests.worlds.misbehaving` × cancelled, out of time, worker stopped, host lost, in
every kind of worker.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.chaos.faults.bodies import below, is_apart
from tests.databases import copies
from tests.databases.copies import PEOPLE, TEMPLATES, TOKENS
from tests.servers.stack import Stack, until
from tests.stories.conftest import make_stack
from tests.worlds.misbehaving import FALLING, FORKS, LEAVING, UNENDING

pytestmark = [
    pytest.mark.stack,
    pytest.mark.skipif(sys.platform != "linux", reason="other systems have no /proc"),
]
GRACE = 2.0
SECONDS = 30.0
"""For what a loaded machine needs beside the grace."""
CODES = {
    "leave": "step_left",
    "end_process": "incident",
    "crash": "incident",
    "overflow": "incident",
    "take_memory": "out_of_memory",
}


class Misbehaving:
    """A stack whose workers are of one kind."""

    def __init__(self, stack: Stack, kind: str) -> None:
        self.stack, self.kind, self.token = stack, kind, TOKENS["olga"]
        self.ledger = stack.folder / "bodies"
        self.ledger.mkdir()
        self.worker: subprocess.Popen[bytes] | None = None
        stack.environment |= {
            "WAYSTATION_WORKFLOWS": "+tests.worlds.misbehaving",
            "TEST_LEDGER": str(self.ledger),
            "WAYSTATION_STEP_GRACE": str(GRACE),
            "WAYSTATION_STEP_MEMORY": "300000000",
        }

    def start(self) -> subprocess.Popen[bytes]:
        """A worker, unless one is there from the test before."""
        if self.worker is None or self.worker.poll() is not None:
            self.worker = (
                self.stack.standalone()
                if self.kind == "embedded"
                else self.stack.worker(concurrency=len(UNENDING) + 2, pool=self.kind)
            )
        return self.worker

    def order(self, template: str, request: str = "") -> str:
        body = {"template": template, "user_request": request}
        status, order = self.stack.call("POST", "/api/v1/work-orders", body, token=self.token)
        assert status == 201, order
        return str(order["id"])

    def begin(self, template: str = "misbehaving") -> dict[str, str]:
        """Order all unending ones: name → order."""
        return {name: self.order(template, name) for name in UNENDING}

    def are_at_work(self) -> None:
        until(lambda: set(self.said("began")) >= set(UNENDING), what="bodies", seconds=SECONDS)
        children = FORKS + 1
        until(lambda: len(self.said("children")) == children, what="theirs", seconds=SECONDS)
        (self.ledger / "spin").touch()
        until((self.ledger / "spins").exists, what="a processor that is taken", seconds=SECONDS)

    def forget(self) -> None:
        """What was said before."""
        for path in self.ledger.iterdir():
            path.unlink()

    def said(self, name: str) -> list[str]:
        path = self.ledger / name
        return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []

    def processes(self) -> list[str]:
        """The processes of bodies and of what they started that are still there."""
        began = self.ledger / "began"
        pids = [line.split()[1] for line in began.read_text().splitlines()]
        return [pid for pid in [*pids, *self.said("children")] if is_alive(pid)]

    def cancel(self, orders: Collection[str]) -> None:
        for order in orders:
            path = f"/api/v1/work-orders/{order}/cancel"
            assert self.stack.call("POST", path, {}, token=self.token)[0] == 200

    def all_gone(self) -> None:
        until(lambda: not self.processes(), what=f"an end; {self.said('began')}", seconds=SECONDS)

    def all_are(self, orders: Collection[str], status: str) -> None:
        def are() -> bool:
            path = "/api/v1/work-orders?limit=100"
            newest = self.stack.call("GET", path, token=self.token)[1]["results"]
            return {*orders} <= {order["id"] for order in newest if order["status"] == status}

        until(are, what=f"{status}; {self.stack.log_tail()}", seconds=SECONDS, every=0.5)

    def goes_on(self) -> None:
        """Another's order is done, whatever these do."""
        self.stack.ended(self.order("behaving"), self.token)


def is_alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(scope="module", params=["embedded", "threads", "prefork"])
def kind(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Misbehaving]:
    kind: str = request.param
    folder = tmp_path_factory.mktemp(kind)
    if kind == "embedded":
        stack = Stack(folder, {})
        copies.sqlite(stack.folder / "data")
        stack.manage("shell", "-c", TEMPLATES + PEOPLE)
    else:
        stack = make_stack(folder, "bodies")
    misbehaving = Misbehaving(stack, kind)
    if kind != "embedded":
        stack.web()
        stack.beat()
    try:
        yield misbehaving
    finally:
        stack.stop()


@pytest.fixture
def at(kind: Misbehaving) -> Misbehaving:
    kind.forget()
    return kind


def test_bodies_that_do_not_end_are_ended_and_hold_nobody_up(at):
    """Where their worker is stopped, where its host is lost, and where they are cancelled or out of
    time.
    """
    worker = at.start()
    orders = at.begin()
    at.are_at_work()
    os.kill(worker.pid, signal.SIGTERM)
    worker.wait(SECONDS)
    at.all_gone()

    at.forget()
    worker = at.start()
    at.are_at_work()
    at.stack.kill(worker)
    at.all_gone()

    at.forget()
    at.start()
    at.are_at_work()
    late = at.begin("misbehaving-limited")
    at.cancel(orders.values())
    at.goes_on()
    at.all_are([*orders.values(), *late.values()], "failed")
    at.all_gone()
    assert {failure(at, order) for order in orders.values()} == {"cancelled_by_user"}
    # of those that are out of time, and of those that were cancelled
    assert {"sleep": 2, "listen": 2, "spin": 2}.items() <= Counter(at.said("finally")).items()
    codes = {name: failure(at, order) for name, order in late.items()}
    assert codes == dict.fromkeys(UNENDING, "timeout")


def test_bodies_that_fall_or_leave_something_harm_nobody(at):
    at.start()
    falling = {name: at.order("misbehaving", name) for name in FALLING}
    leaving = {name: at.order("misbehaving", name) for name in LEAVING}
    at.goes_on()
    at.all_are(falling.values(), "failed")
    assert {name: failure(at, order) for name, order in falling.items()} == CODES
    words = at.stack.order(falling["end_process"], at.token)
    assert "ended its worker with code 3, 2 times in a row" in str(words)
    at.all_are(leaving.values(), "completed")
    for name, order in leaving.items():
        found = state(at, order)["found"]
        assert all(found.values()), (name, found)
    until(lambda: not children(at), what="an end of what was left behind", seconds=SECONDS)
    at.goes_on()
    assert not at.said("later")  # the thread ended with its process


@pytest.mark.parametrize("kind", ["threads"], indirect=True)
def test_a_worker_whose_server_of_bodies_is_gone_ends_and_another_one_goes_on(at):
    worker = at.start()
    at.goes_on()
    (server,) = [pid for pid in below(worker.pid) if is_apart(pid)]
    os.kill(server, signal.SIGKILL)
    until(lambda: not is_alive(str(server)), what="its end")
    left = at.order("behaving")
    # the process that was idle died with its server, so the first order is given back
    other = at.order("behaving")
    assert worker.wait(SECONDS) == 0
    at.start()
    for order in (left, other):
        at.stack.ended(order, at.token)


def failure(at: Misbehaving, order: str) -> Any:
    return at.stack.order(order, at.token)["failure_code"]


def children(at: Misbehaving) -> list[str]:
    return [pid for pid in at.said("children") if is_alive(pid)]


def state(at: Misbehaving, order: str) -> dict[str, Any]:
    """What the order's run knows at its end."""
    thread = at.stack.order(order, at.token)["thread_id"]
    found = at.stack.call("GET", f"/api/v1/threads/{thread}/state", token=at.token)
    assert found[0] == 200, found
    return dict(found[1]["values"])
