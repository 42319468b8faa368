"""Ten no-op steps of 1 KiB updates: what a step's commit costs, and how many a worker process does in a second."""

from __future__ import annotations

import queue
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import connection

from bench.workload import STEPS, Floor, figure
from runs import services
from runs.engine.advance import advance
from runs.models import Run


def measure() -> Iterator[dict[str, Any]]:
    floor = Floor()
    taken, floors = [], []
    for turn in range(30):
        run = order()
        floors.append(floor.sample(20))
        began = time.perf_counter()
        advance(run, budget=60)
        if turn >= 5:  # the first ones warm up
            taken.append((time.perf_counter() - began) / STEPS)
    bare, step = statistics.median(floors), statistics.median(taken)
    yield figure("a step, one run at a time, in process, p50", step * 1000, "ms", floor=bare * 1000, ratio=step / bare)
    yield figure("commit of a step, one statement, p50", one_commit() * 1000, "ms", floor=bare * 1000, ratio=one_commit() / bare, bar=2.0)
    for threads in (8, 64):
        rate = concurrently(threads)
        yield figure(f"steps per second, {threads} runs at a time, one process", rate, "1/s", floor=1 / bare, ratio=rate * bare)


def order() -> UUID:
    user = User.objects.get(username="bench")
    made = services.submit("bench-steps", by=user).latest_run_id
    assert made is not None
    return made


def one_commit() -> float:
    """The statement alone, without the engine's own work around it."""
    spent: list[float] = []

    def watch(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        began = time.perf_counter()
        try:
            return execute(sql, params, many, context)
        finally:
            if "WITH held" in sql:
                spent.append(time.perf_counter() - began)

    with connection.execute_wrapper(watch):
        for _ in range(10):
            advance(order(), budget=60)
    return statistics.median(spent)


def concurrently(threads: int) -> float:
    """Steps per second of one process with so many threads, each with its own connection, as a worker keeps it."""
    warm, runs = [order() for _ in range(threads)], [order() for _ in range(max(threads * 2, 64))]
    waiting: queue.SimpleQueue[UUID] = queue.SimpleQueue()
    for run in runs:
        waiting.put(run)
    ready = threading.Barrier(threads + 1)

    def work(first: UUID) -> None:
        advance(first, budget=60)  # opens the connection and prepares the statements
        ready.wait()
        try:
            while True:
                advance(waiting.get_nowait(), budget=60)
        except queue.Empty:
            connection.close()

    with ThreadPoolExecutor(threads) as pool:
        done = [pool.submit(work, run) for run in warm]
        ready.wait()
        began = time.perf_counter()
        for one in done:
            one.result()
        took = time.perf_counter() - began
    assert not Run.objects.filter(pk__in=runs).exclude(status="completed").exists()
    return len(runs) * STEPS / took
