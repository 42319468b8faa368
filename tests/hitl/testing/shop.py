"""A workflow of an author, for tests of the kit: an order is priced, approved, paid and told of."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from runs.workflows import (
    Child,
    Context,
    Done,
    Gather,
    Go,
    Outcome,
    Report,
    Sleep,
    State,
    StepFailed,
    effect,
    step,
    wait_for_event,
    wait_for_input,
)


@dataclass
class Bank:
    """The world outside: what was paid, and how often it still refuses."""

    paid: list[tuple[str, int]] = field(default_factory=list)
    refusals: int = 0

    def pay(self, key: str, amount: int) -> str:
        if self.refusals:
            self.refusals -= 1
            raise StepFailed("The bank is closed.", code="bank_closed")
        self.paid.append((key, amount))
        return f"receipt {amount}"

    def reset(self) -> None:
        self.paid.clear()
        self.refusals = 0


BANK = Bank()


@step("shop.price")
def price(state: State, context: Context) -> Outcome:
    """Price the order. After Revise the price is a tenth lower."""
    amount = int(context.order.input.get("amount", 100))
    amount -= amount // 10 * state.get("rounds", 0)
    report = Report(
        content=f"# {amount} EUR",
        material={"amount": amount},
        effects=[effect(f"{amount} EUR are paid.")],
        facts={"Feedback": state["revision_feedback"]},
    )
    return Go(update={"amount": amount, "rounds": state.get("rounds", 0) + 1}, report=report)


@step("shop.pay")
def pay(state: State, context: Context) -> Outcome:
    context.require_approval("shop.price", {"amount": state["amount"]}, optional=True)
    receipt = context.once("pay", lambda: BANK.pay(context.key, state["amount"]))
    context.log(f"paid {receipt}")
    return Done(update={"receipt": receipt})


@step("shop.ask_address", asks=True)
def ask_address(state: State, context: Context) -> Outcome:
    needs = {
        "type": "object",
        "properties": {"street": {"type": "string", "minLength": 1}},
        "required": ["street"],
    }
    return wait_for_input(
        state, context, required_inputs=needs, blocking_reason="address", question="Where to?"
    ) or Go(update={"label": f"To {state['street']}"})


@step("shop.rest")
def rest(state: State, context: Context) -> Outcome:
    return Sleep(for_=dt.timedelta(days=30), reason="The goods may come back.")


@step("shop.paid", asks=True)
def paid(state: State, context: Context) -> Outcome:
    data = {"type": "object", "properties": {"amount": {"type": "integer"}}}
    return wait_for_event("payment", to="", within=dt.timedelta(days=14), data=data)


@step("shop.parts")
def parts(state: State, context: Context) -> Outcome:
    return Gather(children=[Child(name=name, update={"part": name}) for name in ("box", "card")])


@step("shop.part")
def part(state: State, context: Context) -> Outcome:
    made = context.once("made", lambda: BANK.pay(context.key, 1))
    return Go(
        update={"made": {state["part"]: made}}, report=Report(content=f"Make {state['part']}?")
    )


@step("shop.secret")
def secret(state: State, context: Context) -> Outcome:
    key = context.credential("bank")
    print("the key is", key)
    context.log(f"the key is {key}")
    return Done(update={"said": f"{key}!"})


@step("shop.hang")
def hang(state: State, context: Context) -> Outcome:
    while True:
        time.sleep(0.001)


@step("shop.again")
def again(state: State, context: Context) -> Outcome:
    return Go(update={"n": state.get("n", 0) + 1}, to=context.step)


@step("shop.odd")
def odd(state: State, context: Context) -> Outcome:
    return Go(update={"handle": object()})


@step("shop.huge")
def huge(state: State, context: Context) -> Outcome:
    return Done(update={"lines": ["x" * 1000] * 3000})


def flow(*steps: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """A workflow of these steps, each `{"function": …}` and what its place in the template says."""
    kinds, places = {}, []
    for one in steps:
        place = dict(one)
        name = place.pop("function").split(".")[1].replace("_", "-")
        kinds[f"shop-{name}"] = {
            "title": name.capitalize(),
            "function": one["function"],
            "config": {},
            **place.pop("kind", {}),
        }
        places.append(
            {"step_type": name, "name": name, "step_template_slug": f"shop-{name}", **place}
        )
    fields = {"title": "Shop", "needs_repository": False, **fields}
    return {"STEP_TEMPLATES": kinds, "TEMPLATES": {"shop": {**fields, "steps": places}}}


PRICE = {"function": "shop.price", "pause_after": True, "pause_phase": "awaiting_price"}
PAY: dict[str, Any] = {"function": "shop.pay"}
REFUND = flow(PRICE, PAY)
PARTS: dict[str, Any] = {
    "STEP_TEMPLATES": {
        "shop-part": {"title": "Part", "function": "shop.part", "config": {}},
        "shop-parts": {
            "title": "Parts",
            "function": "shop.parts",
            "config": {},
            "sub_steps": [
                {
                    "step_type": "part",
                    "step_template_slug": "shop-part",
                    "pause_after": True,
                    "pause_phase": "awaiting_part",
                }
            ],
        },
    },
    "TEMPLATES": {
        "parts": {
            "title": "Parts",
            "needs_repository": False,
            "reducers": {"made": "merge"},
            "steps": [{"step_type": "parts", "step_template_slug": "shop-parts"}],
        }
    },
}

Calls = Callable[..., Any]
