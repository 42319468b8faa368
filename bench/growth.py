"""What a step costs as its run's history grows: one message of 1 KiB per step, kept for ever."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterator
from typing import Any

from django.contrib.auth.models import User
from django.db import connection

from bench.workload import figure
from runs import services
from runs.engine import advance as engine

AT = (10, 100, 400)
WINDOW = 10


def measure() -> Iterator[dict[str, Any]]:
    marks: list[tuple[float, int]] = []

    def watch(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        result = execute(sql, params, many, context)
        if "WITH held" in sql and "kept AS" in sql:
            marks.append((time.perf_counter(), sum(len(value) for value in params if isinstance(value, str))))
        return result

    run = services.submit("bench-growth", by=User.objects.get(username="bench")).latest_run_id
    assert run is not None
    with connection.execute_wrapper(watch):
        while len(marks) < max(AT) + WINDOW:
            engine.advance(run, budget=2)
    first = None
    for at in AT:
        window = marks[at : at + WINDOW]
        seconds = statistics.median(after[0] - before[0] for before, after in itertools.pairwise(window))
        size = statistics.median(one[1] for one in window)
        first = first or (seconds, size)
        yield figure(f"a step at history {at}", seconds * 1000, "ms", floor=first[0] * 1000, ratio=seconds / first[0])
        yield figure(f"bytes sent by a step at history {at}", size, "B", floor=first[1], ratio=size / first[1])
