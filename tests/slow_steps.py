"""Steps that take their time, for workers that are stopped or busy. Each leaves a line in a file: `began` or `done`, and its key."""

from __future__ import annotations

import os
import time
from pathlib import Path

from runs.workflows.base import Context, Go, Outcome, Report, State, step

LEDGER = "TEST_LEDGER"
TICKS = 50


@step("slow.tick")
def tick(state: State, context: Context) -> Outcome:
    """A tenth of a second."""
    return _take(context, 0.1)


@step("slow.sleep")
def sleep(state: State, context: Context) -> Outcome:
    """As long as its config says."""
    return _take(context, float(str(context.config["seconds"])))


@step("slow.deaf")
def deaf(state: State, context: Context) -> Outcome:
    """A minute without a look at anything."""
    note("began", context.key)
    time.sleep(60)
    note("done", context.key)
    return Go()


def _take(context: Context, seconds: float) -> Outcome:
    note("began", context.key)
    ends = time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0:
        context.check()
        time.sleep(min(left, 0.2))
    note("done", context.key)
    return Go(report=Report(content=f"{context.step} is done."))


def note(what: str, key: str) -> None:
    with Path(os.environ[LEDGER]).open("a") as ledger:
        ledger.write(f"{what} {key}\n")  # one short line, written at the close: whole or not at all


def load() -> None:
    """`slow-ticks`: many short steps. `slow-sleep`, `slow-deaf`: one of a minute. `slow-agent`: one of a minute for the agents' queue.
    `slow-asking`: asks, then goes on with a short step. `slow-mixed`: three short ones, the second for the agents' queue."""
    from runs import definitions  # here: workers load the steps before the tables are known

    definitions.edit_step_template("slow-tick", title="Tick", function="slow.tick", config={})
    definitions.edit_step_template("slow-sleep", title="Sleep", function="slow.sleep", config={"seconds": 60})
    definitions.edit_step_template("slow-deaf", title="Deaf", function="slow.deaf", config={})
    ticks = [{"name": f"tick{number}", "step_type": "execute", "step_template_slug": "slow-tick"} for number in range(TICKS)]
    sleep = {"step_type": "execute", "step_template_slug": "slow-sleep"}
    asking = {"step_type": "planning", "step_template_slug": "slow-tick", "pause_after": True, "pause_phase": "awaiting_plan_approval"}
    templates = {
        "slow-ticks": ticks,
        "slow-sleep": [sleep],
        "slow-deaf": [{**sleep, "step_template_slug": "slow-deaf"}],
        "slow-agent": [{**sleep, "queue": "agents"}],
        "slow-asking": [asking, ticks[0]],
        "slow-mixed": [{**ticks[0], "name": "before"}, {**ticks[0], "name": "agent", "queue": "agents"}, {**ticks[0], "name": "after"}],
    }
    for slug, steps in templates.items():
        definitions.edit_template(slug, steps=steps, needs_repository=False)
