"""Redis away: whoever asks or answers gets 2xx within a second, and everything goes on when it is
back; and where it breaks between two commands of a worker, no run is lost, doubled or stuck.

`make chaos ARGS="--faults broker"` breaks it at every command, one after the other; these are the
ones that matter most.
"""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterator

import pytest
from redis import Redis as Client

from runs.tasks import BREAKER_SECONDS
from tests.databases.copies import TOKENS
from tests.programs.begun import Begun
from tests.servers.private import Redis
from tests.servers.redis_proxy import RedisProxy
from tests.servers.stack import SlowStack, until
from tests.stories.conftest import make_slow_stack

pytestmark = pytest.mark.stack

PATIENCE = BREAKER_SECONDS + 2 + 1 + 10
"""Seconds until all goes on: what is left of the breaker, a run's patience, a sweep; and as much as
a loaded machine needs besides.
"""
GIVEN_UP = "the sweep will find it"
TOKEN = TOKENS["ana"]
COMMAND_WAITS = 1.5
"""Seconds that a command may wait for a Redis that hangs, beyond what it waits anyway."""


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


@pytest.fixture
def redis(proxy: RedisProxy) -> Redis:
    """It may be frozen or killed, and is back after the test."""
    return proxy.redis


@pytest.fixture(scope="module")
def own(proxy: RedisProxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowStack]:
    """A worker behind the proxy, whose commands are counted; the server and beat come to Redis by a
    way of their own.
    """
    stack = make_slow_stack(tmp_path_factory.mktemp("broker"), "broker")
    stack.environment["REDIS_URL"] = proxy.redis.url
    stack.own["worker"] = stack.own["late"] = {"REDIS_URL": proxy.url}
    try:
        stack.worker()
        stack.beat()
        stack.web()
        stack.ended(stack.begin("slow-mixed", TOKEN), TOKEN)
        yield stack
    finally:
        stack.stop()


def freeze(redis: Redis) -> None:
    assert redis.process is not None
    redis.process.send_signal(signal.SIGSTOP)


def thaw(redis: Redis) -> None:
    assert redis.process is not None
    redis.process.send_signal(signal.SIGCONT)


def test_a_redis_that_is_full_holds_up_no_decision(own, redis):
    """P3: at `maxmemory` with `noeviction` five decisions were accepted, and none moved for as long
    as that lasted.
    """
    waiting = [own.begin("slow-asking", TOKEN) for _ in range(3)]
    for order in waiting:
        own.paused(order, TOKEN, "awaiting_plan_approval")
    with Client(port=redis.port) as client:
        client.config_set("maxmemory", 1)
        try:
            for order in waiting:
                own.answer(order, TOKEN, "approve")
            for order in waiting:
                own.ended(order, TOKEN)
        finally:
            client.config_set("maxmemory", 0)


@pytest.mark.parametrize("how", ["hanging", "refused"])
def test_without_redis_nobody_waits_and_nothing_is_lost(own, redis, how):
    """P2, P3, F10, STACK §9: it accepts and never answers, or it refuses; when it begins, nobody
    knows yet that it is away.
    """
    waiting, unwanted = own.begin("slow-asking", TOKEN), own.begin("slow-asking", TOKEN)
    for order in (waiting, unwanted):
        own.paused(order, TOKEN, "awaiting_plan_approval")
    log = own.folder / "web.log"
    failed = log.read_text().count(GIVEN_UP)
    freeze(redis) if how == "hanging" else redis.kill()
    took = {}

    def timed(name, call):
        began = time.monotonic()
        answer = call()
        took[name] = time.monotonic() - began
        return answer

    try:
        timed("decide", lambda: own.answer(waiting, TOKEN, "approve"))
        fresh = timed("submit", lambda: own.begin("slow-asking", TOKEN))
        timed("cancel a paused one", lambda: own.answer(unwanted, TOKEN, "cancel"))
        another = timed("submit another", lambda: own.begin("slow-asking", TOKEN))
        assert (
            timed(
                "cancel a pending one",
                lambda: own.call("POST", f"/api/v1/work-orders/{another}/cancel", token=TOKEN),
            )[0]
            == 200
        )
        # of the last outage: nobody tries while it is open, so another order comes now and then
        tried = [time.monotonic()]

        def a_send_failed() -> bool:
            if time.monotonic() - tried[-1] > 2:
                tried.append(time.monotonic())
                own.begin("slow-asking", TOKEN)
            return bool(log.read_text().count(GIVEN_UP) > failed)

        until(a_send_failed, what="the first send to fail")
        later = timed("submit while the breaker is open", lambda: own.begin("slow-asking", TOKEN))
    finally:
        thaw(redis) if how == "hanging" else redis.start()
    back = time.monotonic()
    own.ended(waiting, TOKEN)
    for order in (fresh, later):
        own.paused(order, TOKEN, "awaiting_plan_approval")
    took["to go on"] = time.monotonic() - back
    assert took.pop("to go on") < PATIENCE, own.log_tail()
    assert max(took.values()) < 1, took
    own.ended(unwanted, TOKEN, "failed")
    own.ended(another, TOKEN, "failed")


def test_a_command_stands_a_second_at_most_before_a_redis_that_hangs(own, redis):
    """S14-10: `manage.py workorder` took 6 s: it waited for its live hints, and then for its
    messages. What the process waits is counted inside it, until its very end.
    """

    def waited(*words):
        # what the product does at exit must be known after what tells the seconds: see there
        command = ("-m", "tests.servers.timed_command", "--user", "ana", *words)
        begun = Begun(*command, environment=own.environment, of_product=False).ended(within=60)
        assert begun.returncode == 0, begun.stderr
        waits = next(line for line in begun.stdout.splitlines() if line.startswith("{"))
        return "".join(re.findall(r"wo_\w+", begun.stdout)[:1]), sum(json.loads(waits).values())

    _, usual = waited("create", "--template", "slow-asking")
    order, unwanted = (own.begin("slow-asking", TOKEN) for _ in range(2))
    for each in (order, unwanted):
        own.paused(each, TOKEN, "awaiting_plan_approval")
    freeze(redis)
    try:
        made, to_create = waited("create", "--template", "slow-asking")
        _, to_approve = waited("approve", order)
        _, to_cancel = waited("cancel", unwanted)
    finally:
        thaw(redis)
    assert max(to_create, to_approve, to_cancel) < usual + COMMAND_WAITS, (
        usual,
        to_create,
        to_approve,
        to_cancel,
    )
    assert max(to_create, to_approve) > usual + 0.5, (
        "it did wait for its message, so the broker hung"
    )
    own.ended(order, TOKEN)
    own.paused(made, TOKEN, "awaiting_plan_approval")


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
        assert [process.poll() for process in own.processes[:3]] == [None] * 3, (
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
