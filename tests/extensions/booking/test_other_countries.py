"""What invoices of other countries taught: each is as one that its country's own examples have,
written anew and as small as can be.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from extensions.einvoice.file import read_invoice
from extensions.einvoice.model import Extra, Invoice, InvoiceLine, Party, Tax
from extensions.einvoice.rules import check
from extensions.einvoice.sums import added_up
from tests.conftest import pause_of
from tests.extensions.booking.houses import house as house
from tests.worlds.books import invoices
from tests.worlds.books.booking import House, asked
from tests.worlds.books.writer import to_cii, to_ubl

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]
D = Decimal
WRITERS = {"UBL": to_ubl, "CII": to_cii}


def bill(*lines: InvoiceLine, **changes: Any) -> Invoice:
    """An invoice of a known supplier on no order."""
    return added_up(replace(invoices.correct(), **{"order": None, **changes}), lines)


def line(number: int, price: str, **changes: Any) -> InvoiceLine:
    return invoices.line(number, "Paper", "1", price, **changes)


def amounts(house: House) -> dict[str, str]:
    return {row["position"]: row["amount"] for row in house.ledger()}


@pytest.mark.parametrize("syntax", WRITERS)
def test_lines_with_more_decimals_than_a_cent_are_booked_to_the_cent(house, syntax):
    """Belgium's and Singapore's telephone bills: their sum was said to be wrong, since 73.51 is not
    73.5120. CEN's own rules round the sum.
    """
    nets = ("12.3967", "12.3967", "55.3302", "-6.6116")
    lines = [line(place, net, net=D(net)) for place, net in enumerate(nets, 1)]
    order = house.book(bill(*lines), write=WRITERS[syntax])
    assert order.status == "completed"
    # each by itself would come to 73.52
    assert amounts(house) == {
        "line 1": "12.40",
        "line 2": "12.39",
        "line 3": "55.33",
        "line 4": "-6.61",
        "vat S 19 1": "13.97",
        "payable 1": "-87.48",
    }


def test_decimals_come_to_the_invoices_sum_in_two_batches_too(house):
    lines = [line(place, "0.005", net=D("0.005")) for place in (1, 2, 3)]
    order = house.book(bill(*lines, order="PO-0"))
    order = house.answer(order, {"send_back": {"2": "Which?"}})
    said = {"2": {"answer": "confirmed", "explanation": "It is right."}}
    house.answer(house.answer(order, {"lines": said}), {})
    goods = [D(row["amount"]) for row in house.ledger() if row["position"].startswith("line")]
    assert sum(goods) == D("0.02")


@pytest.mark.parametrize("syntax", WRITERS)
def test_a_rate_that_stands_twice_in_the_breakdown_is_one_group(house, syntax):
    """Belgium splits a rate by its reason (goods, services): each part was compared with all lines,
    and the last one alone would have been booked as VAT.
    """
    given = bill(line(1, "200.00"), line(2, "100.00"))
    tax = Tax(category="S", rate=D(19))
    parts = (
        replace(tax, base=D("200.00"), amount=D("38.00"), reason="Services"),
        replace(tax, base=D("100.00"), amount=D("19.00"), reason="Goods"),
    )
    order = house.book(replace(given, taxes=parts), write=WRITERS[syntax])
    assert order.status == "completed"
    assert amounts(house)["vat S 19 1"] == "57.00"
    wrong = replace(given, taxes=(parts[0], replace(parts[1], base=D("90.00"))))
    assert {one.rule for one in check(wrong)} == {"BR-CO-17", "BR-S-08"}


def test_the_breakdown_is_read_where_the_sum_stands_once_more_before_it():
    """Saudi Arabia writes the sum of VAT twice, first without its breakdown."""
    right = invoices.correct()
    total = b'<cac:TaxTotal><cbc:TaxAmount currencyID="EUR">141.36</cbc:TaxAmount></cac:TaxTotal>'
    written = to_ubl(right)
    twice = written.replace(b"<cac:TaxTotal>", total + b"<cac:TaxTotal>", 1)
    assert twice != written and read_invoice(twice) == read_invoice(written)


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        ("OIOUBL-2.02", "It was written by other rules than EN 16931 (OIOUBL-2.02, BT-24)"),
        ("TR1.2", "It was written by other rules than EN 16931 (TR1.2, BT-24)"),
        (None, "It does not say which rules it was written by (BT-24)"),
    ],
)
def test_an_invoice_of_other_rules_is_asked_about_in_words(house, profile, words):
    """Denmark's TaxExclusiveAmount is the VAT: nobody was told but that sums are wrong."""
    order = house.book(bill(line(1, "5.00"), profile=profile))
    assert asked(order)[1] == ["profile_checked"]
    assert words in pause_of(order).content.replace("\\", "")
    assert house.answer(order, {"profile_checked": True}).status == "completed"


