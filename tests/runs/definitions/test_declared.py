"""A workflow that is declared in Python, from its module to its end: page, REST, command, step."""

from __future__ import annotations

import json
import sys
from io import StringIO

import pytest
from django.core.management import call_command

from runs.definitions import shipped
from runs.models import WorkOrder
from runs.workflows import registry
from tests.conftest import drive, pause_of, state_at_head
from tests.doors.html import join
from tests.doors.rest import ORDERS, problem

AUTHOR = """
import datetime as dt
from decimal import Decimal

from pydantic import BaseModel, Field

from runs.workflows import (
    Context, Done, Go, Outcome, Report, State, read, step, use, wait_for_input, workflow
)


class Address(BaseModel):
    street: str
    town: str | None = None


class Refund(BaseModel):
    order_id: str = Field(title="Order")
    amount: Decimal = Field(gt=0, decimal_places=2)
    on: dt.date
    back_to: Address
    parts: list[Address] = []


class Account(BaseModel):
    iban: str
    since: dt.date | None = None


@step("refund.check")
def check(state: State, context: Context) -> Outcome:
    refund = read(Refund, context.order.input)
    assert isinstance(refund.amount, Decimal) and isinstance(refund.on, dt.date)
    said = f"{refund.amount} to {refund.back_to.street}"
    return Go(update={"said": said}, report=Report(content=said))


@step("refund.pay", asks=True)
def pay(state: State, context: Context) -> Outcome:
    asked = wait_for_input(
        state, context, required_inputs=Account, blocking_reason="missing", question="Where to?"
    )
    if asked:
        return asked
    return Done(update={"paid": f"{state['said']}: {read(Account, state).iban}"})


refund = workflow("refund", title="Refund", input=Refund, steps=[use(check, pause_after=True), pay])
"""
GOOD = {
    "order_id": "A1",
    "amount": 12.5,
    "on": "2026-03-31",
    "back_to": {"street": "Hill 1"},
}


@pytest.fixture
def refund(templates, tmp_path, monkeypatch, settings):
    (tmp_path / "refund_of_tests.py").write_text(AUTHOR)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_STEPS", dict(registry._STEPS))
    monkeypatch.setattr(registry, "_TRAITS", dict(registry._TRAITS))
    monkeypatch.delitem(sys.modules, "refund_of_tests", raising=False)
    settings.WAYSTATION_WORKFLOWS = ["refund_of_tests"]
    assert [template.slug for template in shipped.load()] == ["refund"]


@pytest.mark.usefixtures("refund")
def test_a_declared_input_is_a_form_a_422_and_a_value_with_its_types(page, ana, api):
    """Issue 17, 1: one model is the form, the check at every door, and the type in the step."""
    # the page: a date, an object and a list of objects had no field
    asked = page.get("/work-orders/new?template=refund").content.decode()
    for name in ("input.order_id", "input.amount", "input.on", "input.back_to.street"):
        assert f'name="{name}"' in asked, name
    assert 'type="date"' in asked and "add:input.parts" in asked
    typed = {
        "template": "refund",
        "input.order_id": "A1",
        "input.amount": "12.5",
        "input.on": "2026-03-31",
        "input.back_to.street": "Hill 1",
    }
    more = page.post("/work-orders/new", {**typed, "change": "add:input.parts"})
    assert more.status_code == 200 and 'name="input.parts.0.street"' in more.content.decode()
    wrong = page.post(
        "/work-orders/new",
        {**typed, "input.order_id": "", "input.back_to.street": "", "input.on": "soon"},
    )
    assert wrong.status_code == 422 and "The order was not made" in wrong.content.decode()
    assert 'id="id_input_back_to_street.error"' in wrong.content.decode()
    assert 'id="id_input_on.error"' in wrong.content.decode()
    assert 'id="id_input_order_id.error"' in wrong.content.decode()
    assert not WorkOrder.objects.exists()
    made = page.post("/work-orders/new", typed)
    assert made.status_code == 302
    order = WorkOrder.objects.get()
    assert order.input == {**GOOD, "parts": []}  # with the default of what was left out
    shown = join(page.get(f"/work-orders/{order.shown_id}/").content.decode())
    assert "<dt>Back to: Street</dt><dd>Hill 1</dd>" in shown

    # REST
    bad = {**GOOD, "amount": 0.001, "back_to": {}}
    told = problem(
        api(ana).post(ORDERS, {"template": "refund", "input": bad}, format="json"),
        422,
        "input_invalid",
    )
    assert sorted(told["errors"]) == ["amount", "back_to.street"]
    accepted = api(ana).post(ORDERS, {"template": "refund", "input": GOOD}, format="json")
    assert accepted.status_code == 201 and accepted.json()["input"] == order.input

    # the command
    out = StringIO()
    create = ("workorder", "--user", "ana", "create", "--template", "refund", "--input")
    call_command(*create, json.dumps(GOOD), stdout=out)
    assert out.getvalue().startswith("wo_")

    # the step, and the answer
    drive(order)
    assert pause_of(order).phase == "awaiting_check_approval"
    call_command("workorder", "--user", "ana", "approve", order.shown_id, stdout=out)
    drive(order)
    pause = pause_of(order)
    card = page.get(f"/work-orders/{order.shown_id}/").content.decode()
    assert 'name="input.iban"' in card and 'name="input.since"' in card
    answers = f"/api/v1/pauses/{pause.shown_id}/decisions"
    given = {"decision": "answer", "revision": 1}
    refused = api(ana).post(answers, {**given, "input": {"iban": 7}}, format="json")
    assert refused.status_code == 422, refused.json()
    taken = api(ana).post(answers, {**given, "input": {"iban": "DE1"}}, format="json")
    assert taken.status_code in {200, 201}, taken.json()
    order = drive(order)
    assert order.status == "completed", order.latest_run.error
    assert state_at_head(order.thread_id)["paid"] == "12.5 to Hill 1: DE1"
