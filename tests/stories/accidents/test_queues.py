"""Queues of their own: long steps of agents starve nobody who waits for a short one. And SIGTERM: a
worker ends soon, gives back what it holds at a step boundary, and another one goes on.
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
import redis

from checkpoints import ids
from tests.databases import copies
from tests.databases.copies import PEOPLE, TOKENS
from tests.servers.slow_steps import TICKS
from tests.servers.stack import SlowStack, threads_of, until
from tests.stories.conftest import make_slow_stack

pytestmark = pytest.mark.stack
PAUSED = 20


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowStack]:
    """A stack with a server and, so that only messages move runs, without beat."""
    stack = make_slow_stack(tmp_path_factory.mktemp("queues"), "queues")
    try:
        stack.web()
        yield stack
    finally:
        stack.stop()


@pytest.fixture(scope="module")
def token(own: SlowStack) -> str:
    return TOKENS["ana"]


@pytest.fixture(scope="module")
def pair(own: SlowStack) -> list[subprocess.Popen[bytes]]:
    """As in the Procfile, one worker for the agents' queue and one for the others; one child
    each.
    """
    return [
        own.worker("steps", queues="control,steps", concurrency=1),
        own.worker("agents", queues="agents", concurrency=1),
    ]


@pytest.mark.usefixtures("pair")
def test_a_resume_goes_on_at_once_while_long_steps_keep_the_agents_busy(own, token):
    """Three runs whose step takes a minute, for one worker; the answer's next step begins all the
    same.
    """
    asked = own.begin("slow-asking", token)
    own.paused(asked, token, "awaiting_plan_approval")
    long = [own.begin("slow-agent", token) for _ in range(3)]
    until(
        lambda: any(own.order(order, token)["status"] == "running" for order in long),
        what="the agents' worker",
    )
    began = time.monotonic()
    own.answer(asked, token, "approve")
    own.ended(asked, token)
    assert time.monotonic() - began < 5
    assert sorted(own.order(order, token)["status"] for order in long) == [
        "pending",
        "pending",
        "running",
    ]
    for order in long:
        own.call("POST", f"/api/v1/work-orders/{order}/cancel", token=token)


@pytest.mark.usefixtures("pair")
def test_a_run_changes_queues_between_its_steps(own, token):
    """F10: from `steps` to `agents` and back, by messages alone."""
    order = own.begin("slow-mixed", token)
    own.ended(order, token)
    steps = [
        event["data"]["step"]
        for event in own.events(order, token)
        if event["event"] == "step_completed"
    ]
    assert steps == ["before", "agent", "after"]


@pytest.mark.usefixtures("pair")
def test_what_is_due_in_seconds_goes_on_by_itself_where_nobody_sweeps(own, token):
    """A timer, a retry and a deadline of a second: without beat nothing but the workers' own hints
    moves them. Before, each was up to a sweep late.
    """
    order = own.begin("slow-timers", token)
    own.ended(order, token)
    told = [event["data"].get("code") for event in own.events(order, token)]
    assert [code for code in told if code in {"sleeps", "tries_again"}] == ["sleeps", "tries_again"]


@pytest.mark.usefixtures("pair")
def test_workers_whose_connections_were_cut_take_the_next_message_all_the_same(own, token):
    """F11: they keep a connection from task to task, and the server closes all of them, as a
    restart does.
    """
    order = own.begin("slow-asking", token)
    own.paused(order, token, "awaiting_plan_approval")
    with psycopg.connect(own.environment["DATABASE_URL"], autocommit=True) as connection:
        mine = (
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> "
            "pg_backend_pid()"
        )
        cut = connection.execute(
            f"SELECT pg_terminate_backend(pid) FROM ({mine}) AS mine"
        ).fetchall()
    assert len(cut) >= 2
    own.answer(order, token, "approve")
    own.ended(order, token)


def held(own: SlowStack, pair: list[subprocess.Popen[bytes]]) -> dict[str, int]:
    """What the product holds just now: messages in the broker, connections to the database, threads
    of the workers.
    """
    with (
        psycopg.connect(own.environment["DATABASE_URL"]) as database,
        redis.Redis.from_url(own.environment["REDIS_URL"]) as broker,
    ):
        found = database.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        ).fetchone()
        messages = sum(int(broker.llen(queue)) for queue in ("control", "steps", "agents")) + int(
            broker.hlen("unacked")
        )
    assert found is not None
    threads = threads_of({worker.pid for worker in pair})
    return {"messages": messages, "connections": found[0], "threads": threads}


def test_paused_runs_hold_no_slot_of_any_kind(own, token, pair):
    """P7, F12: no message, connection, thread or lease is theirs, and the one worker of their queue
    is free for others.
    """
    own.paused(own.begin("slow-asking", token), token, "awaiting_plan_approval")
    until(lambda: held(own, pair)["messages"] == 0, what="an idle broker")
    before = held(own, pair)
    asking = [own.begin("slow-asking", token) for _ in range(PAUSED)]
    for order in asking:
        own.paused(order, token, "awaiting_plan_approval")
    until(lambda: held(own, pair)["messages"] == 0, what="an idle broker")
    now = held(own, pair)
    assert (now["messages"], now["threads"]) == (0, before["threads"])
    # those of the server's pool come and go
    assert now["connections"] < before["connections"] + PAUSED // 2
    own.ended(own.begin("slow-mixed", token), token)
    with psycopg.connect(own.environment["DATABASE_URL"]) as database:
        leases = database.execute(
            "SELECT count(*) FROM runs_run WHERE lease_until IS NOT NULL OR lease_owner <> ''"
        ).fetchone()
    assert leases == (0,)
    for order in asking:
        own.call("POST", f"/api/v1/work-orders/{order}/cancel", token=token)


@pytest.fixture(scope="module")
def idle(own: SlowStack) -> SlowStack:
    """Its workers are the test's own."""
    for worker in own.processes[1:]:
        if worker.poll() is None:
            own.kill(worker)
    return own


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
def test_a_stopped_worker_hands_its_run_back_and_another_goes_on_at_once(idle, token, pool, group):
    """P3, P4, F10: nothing sweeps here, so it is the message that brings the run to the heir, which
    ends at once itself when it has nothing to do.
    """
    first = idle.worker("first", pool=pool)
    order = idle.begin("slow-ticks", token)
    run = idle.order(order, token)["run_id"]
    until(lambda: len(idle.noted("done", run)) >= 3, what="three steps")
    took = terminate(first, group=group)
    assert (first.returncode, took < 5) == (0, True), (took, idle.log_tail())
    assert row(idle, run) == ("pending", "", None)
    done = idle.noted("done", run)
    assert idle.noted("began", run) == done
    assert len(done) < TICKS
    heir = idle.worker("heir", pool=pool)
    idle.paused(idle.begin("slow-asking", token), token, "awaiting_plan_approval")
    idle.ended(order, token)
    assert (terminate(heir) < 5, heir.returncode) == (True, 0)
    assert idle.noted("began", run) == idle.noted("done", run)
    assert len(idle.noted("done", run)) == len(set(idle.noted("done", run))) == TICKS


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_steps_that_do_not_end_in_time_are_ended_and_their_runs_handed_to_another(
    idle, token, pool
):
    """P3, F11: the soft shutdown is bounded, also for a step that looks at nothing; nothing sweeps
    here: a message tells the heir.
    """
    first = idle.worker("first", pool=pool)
    orders = [idle.begin(template, token) for template in ("slow-sleep", "slow-deaf")]
    runs = [idle.order(order, token)["run_id"] for order in orders]
    until(lambda: all(idle.noted("began", run) for run in runs), what="the steps")
    took = terminate(first)
    assert 4 < took < 20, (took, idle.log_tail())
    assert [row(idle, run) for run in runs] == [("pending", "", None)] * 2
    with pytest.raises(ProcessLookupError):
        os.killpg(first.pid, 0)  # no child is left over that would still work
    heir = idle.worker("heir", pool=pool)
    until(lambda: all(len(idle.noted("began", run)) == 2 for run in runs), what="the heir")
    for order in orders:
        assert idle.call("POST", f"/api/v1/work-orders/{order}/cancel", token=token)[0] == 200
    idle.kill(heir)
    for run in runs:
        assert idle.noted("done", run) == []
        assert len(set(idle.noted("began", run))) == 1


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
