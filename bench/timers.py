"""How late the step after a short timer begins: `make bench ARGS=timers`, `BENCH_TIMERS=5` for
fewer.

A worker with two children and beat, as shipped: the sweep looks every five seconds, so what is
sooner went on by the hint that its worker left.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator
from typing import Any

from django.contrib.auth.models import User

from bench.pause_resume import wait_for_end
from bench.workload import as_shipped, figure, percentile
from checkpoints.models import Checkpoint
from runs import services

TIMES = int(os.environ.get("BENCH_TIMERS", "30"))
WARM = 3


def measure() -> Iterator[dict[str, Any]]:
    late = []
    with as_shipped() as stack:
        stack.worker()
        stack.beat()
        user = User.objects.get(username="bench")
        for _ in range(WARM + TIMES):
            order = services.submit("bench-rest", by=user)
            began = wait_for_end(order)["began"]
            slept = Checkpoint.objects.get(thread=order.thread, metadata__has_key="sleep_until")
            until = dt.datetime.fromisoformat(slept.metadata["sleep_until"])
            late.append((began - until.timestamp()) * 1000)
    yield figure("timer of 2 s over → next step's body begins, p50", percentile(late[WARM:], 0.5),
                 "ms", bar=300)  # fmt: skip
    yield figure("the same, p99", percentile(late[WARM:], 0.99), "ms")
