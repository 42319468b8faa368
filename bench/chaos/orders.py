"""The orders of the chaos run.

Each step has an effect outside, under the key of its attempt, and keeps the key as its result.
"""

from __future__ import annotations

import datetime as dt
import os
from functools import partial
from pathlib import Path
from typing import Any

from bench.chaos import EFFECTS, ONCE, misdeeds, sabotage
from runs import definitions
from runs.workflows.base import Child, Context, Gather, Go, Outcome, Report, Sleep, State
from runs.workflows.registry import step

TEMPLATE, TIMED = "chaos", "chaos-timed"
"""The same steps; the questions of TIMED expire."""
TREE = "chaos-tree"
"""Works in a clone of a repository."""
TIMED_EVERY = 8
"""Each order of this number is TIMED."""
DEADLINE = 4.0
"""Seconds."""
LAST = ("nap", "finish")
"""The steps after the questions."""
NAP = dt.timedelta(milliseconds=100)
CREWS = {2: "fail_fast", 3: "collect"}
"""How many child runs there are → what becomes of their parent when a person cancels one."""
ASKS = "asks"
"""The child that asks, and then acts; the others only act."""


def in_crew(number: int) -> bool:
    """Whether the question of that number is asked by a child run."""
    return number % 2 == 0


def members(step: str, size: int) -> dict[str, list[str]]:
    """Child → its steps, in the order of their results."""
    return {
        f"{step} {ASKS}": ["ask", "act"],
        **{f"{step} works {number}": ["act"] for number in range(1, size)},
    }


def do(context: Context, outcome: str) -> dict[str, Any]:
    """The effects, one of them under `once`; gives the update that records them, in an answer of
    that kind.
    """
    wish = sabotage.wished(context, outcome)
    _note(EFFECTS, context.key)
    sabotage.linger()
    with sabotage.during(wish, "once"):
        context.once("effect", partial(_note, ONCE, context.key), optional=True)  # counted alone
    context.log(f"Did {context.key}")
    sabotage.make(wish, context)
    sabotage.arm(wish, outcome)
    misdeeds.tempt(context)
    return {"results": [context.key]}


def _note(file: str, key: str) -> None:
    ledger = os.open(
        Path(os.environ["CHAOS_LEDGERS"]) / file, os.O_WRONLY | os.O_APPEND | os.O_CREAT
    )
    try:
        os.write(ledger, f"{key}\n".encode())  # one write of one short line: whole or not at all
    finally:
        os.close(ledger)


@step("chaos.work")
def work(state: State, context: Context) -> Outcome:
    outcome = "Done" if context.step == "finish" else "Go" if context.step == "act" else "Ask"
    return Go(update=do(context, outcome), report=Report(content=f"{context.key} is done."))


@step("chaos.crew")
def crew(state: State, context: Context) -> Outcome:
    size = int(context.order.input["crew"])
    children = [
        Child(name=name, steps=steps) for name, steps in members(context.step, size).items()
    ]
    return Gather(
        children=children,
        update=do(context, "Gather"),
        on_failure="collect" if CREWS[size] == "collect" else "fail_fast",
    )


@step("chaos.nap")
def nap(state: State, context: Context) -> Outcome:
    return Sleep(for_=NAP, update=do(context, "Sleep"))


@step("chaos.tree")
def tree(state: State, context: Context) -> Outcome:
    """Works in a clone of the order's repository, and nowhere else."""
    context.workspace.restore()
    return Go(update={})


def load_tree() -> None:
    """The template TREE, whose one step works in a clone."""
    definitions.edit_step_template("chaos-tree", title="Tree", function="chaos.tree", config={})
    steps = [{"name": "tree", "step_type": "deliver", "step_template_slug": "chaos-tree"}]
    definitions.edit_template(TREE, title="Tree", needs_repository=True, steps=steps)


def load(pauses: int) -> None:
    """The templates: as many questions as wanted, every second one asked by a child run, a step
    that sleeps, and one that finishes.
    """
    definitions.edit_step_template("chaos-nap", title="Nap", function="chaos.nap", config={})
    definitions.edit_step_template("chaos-work", title="Work", function="chaos.work", config={})
    load_template(TEMPLATE, pauses, {})
    load_template(TIMED, pauses, {"deadline": {"after": f"PT{DEADLINE:g}S", "outcome": "expire"}})


def load_template(template: str, pauses: int, review: dict[str, Any]) -> None:
    asking = {"pause_after": True, "pause_phase": "asking", "max_revisions": 2, "review": review}
    act = {"step_type": "execute", "step_template_slug": "chaos-work"}
    ask = {**act, **asking}
    subs: list[dict[str, Any]] = [{**ask, "name": "ask"}, {**act, "name": "act"}]
    definitions.edit_step_template(
        f"{template}-crew", title="Crew", function="chaos.crew", config={}, sub_steps=subs
    )
    gather = {"step_type": "execute", "step_template_slug": f"{template}-crew"}
    steps = [
        {**(gather if in_crew(number) else ask), "name": f"s{number}"}
        for number in range(1, pauses + 1)
    ]
    sleeps, finishes = LAST
    steps.append({**act, "name": sleeps, "step_template_slug": "chaos-nap"})
    steps.append({**act, "step_type": "deliver", "name": finishes})
    definitions.edit_template(
        template, title="Chaos", needs_repository=False, steps=steps, reducers={"results": "append"}
    )
