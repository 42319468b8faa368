"""The two questions of a booking: what the supplier must tell, and what a bookkeeper must decide.

Texts and schemas only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any, TypedDict

from extensions.booking.books import Books
from extensions.booking.case import Case, Doubt, reasons
from extensions.booking.configuration import LETTERS
from extensions.booking.matching import Position
from extensions.booking.readings import sign_of
from extensions.einvoice.model import Party
from extensions.einvoice.rules import SUPPLIED, TOTALS, RuleFinding
from runs.workflows import ANSWER, Ask, Outside, Report, letters, schemas
from runs.workflows.text import count, plain

SCHEMA = "https://json-schema.org/draft/2020-12/schema"
BOOKKEEPER, SUPPLIER = "needs_bookkeeper_decision", "missing_supplier_data"
AMOUNT = r"^-?\d{1,12}(\.\d{1,2})?$"
ANSWERS = {"confirmed": "It is right as invoiced", "credited": "It is wrong; a credit note follows"}
MAX_ASKED = 50
"""Most positions of one question, so that its form and schema stay small enough to work with. The
next question asks about the next positions.
"""
MAX_OPTIONS = 1_200
"""Most options of one question, over all its fields that ask for an account."""
MAX_BYTES = 24_000
"""Most bytes of the text of all accounts: a whole schema may have `schemas.MAX_BYTES`."""
IBAN = "Without spaces, such as DE89370400440532013000."
TERMS: dict[str, dict[str, Any]] = {
    "BT-1": {"title": "Invoice number", "minLength": 1, "maxLength": 100},
    "BT-2": {"title": "Issue date", "format": "date", "description": "As 2026-12-31."},
    "BT-3": {"title": "Type of invoice", "oneOf": [{"const": "380", "title": "Invoice"},
    {"const": "381", "title": "Credit note"}]},
    "BT-5": {"title": "Currency", "pattern": "^[A-Z]{3}$",
    "description": "Three letters, such as EUR."},
    "BT-9": {"title": "Due date", "format": "date", "description": "As 2026-12-31."},
    "BT-27": {"title": "Name of the seller", "minLength": 1, "maxLength": 200},
    "BT-31": {"title": "VAT id of the seller", "pattern": "^[A-Z]{2}[0-9A-Z+*]{2,13}$",
    "description": "Such as DE136695976."},
    "BT-40": {"title": "Country of the seller", "pattern": "^[A-Z]{2}$",
    "description": "Two letters, such as DE."},
    "BT-44": {"title": "Name of the buyer", "minLength": 1, "maxLength": 200},
    "BT-84": {"title": "IBAN to pay to", "pattern": "^[A-Z]{2}[0-9]{2}[0-9A-Z]{11,30}$",
    "description": IBAN},
    "BT-63": {"title": "VAT id of the tax representative",
    "pattern": "^[A-Z]{2}[0-9A-Z+*]{2,13}$", "description": "Such as DE136695976."},
    **{term: {"title": title, "pattern": AMOUNT,
    "description": "With a dot, such as 1190.00."} for term, title in TOTALS.items()},
}  # fmt: skip
assert TERMS.keys() == SUPPLIED


class ReturnedLine(TypedDict, total=False):
    """A line that was sent back."""

    reason: str  # the bookkeeper's
    answer: str  # the supplier's: confirmed or credited; missing until then
    explanation: str


def cell(text: str, longest: int = 80) -> str:
    """Write a text by others as plain words in Markdown."""
    return re.sub(r"([\\`*_{}\[\]<>()#+\-.!|~&:])", r"\\\1", plain(" ".join(text.split()), longest))


def about(case: Case) -> str:
    invoice = case.invoice
    kind = "Credit note" if invoice.is_credit_note else "Invoice"
    return (
        f"{kind} {cell(invoice.number or '(no number)')} of "
        f"{cell(invoice.seller.name or '(no name)')}"
    )


def facts(case: Case) -> dict[str, str | int]:
    invoice, known = case.booked, case.match["supplier"]
    return {
        "With VAT": (
            f"{invoice.gross if invoice.gross is not None else '?'} {invoice.currency or ''}"
        ).strip(),
        "Without": str(invoice.net if invoice.net is not None else "?"),
        **(
            {"For third parties": f"{invoice.collected} {invoice.currency or ''}".strip()}
            if invoice.third_parties
            else {}
        ),
        "Due": invoice.due or invoice.terms or "?",
        "Supplier": f"{known['number']} {known['name']}"[:80] if known else "unknown",
        **({"Order": invoice.order[:60]} if invoice.order else {}),
        **({"Tax representative": _party(agent)} if (agent := invoice.representative) else {}),
    }


def _party(party: Party) -> str:
    return ", ".join(filter(None, [party.name, party.vat_id]))[:80] or "?"


def ask_supplier_for_terms(
    case: Case, missing: Sequence[RuleFinding], *, again: bool, way: str
) -> Ask:
    """Ask for exactly the terms that are missing or cannot be right, with a letter to send."""
    terms = list(dict.fromkeys(finding.term for finding in missing))
    properties = {
        term: _term(term, [finding for finding in missing if finding.term == term])
        for term in terms
    }
    listed = "\n".join(f"- {cell(finding.text, 300)}" for finding in missing)
    first = "The answer does not settle it yet. " if again else ""
    letter = _letter(case, terms, missing, again=first)
    content = (
        f"# {about(case)}\n\n{first}It cannot be booked until the supplier has told:\n\n"
        f"{listed}\n\n{letter}"
    )
    report = Report(
        content=content,
        facts=facts(case),
        effects=["Checks the invoice again with these values; its file is not read again."],
    )
    values = {**_told(case), "names": _named(terms), "again": first.strip(), "missing": listed}
    subject = {
        **values,
        "invoice": _short(case),
        "supplier": plain(case.invoice.seller.name or "", 200),
    }
    outside = Outside(
        to=[],
        question=_line("request_subject", case, subject),
        content=_fill("request", case.policy.texts, values),
    )
    asked = _ask(
        SUPPLIER,
        f"Missing from the supplier: {_named(terms)}",
        report,
        way,
        required=_schema(properties, terms),
        send="Send the data",
    )
    return replace(asked, outside=outside)


def put_outside(question: Ask, mail: str) -> Ask:
    """Put the question to the supplier too, where there is a mail address: whoever holds the link
    can send the data, and cannot reject the invoice.
    """
    if not mail or question.outside is None:
        return replace(question, outside=None)
    report = replace(question.report, facts={**question.report.facts, "Asked by mail": mail})
    return replace(
        question, report=report, outside=replace(question.outside, to=[mail], answers=[ANSWER])
    )


def _short(case: Case) -> str:
    return (
        f"{'credit note' if case.invoice.is_credit_note else 'invoice'} "
        f"{plain(case.invoice.number or '(no number)', 60)}"
    )


def _told(case: Case) -> dict[str, str]:
    """Return the values of the invoice that texts to the supplier may name, as Markdown."""
    return {
        "supplier": cell(case.invoice.seller.name or "Sir or Madam", 200),
        "invoice": cell(_short(case)),
        "issued": cell(case.invoice.issued or "(no date)"),
    }


_fill = partial(letters.fill, LETTERS)


def _line(name: str, case: Case, told: Mapping[str, str]) -> str:
    """Write a subject line, which is not Markdown."""
    return plain(
        _fill(
            name,
            case.policy.texts,
            {**told, "issued": plain(case.invoice.issued or "(no date)", 60)},
        ),
        200,
    )


def _named(terms: Sequence[str]) -> str:
    names = [TERMS[term]["title"] for term in terms]
    return ", ".join([*names[:3], *([f"{len(names) - 3} more"] if len(names) > 3 else [])])


def _term(term: str, findings: Sequence[RuleFinding]) -> dict[str, Any]:
    part = {"type": "string", **TERMS[term]}
    part["title"] = f"{part['title']} ({term})"
    expected = next((finding.expected for finding in findings if finding.expected), "")
    return (
        {
            **part,
            "description": f"{part.get('description', '')} The parts come to {expected}.".strip(),
        }
        if expected
        else part
    )


def _letter(case: Case, terms: Sequence[str], missing: Sequence[RuleFinding], *, again: str) -> str:
    """Write the letter in the form in which a person can send it by hand."""
    invoice = case.invoice
    values = {
        "supplier": plain(invoice.seller.name or "Sir or Madam", 200),
        "invoice": _short(case),
        "issued": plain(invoice.issued or "(no date)", 60),
        "names": _named(terms),
        "again": again.strip(),
        "missing": "\n".join(f"* {plain(finding.text, 300)}" for finding in missing),
    }
    lines = _fill("request", case.policy.texts, values).split("\n")
    return "## Text for the supplier\n\n" + "\n".join(f"    {plain(line, 400)}" for line in lines)


def ask_supplier_about_lines(case: Case, held: Mapping[str, ReturnedLine], *, way: str) -> Ask:
    """Ask about the lines that were sent back, each with its reason; the answer is per line."""
    by_id = {position.id: position for position in case.positions}
    properties, listed = {}, []
    for name, line in held.items():
        said = {
            "answer": {
                "type": "string",
                "title": "Answer",
                "oneOf": [{"const": value, "title": label} for value, label in ANSWERS.items()],
            },
            "explanation": {
                "type": "string",
                "title": "Explanation",
                "minLength": 1,
                "maxLength": 1000,
            },
        }
        title, reason = (
            f"Line {name}: {plain(by_id[name].text, 80)}",
            f"Sent back: {plain(line['reason'], 120)}",
        )
        properties[name] = _object(said, list(said), title=title, description=reason)
        listed.append(
            f"| {cell(name)} | {cell(by_id[name].text)} | {by_id[name].net} | "
            f"{cell(line['reason'], 300)} |"
        )
    lines = _object(properties, list(held), title="Lines")
    content = (
        f"# {about(case)}\n\n{count(len(held), 'line')} sent back. What was approved is booked.\n\n"
        f"| Line | What | Net | Why it came back |\n|---|---|---|---|\n" + "\n".join(listed)
    )
    report = Report(
        content=content,
        facts=facts(case),
        effects=["A bookkeeper decides about these lines with what is said here."],
    )
    required = _schema({"lines": lines}, ["lines"])
    table = "| Line | What | Net | Why we ask |\n|---|---|---|---|\n" + "\n".join(listed)
    values = {**_told(case), "count": count(len(held), "line"), "lines": table}
    subject = {
        **values,
        "invoice": _short(case),
        "supplier": plain(case.invoice.seller.name or "", 200),
    }
    outside = Outside(
        to=[],
        question=_line("lines_subject", case, subject),
        content=_fill("lines", case.policy.texts, values),
    )
    asked = _ask(
        SUPPLIER,
        f"Question to the supplier about {count(len(held), 'line')}",
        report,
        way,
        required=required,
        send="Send the answer",
    )
    return replace(asked, outside=outside)


class Decide(TypedDict):
    """What a bookkeeper is asked to decide."""

    ids: list[str]
    assigned: Mapping[str, str]
    held: Mapping[str, ReturnedLine]


def part_of(case: Case, books: Books, ids: Sequence[str], assigned: Mapping[str, str]) -> list[str]:
    """Take as many of the positions, in their order, as one question can be about."""
    fields = max(1, MAX_OPTIONS // len(books.accounts))
    taken: list[str] = []
    for name in ids:
        fields -= case.is_unsure(name, assigned)
        if len(taken) == MAX_ASKED or (fields < 0 and taken):
            break
        taken.append(name)
    return taken


def ask_bookkeeper(
    case: Case, books: Books, doubts: Sequence[Doubt], asked: Decide, *, way: str
) -> Ask:
    """Ask a bookkeeper to settle the doubts, to choose an account for each line that has no sure
    one, and to name the lines that go back.
    """
    ids, assigned, held = asked["ids"], asked["assigned"], asked["held"]
    shown = [position for position in case.positions if position.id in ids]
    unsure = [position for position in shown if case.is_unsure(position.id, assigned)]
    explained = [position for position in shown if "answer" in held.get(position.id, {})]
    properties: dict[str, Any] = {doubt.key: dict(doubt.schema) for doubt in doubts}
    required = list(properties)
    if unsure:
        properties["assign"] = _assign(case, unsure)
        required.append("assign")
    fresh = [position for position in shown if position.id not in held]
    if len(shown) > 1 and fresh:
        about_them = (
            "A line with a reason is not booked now: the supplier is asked about it. Leave it "
            "empty to book the line."
        )
        properties["send_back"] = _reasons("Send lines back", about_them, fresh, "Why it goes back")
    if explained:
        about_them = (
            "A line with a reason is not booked and not paid. Leave it empty to book the line."
        )
        properties["refuse"] = _reasons("Refuse lines", about_them, explained, "Why it is refused")
    report = Report(
        content=_decision_text(case, doubts, shown, assigned, held),
        facts={
            **facts(case),
            "Confidence": f"{case.confidence(ids, assigned)}, enough is {case.policy.threshold}",
        },
        effects=[
            f"Books {count(len(shown), 'position')}, {_total(case, shown)} without VAT, less "
            "what is sent back or refused."
        ],
    )
    schema = {
        **_schema(properties, required),
        **({"$defs": {"account": _accounts(books)}} if unsure else {}),
    }
    return _ask(
        BOOKKEEPER,
        f"Bookkeeper: {_what(doubts, unsure, explained)}",
        report,
        way,
        required=schema,
        send="Book it",
    )


def _total(case: Case, shown: Sequence[Position]) -> str:
    """Say the sum that is booked for these positions: negative where money is taken back."""
    total, currency = sum((one.net for one in shown), Decimal(0)), case.invoice.currency or ""
    if case.reading:
        return f"{sign_of(case.booked, case.reading) * total} {currency}".strip()
    return f"{abs(total)} {currency} to one side or the other,"


def _what(
    doubts: Sequence[Doubt], unsure: Sequence[Position], explained: Sequence[Position]
) -> str:
    if explained:
        return f"the supplier answered about {count(len(explained), 'line')}"
    named = [doubt.key.replace("_", " ") for doubt in doubts[:3]]
    return (
        ", ".join([*named, *([f"account of {count(len(unsure), 'position')}"] if unsure else [])])
        or "is this booking right?"
    )


def _assign(case: Case, unsure: Sequence[Position]) -> dict[str, Any]:
    properties = {}
    for position in unsure:
        best = case.match["proposals"].get(position.id, [])
        part: dict[str, Any] = {
            "type": "string",
            "title": f"{position.id}: {plain(position.text, 80)}, {position.net}",
            "$ref": "#/$defs/account",
        }
        if best:
            part |= {"default": best[0]["key"], "description": f"Proposed: {best[0]['why']}."}
        properties[position.id] = part
    return _object(
        properties, [position.id for position in unsure], title="Account and cost centre"
    )


def _accounts(books: Books) -> dict[str, Any]:
    """Return the schema of the accounts to choose from: with their titles, or their numbers alone
    where there are too many for one question.
    """
    options = [
        {
            "const": account.key,
            "title": plain(f"{account.account} {account.title} · {account.cost_centre}", 80),
        }
        for account in books.accounts
    ]
    if (
        len(options) <= MAX_OPTIONS
        and len(json.dumps(options, ensure_ascii=False).encode()) <= MAX_BYTES
    ):
        return {"oneOf": options}
    return {"enum": [account.key for account in books.accounts]}


def _reasons(title: str, description: str, shown: Sequence[Position], what: str) -> dict[str, Any]:
    properties = {
        position.id: {
            "type": "string",
            "title": f"{position.id}: {plain(position.text, 80)}, {position.net}",
            "minLength": 1,
            "maxLength": 200,
        }
        for position in shown
    }
    return _object(properties, [], title=title, description=f"{what}. {description}")


def _decision_text(
    case: Case,
    doubts: Sequence[Doubt],
    shown: Sequence[Position],
    assigned: Mapping[str, str],
    held: Mapping[str, ReturnedLine],
) -> str:
    parts = [f"# {about(case)}"]
    if sentences := [*(doubt.text for doubt in doubts), *reasons(case)]:
        parts.append("\n".join(f"- {cell(text, 600)}" for text in sentences))
    rows = [_row(case, position, assigned) for position in shown]
    table = "| Position | What | Net | VAT | Proposed |\n|---|---|---|---|---|\n" + "\n".join(rows)
    parts.append(table)
    answers = [
        (position.id, held[position.id])
        for position in shown
        if "answer" in held.get(position.id, {})
    ]
    if answers:
        listed = "\n".join(
            f"- {cell(name)}: {ANSWERS[line['answer']].lower()}. {cell(line['explanation'], 500)}"
            for name, line in answers
        )
        parts.append(f"## What the supplier says\n\n{listed}")
    return "\n\n".join(parts) + "\n"


def _row(case: Case, one: Position, assigned: Mapping[str, str]) -> str:
    best = case.match["proposals"].get(one.id, [])
    why = "chosen" if one.id in assigned else best[0]["why"] if best else "nothing known"
    key = case.key_of(one.id, assigned)
    return (
        f"| {cell(one.id)} | {cell(one.text)} | {one.net} | {cell(one.category)} "
        f"{one.rate.normalize():f} | {cell(key)} {why} |"
    )


def _schema(properties: Mapping[str, Any], required: Sequence[str]) -> dict[str, Any]:
    return {"$schema": SCHEMA, **_object(properties, required)}


def _object(properties: Mapping[str, Any], required: Sequence[str], **words: str) -> dict[str, Any]:
    """Make an object's schema that keeps the order of its fields in forms, which storing loses."""
    fixed = {"type": "object", "additionalProperties": False, schemas.ORDER: list(properties)}
    return {**fixed, **words, "properties": dict(properties), "required": list(required)}


def _ask(
    phase: str, question: str, report: Report, way: str, *, required: Mapping[str, Any], send: str
) -> Ask:
    usual = ANSWER if phase == SUPPLIER else "approve"
    return Ask(
        question=question,
        answers={usual: way, "reject": way},
        # where somebody here answers; what the supplier sends is data, and approves nothing
        approves=[usual],
        labels={usual: send, "reject": "Reject the invoice"},
        report=report,
        phase=phase,
        required_inputs=required,
        answers_without_input=["reject"],
    )
