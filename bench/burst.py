"""A burst of new work, and the people and owners beside it (P3, P12): a decision made now goes on
in less than two seconds at p99.

1 200 orders of one owner are put into the queue of real workers, each with a step of a tenth of a
second, so that hardly any of them is done when people answer. `make bench ARGS="burst
BURST_ORDERS=200"` puts fewer there. Redis with 16 threads as shipped, then the embedded
broker with its four threads. Wall clocks, which all processes of a machine share.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.workload import as_shipped, figure, percentile
from tests.servers.stack import ROOT, Stack, until

ORDERS = int(os.environ.get("BURST_ORDERS", "1200"))
QUESTIONS = 60
OTHERS = 5
"""New orders of somebody else who asks for few."""
AT_ONCE = 6
BAR = 2000.0
"""Milliseconds: SPEC P3."""
TOKENS = {name: f"wst_{name}-of-the-bench" for name in ("crowd", "guest")}
PEOPLE = f"""
from django.contrib.auth.models import User
from bench import workload
from hitl.models import ApiToken
workload.load()
for name, secret in {TOKENS!r}.items():
    ApiToken.objects.create(user=User.objects.create_user(name), name="bench", digest=ApiToken.digest_of(secret))
"""


def measure() -> Iterator[dict[str, Any]]:
    for name, begin in {"Redis, threads": on_redis, "embedded": embedded}.items():
        environment = {
            "DJANGO_SETTINGS_MODULE": os.environ["DJANGO_SETTINGS_MODULE"],
            "API_RATE": "1000000",
        }
        with as_shipped(environment) as stack:
            begin(stack)
            yield from burst(stack, name)


def on_redis(stack: Stack) -> None:
    stack.environment.update({name: os.environ[name] for name in ("DATABASE_URL", "REDIS_URL")})
    people(stack)
    stack.worker(pool="threads", concurrency=16)
    stack.beat()
    stack.web()


def embedded(stack: Stack) -> None:
    stack.manage("migrate", "-v0")
    people(stack)
    stack.standalone()


def people(stack: Stack) -> None:
    subprocess.run(
        [sys.executable, "manage.py", "shell", "-v0", "-c", PEOPLE],
        cwd=ROOT,
        env=stack.environment,
        check=True,
    )


def burst(stack: Stack, name: str) -> Iterator[dict[str, Any]]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = list(pool.map(lambda _: begin(stack, "bench-ask", "crowd"), range(QUESTIONS)))
        for order in asked:
            stack.paused(order, TOKENS["crowd"], "awaiting_plan_approval")
        began = time.time()
        crowd = list(pool.map(lambda _: begin(stack, "bench-naps", "crowd"), range(ORDERS)))
        put = time.time() - began
    left = waiting(stack)
    decided = {}
    for order in asked:
        decided[order] = time.time()
        stack.answer(order, TOKENS["crowd"], "approve")
    others = {}
    for _ in range(OTHERS):
        at = time.time()
        others[begin(stack, "bench-ask", "guest")] = at
    bodies = [stamp(stack, order, "began", "crowd") - at for order, at in decided.items()]
    firsts = [stamp(stack, order, "asked", "guest") - at for order, at in others.items()]
    still = waiting(stack)
    result = {
        "orders": len(crowd),
        "put_in_seconds": round(put, 1),
        "waiting_at_first": left,
        "waiting_at_last": still,
    }
    yield {
        **figure(
            f"{name}: decision → next step's body behind a burst, p50",
            percentile(bodies, 0.5) * 1000,
            "ms",
        ),
        **result,
    }
    yield figure(
        f"{name}: decision → next step's body behind a burst, p99",
        percentile(bodies, 0.99) * 1000,
        "ms",
        bar=BAR,
    )
    yield figure(
        f"{name}: another owner's new order → its first step, slowest",
        max(firsts) * 1000,
        "ms",
        bar=BAR,
    )


def begin(stack: Stack, template: str, who: str) -> str:
    status, order = stack.call(
        "POST", "/api/v1/work-orders", {"template": template}, token=TOKENS[who]
    )
    assert status == 201, order
    return str(order["id"])


def waiting(stack: Stack) -> int:
    """Runs whose first step has not begun."""
    code = (
        "from runs.models import Run; print(Run.objects.filter(status='pending', epoch=0).count())"
    )
    return int(stack.manage("shell", "-v0", "-c", code).split()[-1])


def stamp(stack: Stack, order: str, key: str, who: str) -> float:
    """When a step's body began, as its state says, once it does."""
    thread = stack.order(order, TOKENS[who])["thread_id"]

    def look() -> float:
        state = stack.call("GET", f"/api/v1/threads/{thread}/state", token=TOKENS[who])[1]
        return float(state["values"].get(key, 0))

    return until(look, seconds=120, what=key)
