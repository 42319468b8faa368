"""Redis breaks between two commands of a worker: the worker goes on by itself, and no run is lost,
doubled or stuck.

`make chaos ARGS="--faults broker"` does it at every command, one after the other; these are the
ones that matter most.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.databases.copies import TOKENS
from tests.servers.private import Redis
from tests.servers.redis_proxy import RedisProxy
from tests.servers.stack import SlowStack, until
from tests.stories.conftest import make_slow_stack

pytestmark = pytest.mark.stack

TOKEN = TOKENS["ana"]
BROKEN_SECONDS = 1.5
"""Longer than a worker waits for an answer."""
RECOVERY = 2 + 1 + 1 + 10
"""Seconds until a run goes on: its patience, a sweep, a look for the broker; and as much as a
loaded machine needs besides.
"""
CASES = [
    *((how, "BRPOP") for how in ("kill", "cut", "hang", "readonly", "loading")),
    *((how, "LPUSH agents") for how in ("kill", "cut", "hang", "oom")),
]
"""Where a message is taken, and where one is sent."""


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisProxy]:
    redis = Redis(tmp_path_factory.mktemp("redis"))
    redis.start()
    proxy = RedisProxy(redis)
    proxy.start()
    yield proxy
    proxy.stop()
    redis.kill()


@pytest.fixture(scope="module")
def own(proxy: RedisProxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowStack]:
    """A worker behind the proxy, whose commands are counted; the server and beat come to Redis by a
    way of their own.
    """
    stack = make_slow_stack(tmp_path_factory.mktemp("cuts"), "broker")
    stack.environment["REDIS_URL"] = proxy.redis.url
    stack.own["worker"] = {"REDIS_URL": proxy.url}
    stack.own["late"] = {"REDIS_URL": proxy.url}
    try:
        stack.worker()
        stack.beat()
        stack.web()
        stack.ended(stack.begin("slow-mixed", TOKEN), TOKEN)
        yield stack
    finally:
        stack.stop()


def test_wherever_redis_breaks_the_worker_goes_on_and_each_step_runs_once(
    own: SlowStack, proxy: RedisProxy
) -> None:
    """P3, P4: a Redis that hung made workers deaf for ever, one that was full or read-only ended
    them (kombu 5.7).
    """
    slow = {}
    for how, command in CASES:
        proxy.arm(1, how, only=command)
        order = own.begin("slow-mixed", TOKEN)
        until(proxy.broken.is_set, what=f"a {command}")
        worker_waits(BROKEN_SECONDS)
        proxy.mend()
        back = time.monotonic()
        run = own.ended(order, TOKEN)["run_id"]
        slow[how, command] = time.monotonic() - back
        began = own.noted("began", run)
        assert len(began) == len(set(began)) == 3, (how, command, began)
        # beat and the server too
        assert [process.poll() for process in own.processes] == [None] * 3, (
            how,
            command,
            own.log_tail(),
        )
    assert max(slow.values()) < RECOVERY, slow
    assert "exited with" not in own.log_tail()


def test_a_worker_that_starts_while_redis_dies_begins_all_the_same(
    own: SlowStack, proxy: RedisProxy
) -> None:
    """P3: in the middle of its start, where it has asked for some of its queues."""
    own.kill(own.processes[0])
    proxy.arm(1, "kill", only="PSUBSCRIBE")
    late = own.worker("late")
    until(proxy.broken.is_set, what="the worker's start")
    proxy.mend()
    own.ended(own.begin("slow-mixed", TOKEN), TOKEN)
    assert late.poll() is None


def worker_waits(seconds: float) -> None:
    """The accident lasts: no sign of its end is to be had."""
    time.sleep(seconds)
