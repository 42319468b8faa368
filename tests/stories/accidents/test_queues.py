"""Queues of their own: long steps of agents starve nobody who waits for a short one."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psycopg
import pytest
import redis

from tests.databases.copies import TOKENS
from tests.servers.stack import SlowStack, threads_of, until
from tests.stories.conftest import make_slow_stack

pytestmark = pytest.mark.stack
PAUSED = 20


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowStack]:
    """As in the Procfile, one worker for the agents' queue and one for the others; one child each,
    and no beat.
    """
    stack = make_slow_stack(tmp_path_factory.mktemp("queues"), "queues")
    try:
        stack.worker("steps", queues="control,steps", concurrency=1)
        stack.worker("agents", queues="agents", concurrency=1)
        stack.web()
        yield stack
    finally:
        stack.stop()


def test_a_resume_goes_on_at_once_while_long_steps_keep_the_agents_busy(own):
    """Three runs whose step takes a minute, for one worker; the answer's next step begins all the
    same.
    """
    token = TOKENS["ana"]
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


def test_a_run_changes_queues_between_its_steps(own):
    """F10: from `steps` to `agents` and back, by messages alone."""
    token = TOKENS["ana"]
    order = own.begin("slow-mixed", token)
    own.ended(order, token)
    steps = [
        event["data"]["step"]
        for event in own.events(order, token)
        if event["event"] == "step_completed"
    ]
    assert steps == ["before", "agent", "after"]


def test_what_is_due_in_seconds_goes_on_by_itself_where_nobody_sweeps(own):
    """A timer, a retry and a deadline of a second: without beat nothing but the workers' own hints
    moves them. Before, each was up to a sweep late.
    """
    token = TOKENS["ana"]
    order = own.begin("slow-timers", token)
    own.ended(order, token)
    told = [event["data"].get("code") for event in own.events(order, token)]
    assert [code for code in told if code in {"sleeps", "tries_again"}] == ["sleeps", "tries_again"]


def test_workers_whose_connections_were_cut_take_the_next_message_all_the_same(own):
    """F11: they keep a connection from task to task, and the server closes all of them, as a
    restart does.
    """
    token = TOKENS["ana"]
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


def held(own: SlowStack) -> dict[str, int]:
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
    groups = {process.pid for process in own.processes[:2]}  # the two workers
    return {"messages": messages, "connections": found[0], "threads": threads_of(groups)}


def test_paused_runs_hold_no_slot_of_any_kind(own):
    """P7, F12: no message, connection, thread or lease is theirs, and the one worker of their queue
    is free for others.
    """
    token = TOKENS["ana"]
    own.paused(own.begin("slow-asking", token), token, "awaiting_plan_approval")
    until(lambda: held(own)["messages"] == 0, what="an idle broker")
    before = held(own)
    asking = [own.begin("slow-asking", token) for _ in range(PAUSED)]
    for order in asking:
        own.paused(order, token, "awaiting_plan_approval")
    until(lambda: held(own)["messages"] == 0, what="an idle broker")
    now = held(own)
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
