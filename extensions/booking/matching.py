"""Who an invoice is from, what was ordered, and which account each of its positions belongs to.

Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import TypedDict

from extensions.booking.books import Books, OrderLine, Supplier
from extensions.booking.readings import ADVANCES, total_of
from extensions.einvoice.model import Invoice
from extensions.einvoice.numbers import compact, folded, looks_like
from extensions.einvoice.rules import cents

OVER = Decimal("1.02")
"""An order may be exceeded by two per cent."""
MOST_ALIKE = 5
"""Invoices under a number much like this one's that are told of."""


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
    exceeded: list[str]  # "line 10 of PO-1: 100.00 invoiced, 80.00 open"
    proposals: dict[str, list[MatchProposal]]  # by position, the best first
    booked_by: str  # the work order that booked an invoice of this number already, or ""
    named_booked: list[str]  # the invoices that it names (BT-25) which are in the ledger
    overcredited: str  # "100.00 of invoice 7, of which 80.00 is booked", or ""
    look_alikes: list[str]  # invoices booked under a number much like this one, in sentences


def positions(invoice: Invoice) -> list[Position]:
    """Every position under an id of its own: a line's number, or `#` and its place; `A1`, `C1`,
    `T1` and so on for the others.

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
    invoice: Invoice,
    books: Books,
    ledger: Sequence[Mapping[str, str]],
    *,
    chosen: str = "",
    factor: Decimal | None = Decimal(1),
) -> Match:
    """What the books say of an invoice.

    Args:
        chosen: the number of the supplier that a bookkeeper named.
        factor: from the invoice's amounts to those of the books, negative where it takes back; None
            where that is not known yet, and nothing is compared.
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
    every = positions(invoice)
    proposals: dict[str, list[MatchProposal]] = {
        position.id: []
        if invoice.kind in ADVANCES
        else _proposals(position, supplier, usable, books)
        for position in every
    }
    # that a closed order is used further is a doubt of its own
    exceeded = [] if factor is None else _exceeded(every, proposals, usable, ledger, factor)
    booked = _booked(supplier, ledger)
    return Match(
        supplier=asdict(supplier) if supplier else None,
        found_by=found_by if supplier else "",
        order=state,
        exceeded=exceeded,
        proposals=proposals,
        booked_by=next((row["order"] for row in booked.get(folded(invoice.number or ""), [])), ""),
        named_booked=[number for number in invoice.named if folded(number) in booked],
        overcredited=_overcredited(invoice, booked, factor),
        look_alikes=list(_look_alikes(invoice, booked)),
    )


def _supplier(invoice: Invoice, books: Books) -> tuple[Supplier | None, str]:
    seller = invoice.seller
    for how, value in (("vat_id", seller.vat_id), ("iban", invoice.iban), ("name", seller.name)):
        compare = folded if how == "name" else compact
        fitting = [
            supplier
            for supplier in books.suppliers
            if value and compare(value) in map(compare, _all_of(supplier, how))
        ]
        if len(fitting) == 1:
            return fitting[0], how
    return None, ""


def _all_of(supplier: Supplier, how: str) -> list[str]:
    return supplier.accounts if how == "iban" else [getattr(supplier, how)]


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
    every: Sequence[Position],
    proposals: Mapping[str, Sequence[MatchProposal]],
    ordered: Sequence[OrderLine],
    ledger: Sequence[Mapping[str, str]],
    factor: Decimal,
) -> list[str]:
    """What of the order this invoice, with what is booked against it already, goes beyond: a line
    of it, or the order as a whole, where positions name no line.

    What is taken back goes beyond it where more is taken back than was booked.
    """
    if not ordered:
        return []
    order, usable = ordered[0].order, {"", *(line.line for line in ordered)}
    rows = [
        row
        for row in ledger
        if row["purchase_order"] == order and row["order_line"] in usable and _is_of_goods(row)
    ]
    sentences = []
    for line in ordered:
        named = [one for one in every if line.line in _lines_of(proposals[one.id])]
        already = [row for row in rows if row["order_line"] == line.line]
        sentences += _beyond(f"line {line.line} of {order}", named, already, line.net, factor)
    if not sentences:
        goods = [one for one in every if not one.third_party]
        whole = sum((line.net for line in ordered), Decimal(0))
        sentences = _beyond(order, goods, rows, whole, factor)
    return sentences


