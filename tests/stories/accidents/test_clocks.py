"""Hosts whose clocks are wrong: the database's clock decides, so nothing is early, nothing is late,
and nobody loses what is theirs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from checkpoints import ids
from tests.databases.copies import TOKENS
from tests.servers.private import wrong_clock
from tests.servers.slow_steps import DEADLINE, NAP
from tests.servers.stack import SlowStack, until
from tests.stories.conftest import make_slow_stack

pytestmark = pytest.mark.stack

LEASE = NAP // 2
"""Seconds, far less than the clocks are off. Where four tests share two processors a process may get
none of them for three, and then its lease is rightly another one's.
"""
ROUND = 8
"""Seconds within which the sweep, once a second, comes round on a machine that has much else to
do.
"""


@contextmanager
def off(stack: SlowStack, by: str) -> Iterator[None]:
    """Processes that start meanwhile have a wall clock that is off."""
    wrong = wrong_clock(by)
    stack.environment.update(wrong)
    yield
    for name in wrong:
        del stack.environment[name]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowStack]:
    """Each process lives in a time of its own, and none in the database's."""
    stack = make_slow_stack(tmp_path_factory.mktemp("clocks"), "clocks")
    stack.environment["WAYSTATION_LEASE_SECONDS"] = str(LEASE)
    try:
        with off(stack, "+25s"):
            stack.worker("ahead", concurrency=3, pool="threads")
        with off(stack, "-1h"):
            stack.worker("behind", concurrency=3, pool="threads")
        with off(stack, "+1h"):
            stack.beat()
        with off(stack, "-25s"):
            stack.web()
        yield stack
    finally:
        stack.stop()
        for process in stack.processes:  # killed, they leave what libfaketime keeps for each
            for kept in ("faketime_shm", "sem.faketime_sem"):
                Path(f"/dev/shm/{kept}_{process.pid}").unlink(missing_ok=True)


@pytest.fixture
def look(own: SlowStack) -> Iterator[Callable[..., tuple[Any, ...]]]:
    """The first row that a query gives."""
    with psycopg.connect(own.environment["DATABASE_URL"], autocommit=True) as connection:

        def first(query: str, *values: Any) -> tuple[Any, ...]:
            row: tuple[Any, ...] | None = connection.execute(query, values).fetchone()
            assert row is not None, query
            return row

        yield first


def test_wrong_clocks_decide_nothing(own, look):
    """P8, P3.

    With one worker at +25 s a deadline of 40 s fired after 15.8 s, and healthy runs were taken from
    their workers 15 times; what beat ordered had expired for whom an hour parted from it.
    """
    token = TOKENS["ana"]
    naps = [own.begin("slow-nap", token) for _ in range(3)]
    asked = own.begin("slow-deadline", token)
    until(lambda: look("SELECT count(*) FROM runs_pause")[0], what="the question")
    status, left = "open", 1.0
    while status == "open":  # asked for in one statement: what stood at that time
        status, left = look(
            "SELECT status, extract(epoch FROM deadline_at - statement_timestamp()) FROM runs_pause"
        )
        assert left > -ROUND, own.log_tail()
        time.sleep(0.02)  # asked without a pause, it would take the processor that they need
    assert status == "expired" and left <= 0
    (given,) = look("SELECT extract(epoch FROM deadline_at - opened_at) FROM runs_pause")
    assert given == DEADLINE
    own.ended(asked, token, "failed")
    for order in naps:
        own.ended(order, token)
        run = own.order(order, token)["run_id"]
        assert len(own.noted("began", run)) == 1, own.log_tail()
    assert look("SELECT count(*) FROM checkpoints_event WHERE data LIKE '%%takes over%%'") == (0,)
    for name, words in {"ahead": "25.0 s ahead of", "behind": "3600.0 s behind"}.items():
        assert (
            f"This host's clock is {words} the database's"
            in (own.folder / f"{name}.log").read_text()
        )
    assert look("SELECT count(*) FROM runs_hostclock WHERE abs(ahead) > 24") == (1,)


def test_what_a_worker_with_a_wrong_clock_held_is_soon_another_ones(own, look):
    """P3: killed with a lease that its own clock would have had end an hour ago, or in 28 s."""
    token = TOKENS["ana"]
    order = own.begin("slow-nap", token)
    run = own.order(order, token)["run_id"]
    until(lambda: own.noted("began", run), what="the step")
    (owner,) = look("SELECT lease_owner FROM runs_run WHERE id = %s", ids.parse("run", run))
    lost = next(process for process in own.processes if str(process.pid) == owner.rsplit(":", 1)[1])
    own.kill(lost)
    died = time.monotonic()
    until(lambda: len(own.noted("began", run)) == 2, what="another worker")
    assert time.monotonic() - died < 2 * LEASE + ROUND
    own.ended(order, token)
