"""Who owes whom by an invoice: types and signs that contradict each other are never booked without
a person. `test_who_owes_whom` has the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extensions.booking.entries import Batch, Heading, entries
from extensions.booking.matching import positions
from extensions.booking.readings import (
    OWED,
    TAKEN_BACK,
    booked,
    contradictions,
    reading,
    sign_of,
    total_of,
    with_signs_of_totals,
)
from extensions.einvoice.file import read_invoice
from extensions.einvoice.model import CREDIT_NOTES, Extra, Tax, ThirdParty
from extensions.einvoice.rules import check
from extensions.einvoice.sums import added_up
from tests.conftest import pause_of
from tests.extensions.booking.houses import house as house
from tests.worlds.books import invoices
from tests.worlds.books.booking import House, asked
from tests.worlds.books.writer import to_ubl

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]
D = Decimal


def rows_of(house: House, order: Any) -> list[dict[str, str]]:
    return [row for row in house.ledger() if row["order"] == order.shown_id]


def answers(order: Any, read_as: str) -> dict[str, Any]:
    """What lets an invoice be booked that is read like that."""
    wanted = pause_of(order).required_inputs
    given: dict[str, Any] = dict.fromkeys(wanted["required"], True)
    if "signs" in given:
        given["signs"] = read_as
    if "assign" in given:
        given["assign"] = dict.fromkeys(wanted["properties"]["assign"]["required"], "6335/110")
    return given


def test_both_readings_are_shown_with_what_they_book(house):
    house.book(invoices.correct())
    minus = [invoices.line(1, "Frames taken back", "-1", "4000.00", order_line="10")]
    order = house.book(added_up(invoices.credit_note(), minus))
    pause = pause_of(order)
    assert "credit note, whose amounts are positive" in pause.content
    assert "Its total is \\-4760\\.00" in pause.content
    assert pause.required_inputs["properties"]["signs"]["oneOf"] == [
        {
            "const": "taken_back",
            "title": "It takes back: the supplier owes us 4760.00 EUR; -4000.00 without VAT is "
            "booked",
        },
        {
            "const": "owed",
            "title": "It asks for money: we owe the supplier 4760.00 EUR; 4000.00 without VAT is "
            "booked",
        },
    ]
    assert "4000.00 EUR to one side or the other" in pause.effects[0]
    # with the reading known, the order and the invoice that it names are looked at
    order = house.answer(order, {"signs": "taken_back"})
    assert asked(order)[1] == ["credit_checked", "order_exceeded"]
    shown = pause_of(order).content.replace("\\", "")
    assert "It takes back 4760.00 of invoice RE-2026-1041, of which 885.36 is booked" in shown
    assert "line 10 of PO-4711: 4000.00 taken back, 498.00 booked" in shown
    assert "-4000.00 EUR without VAT" in pause_of(order).effects[0]
    house.answer(order, {"credit_checked": True, "order_exceeded": True})
    assert [row["amount"] for row in rows_of(house, order)] == ["-4000.00", "-760.00", "4760.00"]


@pytest.mark.parametrize(
    ("kind", "root"), [("381", "Invoice"), ("380", "CreditNote"), ("384", "CreditNote")]
)
def test_a_file_whose_root_contradicts_its_type_is_asked_about(house, kind, root):
    """UBL has an element for each; only the type was looked at."""
    right = invoices.correct() if root == "Invoice" else invoices.credit_note()
    code = b"InvoiceTypeCode>" if root == "Invoice" else b"CreditNoteTypeCode>"
    was = b"380" if root == "Invoice" else b"381"
    written = to_ubl(right).replace(code + was, code + kind.encode())
    assert read_invoice(written).root == root
    order = house.book(written)
    assert "signs" in asked(order)[1]
    assert f"The file is a UBL {root}, but its type (BT-3) is {kind}." in pause_of(
        order
    ).content.replace("\\", "")


@pytest.mark.parametrize("kind", sorted(CREDIT_NOTES))
def test_every_type_of_credit_note_takes_back(kind):
    """A self-billed credit note (261) was booked as money owed."""
    assert reading(replace(invoices.credit_note(), kind=kind), {}) == TAKEN_BACK


@pytest.mark.parametrize("kind", ["325", "751", "458", "935", "999", "x"])
def test_a_type_that_asks_for_no_money_is_asked_about(house, kind):
    """A pro forma invoice (325) was booked like an invoice."""
    order = house.book(replace(invoices.correct(), kind=kind))
    assert asked(order)[1] == ["send_back", "signs"]
    house.answer(order, {"signs": "owed"})
    assert house.ledger()[-1]["amount"] == "-885.36"


def test_totals_with_a_sign_that_the_lines_do_not_have_are_read_either_way(house):
    """Booked as calculated it would be the opposite of what its totals say, and that was the only
    way to book it.
    """
    right = invoices.correct()
    totals = ("line_total", "net", "vat", "gross", "payable", "taxes")
    turned = replace(right, **{name: _opposite(getattr(right, name)) for name in totals})
    order = house.book(turned)
    options = {
        one["const"]: one["title"]
        for one in pause_of(order).required_inputs["properties"]["amounts"]["oneOf"]
    }
    assert options["as_calculated"].startswith("Book what the parts come to: 885.36 with VAT")
    assert options["as_totals"] == "Give its lines the sign of its totals: -885.36 with VAT"
    order = house.answer(order, {"amounts": "as_totals"})
    # which an invoice's total cannot have, either
    assert asked(order)[1] == ["send_back", "signs"]
    while order.status == "paused":
        order = house.answer(order, answers(order, TAKEN_BACK))
    assert [row["amount"] for row in house.ledger()] == ["-498.00", "-246.00", "-141.36", "885.36"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"payable": D("-885.36")}, "but the amount due"),
        ({"taxes": (Tax(category="S", rate=D(19), base=D("1.00"), amount=D("-0.50")),)}, "VAT of"),
        ({"third_parties": (ThirdParty(amount=D("-2000")),)}, "a sign that none of its lines has"),
    ],
)
def test_parts_of_one_sign_and_totals_of_another_are_said(changes, words):
    assert words in " ".join(contradictions(replace(invoices.correct(), **changes)))


def spent(house: House, **changes: Any) -> list[str]:
    """What is asked about an invoice of 1 200.00 on the order of 900.00."""
    lines = [invoices.line(1, "Copy paper", "1", "1200.00")]
    order = house.book(added_up(replace(invoices.correct(), **changes), lines))
    return asked(order)[1] if order.status == "paused" else [order.status]


@pytest.mark.parametrize(
    "changes",
    [
        {},  # names no line of the order
        {"kind": "386"},
        {"kind": "384"},
        {"kind": "389"},
        {"currency": "USD"},
    ],
)
def test_an_order_is_not_exceeded_without_a_word(house, changes):
    """What named no line of an order of several was compared with none of them."""
    given = spent(house, **changes)
    if "rate" in given:
        order = house.book(
            added_up(
                replace(invoices.correct(), number="2", **changes),
                [invoices.line(1, "Paper", "1", "1200.00")],
            )
        )
        order = house.answer(order, {"rate": "0.9"})
        given = asked(order)[1]
        assert "1080.00 invoiced, 900.00 open" in pause_of(order).content.replace("\\", "")
    assert "order_exceeded" in given


def test_an_order_in_another_currency_is_compared_in_that_of_the_books(house):
    """1 200 dollars at 0.5 fit into 900 euros; the ledger's euros count, not its dollars."""
    lines = [invoices.line(1, "Copy paper", "1", "1200.00")]
    dollars = added_up(replace(invoices.correct(), currency="USD"), lines)
    order = house.answer(house.book(dollars), {"rate": "0.5"})
    assert order.status == "completed"
    assert spent(house, number="2") == ["order_exceeded"]


