"""One step that gathers 100, 1 000 and 10 000 child runs, 50 at once, each with a line of its own:
what the step, a start and the join cost for each of them, and what memory the join takes. The bar
is on the CPU of this process, which others on the machine do not touch.

The children are worked on one after the other, in this process. `GATHER=100,1000` measures fewer.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User

from bench.workload import figure
from checkpoints import store
from runs import definitions, services
from runs.engine.advance import advance
from runs.models import Run
from runs.workflows.base import Child, Context, Done, Gather, Outcome, State
from runs.workflows.registry import step

COUNTS = [int(count) for count in os.environ.get("GATHER", "100,1000,10000").split(",")]
AT_ONCE = 50
LINE = "a line of work " * 6
STATUS = Path("/proc/self/status")


@step("bench.crowd")
def crowd(state: State, context: Context) -> Outcome:
    children = [
        Child(name=f"line {number}", update={"line": f"{number} {LINE}"})
        for number in range(context.order.input["count"])
    ]
    return Gather(children=children, at_once=AT_ONCE, into="done", on_child_failure="continue")


@step("bench.each")
def each(state: State, context: Context) -> Outcome:
    return Done(update={"length": len(state["line"])})


@step("bench.crowd_end")
def crowd_end(state: State, context: Context) -> Outcome:
    return Done()


def measure() -> Iterator[dict[str, Any]]:
    _load()
    first: dict[str, float] = {}
    for count in COUNTS:
        found = _of(count)
        for case, (value, unit) in found.items():
            first.setdefault(case, value)
            flat = "CPU" in case and count == max(COUNTS)
            more = {"ratio": value / first[case], "bar": 1.5} if flat else {}
            yield figure(f"{count} child runs: {case}", value, unit, **more)


def _load() -> None:
    for name in ("each", "crowd_end"):
        definitions.edit_step_template(
            f"bench-{name}", title=name, function=f"bench.{name}", config={}
        )
    sub_steps = [{"step_type": "execute", "name": "each", "step_template_slug": "bench-each"}]
    definitions.edit_step_template(
        "bench-crowd", title="Crowd", function="bench.crowd", config={}, sub_steps=sub_steps
    )
    steps = [
        {"step_type": "execute", "name": "crowd", "step_template_slug": "bench-crowd"},
        {"step_type": "deliver", "name": "end", "step_template_slug": "bench-crowd_end"},
    ]
    definitions.edit_template("bench-crowd", steps=steps, needs_repository=False)


def _of(count: int) -> dict[str, tuple[float, str]]:
    order = services.submit(
        "bench-crowd", by=User.objects.get(username="bench"), input={"count": count}
    )
    assert order.latest_run_id is not None
    parent = order.latest_run_id
    began, own = time.perf_counter(), time.process_time()
    wanted = deque(key for key, _ in advance(parent, budget=60))
    gathered = time.perf_counter()
    most, ended = len(wanted), 0
    while wanted and wanted[0] != parent:
        wanted += [key for key, _ in advance(wanted.popleft(), budget=60)]
        ended += 1
        most = max(most, len(wanted))
    worked, own = time.perf_counter(), time.process_time() - own
    assert ended == count, (ended, count)
    assert most <= AT_ONCE
    before = _forget_peak()
    joining, joining_own = time.perf_counter(), time.process_time()
    advance(parent, budget=0)
    joined, joined_own = time.perf_counter(), time.process_time()
    grown = _kilobytes("VmHWM") - before
    run = Run.objects.select_related("thread__head").get(pk=parent)
    assert run.thread.head is not None
    assert len(store.load(run.thread.head)["done"]) == count
    per = 1_000 / count
    return {
        "the step that gathers": (1_000 * (gathered - began), "ms"),
        "for each child, start, step and end": ((worked - began) * per, "ms"),
        "for each child, CPU of this process": (own * per, "ms"),
        "the join": (1_000 * (joined - joining), "ms"),
        "for each child, the join": ((joined - joining) * per, "ms"),
        "for each child, CPU of the join": ((joined_own - joining_own) * per, "ms"),
        "memory that the join took": (grown / 1_024, "MB"),
        "memory of the join, by child": (grown / count, "KB"),
    }


def _forget_peak() -> float:
    """Begin to measure the memory of this process anew; gives what it has, in KB."""
    Path("/proc/self/clear_refs").write_text("5")
    return _kilobytes("VmHWM")


def _kilobytes(name: str) -> float:
    [line] = [line for line in STATUS.read_text().splitlines() if line.startswith(f"{name}:")]
    return float(line.split()[1])