def _beyond(
    what: str,
    asked: Sequence[Position],
    rows: Sequence[Mapping[str, str]],
    ordered: Decimal,
    factor: Decimal,
) -> list[str]:
    booked = sum((Decimal(row["base_amount"]) for row in rows), Decimal(0))
    more = cents(sum((one.net for one in asked), Decimal(0)) * factor)
    if more > 0 and booked + more > ordered * OVER:
        return [f"{what}: {more} invoiced, {ordered - booked} open"]
    if more < 0 and booked + more < 0:
        return [f"{what}: {-more} taken back, {booked} booked"]
    return []


def _lines_of(proposals: Sequence[MatchProposal]) -> list[str]:
    """The order's line that a position is booked against, if there is one."""
    return [proposal["order_line"] for proposal in proposals[:1] if proposal["order_line"]]


def _is_of_goods(row: Mapping[str, str]) -> bool:
    """Whether a row of the ledger is a position of an invoice's own, neither VAT nor what is owed
    nor for a third party.
    """
    return row["position"].startswith("line ") and bool(row["tax"])


def _booked(
    supplier: Supplier | None, ledger: Sequence[Mapping[str, str]]
) -> dict[str, list[Mapping[str, str]]]:
    """What is in the ledger of this supplier, by the invoices' numbers as `folded`."""
    booked: dict[str, list[Mapping[str, str]]] = defaultdict(list)
    for row in ledger:
        if supplier and row["supplier"] == supplier.number and (number := folded(row["invoice"])):
            booked[number].append(row)
    return dict(booked)


def _payables(rows: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    return [row for row in rows if row["position"].startswith("payable ")]


def _overcredited(
    invoice: Invoice, booked: Mapping[str, Sequence[Mapping[str, str]]], factor: Decimal | None
) -> str:
    taken, named = cents(-total_of(invoice) * (factor or 0)), {*map(folded, invoice.named)}
    rows = [row for number in named for row in _payables(booked.get(number, []))]
    owed = -sum((Decimal(row["base_amount"]) for row in rows), Decimal(0))
    if taken <= max(owed, Decimal(0)):
        return ""
    return f"{taken} of {called(invoice.named)}, of which {owed} is booked"


def called(numbers: Sequence[str]) -> str:
    """`invoices 7 and 8`."""
    first, last = ", ".join(numbers[:-1]), numbers[-1:]
    named = f"{first} and {last[0]}" if first else "".join(last)
    return f"invoice{'s' if first else ''} {named}" if named else "an invoice that it does not name"


def _look_alikes(
    invoice: Invoice, booked: Mapping[str, Sequence[Mapping[str, str]]]
) -> Iterator[str]:
    """What this supplier has in the ledger under a number that a person may take for this one's,
    with the dates and amounts that tell both apart.
    """
    owed: dict[tuple[str, ...], Decimal] = defaultdict(Decimal)
    for number, rows in booked.items():
        for row in _payables(rows) if looks_like(number, invoice.number or "") else ():
            named = ("invoice", "order", "date", "currency")
            owed[tuple(row[name] for name in named)] += Decimal(row["amount"])
    total, issued = abs(total_of(invoice)), invoice.issued or "(no date)"
    for (number, order, date, currency), amount in list(owed.items())[:MOST_ALIKE]:
        differs = {
            "date": date != issued,
            "amount": (abs(amount), currency) != (total, invoice.currency),
        }
        parts = " and ".join(name for name in differs if differs[name])
        yield (
            f"{number} of {date} over {abs(amount)} {currency} was booked by {order}; this one is "
            f"{invoice.number} of {issued} over {total} {invoice.currency or ''}: "
            + (f"another {parts}" if parts else "the same date and amount")
        )
