"""What a step costs as its run's history grows: one message of 1 KiB per step, kept for ever; and
what loading the latest state costs.

Times and bytes are means over whole periods of snapshots, so what a snapshot and a chunk cost is in
them. A long history is compared with fresh runs that are taken between its own windows, so that a
machine that gets slower or faster meanwhile does so for both.
"""

from __future__ import annotations

import itertools
import json
import statistics
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.contrib.auth.models import User
from django.db import connection

from bench.workload import TEXT, figure
from checkpoints import store
from checkpoints.models import Checkpoint, CheckpointStatus, EventKind, Thread
from checkpoints.state import codec, reducers
from runs import services
from runs.engine import advance as engine
from runs.engine import commit
from runs.models import Run

AT = (100, 1_000, 10_000)
FIRST = 10
PERIOD = store.SNAPSHOT_EVERY + 1
WINDOW = 4 * PERIOD
TURNS = 5
RULES = {"messages": "append"}
MEASURED = (
    ("a step without the engine", "ms", None),
    ("client CPU of a step without the engine", "ms", None),
    ("WAL bytes of a step", "B", 1.05),
    ("bytes sent by a step", "B", 1.05),
)
"""What `window` gives, with its unit and its bar.

The bar for time is on the whole step, as the engine takes it.
"""
Update = Callable[[int], dict[str, Any]]


class Line:
    """A thread whose history is written as the engine writes it: reducers, `store.build`, one
    statement; the step itself is left out.
    """

    def __init__(self) -> None:
        order = services.submit("bench-growth", by=User.objects.get(username="bench"))
        assert order.latest_run_id is not None
        self.run = Run.objects.get(pk=order.latest_run_id)
        Run.objects.filter(pk=self.run.pk).update(status="running")
        head = Thread.objects.get(pk=self.run.thread_id).head
        assert head is not None
        self.head, self.state, self.steps = head, store.load(head), 0

    def step(self, update: Mapping[str, Any]) -> None:
        state = reducers.apply(self.state, update, RULES)
        metadata = {"loops": {"execute": self.steps}, "outputs": {}}
        entry = store.Entry(
            status=CheckpointStatus.ACTIVE,
            node_id="execute",
            next_step="execute",
            metadata=metadata,
        )
        head = store.build(
            self.run.thread_id, self.run.pk, state, entry, parent=self.head, before=self.state
        )
        facts = [
            (EventKind.STEP_COMPLETED, {"step": "execute"}),
            (EventKind.CHECKPOINT_CREATED, {"checkpoint_id": head.shown_id}),
        ]
        assert commit.write(
            self.run, commit.Fence(epoch=self.run.epoch), {"attempts": 0}, facts, head
        )
        self.head, self.state, self.steps = head, state, self.steps + 1

    def latest(self, at: int, update: Update) -> list[uuid.UUID]:
        """The checkpoints of the period of snapshots that begins at step `at`."""
        self.grow_to(at, update)
        keys = []
        with hastily():
            for _ in range(PERIOD):
                self.step(update(self.steps))
                keys.append(self.head.pk)
        return keys

    def grow_to(self, steps: int, update: Update) -> None:
        with hastily():
            while self.steps < steps:
                self.step(update(self.steps))


@contextmanager
def hastily() -> Iterator[None]:
    """Commits do not wait for the disk: nobody measures these."""
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit TO off")
        yield
        cursor.execute("RESET synchronous_commit")


def message(number: int) -> dict[str, Any]:
    return {"messages": [f"{number} {TEXT}"]}


def replaced(number: int) -> dict[str, Any]:
    return {"text": f"{number} {TEXT}", "kept": "x" * 8 * 1024}


def measure() -> Iterator[dict[str, Any]]:
    yield from steps()
    yield from loads()
    yield from through_the_engine()


def steps() -> Iterator[dict[str, Any]]:
    """Time, WAL and bytes sent per step with a list of so many messages, against a list of ten."""
    long = Line()
    for at in AT:
        long.grow_to(at - PERIOD, message)
        window(long)  # warms up what a bulk of history has cooled down
        early, late = [], []
        for _ in range(TURNS):
            fresh = Line()
            fresh.grow_to(FIRST, message)
            early.append(window(fresh))
            late.append(window(long))
        for index, (label, unit, bar) in enumerate(MEASURED):
            floor, value = (
                statistics.median(sample[index] for sample in side) for side in (early, late)
            )
            judged = bar if at == max(AT) else None
            yield figure(
                f"{label} at history {at}",
                value,
                unit,
                floor=floor,
                ratio=value / floor,
                bar=judged,
            )


