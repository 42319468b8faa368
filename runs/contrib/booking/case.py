"""What there is to decide about an invoice: what is missing, what is doubtful, and how sure the
booking is. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from runs.contrib.booking.books import Books
from runs.contrib.booking.matching import Match, Position, positions
from runs.contrib.einvoice.model import Invoice
from runs.contrib.einvoice.rules import (
    SUPPLIED,
    TOTALS,
    VAT_SLACK,
    RuleFinding,
    bases,
    cents,
    check,
)
from runs.contrib.einvoice.sums import recalculated

REVERSE = {"AE": "reverse charge", "K": "an intra-Community supply"}
"""VAT categories by which the buyer owes the VAT."""
SURE_OF_SUPPLIER = {
    "vat_id": "1.00",
    "bookkeeper": "1.00",
    "iban": "0.97",
    "name": "0.80",
    "": "0.00",
}
SURE_OF_ORDER = {
    "open": "1.00",
    "": "0.95",
    "closed": "0.70",
    "unknown": "0.70",
    "other_supplier": "0.50",
}
AS_CALCULATED, ASK_SUPPLIER, REJECT = "as_calculated", "ask_supplier", "reject"


@dataclass(frozen=True, kw_only=True)
class BookingPolicy:
    """What may be booked without asking; from the step template's configuration."""

    threshold: Decimal = Decimal("0.90")
    """Book by itself from this confidence on."""
    limit: Decimal = Decimal(10_000)
    """Gross, in the books' currency: above it a bookkeeper is asked whatever the confidence."""
    currency: str = "EUR"
    vat_account: str = "1406"
    payables_account: str = "1600"
    one_time: str = "79999"
    """Number under which suppliers are booked that are not on the list and shall not be."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """To the supplier, by name, where they are not the usual ones: `letters`."""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> BookingPolicy:
        """Raises ValueError for a configuration that is none."""
        known = {name: config[name] for name in cls.__dataclass_fields__ if name in config}
        try:
            for name in ("threshold", "limit"):
                if name in known:
                    known[name] = Decimal(str(known[name]))
        except ArithmeticError as error:
            raise ValueError(f"{name} is no number") from error
        policy = cls(**known)
        if not (
            policy.threshold.is_finite() and policy.limit.is_finite() and 0 <= policy.threshold <= 1
        ):
            raise ValueError("threshold is a number from 0 to 1, limit an amount")
        return policy


@dataclass(frozen=True, kw_only=True)
class Doubt:
    """What a bookkeeper must say before the invoice is booked; `schema` is how it is asked."""

    key: str
    text: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Case:
    """An invoice with all that is known of it.

    `accepted` is what a bookkeeper said to earlier doubts, by their keys.
    """

    invoice: Invoice
    findings: Sequence[RuleFinding]
    match: Match
    policy: BookingPolicy
    accepted: Mapping[str, Any] = field(default_factory=dict)

    @property
    def missing(self) -> list[RuleFinding]:
        """What the supplier must tell."""
        wanted = [
            finding
            for finding in self.findings
            if finding.kind == "missing" and finding.term in SUPPLIED
        ]
        if self.accepted.get("amounts") == ASK_SUPPLIER:
            wanted += [
                finding
                for finding in self.findings
                if finding.kind == "wrong" and finding.term in TOTALS
            ]
        return wanted

    @property
    def wrong(self) -> list[RuleFinding]:
        return [finding for finding in self.findings if finding.kind == "wrong"]

    @property
    def booked(self) -> Invoice:
        """The invoice with the amounts that are booked."""
        return (
            recalculated(self.invoice)
            if self.wrong and self.accepted.get("amounts") == AS_CALCULATED
            else self.invoice
        )

    @property
    def positions(self) -> list[Position]:
        return positions(self.booked)

    @property
    def can_be_calculated(self) -> bool:
        """Whether booking what the parts come to leaves nothing wrong."""
        return not [
            finding for finding in check(recalculated(self.invoice)) if finding.kind == "wrong"
        ]

    def key_of(self, position: str, assigned: Mapping[str, str]) -> str:
        """The account and cost centre of a position; "" where there is none yet."""
        best = self.match["proposals"].get(position, [])
        return assigned.get(position) or (best[0]["key"] if best else "")

    def sureness(self, position: str, assigned: Mapping[str, str]) -> Decimal:
        best = self.match["proposals"].get(position, [])
        return (
            Decimal(1)
            if position in assigned
            else Decimal(best[0]["confidence"] if best else "0.00")
        )

    def is_unsure(self, position: str, assigned: Mapping[str, str]) -> bool:
        """Whether a bookkeeper must name its account: also with a threshold of 0 a position is not
        booked without one.
        """
        return self.sureness(position, assigned) < self.policy.threshold or not self.key_of(
            position, assigned
        )

    def confidence(self, ids: Sequence[str], assigned: Mapping[str, str]) -> Decimal:
        """How sure the booking of these positions is, 0.00 to 1.00: supplier, times order, times
        the least sure account.
        """
        supplier, order = (
            SURE_OF_SUPPLIER[self.match["found_by"]],
            SURE_OF_ORDER[self.match["order"]],
        )
        accounts = min((self.sureness(line_id, assigned) for line_id in ids), default=Decimal(1))
        return cents(Decimal(supplier) * Decimal(order) * accounts)


def doubts(case: Case, books: Books) -> list[Doubt]:
    """What a bookkeeper must say and has not said yet, in the order of weight."""
    every = [*_of_amounts(case), *_of_supplier(case, books), *_of_money(case), *_of_order(case)]
    # asked, and still wrong
    settled = {
        key for key, value in case.accepted.items() if (key, value) != ("amounts", ASK_SUPPLIER)
    }
    return [doubt for doubt in every if doubt.key not in settled]


def _confirm(key: str, text: str, title: str) -> Doubt:
    return Doubt(key=key, text=text, schema={"type": "boolean", "const": True, "title": title})


def _choose(key: str, text: str, title: str, options: Sequence[tuple[str, str]]) -> Doubt:
    listed = [{"const": value, "title": label} for value, label in options]
    return Doubt(key=key, text=text, schema={"type": "string", "title": title, "oneOf": listed})


def _of_amounts(case: Case) -> list[Doubt]:
    if not case.wrong:
        return []
    options = []
    if case.can_be_calculated:
        due = recalculated(case.invoice)
        options.append(
            (AS_CALCULATED, f"Book what the parts come to: {due.gross} with VAT, {due.payable} due")
        )
    if all(finding.term in TOTALS for finding in case.wrong):
        options.append((ASK_SUPPLIER, "Ask the supplier for the right amounts"))
    options.append((REJECT, "Reject the invoice; the supplier sends a right one"))
    text = " ".join(finding.text for finding in case.wrong[:20])
    return [_choose("amounts", text, "Which amounts?", options)]


def _of_supplier(case: Case, books: Books) -> list[Doubt]:
    seller, known = case.invoice.seller, case.match["supplier"]
    if known is None:
        listed = [
            (supplier.number, f"{supplier.number} {supplier.name}"[:60])
            for supplier in books.suppliers[:200]
        ]
        text = (
            f"{seller.name or 'The seller'} is not in the list of suppliers, neither by VAT id "
            "nor by account nor by name."
        )
        one_time = (case.policy.one_time, f"{case.policy.one_time} a supplier for this one time")
        return [_choose("supplier", text, "Which supplier is it?", [one_time, *listed])]
    doubts_found = []
    if case.match["booked_by"]:
        text = (
            f"An invoice of this number by this supplier was booked by {case.match['booked_by']}."
        )
        doubts_found.append(
            _confirm("not_duplicate", text, "It is another invoice all the same: book it")
        )
    iban, paid_to = case.invoice.iban, known["iban"]
    if iban and paid_to and "".join(iban.split()).upper() != "".join(paid_to.split()).upper():
        text = (
            f"The invoice asks for payment to {iban}, but the supplier's account is {paid_to}. "
            "That is how fraud begins."
        )
        doubts_found.append(
            _confirm(
                "account_checked",
                text,
                "I asked the supplier by a way I knew before, and the new account is right",
            )
        )
    return doubts_found


def _of_money(case: Case) -> list[Doubt]:
    invoice, policy, doubts_found = case.invoice, case.policy, []
    foreign = invoice.currency not in {policy.currency, None}
    if foreign:
        rate = {
            "type": "string",
            "title": f"{policy.currency} for one {invoice.currency}",
            "pattern": r"^([1-9][0-9]{0,5}[.][0-9]{1,8}|0[.][0-9]{0,7}[1-9])$",
        }
        rate["description"] = "A number such as 0.9213."
        doubts_found.append(
            Doubt(
                key="rate",
                text=f"The invoice is in {invoice.currency}; the books are in {policy.currency}.",
                schema=rate,
            )
        )
    if reverse := sorted(
        {REVERSE[line.category] for line in invoice.lines if line.category in REVERSE}
    ):
        text = f"By {' and '.join(reverse)} the buyer owes the VAT; this booking holds none."
        doubts_found.append(
            _confirm("reverse_charge", text, "I book the VAT that we owe ourselves")
        )
    gross = ((invoice.gross or Decimal(0)) + invoice.collected) * Decimal(
        case.accepted.get("rate", "1")
    )
    if (not foreign or "rate" in case.accepted) and abs(gross) > policy.limit:
        text = (
            f"{cents(gross)} {policy.currency} is above the limit of {policy.limit} for booking "
            "without a person."
        )
        doubts_found.append(_confirm("above_limit", text, "Book it"))
    due = sum((cents(base * rate / 100) for (_, rate), base in bases(invoice).items()), Decimal(0))
    # each rate may be rounded, and there may be many
    if not case.wrong and abs((invoice.vat or Decimal(0)) - due) >= VAT_SLACK:
        text = f"The VAT of all rates is rounded to {invoice.vat}, but comes to {due}."
        doubts_found.append(_confirm("vat_checked", text, "The VAT is right: book it"))
    if invoice.prepaid:
        text = (
            f"{invoice.prepaid} {invoice.currency} was paid in advance (BT-113); the whole "
            "total is booked as owed."
        )
        doubts_found.append(
            _confirm("prepaid_checked", text, "The payment is in our books and will be set off")
        )
    if invoice.is_credit_note and not case.match["credits_booked"]:
        named = (
            f"invoice {invoice.preceding}"
            if invoice.preceding
            else "an invoice that it does not name"
        )
        doubts_found.append(
            _confirm(
                "credit_checked",
                f"It takes back {named}, which is not booked.",
                "The credit is right: book it",
            )
        )
    return doubts_found


def _of_order(case: Case) -> list[Doubt]:
    doubts_found = []
    if case.match["exceeded"]:
        text = f"The order is exceeded: {'; '.join(case.match['exceeded'][:10])}."
        doubts_found.append(_confirm("order_exceeded", text, "We got it and want it: book it"))
    if case.match["order"] == "other_supplier" and case.match["supplier"] is not None:
        doubts_found.append(
            _confirm(
                "other_order",
                f"Order {case.invoice.order} was placed with another supplier.",
                "Book it all the same",
            )
        )
    return doubts_found


def reasons(case: Case) -> list[str]:
    """Why the confidence is not full, for the card."""
    match = case.match
    sentences = []
    if match["found_by"] in {"iban", "name"}:
        sentences.append(
            "The supplier was found by "
            f"{'account' if match['found_by'] == 'iban' else 'name'} only."
        )
    if match["order"] in {"closed", "unknown"}:
        sentences.append(
            f"Order {case.invoice.order} is "
            f"{'closed' if match['order'] == 'closed' else 'not among our orders'}."
        )
    return sentences
