"""What is open about an invoice: which terms are missing, what is in doubt, and how sure the
booking is. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from extensions.booking.books import Books, accounts_in
from extensions.booking.matching import Match, Position, called, positions
from extensions.booking.readings import (
    ADVANCES,
    AS_CALCULATED,
    AS_TOTALS,
    CORRECTIONS,
    OWED,
    TAKEN_BACK,
    booked,
    contradictions,
    foreign,
    of_tax_office,
    reading,
    total_of,
    with_signs_of_totals,
)
from extensions.einvoice.model import Invoice
from extensions.einvoice.numbers import compact
from extensions.einvoice.rules import (
    NESTED,
    SUPPLIED,
    TOTALS,
    VAT_SLACK,
    RuleFinding,
    bases,
    cents,
    check,
)
from extensions.einvoice.sums import recalculated
from runs.workflows.text import count

REVERSE = {"AE": "reverse charge", "K": "an intra-Community supply"}
"""VAT categories by which the buyer owes the VAT."""
SURE_OF_SUPPLIER = {
    "vat_id": "1.00",
    "bookkeeper": "1.00",
    "iban": "0.97",
    "name": "0.80",
    "": "0.00",
}
"""How sure the supplier is, by what it was found by."""
SURE_OF_ORDER = {
    "open": "1.00",
    "": "0.95",
    "closed": "0.70",
    "unknown": "0.70",
    "other_supplier": "0.50",
}
"""How sure the order is, by its state."""
ASK_SUPPLIER, REJECT = "ask_supplier", "reject"
ANOTHER = "It is another invoice all the same: book it"


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
    """Number for the booking of suppliers that are not listed and shall not be."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Texts to the supplier that replace the usual ones of `letters`, by name."""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> BookingPolicy:
        """Read the policy from a configuration. Raises ValueError where a value is wrong."""
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
        """The findings that the supplier must settle; none before a bookkeeper has said whether the
        document was read right.
        """
        if foreign(self.invoice) and "profile_checked" not in self.accepted:
            return []
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
    def is_unbookable(self) -> bool:
        """Whether the invoice says too little to book anything of it, whatever anybody adds
        (BR-16), or has a shape that is out of scope.
        """
        return not self.invoice.lines or any(one.rule == NESTED for one in self.findings)

    @property
    def wrong(self) -> list[RuleFinding]:
        return [finding for finding in self.findings if finding.kind == "wrong"]

    @property
    def booked(self) -> Invoice:
        """The invoice with the amounts that are booked."""
        return booked(self.invoice, self.accepted)

    @property
    def reading(self) -> str:
        """Whether the invoice asks for money or takes money back; "" while nobody knows."""
        return reading(self.booked, self.accepted)

    @property
    def names_booked(self) -> bool:
        """Whether the invoice names earlier ones (BG-3), and all of them are in the ledger."""
        named = self.invoice.named
        return bool(named) and set(named) <= set(self.match.get("named_booked", []))

    @property
    def waits_for_rate(self) -> bool:
        """Whether a rate is missing, so that no amount can be compared with the books yet."""
        foreign = self.invoice.currency not in {self.policy.currency, None}
        return foreign and "rate" not in self.accepted

    @property
    def positions(self) -> list[Position]:
        return positions(self.booked)

    @property
    def can_be_calculated(self) -> bool:
        """Whether nothing is wrong any more where the sums of the parts are booked."""
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
        """Whether a bookkeeper must name a position's account: even with a threshold of 0, no
        position is booked without an account.
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
    """List what a bookkeeper must say and has not said yet, the weightiest first."""
    every = [
        *_of_profile(case),
        *_of_amounts(case),
        *_of_signs(case),
        *_of_supplier(case, books),
        *_of_money(case),
        *_of_order(case),
    ]
    # amounts that the supplier was asked about, and that are still wrong, settle nothing
    settled = {
        key for key, value in case.accepted.items() if (key, value) != ("amounts", ASK_SUPPLIER)
    }
    return [doubt for doubt in every if doubt.key not in settled]


def _confirm(key: str, text: str, title: str) -> Doubt:
    return Doubt(key=key, text=text, schema={"type": "boolean", "const": True, "title": title})


def _choose(key: str, text: str, title: str, options: Sequence[tuple[str, str]]) -> Doubt:
    listed = [{"const": value, "title": label} for value, label in options]
    return Doubt(key=key, text=text, schema={"type": "string", "title": title, "oneOf": listed})


def _of_profile(case: Case) -> list[Doubt]:
    text = foreign(case.invoice)
    title = "I compared what was read with the document, and it is right"
    return [_confirm("profile_checked", text, title)] if text else []


def _of_amounts(case: Case) -> list[Doubt]:
    if not case.wrong:
        return []
    options = []
    if case.can_be_calculated:
        due = recalculated(case.invoice)
        options.append(
            (AS_CALCULATED, f"Book what the parts come to: {due.gross} with VAT, {due.payable} due")
        )
    if read := with_signs_of_totals(case.invoice):
        options.append((AS_TOTALS, f"Give its lines the sign of its totals: {read.gross} with VAT"))
    if all(finding.term in TOTALS for finding in case.wrong):
        options.append((ASK_SUPPLIER, "Ask the supplier for the right amounts"))
    options.append((REJECT, "Reject the invoice; the supplier sends a right one"))
    text = " ".join(finding.text for finding in case.wrong[:20])
    return [_choose("amounts", text, "Which amounts?", options)]


def _of_signs(case: Case) -> list[Doubt]:
    """Ask who owes whom where type and signs do not say so, once the amounts are settled."""
    invoice = case.booked
    if any(finding.kind == "wrong" for finding in check(invoice)):
        return []
    found, doubts_found = " ".join(contradictions(invoice)), []
    if found:
        net = abs(sum((one.net for one in case.positions), Decimal(0)))
        total = f"{abs(total_of(invoice))} {invoice.currency or ''}".strip()
        options = [
            (
                TAKEN_BACK,
                f"It takes back: the supplier owes us {total}; {-net} without VAT is booked",
            ),
            (
                OWED,
                f"It asks for money: we owe the supplier {total}; {net} without VAT is booked",
            ),
        ]
        doubts_found.append(_choose("signs", found, "Who owes whom?", options))
    if invoice.kind in CORRECTIONS and case.reading:
        doubts_found.append(_of_correction(case))
    return doubts_found


def _of_correction(case: Case) -> Doubt:
    invoice = case.booked
    named = called(invoice.named)
    booked_too = "booked" if case.names_booked else "not booked"
    effect = "less" if case.reading == TAKEN_BACK else "more"
    over = case.match.get("overcredited", "")
    return _confirm(
        "correction_checked",
        f"It corrects {named}, which is {booked_too}. As it stands we would owe "
        f"{abs(total_of(invoice))} {invoice.currency or ''} {effect}, beside that invoice."
        + (f" It takes back {over}." if over and invoice.named else ""),
        "It holds the difference alone, or the other one was taken back: book it",
    )


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
        doubts_found.append(_confirm("not_duplicate", text, ANOTHER))
    if alike := case.match.get("look_alikes"):
        text = f"Its number is much like that of another invoice: {'; '.join(alike)}."
        doubts_found.append(_confirm("not_near_duplicate", text, ANOTHER))
    accounts, paid_to = [case.invoice.iban, *case.invoice.other_ibans], accounts_in(known["iban"])
    usual = {compact(account) for account in paid_to}
    others = [account for account in accounts if account and compact(account) not in usual]
    if usual and others:
        text = (
            f"The invoice asks for payment to {' and to '.join(others[:5])}, but the supplier's "
            f"account is {' or '.join(paid_to[:5])}. That is how fraud begins."
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
    invoice, policy, doubts_found = case.booked, case.policy, []
    if invoice.currency not in {policy.currency, None}:
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
    categories = {line.category for line in invoice.lines}
    categories |= {extra.category for extra in invoice.extras}
    if reverse := sorted(REVERSE[key] for key in REVERSE.keys() & categories):
        text = f"By {' and '.join(reverse)} the buyer owes the VAT; this booking holds none."
        unknown = [one.text for one in case.findings if one.term == "BT-48"]
        text = " ".join([text, *unknown])
        doubts_found.append(
            _confirm("reverse_charge", text, "I book the VAT that we owe ourselves")
        )
    gross = total_of(invoice) * Decimal(case.accepted.get("rate", "1"))
    if not case.waits_for_rate and abs(gross) > policy.limit:
        text = (
            f"{cents(gross)} {policy.currency} is above the limit of {policy.limit} for booking "
            "without a person."
        )
        doubts_found.append(_confirm("above_limit", text, "Book it"))
    due = sum((cents(base * rate / 100) for (_, rate), base in bases(invoice).items()), Decimal(0))
    # each rate is rounded by itself, so many rates may add up to a difference
    if not case.wrong and abs((invoice.vat or Decimal(0)) - due) >= VAT_SLACK:
        text = f"The VAT of all rates is rounded to {invoice.vat}, but comes to {due}."
        doubts_found.append(_confirm("vat_checked", text, "The VAT is right: book it"))
    elsewhere, why = of_tax_office(invoice)
    if why:
        text = f"{why} The whole total is booked as owed to the supplier."
        title = "I book what we owe the tax office in the supplier's place"
        doubts_found.append(_confirm("tax_office_checked", text, title))
    # Italy writes split and withheld tax as paid
    if invoice.prepaid and invoice.prepaid != elsewhere:
        text = (
            f"{invoice.prepaid} {invoice.currency} was paid in advance (BT-113); the whole "
            "total is booked as owed."
        )
        doubts_found.append(
            _confirm("prepaid_checked", text, "The payment is in our books and will be set off")
        )
    doubts_found += _of_credit(case)
    return doubts_found


def _of_credit(case: Case) -> list[Doubt]:
    """Ask where a credit takes back what was not booked, or an invoice asks again for what was."""
    named, over = case.invoice.named, case.match.get("overcredited", "")
    there = case.match.get("named_booked", [])
    if not case.reading or case.invoice.kind in CORRECTIONS:
        return []
    if case.reading == OWED:
        text = (
            f"It names {called(there)}, which we have booked. Where it takes the place of that, "
            "the same would be owed twice."
        )
        title = "It is owed beside what it names: book it"
        return [_confirm("beside_checked", text, title)] if there else []
    if not case.names_booked:
        unbooked = called([number for number in named if number not in there])
        text = f"It takes back {unbooked}, which is not booked."
    elif over and not case.waits_for_rate:
        text = f"It takes back {over}."
    else:
        return []
    return [_confirm("credit_checked", text, "The credit is right: book it")]


def _of_order(case: Case) -> list[Doubt]:
    doubts_found = []
    if case.match["exceeded"] and not case.waits_for_rate:
        text = f"The order does not fit: {'; '.join(case.match['exceeded'][:10])}."
        doubts_found.append(_confirm("order_exceeded", text, "It is right all the same: book it"))
    if len(orders := case.invoice.orders) > 1:
        compared = f"order {case.invoice.order} alone" if case.invoice.order else "none of them"
        text = (
            f"It names {count(len(orders), 'order')}: {', '.join(orders[:10])}. It was compared "
            f"with {compared}."
        )
        doubts_found.append(_confirm("orders_checked", text, "I compared it with all of them"))
    if case.match["order"] == "other_supplier" and case.match["supplier"] is not None:
        doubts_found.append(
            _confirm(
                "other_order",
                f"Order {case.invoice.order} was placed with another supplier.",
                "Book it anyway",
            )
        )
    return doubts_found


def reasons(case: Case) -> list[str]:
    """Say why the confidence is not full, in sentences for the card."""
    match = case.match
    sentences = []
    if case.invoice.kind in ADVANCES:
        sentences.append(
            f"It is a prepayment invoice ({case.invoice.kind}, BT-3): nothing of it is delivered "
            "yet, and no account is proposed."
        )
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