def window(line: Line) -> tuple[float, ...]:
    """The means of a step over whole periods: see MEASURED."""
    sent = [0]

    def watch(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        sent[0] += sum(len(value) for value in params or () if isinstance(value, str | bytes))
        return execute(sql, params, many, context)

    before, began, worked = wal(), time.perf_counter(), time.process_time()
    with connection.execute_wrapper(watch):
        for _ in range(WINDOW):
            line.step(message(line.steps))
    took, worked = time.perf_counter() - began, time.process_time() - worked
    return took / WINDOW * 1000, worked / WINDOW * 1000, (wal() - before) / WINDOW, sent[0] / WINDOW


def wal() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
        return int(cursor.fetchone()[0])


def loads() -> Iterator[dict[str, Any]]:
    """Cold loads of the latest state, a state that stays 9 KiB small first.

    Where the state itself grows a load costs what it weighs: that is told beside parsing and
    digesting as much JSON, and has no bar.
    """
    early, late = Line(), Line()
    first = early.latest(FIRST, replaced)
    for at in AT:
        latest = late.latest(at, replaced)
        floor, value = (
            statistics.median(side)
            for side in zip(
                *((load_all(first), load_all(latest)) for _ in range(TURNS)), strict=True
            )
        )
        judged = 1.3 if at == max(AT) else None
        yield figure(
            f"load of the latest at history {at}, a state of 9 KiB",
            value,
            "ms",
            floor=floor,
            ratio=value / floor,
            bar=judged,
        )
    line = Line()
    for at in (FIRST, *AT):
        latest = line.latest(at, message)
        text = codec.encode(line.state)
        floor, value = (
            statistics.median(side)
            for side in zip(*((parse(text), load_all(latest)) for _ in range(TURNS)), strict=True)
        )
        yield figure(
            f"load of the latest at history {at}, a list of {len(text) // 1024} KiB",
            value,
            "ms",
            floor=floor,
            ratio=value / floor,
        )


def load_all(keys: list[uuid.UUID]) -> float:
    """Mean milliseconds of a load: of one checkpoint at each distance from a snapshot."""
    checkpoints = [Checkpoint.objects.get(pk=key) for key in keys]
    began = time.perf_counter()
    for checkpoint in checkpoints:
        store.load(checkpoint)
    return (time.perf_counter() - began) / len(keys) * 1000


def parse(text: str) -> float:
    began = time.perf_counter()
    codec.digest(codec.encode(json.loads(text)))
    return (time.perf_counter() - began) * 1000


class Driven:
    """A run that the engine itself takes through its steps."""

    def __init__(self) -> None:
        self.run = services.submit(
            "bench-growth", by=User.objects.get(username="bench")
        ).latest_run_id
        self.steps = 0

    def go(self, steps: int) -> float:
        """Take at least so many steps; mean milliseconds from one commit to the next, without what
        a claim and its load cost.
        """
        assert self.run is not None
        taken: list[float] = []
        end = self.steps + steps
        while self.steps < end or not taken:
            marks = self._slice(self.run)
            self.steps += len(marks)
            taken += [after - before for before, after in itertools.pairwise(marks)]
        return statistics.fmean(taken) * 1000

    def _slice(self, run: uuid.UUID) -> list[float]:
        marks: list[float] = []

        def watch(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
            result = execute(sql, params, many, context)
            if "WITH held" in sql and "kept AS" in sql:
                marks.append(time.perf_counter())
            return result

        with connection.execute_wrapper(watch):
            engine.advance(run, budget=0.2)
        return marks


def through_the_engine() -> Iterator[dict[str, Any]]:
    """The same, with all that the engine does around a step."""
    long = Driven()
    for at in AT:
        with hastily():
            long.go(max(0, at - long.steps))
        early, late = [], []
        for _ in range(TURNS):
            fresh = Driven()
            early.append(fresh.go(WINDOW))
            late.append(long.go(WINDOW))
        floor, value = statistics.median(early), statistics.median(late)
        judged = 1.15 if at == max(AT) else None
        yield figure(
            f"a step through the engine at history {at}",
            value,
            "ms",
            floor=floor,
            ratio=value / floor,
            bar=judged,
        )
