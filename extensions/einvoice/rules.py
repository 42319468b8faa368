"""What an invoice must hold and how it must add up: the business rules of EN 16931 that a booking
rests on.

The rules keep the standard's own names (BR-…, BR-CO-…; BR-DEX-… of the XRechnung extension; R120 of
Peppol, since EN 16931 has no rule about quantity times price). Sums are rounded to the cent, as in
CEN's own rules, and compared exactly. Two products may be rounded otherwise: quantity times price
by two cents, or to a whole unit of a currency without cents; base times VAT rate by less than one
unit of the currency, as in theirs. Source: the Schematron rules of EN 16931 that CEN publishes,
release 1.3.16.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal

from stdnum import iban as iban_numbers
from stdnum.eu import vat as vat_numbers
from stdnum.exceptions import ValidationError

from extensions.einvoice.model import NESTINGS, Invoice, InvoiceLine

CENT = Decimal("0.01")
LINE_SLACK = Decimal("0.02")
WHOLE = frozenset({"CLP", "HUF", "ISK", "JPY", "KRW", "PYG", "UGX", "VND"})
"""Currencies (ISO 4217) whose amounts are written in whole units: the forint has cents in the
standard, and none in use.
"""
VAT_SLACK = Decimal(1)
"""In the invoice's currency.

A difference of less than this passes in BT-117, and in BT-116 of the categories that bear VAT
(`BEARING`).
"""
WIDE = Context(prec=120)
"""Enough digits for the product of any two numbers of an invoice, which Decimal's usual 28 are
not.
"""
BEARING = frozenset({"S", "L", "M", "B"})
"""VAT categories with a rate above 0: standard, Canary Islands (IGIC), Ceuta and Melilla (IPSI),
split payment.
"""
CATEGORY_RULES = {
    "S": "S",
    "Z": "Z",
    "E": "E",
    "AE": "AE",
    "K": "IC",
    "G": "G",
    "O": "O",
    "L": "AF",
    "M": "AG",
}
"""VAT category → how the standard names the rules about it: BR-IC-08 is about K."""
SELLER_NUMBERS = {
    **dict.fromkeys(("S", "Z", "E", "AE", "L", "M"), ("BT-31", "BT-32", "BT-63")),
    **dict.fromkeys(("K", "G"), ("BT-31", "BT-63")),
}
"""VAT category → which of the seller's or the tax representative's numbers it wants: any of them
(BR-S-02, BR-S-03, BR-S-04 and their likes: by a line, an allowance, a charge of that category).
"""
BUYER_NUMBERS = {"AE": ("BT-47", "BT-48"), "K": ("BT-48",)}
"""The same of the buyer's, who owes the VAT."""
NESTED = "nested"
"""Our name for the finding that an invoice has lines of lines, which EN 16931 does not know."""
EU = frozenset(vat_numbers.MEMBER_STATES) | {"el", "xi"}
TRANSFERS = frozenset({"30", "58"})
"""Values of BT-81 (UNTDID 4461) that ask for a bank transfer, so that BT-84 must say where to."""
Group = tuple[str, Decimal]
"""VAT category and rate."""
TOTALS = {
    "BT-106": "The sum of the lines",
    "BT-107": "The sum of allowances",
    "BT-108": "The sum of charges",
    "BT-109": "The total without VAT",
    "BT-110": "The sum of VAT",
    "BT-112": "The total with VAT",
    "BT-115": "The amount due",
}
SUPPLIED = frozenset(
    {"BT-1", "BT-2", "BT-3", "BT-5", "BT-9", "BT-27", "BT-31", "BT-40", "BT-44", "BT-63", "BT-84"}
    | TOTALS.keys()
)
"""Terms that a supplier can tell afterwards. What is wrong with any other takes another invoice."""


@dataclass(frozen=True, kw_only=True)
class RuleFinding:
    """What is wrong with an invoice.

    `kind` is `missing`, or `wrong` where something is there that cannot be right.
    """

    rule: str
    term: str
    kind: str
    text: str
    line: str = ""
    """BT-126 of the line it is about."""
    expected: str = ""
    """The amount that would be right, where that can be said."""


def cents(amount: Decimal) -> Decimal:
    """Rounded half up to two decimals, as EN 16931 rounds."""
    return amount.quantize(CENT, rounding=ROUND_HALF_UP, context=WIDE)


def check(invoice: Invoice) -> list[RuleFinding]:
    """All findings, in the order of the document: what is missing, what cannot be read, numbers of
    people and banks, arithmetic.
    """
    found = [
        *_missing(invoice),
        *_unread(invoice),
        *_numbers(invoice),
        *_lines(invoice),
        *_totals(invoice),
        *_breakdown(invoice),
    ]
    if nested := _nested(invoice, adds_up=all(finding.kind != "wrong" for finding in found)):
        # whatever else is said to be wrong is wrong because of that
        found = [*(finding for finding in found if finding.kind != "wrong"), nested]
    return found


