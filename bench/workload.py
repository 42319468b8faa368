"""Steps that do nothing but be steps, and what reports about them."""

from __future__ import annotations

import datetime as dt
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from runs.workflows.base import Context, Done, Go, Outcome, Report, Sleep, State
from runs.workflows.registry import step
from tests.servers.stack import Stack

TEXT = "word " * 205
"""1 KiB of update."""
STEPS = int(os.environ.get("BENCH_STEPS", "10"))
NAP, STROLL = 0.1, 0.2
"""Seconds."""


@step("bench.noop")
def noop(state: State, context: Context) -> Outcome:
    if context.loop_num >= context.order.input.get("times", STEPS):
        return Done(update={"text": TEXT})
    return Go(update={"text": f"{context.loop_num} {TEXT}"}, to=context.step)


@step("bench.grow")
def grow(state: State, context: Context) -> Outcome:
    return Go(update={"messages": [f"{context.loop_num} {TEXT}"]}, to=context.step)


@step("bench.ask")
def ask(state: State, context: Context) -> Outcome:
    return Go(update={"asked": time.time()}, report=Report(content="Go on?"))


@step("bench.stamp")
def stamp(state: State, context: Context) -> Outcome:
    """Says when its body began: wall clock, the same for all processes of this machine."""
    return Done(update={"began": time.time()})


@step("bench.rest")
def rest(state: State, context: Context) -> Outcome:
    return Sleep(for_=dt.timedelta(seconds=2))


@step("bench.nap")
def nap(state: State, context: Context) -> Outcome:
    time.sleep(NAP)  # work that takes its time
    return Done()


@step("bench.stroll")
def stroll(state: State, context: Context) -> Outcome:
    time.sleep(STROLL - time.time() % STROLL)  # an agent that is at it all day
    return Go(update={"text": f"{context.loop_num} {TEXT}"}, to=context.step)


def load() -> None:
    from runs import definitions

    for name in ("noop", "grow", "ask", "stamp", "rest", "nap", "stroll"):
        definitions.edit_step_template(
            f"bench-{name}", title=name, function=f"bench.{name}", config={}
        )
    endless = {"step_type": "execute", "max_loops": 100_000}
    steps = [{**endless, "step_template_slug": "bench-noop"}]
    definitions.edit_template("bench-steps", steps=steps, needs_repository=False)
    definitions.edit_template(
        "bench-growth",
        steps=[{**endless, "step_template_slug": "bench-grow"}],
        needs_repository=False,
        reducers={"messages": "append"},
    )
    definitions.edit_template(
        "bench-stroll",
        steps=[{**endless, "step_template_slug": "bench-stroll"}],
        needs_repository=False,
    )
    definitions.edit_template(
        "bench-naps",
        steps=[{"step_type": "execute", "step_template_slug": "bench-nap"}],
        needs_repository=False,
    )
    asking = {
        "step_type": "planning",
        "step_template_slug": "bench-ask",
        "pause_after": True,
        "pause_phase": "awaiting_plan_approval",
    }
    stamp = {"step_type": "execute", "step_template_slug": "bench-stamp"}
    rest = {"step_type": "wait", "step_template_slug": "bench-rest"}
    definitions.edit_template("bench-rest", steps=[rest, stamp], needs_repository=False)
    definitions.edit_template(
        "bench-ask",
        steps=[asking, stamp],
        needs_repository=False,
    )


class Floor:
    """B: seconds of one bare commit, one connection, psycopg prepared, one row of 1 KiB JSONB,
    autocommit.
    """

    def __init__(self) -> None:
        self.connection = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
        self.connection.execute(
            "CREATE TABLE IF NOT EXISTS bench_floor (id bigserial PRIMARY KEY, body jsonb)"
        )
        self.body = Jsonb({"text": TEXT})
        self.sample(50)

    def sample(self, times: int = 100) -> float:
        """Median seconds."""
        taken = []
        for _ in range(times):
            began = time.perf_counter()
            self.connection.execute(
                "INSERT INTO bench_floor (body) VALUES (%s)", [self.body], prepare=True
            )
            taken.append(time.perf_counter() - began)
        return statistics.median(taken)


KEPT = ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE", "WAYSTATION_DATA")


@contextmanager
def as_shipped(environment: Mapping[str, str] | None = None) -> Iterator[Stack]:
    """Processes of the product whose times are the product's own, where those of tests are shorter.
    They end with the block.

    Args:
        environment: what they are told; this bench's database and broker where it is left out.
    """
    told = {name: os.environ[name] for name in KEPT} if environment is None else environment
    with tempfile.TemporaryDirectory(
        prefix="waystation-bench-", ignore_cleanup_errors=True
    ) as folder:
        stack = Stack(Path(folder), dict(told))
        stack.environment["LOG_LEVEL"] = "ERROR"
        for name in ("LEASE", "SWEEP", "PATIENCE"):
            del stack.environment[f"WAYSTATION_{name}_SECONDS"]
        try:
            yield stack
        finally:
            stack.stop()


def figure(
    case: str,
    value: float,
    unit: str,
    *,
    floor: float | None = None,
    ratio: float | None = None,
    bar: float | None = None,
) -> dict[str, Any]:
    """A line of the report.

    `bar` bounds the ratio where there is one, else the value, from above.
    """
    judged = value if ratio is None else ratio
    line: dict[str, Any] = {
        "case": case,
        "value": round(value, 4),
        "unit": unit,
        "floor": round(floor, 4) if floor else None,
    }
    return {
        **line,
        "ratio": round(ratio, 3) if ratio else None,
        "bar": bar,
        "met": None if bar is None else judged <= bar,
    }


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