def test_no_supplier_is_asked_for_what_another_countrys_rules_do_not_know(house):
    """Turkey's suppliers were asked for a country and a due date, and the invoice was rejected
    afterwards.
    """
    nobody = replace(invoices.PAPER, country=None)
    order = house.book(bill(line(1, "5.00"), profile="TR1.2", seller=nobody))
    assert asked(order) == ("needs_bookkeeper_decision", ["profile_checked"])
    order = house.answer(order, {"profile_checked": True})
    assert asked(order) == ("missing_supplier_data", ["BT-40"])


@pytest.mark.parametrize(
    "profile",
    [
        "urn:cen.eu:en16931:2017#compliant#urn:mfin.gov.rs:srbdt:2022",
        "urn:cen.eu:en16931:2017#conformant#urn:UBL.BE:1.0.0.20180214",
        "urn:peppol:pint:billing-1@sg-1",
        "urn:factur-x.eu:1p0:basic",
    ],
)
def test_an_invoice_of_a_countrys_use_of_the_standard_is_booked(house, profile):
    assert house.book(bill(line(1, "5.00"), profile=profile)).status == "completed"


def test_what_goes_to_the_tax_office_is_no_payment_in_advance(house):
    """Italy's split payment and its withheld tax stand as paid (BT-113): the question was whether
    we had paid that before.
    """
    split = bill(line(1, "100.00", category="B", rate=D(22)), prepaid=D("42.00"), withheld=D(20))
    more = replace(split, number="2", prepaid=D("50.00"), payable=(split.payable or D(0)) - 8)
    assert asked(house.book(more))[1] == ["prepaid_checked", "tax_office_checked"]
    order = house.book(split)
    assert asked(order)[1] == ["tax_office_checked"]
    shown = pause_of(order).content.replace("\\", "")
    assert "By split payment (category B) its VAT of 22.00 goes to the tax office." in shown
    assert "Tax of 20 is withheld from the supplier for the tax office." in shown
    house.answer(order, {"tax_office_checked": True})
    assert amounts(house)["payable 1"] == "-122.00"


@pytest.mark.parametrize("syntax", WRITERS)
def test_a_tax_representative_is_shown_and_nobody_is_asked_for_the_sellers_vat_id(house, syntax):
    """The representative's number (BT-63) names no supplier of ours: it stands for many."""
    agent = Party(name="Fiskal GmbH", vat_id=invoices.CLOUD.vat_id, country="DE")
    seller = replace(invoices.PAPER, vat_id=None, registration="HRB 1")
    given = bill(line(1, "5.00"), seller=seller, representative=agent)
    order = house.book(given, write=WRITERS[syntax])
    # found by its account alone, which is not sure enough
    assert asked(order) == ("needs_bookkeeper_decision", [])
    facts = dict(pause_of(order).facts)
    assert facts["Tax representative"] == "Fiskal GmbH, DE333333322"
    assert facts["Supplier"] == "70001 Papierhof Nord GmbH"
    assert house.answer(order, {}).status == "completed"


@pytest.mark.parametrize("syntax", WRITERS)
def test_every_account_that_money_shall_go_to_is_compared(house, syntax):
    """The Dutch blocked account stands second: only the first was compared with the supplier's."""
    given = bill(line(1, "5.00"), other_ibans=(invoices.STEEL_IBAN,))
    order = house.book(given, write=WRITERS[syntax])
    assert asked(order)[1] == ["account_checked"]
    assert f"payment to {invoices.STEEL_IBAN}, but" in pause_of(order).content
    again = replace(given, number="2", other_ibans=(invoices.PAPER_IBAN,))
    assert house.book(again, write=WRITERS[syntax]).status == "completed"
    # whoever is paid on several has them in the list of suppliers
    suppliers = house.books / "suppliers.csv"
    known = suppliers.read_text().replace("2020 51,", f"2020 51; {invoices.STEEL_IBAN},")
    suppliers.write_text(known)
    unnamed = replace(invoices.PAPER, vat_id=None, name="Papierhof", registration="HRB 1")
    both = replace(given, number="3", seller=unnamed, representative=Party(vat_id="DE111111125"))
    order = house.book(replace(both, iban=invoices.STEEL_IBAN), write=WRITERS[syntax])
    assert dict(pause_of(order).facts)["Supplier"] == "unknown", "two suppliers have that account"
    suppliers.write_text("\n".join(row for row in known.splitlines() if "70003" not in row))
    order = house.book(replace(both, iban=invoices.STEEL_IBAN), write=WRITERS[syntax])
    assert dict(pause_of(order).facts)["Supplier"] == "70001 Papierhof Nord GmbH"
    assert asked(order)[1] == []


def test_a_freight_charge_by_which_the_buyer_owes_the_vat_is_asked_about(house):
    """Only lines were looked at; and that it lacks the buyer's number was said nowhere."""
    freight = Extra(charge=True, amount=D("9.00"), category="AE", rate=D(0))
    nobody = replace(invoices.BUYER, vat_id=None)
    given = replace(invoices.correct(), order=None, buyer=nobody)
    order = house.book(added_up(given, [line(1, "5.00")], [freight]))
    assert asked(order)[1] == ["reverse_charge", "send_back"]
    shown = pause_of(order).content.replace("\\", "")
    assert "this booking holds none. The buyer's VAT id (BT-48) is missing." in shown