def _nested(invoice: Invoice, *, adds_up: bool) -> RuleFinding | None:
    """What says that lines of lines are out of scope, where they leave in doubt what counts: lines
    of no amount, and a line whose parts it sums up, may stand in an invoice that adds up.
    """
    for place, line in enumerate(invoice.lines, 1):
        counts = line.nesting == "SUB" or line.net == 0
        if line.nesting and not (counts and adds_up):
            text = (
                f"Line {line.id or f'#{place}'} {NESTINGS[line.nesting]}. Lines of lines are out "
                "of scope: EN 16931 has none, and nothing is booked from them."
            )
            return RuleFinding(rule=NESTED, term="BG-25", kind="wrong", text=text)
    return None


def _missing(invoice: Invoice) -> Iterator[RuleFinding]:
    unread = {term.term for term in invoice.unread}
    seller, buyer = invoice.seller, invoice.buyer
    wanted = [
        ("BR-02", "BT-1", "the invoice number", invoice.number),
        ("BR-03", "BT-2", "the issue date", invoice.issued),
        ("BR-04", "BT-3", "the type of the invoice", invoice.kind),
        ("BR-05", "BT-5", "the currency", invoice.currency),
        ("BR-06", "BT-27", "the seller's name", seller.name),
        ("BR-07", "BT-44", "the buyer's name", buyer.name),
        ("BR-09", "BT-40", "the seller's country", seller.country),
        ("BR-12", "BT-106", "the sum of the lines", invoice.line_total),
        ("BR-13", "BT-109", "the total without VAT", invoice.net),
        ("BR-14", "BT-112", "the total with VAT", invoice.gross),
        ("BR-15", "BT-115", "the amount due", invoice.payable),
    ]
    wanted += list(_of_parties(invoice))
    if invoice.payable is not None and invoice.payable > 0 and not invoice.is_credit_note:
        wanted.append(
            (
                "BR-CO-25",
                "BT-9",
                "the due date or the terms of payment",
                invoice.due or invoice.terms,
            )
        )
    if invoice.means in TRANSFERS:
        wanted.append(("BR-61", "BT-84", "the account to pay to", invoice.iban))
    if invoice.vat is None and any(tax.amount for tax in invoice.taxes):
        wanted.append(("BR-CO-14", "BT-110", "the sum of VAT", None))
    for rule, term, name, value in wanted:
        if value is None and term not in unread:
            yield RuleFinding(
                rule=rule, term=term, kind="missing", text=f"{_capital(name)} ({term}) is missing."
            )
    if not invoice.lines:
        yield RuleFinding(
            rule="BR-16",
            term="BG-25",
            kind="wrong",
            text="The invoice has no line. Its profile is too small to be booked from.",
        )
    if not invoice.taxes:
        yield RuleFinding(
            rule="BR-CO-18", term="BG-23", kind="wrong", text="The invoice has no VAT breakdown."
        )


def _of_parties(invoice: Invoice) -> Iterator[tuple[str, str, str, None]]:
    """The numbers that are missing of the seller, the tax representative and the buyer, by the VAT
    categories of the invoice.
    """
    seller, buyer, representative = invoice.seller, invoice.buyer, invoice.representative
    there = {
        "BT-31": seller.vat_id,
        "BT-32": seller.tax_number,
        "BT-47": buyer.registration,
        "BT-48": buyer.vat_id,
        "BT-63": representative.vat_id if representative else None,
    }

    def lacking(numbers: Mapping[str, Sequence[str]]) -> str:
        return next(
            (
                f"BR-{CATEGORY_RULES[category]}-{rule}"
                for rule, category in _categories(invoice)
                if category in numbers and not any(there[term] for term in numbers[category])
            ),
            "",
        )

    if rule := lacking(SELLER_NUMBERS):
        if representative:
            yield rule, "BT-63", "the VAT id of the seller's tax representative", None
        else:
            yield rule, "BT-31", "the seller's VAT id", None
    elif not (seller.vat_id or seller.identifier or seller.registration):
        yield "BR-CO-26", "BT-31", "a number that identifies the seller", None
    if rule := lacking(BUYER_NUMBERS):
        yield rule, "BT-48", "the buyer's VAT id", None


def _categories(invoice: Invoice) -> Iterator[tuple[str, str]]:
    """The VAT categories of an invoice, each with the number of the rule about whose numbers it
    wants.
    """
    yield from (("02", line.category or "") for line in invoice.lines)
    yield from (("04" if one.charge else "03", one.category or "") for one in invoice.extras)
    yield from (("02", tax.category or "") for tax in invoice.taxes)


