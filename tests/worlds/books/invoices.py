"""Invoices that tests book and change: those of the product's sample files.

Their firms are invented; their numbers pass their check digits.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from extensions.einvoice.model import Invoice, InvoiceLine, Party
from extensions.einvoice.rules import line_net
from extensions.einvoice.sums import added_up

PROFILE = "urn:cen.eu:en16931:2017"
BUYER = Party(
    name="Musterwerk Maschinenbau GmbH",
    vat_id="DE111111125",
    country="DE",
    email="rechnung@musterwerk.example",
)
PAPER = Party(
    name="Papierhof Nord GmbH",
    vat_id="DE222222220",
    country="DE",
    email="buchhaltung@papierhof.example",
)
PAPER_IBAN = "DE02120300000000202051"
CLOUD = Party(
    name="Wolkenwerk Hosting AG",
    vat_id="DE333333322",
    country="DE",
    email="billing@wolkenwerk.example",
)
CLOUD_IBAN = "DE02500105170137075030"
STEEL = Party(
    name="Stahlbau Huber KG",
    vat_id="ATU12345675",
    country="AT",
    email="rechnung@stahlbau-huber.example",
)
STEEL_IBAN = "AT611904300234573201"


def line(number: int, name: str, quantity: str, price: str, **changes: object) -> InvoiceLine:
    """A line whose net amount is right; `changes` are taken as they are."""
    made = InvoiceLine(
        id=str(number), name=name, quantity=Decimal(quantity), unit="C62", price=Decimal(price),
        category="S", rate=Decimal(19)
    )  # fmt: skip
    made = replace(made, **changes)  # type: ignore[arg-type]  # a test says what is wrong
    return made if "net" in changes else replace(made, net=line_net(made))


def draft(seller: Party, iban: str | None, number: str, **changes: object) -> Invoice:
    made = Invoice(
        number=number, issued="2026-11-02", delivered="2026-10-30", due="2026-12-02", kind="380",
        currency="EUR", means="58",
        iban=iban, seller=seller, buyer=BUYER, profile=PROFILE, terms="30 days net",
        buyer_reference="Accounts payable",
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]  # as for `line`


def correct() -> Invoice:
    """Two lines on an open purchase order: nothing to ask."""
    lines = [
        line(1, "Copy paper A4, 80 g, box of 2 500 sheets", "20", "24.90", order_line="10"),
        line(2, "Toner cartridge, black", "4", "61.50", order_line="20"),
    ]
    return added_up(draft(PAPER, PAPER_IBAN, "RE-2026-1041", order="PO-4711"), lines)


def without_order() -> Invoice:
    """A known supplier who names an order that there is not, for things that no rule knows an
    account for.
    """
    lines = [
        line(1, "Managed hosting, November", "1", "480.00"),
        line(2, "Migration workshop, two days", "2", "1250.00"),
    ]
    return added_up(draft(CLOUD, CLOUD_IBAN, "WW-88120", order="PO-9999"), lines)


def without_vat_id() -> Invoice:
    """VAT is charged by a seller who does not say under which number, nor where to pay."""
    lines = [line(1, "Welded frame, galvanised", "3", "742.00", order_line="10")]
    seller = replace(STEEL, vat_id=None)
    return added_up(draft(seller, None, "2026/0577", order="PO-4720"), lines)


def wrong_total() -> Invoice:
    """The total with VAT is not what net and VAT come to."""
    right = replace(correct(), number="RE-2026-1042")
    wrong = (right.gross or Decimal(0)) + Decimal("9.00")
    return replace(right, gross=wrong, payable=wrong)


def unknown_supplier() -> Invoice:
    seller = Party(
        name="Blumen Weber e. K.",
        vat_id="DE444444427",
        country="DE",
        email="post@blumen-weber.example",
    )
    return added_up(
        draft(seller, "DE02100500000054540402", "2026-310"),
        [line(1, "Office plants, care in November", "1", "85.00")],
    )


def credit_note() -> Invoice:
    """Takes back one box of the paper of `correct`."""
    lines = [line(1, "Copy paper A4, damaged box returned", "1", "24.90", order_line="10")]
    return added_up(
        draft(
            PAPER,
            PAPER_IBAN,
            "GS-2026-0077",
            kind="381",
            preceding="RE-2026-1041",
            order="PO-4711",
            due=None,
        ),
        lines,
    )


def foreign_currency() -> Invoice:
    lines = [line(1, "Annual licence", "1", "1200.00")]
    return added_up(draft(CLOUD, CLOUD_IBAN, "WW-88121", currency="USD"), lines)


def fifty_lines() -> Invoice:
    """Fifty lines on one order line, so that a bookkeeper goes through them."""
    lines = [
        line(number, f"Sheet metal part {number:02}", str(number % 7 + 1), f"{number % 11 + 3}.45")
        for number in range(1, 51)
    ]
    return added_up(draft(STEEL, STEEL_IBAN, "2026/0580", order="PO-9998"), lines)
