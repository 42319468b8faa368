"""Redis away: whoever asks or answers gets 2xx within a second, and everything goes on when it is
back.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis as Client

from runs.tasks import BREAKER_SECONDS
from tests.databases.copies import TOKENS
from tests.servers.private import answers, free_port
from tests.servers.stack import ROOT, SlowStack, until
from tests.stories.conftest import make_slow_stack

pytestmark = pytest.mark.stack

PATIENCE = BREAKER_SECONDS + 2 + 1 + 10
"""Seconds until all goes on: what is left of the breaker, a run's patience, a sweep; and as much as
a loaded machine needs besides.
"""
GIVEN_UP = "the sweep will find it"
COMMAND_WAITS = 1.5
"""Seconds that a command may wait for a Redis that hangs, beyond what it waits anyway."""


class Redis:
    """A Redis of its own that the test may freeze or kill."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.start()

    def start(self) -> None:
        command = [
            "redis-server",
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--dir",
            str(self.folder),
        ]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        until(lambda: answers(self.port), what="Redis")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    redis = Redis(tmp_path_factory.mktemp("redis"))
    yield redis
    redis.kill()


@pytest.fixture(scope="module")
def own(redis: Redis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowStack]:
    stack = make_slow_stack(tmp_path_factory.mktemp("broker"), "broker")
    stack.environment["REDIS_URL"] = f"redis://127.0.0.1:{redis.port}/0"
    try:
        stack.worker()
        stack.beat()
        stack.web()
        yield stack
    finally:
        stack.stop()


def test_a_redis_that_is_full_holds_up_no_decision(own, redis):
    """P3: at `maxmemory` with `noeviction` five decisions were accepted, and none moved for as long
    as that lasted.
    """
    token = TOKENS["ana"]
    waiting = [own.begin("slow-asking", token) for _ in range(3)]
    for order in waiting:
        own.paused(order, token, "awaiting_plan_approval")
    with Client(port=redis.port) as client:
        client.config_set("maxmemory", 1)
        try:
            for order in waiting:
                own.answer(order, token, "approve")
            for order in waiting:
                own.ended(order, token)
        finally:
            client.config_set("maxmemory", 0)


@pytest.mark.parametrize(
    ("goes", "comes_back"), [("freeze", "thaw"), ("kill", "start")], ids=["hanging", "refused"]
)
def test_without_redis_nobody_waits_and_nothing_is_lost(own, redis, goes, comes_back):
    """P2, P3, F10, STACK §9: it accepts and never answers, or it refuses; when it begins, nobody
    knows yet that it is away.
    """
    token = TOKENS["ana"]
    waiting, unwanted = own.begin("slow-asking", token), own.begin("slow-asking", token)
    for order in (waiting, unwanted):
        own.paused(order, token, "awaiting_plan_approval")
    log = own.folder / "web.log"
    failed = log.read_text().count(GIVEN_UP)
    getattr(redis, goes)()
    took = {}

    def timed(name, call):
        began = time.monotonic()
        answer = call()
        took[name] = time.monotonic() - began
        return answer

    try:
        timed("decide", lambda: own.answer(waiting, token, "approve"))
        fresh = timed("submit", lambda: own.begin("slow-asking", token))
        timed("cancel a paused one", lambda: own.answer(unwanted, token, "cancel"))
        another = timed("submit another", lambda: own.begin("slow-asking", token))
        assert (
            timed(
                "cancel a pending one",
                lambda: own.call("POST", f"/api/v1/work-orders/{another}/cancel", token=token),
            )[0]
            == 200
        )
        # of the last outage: nobody tries while it is open, so another order comes now and then
        tried = [time.monotonic()]

        def a_send_failed() -> bool:
            if time.monotonic() - tried[-1] > 2:
                tried.append(time.monotonic())
                own.begin("slow-asking", token)
            return bool(log.read_text().count(GIVEN_UP) > failed)

        until(a_send_failed, what="the first send to fail")
        later = timed("submit while the breaker is open", lambda: own.begin("slow-asking", token))
    finally:
        getattr(redis, comes_back)()
    back = time.monotonic()
    own.ended(waiting, token)
    for order in (fresh, later):
        own.paused(order, token, "awaiting_plan_approval")
    took["to go on"] = time.monotonic() - back
    assert took.pop("to go on") < PATIENCE, own.log_tail()
    assert max(took.values()) < 1, took
    own.ended(unwanted, token, "failed")
    own.ended(another, token, "failed")


def test_a_command_stands_a_second_at_most_before_a_redis_that_hangs(own, redis):
    """S14-10: `manage.py workorder` took 6 s: it waited for its live hints, and then for its
    messages. What the process waits is counted
    inside it, until its very end."""

    def waited(*words):
        command = [sys.executable, "-m", "tests.servers.timed_command", "--user", "ana", *words]
        done = subprocess.run(
            command, cwd=ROOT, env=own.environment, capture_output=True, text=True, check=True
        )
        *said, waits = done.stdout.splitlines()
        return said[0], sum(json.loads(waits).values())

    _, usual = waited("create", "--template", "slow-asking")
    order, unwanted = (own.begin("slow-asking", TOKENS["ana"]) for _ in range(2))
    for each in (order, unwanted):
        own.paused(each, TOKENS["ana"], "awaiting_plan_approval")
    redis.freeze()
    try:
        made, to_create = waited("create", "--template", "slow-asking")
        _, to_approve = waited("approve", order)
        _, to_cancel = waited("cancel", unwanted)
    finally:
        redis.thaw()
    assert max(to_create, to_approve, to_cancel) < usual + COMMAND_WAITS, (
        usual,
        to_create,
        to_approve,
        to_cancel,
    )
    assert max(to_create, to_approve) > usual, "it did wait for its message, so the broker hung"
    own.ended(order, TOKENS["ana"])
    own.paused(made, TOKENS["ana"], "awaiting_plan_approval")
