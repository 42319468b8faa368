"""How an invoice is read: which of its amounts count, and who owes whom. Pure.

The type (BT-3) says whether the invoice asks for money or takes money back, and so does the sign of
its total. Where type and sign contradict each other, a bookkeeper says which of the two holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from itertools import product
from typing import Any

from extensions.einvoice.model import Extra, Invoice, InvoiceLine
from extensions.einvoice.rules import check, is_off, line_net
from extensions.einvoice.sums import recalculated

AS_CALCULATED, AS_TOTALS = "as_calculated", "as_totals"
"""A bookkeeper's answers: which amounts are booked where the invoice does not add up."""
OWED, TAKEN_BACK = "owed", "taken_back"
"""What a bookkeeper says where type and signs contradict each other: we owe it, or get it back."""
CLAIMS = frozenset(
    {"80", "82", "84", "295", "326", "331", "380", "382", "383", "385", "387", "388", "389", "390",
     "393", "394", "395", "501", "527", "575", "623", "633", "780", "875", "876", "877"}
)  # fmt: skip
"""Values of BT-3 (UNTDID 1001) that ask for money for what was delivered."""
CORRECTIONS = frozenset({"384", "471", "472", "473"})
"""Values of BT-3 that correct an earlier invoice, up or down: by the difference, or in full."""
EN_16931 = ("en16931", "xrechnung", "factur-x", "zugferd", "urn:ferd:", "urn:peppol:pint:")
"""Parts of a profile (BT-24) that follows EN 16931: each such profile contains one of them."""
ADVANCES = frozenset({"386", "500"})
"""Values of BT-3 that ask for money before anything is delivered."""


def booked(invoice: Invoice, accepted: Mapping[str, Any]) -> Invoice:
    """Return the invoice with the amounts that are booked."""
    answer = accepted.get("amounts")
    if answer == AS_CALCULATED and _wrong(invoice):
        return recalculated(invoice)
    if answer == AS_TOTALS:
        return with_signs_of_totals(invoice) or invoice
    return invoice


def with_signs_of_totals(invoice: Invoice) -> Invoice | None:
    """Return the invoice with signs at its lines, allowances and charges that make them add up to
    its totals; None where no signs do that.
    """
    for lines, extras in product((1, -1), repeat=2):
        read = replace(
            invoice,
            lines=tuple(_turned(line, lines, invoice.currency) for line in invoice.lines),
            extras=tuple(_multiplied(extra, extras) for extra in invoice.extras),
        )
        if not _wrong(read):
            return read
    return None


def total_of(invoice: Invoice) -> Decimal:
    """Return what the invoice asks for or takes back in all: with VAT, and for third parties."""
    return (invoice.gross or Decimal(0)) + invoice.collected


def reading(invoice: Invoice, accepted: Mapping[str, Any]) -> str:
    """Return OWED or TAKEN_BACK; "" where a bookkeeper must say which, and has not said it."""
    if said := str(accepted.get("signs", "")):
        return said
    if _wrong(invoice) or any(contradictions(invoice)):
        return ""
    if invoice.kind in CORRECTIONS:
        return TAKEN_BACK if total_of(invoice) < 0 else OWED
    return TAKEN_BACK if invoice.is_credit_note else OWED


def sign_of(invoice: Invoice, read_as: str) -> int:
    """Return the factor, -1 or 1, that makes the invoice's amounts what we owe.

    Raises ValueError while nobody knows who owes whom.
    """
    if read_as not in {OWED, TAKEN_BACK}:
        raise ValueError("nobody has said whether the invoice asks for money or takes it back")
    return 1 if (read_as == OWED) == (total_of(invoice) >= 0) else -1


def contradictions(invoice: Invoice) -> Iterator[str]:
    """Yield sentences that say why the invoice alone does not tell who owes whom."""
    total, kind = total_of(invoice), invoice.kind
    if invoice.root:
        yield f"The file is a UBL {invoice.root}, but its type (BT-3) is {kind}."
    if invoice.is_credit_note:
        if total < 0:
            yield (
                f"By its type ({kind}, BT-3) it is a credit note, whose amounts are positive. "
                f"Its total is {total}."
            )
    elif kind in CLAIMS | ADVANCES:
        if total < 0:
            yield f"By its type ({kind}, BT-3) it asks for money. Its total is {total}."
    elif kind not in CORRECTIONS:
        yield f"Its type ({kind}, BT-3) does not say whether it asks for money."
    nets = [line.net for line in invoice.lines if line.net]
    if nets and total and all(net * total < 0 for net in nets):
        yield f"Its total is {total}, a sign that none of its lines has."
    if not invoice.prepaid and (invoice.payable or 0) * total < 0:
        yield f"Its total is {total}, but the amount due (BT-115) {invoice.payable}."
    for tax in invoice.taxes:
        if (tax.base or 0) * (tax.amount or 0) < 0:
            yield f"VAT of {tax.base} (BT-116) is {tax.amount} (BT-117)."


def foreign(invoice: Invoice) -> str:
    """Say why the invoice's terms may mean something else; "" where it follows EN 16931.

    Other countries write UBL by rules of their own, where a term may hold another amount.
    """
    if invoice.profile is None:
        return "It does not say which rules it was written by (BT-24)."
    if any(part in invoice.profile.casefold() for part in EN_16931):
        return ""
    return (
        f"It was written by other rules than EN 16931 ({invoice.profile[:200]}, BT-24): what is "
        "read of it may mean something else there."
    )


def of_tax_office(invoice: Invoice) -> tuple[Decimal, str]:
    """Return what of the total is owed to the tax office, not to the supplier, with sentences."""
    split = sum(
        (tax.amount or Decimal(0) for tax in invoice.taxes if tax.category == "B"), Decimal(0)
    )
    withheld, sentences = invoice.withheld or Decimal(0), []
    if split:
        sentences.append(
            f"By split payment (category B) its VAT of {split} goes to the tax office."
        )
    if withheld:
        sentences.append(f"Tax of {withheld} is withheld from the supplier for the tax office.")
    return split + withheld, " ".join(sentences)


def _wrong(invoice: Invoice) -> bool:
    return any(finding.kind == "wrong" for finding in check(invoice))


def _turned(line: InvoiceLine, sign: int, currency: str | None) -> InvoiceLine:
    """Return the line with its net amount times `sign`, and with the sign of the quantity that fits
    this net amount.
    """
    net = None if line.net is None else sign * line.net
    for factor in (1, -1):
        read = replace(
            line,
            net=net,
            quantity=None if line.quantity is None else factor * line.quantity,
            allowances=factor * line.allowances,
            charges=factor * line.charges,
        )
        due = line_net(read)
        if net is None or due is None or not is_off(net, due, currency):
            return read
    return replace(line, net=net)


def _multiplied(extra: Extra, sign: int) -> Extra:
    return replace(extra, amount=None if extra.amount is None else sign * extra.amount)
