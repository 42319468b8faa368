"""From a decided invoice to rows of the ledger: what they owe us and what we owe them come to
nothing in sum. Pure.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from extensions.booking.ledger import LedgerEntry
from extensions.booking.matching import Match, Position
from extensions.einvoice.model import Invoice
from extensions.einvoice.numbers import folded
from extensions.einvoice.rules import Group, cents


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Positions of one invoice that are booked together.

    An invoice whose lines are decided one after the other has several.
    """

    number: int
    """From 1."""
    positions: Sequence[Position]
    last: bool
    """Nothing of the invoice is left after it."""
    whole: bool
    """Nothing of the invoice was refused, so that its VAT must come out as the invoice says."""
    vat_before: Mapping[str, str] = field(default_factory=dict)
    """VAT that earlier batches booked, by `name_of` its group."""
    net_before: Mapping[str, str] = field(default_factory=dict)


def invoice_key(invoice: Invoice, match: Match, order: str, *, another: bool) -> str:
    """Names an invoice in the ledger: one supplier's number is booked once, unless a person said
    that it is `another` invoice.
    """
    supplier = (match["supplier"] or {}).get("number", "")
    parts = [
        supplier,
        folded(invoice.number or ""),
        "credit" if invoice.is_credit_note else "invoice",
        order if another else "",
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]


def name_of(group: Group) -> str:
    """`S 19`: as rows and states call a category and rate of VAT."""
    return f"{group[0]} {group[1].normalize():f}"


def vat_of(invoice: Invoice, batch: Batch) -> dict[str, Decimal]:
    """The VAT of a batch by group: what is due on all positions so far, less what was booked.

    At the end of an invoice of which nothing was refused that is what the invoice itself says
    (BT-117), to the cent.
    """
    bases: dict[Group, Decimal] = defaultdict(Decimal)
    for position in batch.positions:
        bases[position.category, position.rate] += position.net
    said: dict[Group, Decimal] = defaultdict(Decimal)
    for tax in invoice.taxes:
        said[tax.category or "", tax.rate or Decimal(0)] += tax.amount or 0
    due: dict[str, Decimal] = {}
    for group in {**bases, **(said if batch.last and batch.whole else {})}:
        name = name_of(group)
        total = bases.get(group, Decimal(0)) + Decimal(batch.net_before.get(name, "0"))
        stated = said.get(group) if batch.last and batch.whole else None
        amount = stated if stated is not None else cents(total * group[1] / 100)
        due[name] = amount - Decimal(batch.vat_before.get(name, "0"))
    return due


def nets_of(batch: Batch) -> dict[str, Decimal]:
    nets: dict[str, Decimal] = defaultdict(Decimal)
    for position in batch.positions:
        nets[name_of((position.category, position.rate))] += position.net
    return dict(nets)


@dataclass(frozen=True, kw_only=True)
class Heading:
    """What all rows of an invoice share."""

    key: str
    order: str
    document: str
    booked_at: str
    rate: Decimal
    vat_account: str
    payables_account: str
    sign: int
    """-1 where what the invoice says is booked the other way round: `readings.sign_of`."""


def entries(
    invoice: Invoice, match: Match, batch: Batch, accounts: Mapping[str, str], heading: Heading
) -> list[LedgerEntry]:
    """The rows of a batch: each position, the VAT of each group, and what is owed for them.

    Args:
        accounts: position → account/cost centre.
    """
    base = LedgerEntry(
        entry="", order=heading.order, supplier=(match["supplier"] or {}).get("number", ""),
        invoice=invoice.number or "",
        date=invoice.issued or "", position="", account="", cost_centre="", amount="0",
        currency=invoice.currency or "",
        rate=f"{heading.rate:f}", base_amount="0", tax="", purchase_order=invoice.order or "",
        order_line="", text="",
        document=heading.document, booked_at=heading.booked_at,
    )  # fmt: skip
    rows: list[LedgerEntry] = []

    def book(name: str, amount: Decimal, account: str, **more: str) -> None:
        changes = {
            "entry": f"{heading.key}/{name}",
            "position": name.replace("/", " "),
            "account": account,
            **more,
        }
        value = heading.sign * amount
        row = {
            **base,
            "amount": f"{cents(value):f}",
            "base_amount": f"{cents(value * heading.rate):f}",
            **changes,
        }
        rows.append(row)  # type: ignore[arg-type]  # the keys are Entry's own

    # some write more decimals than the ledger has: what is booked comes to the rounded sum
    so_far = sum(map(Decimal, batch.net_before.values()), Decimal(0))
    for position in batch.positions:
        net = cents(so_far + position.net) - cents(so_far)
        so_far += position.net
        account, _, cost_centre = accounts[position.id].partition("/")
        best = match["proposals"].get(position.id, [])
        ordered = best[0]["order_line"] if best else ""
        tax = "" if position.third_party else name_of((position.category, position.rate))
        book(
            f"line/{position.id}",
            net,
            account,
            cost_centre=cost_centre,
            tax=tax,
            order_line=ordered,
            text=position.text[:200],
        )
    for name, amount in sorted(vat_of(invoice, batch).items()):
        if amount:
            book(f"vat {name}/{batch.number}", amount, heading.vat_account, tax=name)
    book(
        f"payable/{batch.number}",
        Decimal(0),
        heading.payables_account,
        text=(invoice.seller.name or "")[:200],
    )
    total = sum((Decimal(row["amount"]) for row in rows[:-1]), Decimal(0))
    total_base = sum((Decimal(row["base_amount"]) for row in rows[:-1]), Decimal(0))
    rows[-1]["amount"], rows[-1]["base_amount"] = f"{-total:f}", f"{-total_base:f}"
    return rows
