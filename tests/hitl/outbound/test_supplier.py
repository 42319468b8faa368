"""The supplier of `smart-booking`, who has no account: asked by a signed link for what is
missing.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from hitl.models import Decision
from tests.conftest import drive, fresh, pause_of
from tests.extensions.booking.houses import house as house
from tests.worlds.books import invoices
from tests.worlds.books.booking import sent, state_of
from tests.worlds.mailing import relay
from tests.worlds.outsiders import browser, link_to, mails_to

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("reachable")]


def test_the_supplier_sends_what_is_missing_and_the_run_goes_on_at_decide(house):
    """S3-49, 50, 51: asked at the address in the invoice, extraction does not run again."""
    order = house.book(invoices.without_vat_id())
    relay()
    page = browser().get(link_to(invoices.STEEL.email)).content.decode()
    assert (
        "Missing on your invoice 2026/0577" in page and "(BT-31)" in page and "Reject" not in page
    )
    for inside in ("70003", "Book an invoice", "Ana", "PO-4720", "Checks the invoice again"):
        assert inside not in page
    sent_back = {
        "action": "answer",
        "me": "yes",
        "input.BT-31": "ATU12345675",
        "input.BT-84": invoices.STEEL_IBAN,
    }
    assert browser().post(link_to(invoices.STEEL.email), sent_back).status_code == 200
    steps = [one.node_id for one in drive(order).thread.checkpoints.order_by("pk")]
    assert (fresh(order).status, steps.count("extract"), len(house.ledger())) == ("completed", 1, 3)
    assert Decision.objects.get(action="answer").external == invoices.STEEL.email


def test_the_orders_own_address_comes_before_the_invoices(house, make_order):
    drive(
        make_order(
            "smart-booking",
            input={**sent(invoices.without_vat_id()), "supplier_mail": "ap@huber.example"},
        )
    )
    relay()
    assert mails_to("ap@huber.example") and not mails_to(invoices.STEEL.email)


def test_without_an_address_nobody_outside_is_asked(house):
    invoice = invoices.without_vat_id()
    order = house.book(replace(invoice, seller=replace(invoice.seller, email="no address")))
    assert (pause_of(order).phase, pause_of(order).outside) == ("missing_supplier_data", {})


def test_lines_that_were_sent_back_are_asked_of_the_supplier(house):
    """S3-50: line by line, with the reason and nothing else."""
    order = house.book(invoices.fifty_lines())
    schema = pause_of(order).required_inputs["properties"]
    assign = dict.fromkeys(schema.get("assign", {}).get("properties", {}), "5400/210")
    order = house.answer(
        order, {**({"assign": assign} if assign else {}), "send_back": {"7": "not delivered"}}
    )
    relay()
    page = browser().get(link_to(invoices.STEEL.email)).content.decode()
    assert "A question about 1 line of your invoice" in page and "not delivered" in page
    body = {
        "action": "answer",
        "me": "yes",
        "input.lines.7.answer": "credited",
        "input.lines.7.explanation": "a note follows",
    }
    assert browser().post(link_to(invoices.STEEL.email), body).status_code == 200
    assert state_of(drive(order))["held"]["7"]["answer"] == "credited"
