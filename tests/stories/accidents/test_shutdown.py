"""SIGTERM: a worker ends soon, gives back what it holds at a step boundary, and another one goes
on.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from checkpoints import ids
from tests.databases import copies
from tests.databases.copies import PEOPLE, TOKENS
from tests.servers.slow_steps import TICKS
from tests.servers.stack import SlowStack, until
from tests.stories.conftest import make_slow_stack

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowStack]:
    """A stack with a server and, so that only messages move runs, without beat; each test starts
    its own workers.
    """
    stack = make_slow_stack(tmp_path_factory.mktemp("shutdown"), "shutdown")
    try:
        stack.web()
        yield stack
    finally:
        stack.stop()


@pytest.fixture(scope="module")
def token(own: SlowStack) -> str:
    return TOKENS["ana"]


def terminate(process: subprocess.Popen[bytes], *, group: bool = False) -> float:
    """SIGTERM to the process alone or, as some supervisors do, to all of its group; gives the
    seconds until it ended.
    """
    began = time.monotonic()
    (os.killpg if group else os.kill)(process.pid, signal.SIGTERM)
    process.wait(30)
    return time.monotonic() - began


def row(own: SlowStack, run: str) -> tuple[str, str, object]:
    """Status, owner and end of the lease."""
    with psycopg.connect(own.environment["DATABASE_URL"]) as connection:
        found = connection.execute(
            "SELECT status, lease_owner, lease_until FROM runs_run WHERE id = %s",
            [ids.parse("run", run)],
        ).fetchone()
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("pool", "group"), [("prefork", False), ("prefork", True), ("threads", False)]
)
def test_a_stopped_worker_hands_its_run_back_and_another_goes_on_at_once(own, token, pool, group):
    """P3, P4, F10: nothing sweeps here, so it is the message that brings the run to the heir, which
    ends at once itself when it has nothing to do.
    """
    first = own.worker("first", pool=pool)
    order = own.begin("slow-ticks", token)
    run = own.order(order, token)["run_id"]
    until(lambda: len(own.noted("done", run)) >= 3, what="three steps")
    took = terminate(first, group=group)
    assert (first.returncode, took < 5) == (0, True), (took, own.log_tail())
    assert row(own, run) == ("pending", "", None)
    done = own.noted("done", run)
    assert own.noted("began", run) == done
    assert len(done) < TICKS
    heir = own.worker("heir", pool=pool)
    own.paused(own.begin("slow-asking", token), token, "awaiting_plan_approval")
    own.ended(order, token)
    assert (terminate(heir) < 5, heir.returncode) == (True, 0)
    assert own.noted("began", run) == own.noted("done", run)
    assert len(own.noted("done", run)) == len(set(own.noted("done", run))) == TICKS


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_steps_that_do_not_end_in_time_are_ended_and_their_runs_handed_to_another(own, token, pool):
    """P3, F11: the soft shutdown is bounded, also for a step that looks at nothing; nothing sweeps
    here: a message tells the heir.
    """
    first = own.worker("first", pool=pool)
    orders = [own.begin(template, token) for template in ("slow-sleep", "slow-deaf")]
    runs = [own.order(order, token)["run_id"] for order in orders]
    until(lambda: all(own.noted("began", run) for run in runs), what="the steps")
    took = terminate(first)
    assert 4 < took < 20, (took, own.log_tail())
    assert [row(own, run) for run in runs] == [("pending", "", None)] * 2
    with pytest.raises(ProcessLookupError):
        os.killpg(first.pid, 0)  # no child is left over that would still work
    heir = own.worker("heir", pool=pool)
    until(lambda: all(len(own.noted("began", run)) == 2 for run in runs), what="the heir")
    for order in orders:
        assert own.call("POST", f"/api/v1/work-orders/{order}/cancel", token=token)[0] == 200
    own.kill(heir)
    for run in runs:
        assert own.noted("done", run) == []
        assert len(set(own.noted("began", run))) == 1


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[SlowStack]:
    copies.sqlite(tmp_path / "data")
    stack = SlowStack(tmp_path, {})
    yield stack
    stack.stop()


def test_the_embedded_process_keeps_what_it_stopped_in_the_middle_of(alone):
    """P4, P5, S2-32: SIGTERM, start again, and the run goes on from its boundary."""
    process = alone.standalone()
    alone.load(PEOPLE)
    order = alone.begin("slow-ticks", TOKENS["ana"])
    run = alone.order(order, TOKENS["ana"])["run_id"]
    until(lambda: len(alone.noted("done", run)) >= 3, what="three steps")
    assert terminate(process) < 5
    assert process.returncode == 0
    assert alone.noted("began", run) == alone.noted("done", run)
    assert len(alone.noted("done", run)) < TICKS
    alone.standalone()
    alone.ended(order, TOKENS["ana"])
    assert len(alone.noted("done", run)) == len(set(alone.noted("done", run))) == TICKS
    assert alone.noted("began", run) == alone.noted("done", run)