def _unread(invoice: Invoice) -> Iterator[RuleFinding]:
    for unread in invoice.unread:
        yield RuleFinding(
            rule="format",
            term=unread.term,
            kind="missing",
            text=f"{unread.term} holds “{unread.text}”, which is no number or date that can be.",
        )


def _numbers(invoice: Invoice) -> Iterator[RuleFinding]:
    for term, party in (("BT-31", invoice.seller), ("BT-63", invoice.representative)):
        number = party.vat_id if party else None
        if number and (problem := vat_problem(number)):
            yield RuleFinding(
                rule="BR-CO-09",
                term=term,
                kind="missing",
                text=f"The VAT id {number[:40]} ({term}) {problem}.",
            )
    account = invoice.iban
    if (
        account
        and (invoice.means == "58" or looks_like_iban(account))
        and (problem := iban_problem(account))
    ):
        yield RuleFinding(
            rule="IBAN",
            term="BT-84",
            kind="missing",
            text=f"The account {account[:40]} (BT-84) {problem}.",
        )


def vat_problem(number: str) -> str:
    """Why this is no VAT id, to go on from "The VAT id … "; "" where it may be one.

    Format and check digits for the European Union's members and Northern Ireland; of others only
    the country's two letters.
    """
    prefix = number.strip()[:2].lower()
    if not (prefix.isascii() and prefix.isalpha()):
        return "does not begin with a country's two letters"
    if prefix not in EU:
        return ""
    try:
        vat_numbers.validate(number)
    except ValidationError as error:
        return f"cannot be: {str(error)[:1].lower()}{str(error)[1:].rstrip('.')}"
    return ""


def looks_like_iban(account: str) -> bool:
    compact = account.replace(" ", "")
    return compact[:2].isalpha() and compact[2:4].isdigit()


def iban_problem(account: str) -> str:
    """Why this is no IBAN: its check digits (ISO 13616, mod 97) or its country's format; "" where
    it is one.
    """
    try:
        iban_numbers.validate(account)
    except ValidationError as error:
        return f"is no IBAN: {str(error)[:1].lower()}{str(error)[1:].rstrip('.')}"
    return ""


def _lines(invoice: Invoice) -> Iterator[RuleFinding]:
    seen: set[str] = set()
    for place, line in enumerate(invoice.lines, 1):
        name = line.id or f"#{place}"
        wanted = [
            ("BR-21", "BT-126", "number", line.id),
            ("BR-22", "BT-129", "quantity", line.quantity),
            ("BR-24", "BT-131", "net amount", line.net),
            ("BR-25", "BT-153", "name", line.name),
            ("BR-26", "BT-146", "price", line.price),
            ("BR-CO-04", "BT-151", "VAT category", line.category),
        ]
        for rule, term, subject, value in wanted:
            if value is None:
                yield RuleFinding(
                    rule=rule,
                    term=term,
                    kind="wrong",
                    line=name,
                    text=f"Line {name} has no {subject} ({term}).",
                )
        if line.id in seen:
            yield RuleFinding(
                rule="BR-21",
                term="BT-126",
                kind="wrong",
                line=name,
                text=f"Two lines have the number {name}.",
            )
        seen.add(name)
        net = line_net(line)
        if net is not None and line.net is not None and is_off(line.net, net, invoice.currency):
            text = f"Line {name}: quantity times price is {net}, not {line.net} (BT-131)."
            yield RuleFinding(
                rule="R120", term="BT-131", kind="wrong", line=name, text=text, expected=str(net)
            )


def line_net(line: InvoiceLine) -> Decimal | None:
    """Quantity x price per base quantity, plus charges, less allowances; None where one of them is
    not there.
    """
    if line.quantity is None or line.price is None or line.price_base == 0:
        return None
    return cents(
        line.quantity * line.price / (line.price_base or 1) + line.charges - line.allowances
    )


def is_off(said: Decimal, net: Decimal, currency: str | None) -> bool:
    """Whether a line's net amount (BT-131) is further from quantity times price than rounding
    explains.
    """
    rounded = currency in WHOLE and said == said.to_integral_value()
    return abs(net - said) > (Decimal("0.5") if rounded else LINE_SLACK)


