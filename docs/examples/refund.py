"""A refund: support approves it, finance approves the money, a day passes, then the bank is told.

`REFUND_API` is the address of the bank's API. It takes `Idempotency-Key`, as such APIs do.
`REFUND_HOURS` is how long the day lasts, for trying.
"""

from __future__ import annotations

import json
import os
from datetime import timedelta
from decimal import Decimal
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from pydantic import BaseModel, Field

from runs.workflows import (
    Context,
    Done,
    Go,
    Outcome,
    Report,
    Review,
    Sleep,
    State,
    StepFailed,
    effect,
    read,
    step,
    use,
    workflow,
)

API = os.environ.get("REFUND_API", "http://localhost:9000/refunds")
COOLING_OFF = timedelta(hours=float(os.environ.get("REFUND_HOURS", "24")))


class Refund(BaseModel):
    """What support fills in."""

    order_number: str = Field(title="Order", min_length=3)
    amount: Decimal = Field(gt=0, le=5000, decimal_places=2, description="EUR")
    reason: str = Field(min_length=3)


@step("refund.propose")
def propose(state: State, context: Context) -> Outcome:
    """Say what will be paid back, and why. After Revise the reviewer's words are quoted."""
    refund = read(Refund, context.order.input)
    wish = f"\n\nSent back: {state['revision_feedback']}" if state["revision_feedback"] else ""
    return Go(
        report=Report(
            content=f"**{refund.amount:.2f} EUR** for order {refund.order_number}.\n\n"
            f"{refund.reason}{wish}",
            facts={"Order": refund.order_number, "Amount": f"{refund.amount:.2f} EUR"},
            material={"order": refund.order_number, "amount": f"{refund.amount:.2f}"},
        )
    )


@step("refund.release")
def release(state: State, context: Context) -> Outcome:
    """Ask finance about the same money: they see that support has approved it."""
    refund = read(Refund, context.order.input)
    material = {"order": refund.order_number, "amount": f"{refund.amount:.2f}"}
    context.require_approval("refund.propose", material)
    report = Report(
        content=f"Support approved **{refund.amount:.2f} EUR** for order {refund.order_number}.",
        material=material,
        effects=[effect(f"{refund.amount:.2f} EUR are paid back a day later.")],
    )
    return Go(report=report)


@step("refund.cool_off")
def cool_off(state: State, context: Context) -> Outcome:
    """Wait a day, in which anybody may still cancel."""
    return Sleep(for_=COOLING_OFF, reason="A refund can be cancelled for a day.")


@step("refund.pay")
def pay(state: State, context: Context) -> Outcome:
    """Pay exactly what finance approved. The key lets the bank tell a repetition."""
    refund = read(Refund, context.order.input)
    material = {"order": refund.order_number, "amount": f"{refund.amount:.2f}"}
    context.require_approval("refund.release", material)
    receipt = context.once(
        "pay", lambda: call_bank(context.key, refund.order_number, f"{refund.amount:.2f}")
    )
    return Done(update={"receipt": receipt})


def call_bank(key: str, order: str, amount: str) -> str:
    """Have the bank pay; gives its receipt. Raises StepFailed where it refuses."""
    request = Request(  # noqa: S310  # the address is the operator's
        API,
        data=json.dumps({"order": order, "amount": amount}).encode(),
        headers={"Content-Type": "application/json", "Idempotency-Key": key},
        method="POST",
    )
    try:
        with urlopen(request, timeout=20) as response:  # noqa: S310  # as above
            return str(json.load(response)["receipt"])
    except HTTPError as error:
        raise StepFailed(
            f"The bank refused the refund ({error.code}). Nothing was paid.", code="bank_refused"
        ) from error


refund = workflow(
    "refund",
    title="Refund a customer",
    input=Refund,
    steps=[
        use(propose, pause_after=True, review=Review(reviewers={"groups": ["support"]})),
        use(
            release,
            pause_after=True,
            review=Review(
                reviewers={"groups": ["finance"]},
                self_approval=False,
                risk="high",
                deadline={"after": "P2D", "calendar": "business", "outcome": "escalate"},
                escalation=[{"after": "P1D", "groups": ["finance-heads"]}],
            ),
        ),
        cool_off,
        use(
            pay, retry={"attempts": 5, "base": 2.0, "cap": 300.0, "errors": ["URLError", "OSError"]}
        ),
    ],
)
