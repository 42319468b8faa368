"""Expenses: lines and a receipt. What is small passes by itself, the rest is approved by the
lead, and what is large by finance, too. Then one payment is ordered, whatever happens.

`pay_out` stands for your own bank: here a payment is a file.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from runs.workflows import (
    Context,
    Done,
    File,
    Go,
    Outcome,
    Report,
    Review,
    State,
    effect,
    read,
    step,
    use,
    workflow,
)

FOLDER = Path(__file__).parent / "data" / "payments"
SMALL, LARGE = Decimal(50), Decimal(1000)
"""EUR. Up to the first nobody is asked, above the second finance is, too."""


class Line(BaseModel):
    day: dt.date = Field(title="Day")
    kind: Literal["travel", "meal", "other"] = Field(default="travel", title="Kind")
    amount: Decimal = Field(gt=0, le=10_000, decimal_places=2, title="Amount in EUR")


class Expenses(BaseModel):
    reason: str = Field(min_length=3, max_length=200, title="What was it for?")
    lines: list[Line] = Field(min_length=1, max_length=20, title="Lines")
    receipt: File = Field(title="Receipt")


def total_of(expenses: Expenses) -> Decimal:
    return sum((line.amount for line in expenses.lines), Decimal())


def report_of(expenses: Expenses) -> Report:
    """What both reviews are shown, and what their approvals bind."""
    total = f"{total_of(expenses):.2f} EUR"
    lines = "\n".join(f"| {one.day} | {one.kind} | {one.amount:.2f} |" for one in expenses.lines)
    return Report(
        content=f"{expenses.reason}\n\n| day | kind | EUR |\n|---|---|---:|\n{lines}",
        facts={"Total": total, "Receipt": expenses.receipt.name},
        material={"total": total, "receipt": expenses.receipt.sha256},
        effects=[effect(f"{total} are paid.")],
    )


@step("expenses.check")
def check(state: State, context: Context) -> Outcome:
    """Show the lead what is claimed. A small claim passes, and the record says why."""
    expenses = read(Expenses, context.order.input)
    context.log(f"The receipt has {len(context.content_of(expenses.receipt))} bytes")
    total, report = total_of(expenses), report_of(expenses)
    if total <= SMALL:
        return Go(to="pay", report=report, pass_review=f"{total:.2f} EUR is up to {SMALL}")
    return Go(to="pay" if total <= LARGE else "finance", report=report)


@step("expenses.finance")
def finance(state: State, context: Context) -> Outcome:
    """Show finance the same claim: it is large, and the lead has approved it."""
    return Go(report=report_of(read(Expenses, context.order.input)))


@step("expenses.pay")
def pay(state: State, context: Context) -> Outcome:
    """Pay what was approved. The key lets the bank tell a repetition."""
    expenses = read(Expenses, context.order.input)
    total, material = total_of(expenses), report_of(expenses).material
    context.require_approval("expenses.check", material)
    if total > LARGE:
        context.require_approval("expenses.finance", material)
    paid = context.once("pay", lambda: pay_out(context.key, f"{total:.2f}"))
    return Done(update={"payment": paid, "conclusion": f"{total:.2f} EUR were paid"})


def pay_out(key: str, amount: str) -> str:
    """Order the payment, once for each key; gives its name."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    name = f"{key.replace('/', '-')}.txt"
    (FOLDER / name).write_text(amount)
    return name


expenses = workflow(
    "expenses",
    title="Expenses",
    input=Expenses,
    steps=[
        use(
            check,
            pause_after=True,
            may_pass=f"the total is up to {SMALL} EUR",
            question="Approve {Total}?",
            review=Review(reviewers={"groups": ["leads"]}, self_approval=False),
        ),
        use(
            finance,
            pause_after=True,
            question="Release {Total}?",
            review=Review(reviewers={"groups": ["finance"]}, self_approval=False, risk="high"),
        ),
        use(pay, retry={"attempts": 5, "errors": ["OSError"]}),
    ],
)
