"""Questions of many kinds, as a day's work asks them."""

from __future__ import annotations

from dataclasses import replace

from checkpoints.database.people import User
from runs import definitions, services
from runs.engine.advance import advance
from runs.workflows.base import Ask, Call, Context, Outcome, Report, State
from runs.workflows.registry import step
from runs.workflows.wait_for_input import ask_about_calls
from tests.worlds.large_patch import part_of

KINDS = 8
PLAN = "\n".join(f"{number}. Read `module_{number}` and **move** it" for number in range(1, 10))
TABLE = "| part | hours |\n|---|---|\n| all | 3 |"


@step("bench.mixed")
def ask(state: State, context: Context) -> Outcome:
    """Asks briefly, at length, with facts, about a patch, for data, about calls of tools: which of
    them `input.number` says.
    """
    number = context.order.input["number"]
    kind, euros = number % KINDS, number * 7
    content = f"Row {number} differs from the ledger by {euros} EUR. It can be booked."
    report = Report(
        title=f"Book row {number}?",
        content=f"# Plan\n\n{content}\n\n{PLAN}\n\n{TABLE}" if kind in {1, 2} else content,
        summary=f"It is {euros} EUR." if kind == 3 else "",
        facts={"Amount": f"{euros} EUR", "Account": "4200"} if kind in {3, 4} else {},
        patch=part_of(f"books/row{number}.py", 200 if kind == 5 else 40) if kind in {1, 5} else "",
    )
    if kind == 7:
        call = Call(id="1", tool="pay", arguments={"euros": euros, "to": "4200"})
        asked = ask_about_calls(
            state, context, calls=[call], question=report.title, report=report, to=""
        )
        assert asked is not None
        return asked
    answers = {"approve": "", "revise": context.step}
    asked = Ask(question=report.title, answers=answers, report=report)
    if kind == 6:
        account = {"type": "string", "title": "Account"}
        return replace(
            asked, required_inputs={"type": "object", "properties": {"account": account}}
        )
    return asked


def make(count: int, user: User) -> None:
    """So many of them wait for this person."""
    definitions.edit_step_template("bench-mixed", title="Look", function="bench.mixed", config={})
    steps = [{"step_type": "execute", "step_template_slug": "bench-mixed"}]
    definitions.edit_template("bench-mixed", steps=steps, needs_repository=False)
    for number in range(count):
        order = services.submit("bench-mixed", by=user, input={"number": number})
        assert order.latest_run_id
        advance(order.latest_run_id, budget=60)
