"""A table of what is booked of an invoice and what is asked, as a bookkeeper reads it: every type,
its signs, both syntaxes, which invoice it names, and with an order and without.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from itertools import product
from typing import Any

import pytest

from extensions.booking.books import read_books
from extensions.booking.case import BookingPolicy, Case, doubts
from extensions.booking.entries import Batch, Heading, entries
from extensions.booking.matching import match
from extensions.booking.readings import OWED, TAKEN_BACK, booked, reading, sign_of, total_of
from extensions.booking.samples import FOLDER
from extensions.einvoice.file import read_invoice
from extensions.einvoice.model import Invoice
from extensions.einvoice.rules import check
from extensions.einvoice.sums import added_up
from tests.worlds.books import invoices
from tests.worlds.books.writer import to_cii, to_ubl

pytestmark = pytest.mark.one_database
D = Decimal
BOOKS = read_books(FOLDER / "books")
WRITERS = {"UBL": to_ubl, "CII": to_cii}
QUANTITIES = {
    "positive": ("2", "1"),
    "mixed": ("2", "-1"),
    "negative": ("-2", "-1"),
    "mixed, in sum negative": ("-2", "1"),
}
COLUMNS = (("positive", "mixed"), ("negative", "mixed, in sum negative"))
NAMED = {"a booked invoice": "RE-2026-1041", "an unbooked invoice": "RE-0", "no invoice": None}
ORDERS = {"a purchase order": "PO-4711", "no purchase order": None}

# type, names · positive and mixed · negative and mixed in sum negative
TABLE = """
380, a booked invoice    | beside_checked         | signs
380, an unbooked invoice | we owe it              | signs
380, no invoice          | we owe it              | signs
389, a booked invoice    | beside_checked         | signs
389, an unbooked invoice | we owe it              | signs
389, no invoice          | we owe it              | signs
381, a booked invoice    | we get it back         | signs
381, an unbooked invoice | credit_checked         | signs
381, no invoice          | credit_checked         | signs
384, a booked invoice    | correction_checked     | correction_checked
384, an unbooked invoice | correction_checked     | correction_checked
384, no invoice          | correction_checked     | correction_checked
386, a booked invoice    | beside_checked, assign | signs, assign
386, an unbooked invoice | assign                 | signs, assign
386, no invoice          | assign                 | signs, assign
"""
ROWS = [[cell.strip() for cell in row.split("|")] for row in TABLE.strip().splitlines()]
WE_OWE, WE_GET = "we owe it", "we get it back"
Rows = list[dict[str, str]]


def document(kind: str, signs: str, named: str | None, order: str | None) -> Invoice:
    first, second = QUANTITIES[signs]
    places = ("10", "20") if order else (None, None)
    lines = [
        invoices.line(1, "Copy paper", first, "24.90", order_line=places[0]),
        invoices.line(2, "Toner", second, "10.00", order_line=places[1]),
    ]
    due = None if kind == "381" else "2026-12-02"
    changes = {"kind": kind, "preceding": named, "order": order, "due": due}
    return added_up(invoices.draft(invoices.PAPER, invoices.PAPER_IBAN, "D-1", **changes), lines)


def taken_up(invoice: Invoice, said: Mapping[str, Any], ledger: Rows) -> tuple[str, Rows]:
    """What becomes of an invoice of which a bookkeeper has `said` something, in the table's words,
    and the rows that are booked of it: by the functions that the steps call, without an engine.
    """
    accepted = {key: value for key, value in said.items() if key != "assign"}
    counted = booked(invoice, accepted)
    read_as = reading(counted, accepted)
    sign = sign_of(counted, read_as) if read_as else None
    made = match(counted, BOOKS, ledger, factor=None if sign is None else D(sign))
    case = Case(
        invoice=invoice, findings=check(invoice), match=made, policy=BookingPolicy(),
        accepted=accepted,
    )  # fmt: skip
    assert not case.missing and not case.is_unbookable
    wanted = [doubt.key for doubt in doubts(case, BOOKS)]
    if "assign" not in said and any(case.is_unsure(one.id, {}) for one in case.positions):
        wanted.append("assign")
    if wanted:
        return ", ".join(wanted), []
    assert sign is not None
    heading = Heading(
        key="k", order="o", document="d", booked_at="", rate=D(1), vat_account="1406",
        payables_account="1600", sign=sign,
    )  # fmt: skip
    batch = Batch(number=1, positions=case.positions, last=True, whole=True)
    accounts = {one.id: case.key_of(one.id, {}) or "6335/110" for one in case.positions}
    rows: Rows = [
        {key: str(value) for key, value in row.items()}
        for row in entries(counted, made, batch, accounts, heading)
    ]
    assert sum(D(row["amount"]) for row in rows) == sum(D(row["base_amount"]) for row in rows) == 0
    return (WE_OWE if D(rows[-1]["amount"]) < 0 else WE_GET), rows


def answered(invoice: Invoice, read_as: str, ledger: Rows) -> tuple[list[str], Rows]:
    """All that is asked of an invoice until it is booked, and its rows; every answer is a yes."""
    said: dict[str, Any] = {}
    became, rows = taken_up(invoice, said, ledger)
    while not rows:
        said |= dict.fromkeys(became.split(", "), True)
        if "signs" in said:
            said["signs"] = read_as
        became, rows = taken_up(invoice, said, ledger)
    return [*said, became], rows


def goods_of(rows: Rows) -> Decimal:
    return sum((D(row["amount"]) for row in rows if row["position"].startswith("line")), D(0))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_what_is_booked_and_what_is_asked(row):
    """A credit note of -4 760.00 was booked as 4 760.00 owed, and no order was looked at: nobody
    was asked. Whatever is asked is booked as it is answered, and to no other side.
    """
    kind, names = row[0].split(", ")
    ledger = taken_up(invoices.correct(), {}, [])[1]
    for place, column in enumerate(COLUMNS, 1):
        for signs, order, syntax in product(column, ORDERS, WRITERS):
            told = f"{signs}, {order}, {syntax}"
            made = document(kind, signs, NAMED[names], ORDERS[order])
            invoice = read_invoice(WRITERS[syntax](made))
            assert taken_up(invoice, {}, ledger)[0] == row[place], told
            for read_as in (OWED, TAKEN_BACK):
                asked, rows = answered(invoice, read_as, ledger)
                back = total_of(invoice) < 0 if kind == "384" else kind == "381"
                if "signs" in asked:
                    back = read_as == TAKEN_BACK
                assert asked[-1] == (WE_GET if back else WE_OWE), told
                assert goods_of(rows) == (-1 if back else 1) * abs(made.net or D(0)), told
                # what it names is looked at by what was answered, too
                beside = "credit_checked" if back else "beside_checked"
                if kind != "384":
                    assert (beside in asked) == ((names == "a booked invoice") != back), told


@pytest.mark.parametrize("kind", ["380", "389", "381", "384", "386"])
def test_what_an_order_holds_is_looked_at_whatever_the_type_and_the_signs(kind):
    """Of an order that is used up nothing more is owed without a word, and of one that nothing was
    booked against nothing is taken back.
    """
    lines = [
        invoices.line(1, "Paper", "1", "600.00", order_line="10"),
        invoices.line(2, "Toner", "1", "300.00", order_line="20"),
    ]
    used_up = taken_up(added_up(invoices.correct(), lines), {}, [])[1]
    unused = [{**row, "purchase_order": ""} for row in used_up]
    ledgers = [(used_up, lambda net: net > 0), (unused, lambda net: net < 0)]
    for signs, named, syntax in product(QUANTITIES, NAMED.values(), WRITERS):
        invoice = read_invoice(WRITERS[syntax](document(kind, signs, named, "PO-4711")))
        nets = [line.net or D(0) for line in invoice.lines]
        nets = [sum(nets, D(0))] if kind == "386" else nets  # which uses up no line, but the order
        for read_as, (ledger, goes_beyond) in product((OWED, TAKEN_BACK), ledgers):
            asked = answered(invoice, read_as, ledger)[0]
            turned = (asked[-1] == WE_GET) == (total_of(invoice) > 0)
            beyond = any(goes_beyond(-net if turned else net) for net in nets)
            assert ("order_exceeded" in asked) == beyond, (signs, named, syntax, asked)


@pytest.mark.parametrize("syntax", WRITERS)
def test_all_invoices_that_a_credit_note_names_are_looked_at(syntax):
    """Only the first of several (BG-3) was: of the others nobody asked whether they are booked."""
    first = taken_up(invoices.correct(), {}, [])[1]
    second = [{**row, "invoice": "RE-2"} for row in first]
    credit = replace(document("381", "positive", "RE-2026-1041", None), others_preceding=("RE-2",))
    read = read_invoice(WRITERS[syntax](credit))
    assert read.named == ("RE-2026-1041", "RE-2")
    assert taken_up(read, {}, [*first, *second])[0] == WE_GET
    assert taken_up(read, {}, first)[0] == "credit_checked"
    assert texts_of(read, first) == ["It takes back invoice RE-2, which is not booked."]
    whole = added_up(read, [invoices.line(1, "Paper", "1", "1000.00")])
    assert taken_up(whole, {}, [*first, *second])[0] == WE_GET
    more = added_up(read, [invoices.line(1, "Paper", "1", "2000.00")])
    assert texts_of(more, [*first, *second]) == [
        "It takes back 2380.00 of invoices RE-2026-1041 and RE-2, of which 1770.72 is booked."
    ]


@pytest.mark.parametrize("syntax", WRITERS)
@pytest.mark.parametrize(
    ("header", "places", "became"),
    [
        (None, ("PO-4711", "PO-4711"), "order_exceeded"),
        (None, ("PO-4711", None), "order_exceeded"),
        (None, ("PO-4711", "PO-9"), "orders_checked"),
        ("PO-4711", ("PO-9", "PO-9"), "order_exceeded, orders_checked"),
        ("PO-4711", ("PO-4711", None), "order_exceeded"),
        (None, (None, None), WE_OWE),
    ],
)
def test_an_order_that_only_lines_name_is_looked_at(syntax, header, places, became):
    """Factur-X EXTENDED and UBL let each line name its order; such an invoice was compared with
    none.
    """
    lines = [invoices.line(1, "Paper", "1", "950.00"), invoices.line(2, "Toner", "1", "9.00")]
    named = [replace(line, order=order) for line, order in zip(lines, places, strict=True)]
    invoice = added_up(replace(invoices.correct(), order=header), named)
    assert taken_up(read_invoice(WRITERS[syntax](invoice)), {}, [])[0] == became


def test_a_correction_that_names_nothing_says_so_once():
    """It was told that it takes back 8.79 "of invoice None", too."""
    [text] = texts_of(document("384", "negative", None, None), [])
    assert text.count("an invoice that it does not name") == 1 and "None" not in text


def texts_of(invoice: Invoice, ledger: Rows) -> list[str]:
    read_as = reading(invoice, {})
    made = match(invoice, BOOKS, ledger, factor=D(sign_of(invoice, read_as)))
    case = Case(invoice=invoice, findings=[], match=made, policy=BookingPolicy())
    return [doubt.text for doubt in doubts(case, BOOKS)]
