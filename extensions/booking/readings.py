"""How an invoice is read: which of its amounts count, and who owes whom by them. Pure.

The type (BT-3) says whether it asks for money or takes back; the sign of the total says it again,
or says otherwise. Where they contradict each other a bookkeeper says what holds.
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
"""A bookkeeper's answers to which amounts are booked where the invoice does not add up."""
OWED, TAKEN_BACK = "owed", "taken_back"
"""What a bookkeeper says where type and signs contradict each other: we owe it, or get it back."""
CLAIMS = frozenset(
    {"80", "82", "84", "295", "326", "331", "380", "382", "383", "385", "387", "388", "389", "390",
     "393", "394", "395", "501", "527", "575", "623", "633", "780", "875", "876", "877"}
)  # fmt: skip
"""Values of BT-3 (UNTDID 1001) that ask for money for what was delivered."""
CORRECTIONS = frozenset({"384", "471", "472", "473"})
"""Those that correct an earlier invoice, up or down: by the difference, or once more in full."""
EN_16931 = ("en16931", "xrechnung", "factur-x", "zugferd", "urn:ferd:", "urn:peppol:pint:")
"""Parts of BT-24 that say it: one of them stands in each of its uses."""
ADVANCES = frozenset({"386", "500"})
"""Those that ask for money before anything is delivered."""


def booked(invoice: Invoice, accepted: Mapping[str, Any]) -> Invoice:
    """The invoice with the amounts that are booked."""
    answer = accepted.get("amounts")
    if answer == AS_CALCULATED and _wrong(invoice):
        return recalculated(invoice)
    if answer == AS_TOTALS:
        return with_signs_of_totals(invoice) or invoice
    return invoice


def with_signs_of_totals(invoice: Invoice) -> Invoice | None:
    """The invoice with such signs at its lines, allowances and charges that they come to its
    totals; None where no signs do that.
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
    """What is owed by it in all, or taken back: with VAT, and for third parties."""
    return (invoice.gross or Decimal(0)) + invoice.collected


def reading(invoice: Invoice, accepted: Mapping[str, Any]) -> str:
    """OWED or TAKEN_BACK; "" where that is for a bookkeeper to say, who has not."""
    if said := str(accepted.get("signs", "")):
        return said
    if _wrong(invoice) or any(contradictions(invoice)):
        return ""
    if invoice.kind in CORRECTIONS:
        return TAKEN_BACK if total_of(invoice) < 0 else OWED
    return TAKEN_BACK if invoice.is_credit_note else OWED


def sign_of(invoice: Invoice, read_as: str) -> int:
    """What the invoice's amounts are multiplied with to be what we owe, -1 or 1.

    Raises ValueError where it is not known who owes whom.
    """
    if read_as not in {OWED, TAKEN_BACK}:
        raise ValueError("nobody has said whether the invoice asks for money or takes it back")
    return 1 if (read_as == OWED) == (total_of(invoice) >= 0) else -1


def contradictions(invoice: Invoice) -> Iterator[str]:
    """Why it cannot be told from the invoice alone who owes whom, in sentences."""
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
    """Why what is read of it may mean something else, in a sentence; "" where it follows EN 16931.

    UBL is also written by rules of other countries, where a term may hold another amount.
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
    """What of its total is owed to the tax office and not to the supplier, also in sentences."""
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
    """The line with its net amount times `sign`, and a quantity that fits it, whichever sign that
    had.
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
