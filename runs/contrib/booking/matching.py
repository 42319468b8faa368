"""Who an invoice is from, what was ordered, and which account each of its positions belongs to.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import TypedDict

from runs.contrib.booking.books import Books, OrderLine, Supplier
from runs.contrib.einvoice.model import Invoice

OVER = Decimal("1.02")
"""An order may be exceeded by two per cent."""


@dataclass(frozen=True, kw_only=True)
class Position:
    """What is booked by itself: a line, an allowance or charge of the whole document, or what is
    collected for a third party.
    """

    id: str
    text: str
    net: Decimal  # negative for an allowance
    category: str
    rate: Decimal
    order_line: str = ""
    third_party: bool = False
    """No order and no usual account says where it belongs: a bookkeeper does."""


class MatchProposal(TypedDict):
    key: str  # account/cost centre
    why: str
    confidence: str  # 0.00 to 1.00
    order_line: str  # the line of the order that it is booked against, or ""


class Match(TypedDict):
    supplier: dict[str, str] | None
    found_by: str  # vat_id, iban, name, bookkeeper, or "" where nobody fits
    order: str  # open, closed, unknown, other_supplier, or "" where the invoice names none
    exceeded: list[str]  # "line 10 of PO-1: 100.00 of 80.00 open"
    proposals: dict[str, list[MatchProposal]]  # by position, the best first
    booked_by: str  # the work order that booked an invoice of this number already, or ""
    credits_booked: bool  # the invoice that a credit note names (BT-25) is in the ledger


def positions(invoice: Invoice) -> list[Position]:
    """Every position under an id of its own: a line's number, or `#` and its place; A1, C1, T1 and
    so on for the others.

    An id that is taken already gets another `#` in front: the numbers of lines are the supplier's,
    who may call a line A1.
    """
    by_id: dict[str, Position] = {}

    def free(name: str) -> str:
        while name in by_id:
            name = f"#{name}"
        return name

    for place, line in enumerate(invoice.lines, 1):
        name = line.id if line.id and line.id not in by_id else free(f"#{place}")
        text = line.name or line.description or "(no name)"
        rate, ordered = line.rate or Decimal(0), line.order_line or ""
        by_id[name] = Position(
            id=name, text=text, net=line.net or Decimal(0), category=line.category or "", rate=rate,
            order_line=ordered
        )  # fmt: skip
    for place, extra in enumerate(invoice.extras, 1):
        name, amount = free(f"{'C' if extra.charge else 'A'}{place}"), extra.amount or Decimal(0)
        text = extra.reason or ("Charge" if extra.charge else "Allowance")
        rate = extra.rate or Decimal(0)
        by_id[name] = Position(
            id=name,
            text=text,
            net=amount if extra.charge else -amount,
            category=extra.category or "",
            rate=rate,
        )
    for place, party in enumerate(invoice.third_parties, 1):
        name, text = free(f"T{place}"), party.reason or party.kind or "For a third party"
        by_id[name] = Position(
            id=name,
            text=text,
            net=party.amount or Decimal(0),
            category="",
            rate=Decimal(0),
            third_party=True,
        )
    return list(by_id.values())


def match(
    invoice: Invoice, books: Books, ledger: Sequence[Mapping[str, str]], *, chosen: str = ""
) -> Match:
    """What the books say of an invoice.

    `chosen` is the number of the supplier that a bookkeeper named.
    """
    supplier, found_by = _supplier(invoice, books)
    if chosen:
        supplier, found_by = (
            books.supplier(chosen) or Supplier(number=chosen, name=invoice.seller.name or ""),
            "bookkeeper",
        )
    ordered = [order for order in books.orders if invoice.order and order.order == invoice.order]
    state = _order_state(invoice, ordered, supplier)
    usable = [line for line in ordered if line.status == "open"] if state == "open" else []
    proposals: dict[str, list[MatchProposal]] = {
        position.id: _proposals(position, supplier, usable, books)
        for position in positions(invoice)
    }
    return Match(
        supplier=asdict(supplier) if supplier else None,
        found_by=found_by if supplier else "",
        order=state,
        exceeded=[] if invoice.is_credit_note else _exceeded(invoice, proposals, usable, ledger),
        proposals=proposals,
        booked_by=_booked_by(invoice.number, supplier, ledger),
        credits_booked=bool(_booked_by(invoice.preceding, supplier, ledger)),
    )


def _supplier(invoice: Invoice, books: Books) -> tuple[Supplier | None, str]:
    seller = invoice.seller
    for how, value in (("vat_id", seller.vat_id), ("iban", invoice.iban), ("name", seller.name)):
        compare = folded if how == "name" else compact
        fitting = [
            supplier
            for supplier in books.suppliers
            if value and compare(getattr(supplier, how)) == compare(value)
        ]
        if len(fitting) == 1:
            return fitting[0], how
    return None, ""


def compact(text: str) -> str:
    """A number without the space in it: VAT ids and IBANs are written in groups."""
    return re.sub(r"[\s.\-]", "", text).upper()


def folded(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _order_state(invoice: Invoice, ordered: Sequence[OrderLine], supplier: Supplier | None) -> str:
    if not invoice.order:
        return ""
    if not ordered:
        return "unknown"
    if supplier is None or any(line.supplier != supplier.number for line in ordered):
        return "other_supplier"
    return "open" if any(line.status == "open" for line in ordered) else "closed"


def _proposals(
    position: Position, supplier: Supplier | None, ordered: Sequence[OrderLine], books: Books
) -> list[MatchProposal]:
    """Of the order's line, else of the order if all its lines agree, else of the supplier; only
    accounts that there are.
    """
    if position.third_party:
        return []
    proposals: list[tuple[str, str, str, str]] = []
    named = [line for line in ordered if position.order_line and line.line == position.order_line]
    if not named and len(ordered) == 1:
        named = list(ordered)
    if named:
        proposals.append(
            (
                f"{named[0].account}/{named[0].cost_centre}",
                f"line {named[0].line} of the order",
                "1.00",
                named[0].line,
            )
        )
    elif len({(line.account, line.cost_centre) for line in ordered}) == 1:
        proposals.append(
            (
                f"{ordered[0].account}/{ordered[0].cost_centre}",
                "every line of the order",
                "0.97",
                "",
            )
        )
    if supplier and supplier.account:
        proposals.append(
            (f"{supplier.account}/{supplier.cost_centre}", "usual for this supplier", "0.95", "")
        )
    keys: list[MatchProposal] = []
    for key, why, confidence, order_line in proposals:
        if books.account(key) and key not in {account["key"] for account in keys}:
            keys.append(
                MatchProposal(key=key, why=why, confidence=confidence, order_line=order_line)
            )
    return keys


def _exceeded(
    invoice: Invoice,
    proposals: Mapping[str, Sequence[MatchProposal]],
    ordered: Sequence[OrderLine],
    ledger: Sequence[Mapping[str, str]],
) -> list[str]:
    """The order's lines that this invoice, with what is booked against them already, goes
    beyond.
    """
    sentences = []
    for line in ordered:
        booked = sum(
            (
                Decimal(row["amount"])
                for row in ledger
                if row["purchase_order"] == line.order and row["order_line"] == line.line
            ),
            Decimal(0),
        )
        asked = sum(
            (
                pos.net
                for pos in positions(invoice)
                if any(p["order_line"] == line.line for p in proposals[pos.id][:1])
            ),
            Decimal(0),
        )
        if asked and booked + asked > line.net * OVER:
            sentences.append(
                f"line {line.line} of {line.order}: {asked} invoiced, {line.net - booked} open"
            )
    return sentences


def _booked_by(
    said: str | None, supplier: Supplier | None, ledger: Sequence[Mapping[str, str]]
) -> str:
    number = folded(said or "")
    same = (
        row
        for row in ledger
        if supplier
        and row["supplier"] == supplier.number
        and folded(row["invoice"]) == number
        and number
    )
    return next((row["order"] for row in same), "")
