"""Ten no-op steps of 1 KiB updates: what a step's commit costs, and how many a worker process does
in a second.
"""

from __future__ import annotations

import cProfile
import gc
import multiprocessing
import os
import pstats
import queue
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import connection

from bench.workload import STEPS, Floor, figure
from runs import services
from runs.engine.advance import advance
from runs.models import Run
from runs.tasks import take_up


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
    yield figure(
        "a step, one run at a time, in process, p50",
        step * 1000,
        "ms",
        floor=bare * 1000,
        ratio=step / bare,
    )
    bare, commit = beside(floor, one_commit)
    yield figure(
        "commit of a step, one statement, p50",
        commit * 1000,
        "ms",
        floor=bare * 1000,
        ratio=commit / bare,
        bar=2.0,
    )
    yield from called()
    yield from written()
    yield from cpu()
    for threads, processes in ((8, 1), (64, 1), (64, 2)):
        bare, rate = beside(
            floor, lambda threads=threads, processes=processes: concurrently(threads, processes)
        )  # type: ignore[misc]  # defaults bind the loop's values
        name = (
            f"steps per second, {threads} runs at a time, "
            f"{'one process' if processes == 1 else f'{processes} processes'}"
        )
        # of seconds per step over seconds per bare commit: at most one
        bar = 1.0 if threads == 64 else None
        yield figure(
            f"{name}: a step",
            1000 / rate,
            "ms",
            floor=bare * 1000,
            ratio=1 / (rate * bare),
            bar=bar,
        )
        yield figure(name, rate, "1/s", floor=1 / bare)


def beside(floor: Floor, measurement: Callable[[], float]) -> tuple[float, float]:
    """The bare commit, sampled before and after, and the measurement: a machine is not equally fast
    for long.
    """
    before = floor.sample(100)
    value = measurement()
    return (before + floor.sample(100)) / 2, value


def called() -> Iterator[dict[str, Any]]:
    """Calls of functions per step of one run in this process, which no other work changes."""
    for _ in range(2):  # the first one fills what a process keeps
        few, many = (calls(order(times)) for times in (STEPS, 3 * STEPS))
    each = (many - few) / (2 * STEPS)
    yield figure("calls of functions per step", each, "", bar=900)
    yield figure("calls of functions per run, beside its steps", few - each * STEPS, "")


def calls(run: UUID) -> int:
    """Calls of functions, in Python or C, of taking up a run."""
    profile = cProfile.Profile()
    gc.disable()  # what it finds to finish is no step's call
    try:
        profile.runcall(take_up, str(run))
    finally:
        gc.enable()
    told: Any = pstats.Stats(profile)
    return int(told.total_calls)


def written() -> Iterator[dict[str, Any]]:
    """What the database writes per step with 32 runs in flight: counted by the server, so free of
    noise.
    """
    with connection.cursor() as cursor:
        # the first change of a page after it is written out whole; the warm-up takes those
        cursor.execute("CHECKPOINT")
    runs = [order() for _ in range(128)]
    began: tuple[int, int] = (0, 0)

    def begin() -> None:
        nonlocal began
        began = counters()

    work_off(runs, 32, begin=begin)
    steps = (len(runs) - 32) * STEPS
    transactions, wal = (now - then for now, then in zip(counters(), began, strict=True))
    yield figure(
        "writing transactions per step, 32 runs at a time",
        transactions / steps,
        "",
        ratio=transactions / steps,
        bar=1.0,
    )
    yield figure(
        "WAL per step, four events, 32 runs at a time",
        wal / steps,
        "bytes",
        ratio=wal / steps,
        bar=2300,
    )


def cpu() -> Iterator[dict[str, Any]]:
    """Processor time per step with 64 runs in flight in one process: of this process, its hints and
    all, and of the server's sessions. It hardly moves with the machine's mood.
    """
    runs = [order() for _ in range(64 * 4)]
    began: tuple[float, float] = (0.0, 0.0)
    ended: tuple[float, float] = (0.0, 0.0)

    def begin() -> None:
        nonlocal began
        began = time.process_time(), sessions_time()

    def end() -> None:
        nonlocal ended
        ended = time.process_time(), sessions_time()

    work_off(runs, 64, begin=begin, end=end)
    steps = (len(runs) - 64) * STEPS
    for whose, before, after, bar in zip(
        ("this process", "the server"), began, ended, (450.0, 230.0), strict=True
    ):
        yield figure(
            f"processor time of {whose} per step, 64 runs at a time",
            (after - before) / steps * 1_000_000,
            "us",
            bar=bar,
        )


def sessions_time() -> float:
    """Seconds of processor time of all sessions of clients that are open."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'")
        pids = [pid for (pid,) in cursor.fetchall()]
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def counters() -> tuple[int, int]:
    """Transactions that wrote, and bytes of WAL, since the server began."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT txid_current(), pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
        row = cursor.fetchone()
    return int(row[0]), int(row[1])


def order(times: int = STEPS) -> UUID:
    user = User.objects.get(username="bench")
    made = services.submit("bench-steps", by=user, input={"times": times}).latest_run_id
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
            if "held AS" in sql:
                spent.append(time.perf_counter() - began)

    with connection.execute_wrapper(watch):
        for _ in range(10):
            advance(order(), budget=60)
    return statistics.median(spent)


def concurrently(threads: int, processes: int) -> float:
    """Steps per second with so many threads in all, each with its own connection, as a worker keeps
    it.
    """
    share = threads // processes
    runs = [order() for _ in range(max(threads * 2, 64) + threads)]
    connection.close()
    if processes == 1:
        took = work_off(runs, share)
    else:
        context = multiprocessing.get_context("fork")
        started, times = context.Barrier(processes), context.Queue()
        parts = [runs[number::processes] for number in range(processes)]
        children = [
            context.Process(target=lambda part=part: times.put(work_off(part, share, started)))
            for part in parts
        ]  # type: ignore[misc]  # defaults bind the loop's values
        for child in children:
            child.start()
        took = max(times.get() for _ in children)
        for child in children:
            child.join()
    assert not Run.objects.filter(pk__in=runs).exclude(status="completed").exists()
    return (len(runs) - threads) * STEPS / took


def work_off(
    runs: list[UUID],
    threads: int,
    started: Any = None,
    *,
    begin: Callable[[], None] = lambda: None,
    end: Callable[[], None] = lambda: None,
) -> float:
    """Seconds that so many threads take for these runs, the first of each apart: it opens the
    connection and prepares the statements. `end` is called before they close it.
    """
    waiting: queue.SimpleQueue[UUID] = queue.SimpleQueue()
    for run in runs[threads:]:
        waiting.put(run)
    ready, over = threading.Barrier(threads + 1), threading.Barrier(threads + 1, action=end)

    def work(first: UUID) -> None:
        advance(first, budget=60)
        ready.wait()
        try:
            while True:
                advance(waiting.get_nowait(), budget=60)
        except queue.Empty:
            pass
        finally:
            over.wait()
            connection.close()

    with ThreadPoolExecutor(threads) as pool:
        done = [pool.submit(work, run) for run in runs[:threads]]
        if started is not None:
            started.wait()
        ready.wait()
        begin()
        began = time.perf_counter()
        over.wait()
        took = time.perf_counter() - began
        for future in done:
            future.result()
        return took