def _totals(invoice: Invoice) -> Iterator[RuleFinding]:
    zero = Decimal(0)
    nets = [line.net for line in invoice.lines]
    allowances = sum((extra.amount or zero for extra in invoice.extras if not extra.charge), zero)
    charges = sum((extra.amount or zero for extra in invoice.extras if extra.charge), zero)
    vat = sum((tax.amount or zero for tax in invoice.taxes), zero)
    sums: list[tuple[str, str, Decimal | None, Decimal]] = []
    if nets and None not in nets:
        sums.append(
            ("BR-CO-10", "BT-106", invoice.line_total, sum((net or zero for net in nets), zero))
        )
    sums.append(("BR-CO-11", "BT-107", invoice.allowance_total or zero, allowances))
    sums.append(("BR-CO-12", "BT-108", invoice.charge_total or zero, charges))
    if invoice.line_total is not None:
        net = (
            invoice.line_total - (invoice.allowance_total or zero) + (invoice.charge_total or zero)
        )
        sums.append(("BR-CO-13", "BT-109", invoice.net, net))
    if invoice.vat is not None:
        sums.append(("BR-CO-14", "BT-110", invoice.vat, vat))
    if invoice.net is not None:
        sums.append(("BR-CO-15", "BT-112", invoice.gross, invoice.net + (invoice.vat or zero)))
    if invoice.gross is not None:
        due = (
            invoice.gross
            - (invoice.prepaid or zero)
            + (invoice.rounding or zero)
            + invoice.collected
        )
        sums.append(
            ("BR-DEX-09" if invoice.third_parties else "BR-CO-16", "BT-115", invoice.payable, due)
        )
    for place, party in enumerate(invoice.third_parties, 1):
        if party.amount is None:
            text = f"Payment {place} to a third party has no amount (BT-DEX-002)."
            yield RuleFinding(rule="BR-DEX-11", term="BT-DEX-002", kind="wrong", text=text)
    for rule, term, stated, right in sums:
        if stated is not None and stated not in {right, cents(right)}:
            right = cents(right)
            text = f"{TOTALS[term]} ({term}) is {stated}, but its parts come to {right}."
            yield RuleFinding(rule=rule, term=term, kind="wrong", text=text, expected=str(right))


def bases(invoice: Invoice) -> dict[Group, Decimal]:
    """The taxable amount of each VAT category and rate, as lines, allowances and charges add up."""
    sums: dict[Group, Decimal] = defaultdict(Decimal)
    for line in invoice.lines:
        sums[line.category or "", line.rate or Decimal(0)] += line.net or 0
    for extra in invoice.extras:
        sums[extra.category or "", extra.rate or Decimal(0)] += (extra.amount or 0) * (
            1 if extra.charge else -1
        )
    return dict(sums)


def _breakdown(invoice: Invoice) -> Iterator[RuleFinding]:
    due = bases(invoice)
    said: dict[Group, list[Decimal | None]] = defaultdict(list)
    for tax in invoice.taxes:
        said[tax.category or "", tax.rate or Decimal(0)].append(tax.base)
    for tax in invoice.taxes:
        group: Group = (tax.category or "", tax.rate or Decimal(0))
        name = f"{group[0]} {group[1].normalize():f} %"
        for rule, term, subject, value in (
            ("BR-45", "BT-116", "base", tax.base),
            ("BR-46", "BT-117", "amount", tax.amount),
        ):
            if value is None:
                yield RuleFinding(
                    rule=rule,
                    term=term,
                    kind="wrong",
                    text=f"The VAT breakdown {name} has no {subject} ({term}).",
                )
        if tax.base is not None and tax.amount is not None:
            vat = cents(tax.base * group[1] / 100)
            off = abs(vat - tax.amount)
            if off >= VAT_SLACK or (off and not group[1]):
                text = f"VAT {name} of {tax.base} is {vat}, not {tax.amount} (BT-117)."
                rule = "BR-CO-17" if group[1] else _rule_of(group, "09")
                yield RuleFinding(
                    rule=rule, term="BT-117", kind="wrong", text=text, expected=str(vat)
                )
    # a category and rate may stand more than once, by its reasons
    for group, parts in said.items():
        name, right = f"{group[0]} {group[1].normalize():f} %", due.pop(group, None)
        base = sum((part or Decimal(0) for part in parts), Decimal(0))
        if None not in parts and invoice.lines and _is_another(base, right, group):
            text = f"VAT {name} is taken of {base} (BT-116), but its lines come to {right or 0}."
            yield RuleFinding(
                rule=_rule_of(group, "08"),
                term="BT-116",
                kind="wrong",
                text=text,
                expected=str(right or 0),
            )
    if invoice.taxes:
        for category, rate in due:
            text = f"VAT {category} {rate.normalize():f} % of the lines is not in the breakdown."
            yield RuleFinding(rule="BR-CO-18", term="BG-23", kind="wrong", text=text)


def _is_another(base: Decimal, right: Decimal | None, group: Group) -> bool:
    """Whether a VAT base is none that the lines can come to.

    `right` is None where no line is of the group.
    """
    if right is None or group[0] not in BEARING:
        return right is None or base not in {right, cents(right)}
    return abs(base - right) >= VAT_SLACK


def _rule_of(group: Group, number: str) -> str:
    category = CATEGORY_RULES.get(group[0])
    return f"BR-{category}-{number}" if category else "BR-CO-18"


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]
