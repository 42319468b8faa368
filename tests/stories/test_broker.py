"""Redis away: whoever asks or answers gets 2xx at once, and everything goes on when it is back."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.run import free_port
from tests.stack import until
from tests.stories.conftest import make_stack, settle

pytestmark = pytest.mark.stack


@pytest.fixture
def redis(tmp_path: Path):
    """A Redis of its own that the test may freeze."""
    port = free_port()
    process = subprocess.Popen(
        ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", tmp_path], stdout=subprocess.DEVNULL
    )
    process.url = f"redis://127.0.0.1:{port}/0"  # type: ignore[attr-defined]
    yield process
    process.kill()
    process.wait(10)


def test_a_frozen_redis_neither_holds_nor_loses_an_answer(redis, tmp_path_factory):
    """P2, P3, STACK §9: Redis accepts connections and never answers (SIGSTOP)."""
    stack = make_stack(tmp_path_factory.mktemp("broker"), "broker")
    stack.environment["REDIS_URL"] = redis.url
    settle(stack)
    try:
        stack.worker()
        stack.beat()
        stack.web()
        token = stack.manage("api_token", "ana").split()[-1]
        _, order = stack.call(
            "POST", "/api/v1/work-orders", {"repository_url": str(stack.folder / "celery"), "input": {"rules": "I001"}}, token=token
        )
        stack.paused(order["id"], token, "awaiting_plan_approval")
        redis.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        stack.answer(order["id"], token, "approve")
        took = time.monotonic() - began
        assert stack.order(order["id"], token)["status"] == "pending"
        redis.send_signal(signal.SIGCONT)
        until(lambda: stack.order(order["id"], token)["current_phase"] == "awaiting_implementation_review", what="the run")
        assert took < 5
    finally:
        stack.stop()
