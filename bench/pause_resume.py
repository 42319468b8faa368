"""From an answer to the next step, on real processes: Daphne, a Celery worker with two children, Redis."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User

from bench.workload import figure, percentile
from checkpoints import store
from hitl.models import ApiToken, Decision
from runs import services
from runs.models import Run, WorkOrder
from tests.stack import Stack, until

TURNS = 60


def measure() -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="waystation-bench-", ignore_cleanup_errors=True) as folder:
        kept = {name: os.environ[name] for name in ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE")}
        stack = Stack(Path(folder), {**kept, "WAYSTATION_DATA": os.environ["WAYSTATION_DATA"]})
        try:
            stack.worker()
            stack.web()
            yield from report(stack)
        finally:
            stack.stop()


def report(stack: Stack) -> Iterator[dict[str, Any]]:
    user = User.objects.get(username="bench")
    token = ApiToken.make(user, name="bench")[1]
    posts, starts = [], []
    for _ in range(TURNS):
        order = services.submit("bench-ask", by=user)
        until(lambda order=order: Run.objects.filter(work_order=order, status="paused").exists(), what="the pause")  # type: ignore[misc]
        began = time.perf_counter()
        status, answer = stack.call("POST", f"/api/v1/work-orders/{order.shown_id}/resume", {"decision": "approve"}, token=token)
        posts.append(time.perf_counter() - began)
        assert status == 200, answer
        until(lambda order=order: Run.objects.filter(work_order=order, status="completed").exists(), what="the end")  # type: ignore[misc]
        decided = Decision.objects.get(pause__run__work_order=order).decided_at.timestamp()
        head = WorkOrder.objects.shown().get(pk=order.pk).thread.head
        assert head is not None
        starts.append(store.load(head)["began"] - decided)
    yield figure("decision → next step's body begins, p50", percentile(starts, 0.5) * 1000, "ms", bar=8)
    yield figure("decision → next step's body begins, p99", percentile(starts, 0.99) * 1000, "ms", bar=40)
    yield figure("POST decision → 2xx, p50", percentile(posts, 0.5) * 1000, "ms", bar=15)