def test_amounts_as_calculated_are_those_that_the_order_is_compared_with(house):
    """The stated ones were compared, whatever was booked."""
    lines = [invoices.line(1, "Copy paper", "48", "25.00", net=D("12.00"), order_line="10")]
    order = house.book(added_up(replace(invoices.correct()), lines))
    order = house.answer(order, {"amounts": "as_calculated"})
    assert asked(order)[1] == ["order_exceeded"]


def test_more_than_was_booked_is_not_taken_back_without_a_word(house):
    """By order, and by the invoice that is named, an order of none too."""
    house.book(invoices.correct())
    lines = [invoices.line(1, "Copy paper", "1", "800.00", order_line="10")]
    order = house.book(added_up(invoices.credit_note(), lines))
    assert asked(order)[1] == ["credit_checked", "order_exceeded"]
    order = house.book(added_up(replace(invoices.credit_note(), number="2", order=None), lines))
    assert asked(order)[1] == ["credit_checked"]


quantities = st.integers(-3, 3).map(str)
KINDS = ["380", "381", "384", "386", "389", "261", "325"]


@given(
    kind=st.sampled_from(KINDS),
    amounts=st.lists(st.tuples(quantities, st.sampled_from(["0.05", "7.77"])), min_size=1),
    extra=st.decimals(-9, 9, places=2),
    charge=st.booleans(),
    flips=st.sets(st.sampled_from(["line_total", "net", "vat", "gross", "payable", "taxes"])),
    given=st.fixed_dictionaries(
        {},
        optional={
            "signs": st.sampled_from([OWED, TAKEN_BACK]),
            "amounts": st.sampled_from(["as_calculated", "as_totals"]),
        },
    ),
    whole=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_entries_balance_and_stand_on_the_side_that_was_read(
    kind: str,
    amounts: list[tuple[str, str]],
    extra: Decimal,
    charge: bool,
    flips: set[str],
    given: Mapping[str, str],
    whole: bool,
) -> None:
    lines = [invoices.line(place, "x", *amount) for place, amount in enumerate(amounts, 1)]
    extras = [Extra(charge=charge, amount=extra, category="S", rate=D(19))]
    made = added_up(replace(invoices.correct(), kind=kind), lines, extras)
    invoice = replace(made, **{name: _opposite(getattr(made, name)) for name in flips})
    counted = booked(invoice, given)
    read_as = reading(counted, given)
    if not read_as:
        with pytest.raises(ValueError, match="nobody has said"):
            sign_of(counted, read_as)
        return
    total = total_of(counted)
    if "signs" not in given:
        # by itself it is only read as its type and its sign both say
        assert not [one for one in check(counted) if one.kind == "wrong"]
        assert kind == "384" or (total >= 0 and kind != "325")
    sign = sign_of(counted, read_as)
    assert sign * total == 0 or (sign * total > 0) == (read_as == OWED)
    every = positions(counted) if whole else positions(counted)[:1]
    heading = Heading(
        key="k", order="o", document="d", booked_at="", rate=D("0.91"), vat_account="1406",
        payables_account="1600", sign=sign,
    )  # fmt: skip
    match: Any = {"supplier": None, "proposals": {}}
    rows = entries(
        counted,
        match,
        Batch(number=1, positions=every, last=whole, whole=whole),
        {one.id: "6815/110" for one in every},
        heading,
    )
    assert sum(D(row["amount"]) for row in rows) == sum(D(row["base_amount"]) for row in rows) == 0
    for row, one in zip(rows, every, strict=False):
        assert D(row["amount"]) == sign * one.net
    if whole and not any(one.kind == "wrong" for one in check(counted)):
        assert D(rows[-1]["amount"]) == -sign * total
    read_again = with_signs_of_totals(invoice)
    assert read_again is None or read_again.gross == invoice.gross


def _opposite(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(
            replace(tax, base=-(tax.base or 0), amount=-(tax.amount or 0)) for tax in value
        )
    return -value
