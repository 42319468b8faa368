"""Steps for the chaos run: each has an effect outside, under the key of its attempt, and keeps the key as its result."""

from __future__ import annotations

import os

from runs import definitions
from runs.workflows.base import Context, Go, Outcome, Report, State, step


@step("chaos.work")
def work(state: State, context: Context) -> Outcome:
    ledger = os.open(os.environ["CHAOS_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(ledger, f"{context.key}\n".encode())  # one write of one short line: whole or not at all
    finally:
        os.close(ledger)
    context.log(f"Did {context.key}")
    return Go(update={"results": [*state.get("results", []), context.key]}, report=Report(content=f"{context.key} is done."))


def load(pauses: int) -> None:
    """The template: as many steps that ask as wanted, and one that finishes."""
    definitions.edit_step_template("chaos-work", title="Work", function="chaos.work", config={})
    steps = [
        {
            "name": f"s{number}",
            "step_type": "execute",
            "step_template_slug": "chaos-work",
            "pause_after": True,
            "pause_phase": f"asking_{number}",
            "max_revisions": 2,
        }
        for number in range(1, pauses + 1)
    ]
    steps.append({"name": "finish", "step_type": "deliver", "step_template_slug": "chaos-work"})
    definitions.edit_template("chaos", title="Chaos", needs_repository=False, steps=steps)
