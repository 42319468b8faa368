"""From an answer, or the end of a timer, to the next step, on real processes: Daphne, a Celery
worker with two children, Redis. No beat, so no sweep moves anything.
"""

from __future__ import annotations

import datetime as dt
import http.client
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
from django.contrib.auth.models import User

from bench.workload import figure, percentile
from checkpoints import store
from checkpoints.models import Checkpoint, Event, EventKind
from hitl.decisions import services as hitl
from hitl.decisions.services import Answer
from hitl.models import ApiToken, Via
from runs import services
from runs.models import Pause, Run, WorkOrder
from tests.servers.stack import Stack, until

TIMERS, KEY = 20, "sleep_until"
WARM, TURNS = 10, 100
"""The first turns open connections and import modules, in each process."""


def measure() -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory(
        prefix="waystation-bench-", ignore_cleanup_errors=True
    ) as folder:
        kept = {
            name: os.environ[name]
            for name in ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE")
        }
        stack = Stack(Path(folder), {**kept, "WAYSTATION_DATA": os.environ["WAYSTATION_DATA"]})
        try:
            stack.worker()
            stack.web()
            user = User.objects.get(username="bench")
            yield from by_call(user)
            yield from by_rest(stack, ApiToken.make(user, name="bench")[1], user)
            yield from by_timer(user)
        finally:
            stack.stop()


def by_call(user: User) -> Iterator[dict[str, Any]]:
    """`decide` in this process, the next step in a worker's.

    Wall clocks, which all processes of a machine share.
    """
    visible, decides, claims, bodies = [], [], [], []
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as watching:
        for _ in range(WARM + TURNS):
            order = services.submit("bench-ask", by=user)
            seen = wait_for_pause(watching, order)
            pause = Pause.objects.select_related("checkpoint").get(run=order.latest_run)
            visible.append(seen - store.load(pause.checkpoint)["asked"])
            began = time.time()
            hitl.decide(pause.pk, Answer("approve", Via.COMMAND), by=user)
            decides.append(time.time() - began)
            head = wait_for_end(order)
            starts = Event.objects.filter(
                run_id=order.latest_run_id, kind=EventKind.STEP_STARTED
            ).order_by("-seq")
            claims.append(starts[0].at.timestamp() - began)
            bodies.append(head["began"] - began)
    yield figure("step returned → pause visible, p50", middle(visible), "ms", bar=5)
    yield figure("decide call → it returns, p50", middle(decides), "ms")
    yield figure("decide call → a worker has the run and its state, p50", middle(claims), "ms")
    yield figure("decide call → next step's body begins, p50", middle(bodies), "ms", bar=8)
    yield figure(
        "decide call → next step's body begins, p99",
        percentile(bodies[WARM:], 0.99) * 1000,
        "ms",
        bar=40,
    )


def by_rest(stack: Stack, token: str, user: User) -> Iterator[dict[str, Any]]:
    """POST on one kept connection, as clients hold it."""
    posts = []
    connection = http.client.HTTPConnection("127.0.0.1", stack.port)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    for _ in range(WARM + TURNS):
        order = services.submit("bench-ask", by=user)
        until(
            lambda order=order: Run.objects.filter(work_order=order, status="paused").exists(),
            what="the pause",
        )  # type: ignore[misc]  # a default binds the loop's value
        began = time.perf_counter()
        connection.request(
            "POST",
            f"/api/v1/work-orders/{order.shown_id}/resume",
            json.dumps({"decision": "approve"}),
            headers,
        )
        response = connection.getresponse()
        answer = response.read()
        posts.append(time.perf_counter() - began)
        assert response.status == 200, answer
        wait_for_end(order)
    connection.close()
    yield figure("POST decision → 2xx, p50", middle(posts), "ms", bar=15)


def by_timer(user: User) -> Iterator[dict[str, Any]]:
    """The step after a timer of two seconds."""
    late = []
    for _ in range(TIMERS):
        order = services.submit("bench-rest", by=user)
        began = wait_for_end(order)["began"]
        told = [row.metadata for row in Checkpoint.objects.filter(thread=order.thread)]
        [ends] = [dt.datetime.fromisoformat(one[KEY]) for one in told if KEY in one]
        late.append(began - ends.timestamp())
    for share, bar in {0.5: 300, 0.99: None}.items():
        yield figure(
            f"timer of 2 s over → next step's body begins, p{share * 100:.0f}",
            percentile(late, share) * 1000,
            "ms",
            bar=bar,
        )


def middle(seconds: list[float]) -> float:
    return percentile(seconds[WARM:], 0.5) * 1000


def wait_for_pause(watching: psycopg.Connection[Any], order: WorkOrder) -> float:
    """The time at which another process sees the pause, to half a millisecond."""
    end = time.monotonic() + 60
    while not watching.execute(
        "SELECT 1 FROM runs_pause WHERE run_id = %s", [order.latest_run_id], prepare=True
    ).fetchone():
        assert time.monotonic() < end, "no pause"
        time.sleep(0.0003)  # looks often: this is the measure
    return time.time()


def wait_for_end(order: WorkOrder) -> dict[str, Any]:
    """The state at the end.

    It looks first when the work is likely over: looking takes a processor from it.
    """
    time.sleep(0.05)
    until(lambda: Run.objects.filter(work_order=order, status="completed").exists(), what="the end")
    head = WorkOrder.objects.shown().get(pk=order.pk).thread.head
    assert head is not None
    return store.load(head)
