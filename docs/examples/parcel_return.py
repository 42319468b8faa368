"""A return, as a shop tells it by webhook: support agrees, the parcel comes back or not, the money
is paid back. The shop is told how it ended by a webhook, too: `_shop.py` is such a shop.

`pay_back` stands for your own bank: here a payment is a file.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from pathlib import Path

from pydantic import BaseModel, Field

from runs.workflows import (
    Context,
    Done,
    Go,
    Outcome,
    Report,
    Review,
    State,
    effect,
    read,
    step,
    use,
    wait_for_event,
    workflow,
)

FOLDER = Path(__file__).parent / "data" / "payments"
IN_TIME = timedelta(days=14)


class Return(BaseModel):
    """What the shop's webhook brings."""

    order_number: str = Field(title="Order", min_length=3, max_length=40)
    amount: Decimal = Field(gt=0, le=5000, decimal_places=2, title="Amount in EUR")


class Parcel(BaseModel):
    """What the event of the warehouse brings."""

    complete: bool = Field(title="Is all of it there?")


def material_of(wish: Return) -> dict[str, str]:
    return {"order": wish.order_number, "amount": f"{wish.amount:.2f}"}


@step("return.agree")
def agree(state: State, context: Context) -> Outcome:
    """Ask support."""
    wish = read(Return, context.order.input)
    report = Report(
        content=f"Order {wish.order_number} comes back.",
        facts={"Amount": f"{wish.amount:.2f} EUR"},
        material=material_of(wish),
        effects=[effect(f"{wish.amount:.2f} EUR are paid back once the parcel is here.")],
    )
    return Go(report=report)


@step("return.parcel", asks=True)
def parcel(state: State, context: Context) -> Outcome:
    """Wait until the warehouse, or its scanner, tells that the parcel came; nothing is held."""
    return wait_for_event(
        "parcel_came",
        to="pay",
        data=Parcel,
        within=IN_TIME,
        otherwise="close",
        question="Has the parcel come back?",
    )


@step("return.pay")
def pay(state: State, context: Context) -> Outcome:
    """Pay exactly what support agreed to, where all of it came back."""
    wish = read(Return, context.order.input)
    if not read(Parcel, state).complete:
        return Go(to="close")
    context.require_approval("return.agree", material_of(wish))
    paid = context.once("pay", lambda: pay_back(context.key, f"{wish.amount:.2f}"))
    return Done(update={"payment": paid, "conclusion": f"{wish.amount:.2f} EUR were paid back"})


@step("return.close")
def close(state: State, context: Context) -> Outcome:
    """Nothing is paid."""
    why = "The parcel was not complete" if "complete" in state else "No parcel came"
    return Done(update={"conclusion": f"{why}: nothing was paid back"})


def pay_back(key: str, amount: str) -> str:
    """Pay, once for each key; gives the payment's name."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    name = f"{key.replace('/', '-')}.txt"
    (FOLDER / name).write_text(amount)
    return name


parcel_return = workflow(
    "parcel-return",
    title="Take a parcel back",
    input=Return,
    steps=[
        use(
            agree,
            pause_after=True,
            question="Take order {order_number} back?",
            review=Review(reviewers={"groups": ["support"]}),
        ),
        use(parcel, review=Review(reviewers={"groups": ["warehouse"]})),
        use(pay, retry={"attempts": 5, "errors": ["OSError"]}),
        close,
    ],
)
