"""What an invoice comes to by its lines, and what of it was told afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from extensions.einvoice.model import Extra, Invoice, InvoiceLine, Party, Tax
from extensions.einvoice.rules import bases, cents, is_off, line_net

FIELDS = {
    "BT-1": "number", "BT-2": "issued", "BT-3": "kind", "BT-5": "currency", "BT-9": "due",
    "BT-84": "iban",
    "BT-27": "seller.name", "BT-31": "seller.vat_id", "BT-40": "seller.country",
    "BT-44": "buyer.name", "BT-63": "representative.vat_id",
    "BT-106": "line_total", "BT-107": "allowance_total", "BT-108": "charge_total", "BT-109": "net",
    "BT-110": "vat",
    "BT-112": "gross", "BT-115": "payable",
}  # fmt: skip
AMOUNTS = frozenset({"BT-106", "BT-107", "BT-108", "BT-109", "BT-110", "BT-112", "BT-115"})


def added_up(draft: Invoice, lines: Sequence[InvoiceLine], extras: Sequence[Extra] = ()) -> Invoice:
    """The draft with these lines and the totals and VAT that follow from them (BR-CO-10 to
    BR-CO-17, BR-DEX-09).
    """
    zero = Decimal(0)
    sums = bases(replace(draft, lines=tuple(lines), extras=tuple(extras)))
    taxes = [
        Tax(category=key, rate=rate, base=base, amount=cents(base * rate / 100))
        for (key, rate), base in sums.items()
    ]
    allowances = sum((extra.amount or zero for extra in extras if not extra.charge), zero)
    charges = sum((extra.amount or zero for extra in extras if extra.charge), zero)
    total = cents(sum((line.net or zero for line in lines), zero))
    net, vat = total - allowances + charges, sum((tax.amount or zero for tax in taxes), zero)
    return replace(
        draft,
        lines=tuple(lines),
        extras=tuple(extras),
        taxes=tuple(taxes),
        line_total=total,
        allowance_total=allowances or None,
        charge_total=charges or None,
        net=net,
        vat=vat,
        gross=net + vat,
        payable=net + vat - (draft.prepaid or zero) + (draft.rounding or zero) + draft.collected,
    )


def recalculated(invoice: Invoice) -> Invoice:
    """The invoice with the amounts that follow from its quantities and prices, where they can be
    told; else from its lines.
    """
    lines = [
        replace(line, net=net) if _needs(line, net := line_net(line), invoice) else line
        for line in invoice.lines
    ]
    return added_up(invoice, lines, invoice.extras)


def _needs(line: InvoiceLine, net: Decimal | None, invoice: Invoice) -> bool:
    return net is not None and (line.net is None or is_off(line.net, net, invoice.currency))


def with_supplied(invoice: Invoice, told: Mapping[str, str]) -> Invoice:
    """The invoice with terms that the supplier told afterwards; what could not be read of them
    before counts no more.
    """
    for term, text in told.items():
        value = Decimal(text) if term in AMOUNTS else text
        outer, _, inner = FIELDS[term].partition(".")
        part: Any = getattr(invoice, outer)
        if inner and part is None:
            part = Party()
        change: dict[str, Any] = {outer: replace(part, **{inner: value}) if inner else value}
        invoice = replace(invoice, **change)
    return replace(
        invoice, unread=tuple(unread for unread in invoice.unread if unread.term not in told)
    )
