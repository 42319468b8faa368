"""`smart-booking`: an e-invoice is read, checked, matched and booked; what it lacks is asked of the
supplier, what is doubtful of a bookkeeper. Deterministic and offline, without a language model.

extract → validate → enrich → decide → post. Every answer leads to `decide`: the file is read once.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, cast

from extensions.booking import ledger as ledger
from extensions.booking import remote_ledger as remote
from extensions.booking.books import LEDGER, Books, folder_of, read_books
from extensions.booking.case import BookingPolicy, Case, doubts
from extensions.booking.configuration import BOOKS, DECIDING, LETTERS, NOTHING, POSTING
from extensions.booking.entries import Batch, Heading, entries, invoice_key, nets_of, vat_of
from extensions.booking.matching import Match, match
from extensions.booking.outcomes import CONCLUSION, WORDS, ask_to_reject, require_proof
from extensions.booking.questions import (
    BOOKKEEPER,
    MAX_ASKED,
    SUPPLIER,
    Decide,
    ask_bookkeeper,
    ask_supplier_about_lines,
    ask_supplier_for_terms,
    part_of,
    put_outside,
)
from extensions.booking.readings import booked, reading, sign_of
from extensions.booking.reviewed import (
    changed_since,
    pass_or_ask,
    put_question,
    require_answers,
)
from extensions.booking.state import (
    POSTED,
    BookingDecision,
    BookingState,
    answer_to,
    case_of,
    invoice_of,
    open_positions,
    outcome_of,
    passing,
)
from extensions.einvoice.file import read_invoice
from extensions.einvoice.model import NotAnInvoice, dump
from extensions.einvoice.rules import check
from extensions.einvoice.xml import InvoiceUnreadable
from runs.workflows import (
    Ask,
    Context,
    Done,
    Go,
    Outcome,
    Report,
    State,
    StepFailed,
    letters,
    step,
    timing,
)
from runs.workflows.attachments import KEY, schema_of
from runs.workflows.external_reviewers import ADDRESS, is_address
from runs.workflows.text import count

INPUT_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "title": "Book an invoice",
    "additionalProperties": False,
    "required": ["invoice"],
    "x-order": ["invoice", "supplier_mail"],
    "properties": {
        "invoice": schema_of(
            "Invoice",
            "An EN 16931 e-invoice: XRechnung or other UBL or CII XML, or a ZUGFeRD / "
            "Factur-X PDF. Up to 5 MB.",
        ),
        "supplier_mail": {
            "type": "string",
            "pattern": f"^{ADDRESS}$",
            "maxLength": 200,
            "title": "Mail address of the supplier",
            "description": (
                "Where the supplier is asked for what is missing. Empty: the address in the "
                "invoice (BT-43)."
            ),
        },
    },
}


@step("booking.extract", config=NOTHING)
def extract(state: State, context: Context) -> Outcome:
    """Read the order's file.

    Sets `invoice` (see `einvoice.model.dump`) and `document`, its sha256. Fails with the codes of
    `read_invoice`, or `no_file`.
    """
    file = state.get(KEY, {}).get("invoice")
    if not file:
        raise StepFailed(
            "The order brought no invoice along. Make a new one with a file.", code="no_file"
        )
    try:
        invoice = read_invoice(context.content_of(file))
    except InvoiceUnreadable as error:
        raise StepFailed(f"{file['name']}: {error}", code=error.code) from error
    context.log(
        f"Read {invoice.syntax} invoice {invoice.number or '(no number)'} with "
        f"{count(len(invoice.lines), 'line')}"
    )
    return Go(update={"invoice": dump(invoice), "document": file["sha256"], KEY: {}})


@step("booking.validate", config=NOTHING)
def validate(state: State, context: Context) -> Outcome:
    """Check mandatory terms, VAT id, IBAN and arithmetic.

    Sets `findings`; what they mean is for `decide`.
    """
    findings = check(_invoice(cast(BookingState, state)))
    context.log(
        count(len(findings), "finding") if findings else "Everything is there and adds up",
        level="warning" if findings else "info",
    )
    return Go(update={"findings": [asdict(finding) for finding in findings]})


@step("booking.enrich", config=BOOKS)
def enrich(state: State, context: Context) -> Outcome:
    """Find the supplier, the order, an account for each position, and an earlier booking.

    Sets `match`.

    Fails with `books_missing`, `books_outside`, `books_unreadable`, `ledger_unreadable`: put the
    files right and retry.
    """
    before = cast(BookingState, state)
    made = _match(before, context, read_books(_folder(context)))
    supplier = made["supplier"]
    context.log(
        f"Supplier {supplier['number']} {supplier['name']}, found by "
        f"{made['found_by'].replace('_', ' ')}"
        if supplier
        else "The supplier is not known"
    )
    return Go(update={"match": made})


@step(
    "booking.decide",
    check=partial(letters.check, LETTERS),
    config=DECIDING,
    asks=True,
    letters=LETTERS,
)
def decide(state: State, context: Context) -> Outcome:
    """Take in the answer to the last question; then book what is sure, ask for what is not, end
    when nothing is left.

    Amounts are in the invoice's currency, confidence is 0.00 to 1.00. Configuration: `books`, and
    see `BookingPolicy`. Fails as `enrich`, or with `bad_configuration`.
    """
    before = cast(BookingState, dict(state))
    # one of before there was such a thing is asked again
    update = answer_to(before, context.step) if before.get("shown") else {}
    asked = before.get("asked")
    if update and asked and asked["reason"] == SUPPLIER and context.approved(context.step) is None:
        # a supplier's word, which is data: what a bookkeeper said before it was said of something
        # else
        update |= {"accepted": {}, "assigned": {}, "cleared": []}
    if "outcome" in update:
        return _ended(update, context)
    books = read_books(_folder(context))
    now = cast(BookingState, {**before, **update})
    if {"supplied", "accepted"} & update.keys():
        update["findings"] = [asdict(finding) for finding in check(_invoice(now))]
        update["match"] = _match(now, context, books)
        now = cast(BookingState, {**now, **update})
    case = _case(now, context)
    outcome = _next(now, case, books, context)
    if isinstance(outcome, Go):
        outcome = pass_or_ask(outcome, now, case, books, context)
    if isinstance(outcome, Go):
        made: BookingDecision = outcome.update["decision"]
        context.log(
            f"{count(len(made['positions']), 'position')} to book, confidence "
            f"{made['confidence']}, decided by {made['by']}"
        )
    return replace(outcome, update={"asked": None, **update, **outcome.update})


def _next(now: BookingState, case: Case, books: Books, context: Context) -> Go | Ask | Done:
    held, cleared, assigned = now.get("held", {}), now.get("cleared", []), now.get("assigned", {})
    left = open_positions(now, case)
    if case.is_unbookable:
        return put_question(ask_to_reject(case, way=context.step), BOOKKEEPER, [], now, context)
    if not left:
        require_answers(now, context, optional=True)
        return _ended({"outcome": outcome_of(now)}, context)
    if case.missing:
        again = bool(now.get("supplied"))
        question = ask_supplier_for_terms(case, case.missing, again=again, way=context.step)
        return put_question(
            put_outside(question, _mail_of(case, context)), SUPPLIER, [], now, context
        )
    ready = [name for name in left if name not in held or "answer" in held[name] or name in cleared]
    if not ready:
        waiting = {name: held[name] for name in left[:MAX_ASKED]}
        question = ask_supplier_about_lines(case, waiting, way=context.step)
        return put_question(
            put_outside(question, _mail_of(case, context)), SUPPLIER, list(waiting), now, context
        )
    open_doubts = doubts(case, books)
    confidence = case.confidence(ready, assigned)
    wanted = [
        name
        for name in ready
        if not case.key_of(name, assigned) or (name not in cleared and name in held)
    ]
    if confidence < case.policy.threshold:
        wanted += [name for name in ready if name not in cleared and name not in wanted]
    if open_doubts or wanted:
        ids = part_of(case, books, [name for name in ready if name in wanted] or ready, assigned)
        asked = Decide(
            ids=ids, assigned=assigned, held={name: held[name] for name in ids if name in held}
        )
        return put_question(
            ask_bookkeeper(case, books, open_doubts, asked, way=context.step),
            BOOKKEEPER,
            ids,
            now,
            context,
        )
    by = "bookkeeper" if set(ready) <= set(cleared) or case.accepted else "rule"
    return Go(
        update={
            "decision": BookingDecision(
                positions=ready, confidence=str(confidence), by=by, back=context.step
            )
        }
    )


def _ended(update: dict[str, Any], context: Context) -> Done:
    """The end of a booking of which nothing is left to decide; it says what became of it."""
    outcome = update["outcome"]
    rows = ledger.read(_folder(context) / LEDGER)
    require_proof(outcome, context.answered(context.step), rows, context.order.id)
    context.log(WORDS[outcome], level="info" if outcome == POSTED else "warning")
    told = {**update, CONCLUSION: WORDS[outcome]}
    return Done(update=told, report=Report(content=WORDS[outcome]))


def _mail_of(case: Case, context: Context) -> str:
    """Where the supplier is asked: as the order says, else as the invoice does; "" where neither
    names an address.
    """
    named = context.order.input.get("supplier_mail") or (case.invoice.seller.email or "").strip()
    return str(named) if is_address(named) else ""


@step("booking.post", config=POSTING)
def post(state: State, context: Context) -> Outcome:
    """Append what was decided to the ledger, each entry once whatever happens; then back to decide
    where something is left.

    With the configuration `"ledger": "rest"` it is posted to `WAYSTATION_LEDGER_URL` first, and the
    file is its journal. Sets `posted`, `net_posted`, `vat_posted` (VAT group → amount), and at the
    end `outcome`. Where another order booked the invoice meanwhile, or the books were changed, that
    is for `decide` to ask about. Fails with `approval_missing`, `content_changed`, `ledger_busy`,
    `ledger_unreadable`, `ledger_unknown`, `ledger_away`, `ledger_refused`, or `already_booked`
    where this order itself booked it otherwise (after a fork).
    """
    now = cast(BookingState, dict(state))
    decision = now.get("decision")
    if not decision:
        raise StepFailed(
            "Nothing was decided, so nothing is booked. Go on from an earlier checkpoint.",
            code="nothing_decided",
        )
    case = _case(now, context)
    require_answers(now, context)
    passed = now.get("passed")
    if passed and passed != passing(now, decision):
        raise changed_since()
    path = _folder(context) / LEDGER
    if (anew := _decided_anew(now, decision, context)) is not None:
        context.log(
            "The books say something else than when this was decided: it is decided anew",
            level="warning",
        )
        return Go(to=decision["back"], update={**anew, "decision": None})
    batch = _batch(now, case, decision)
    try:
        added = context.once(
            "append", lambda: _append(path, _rows(now, case, batch, context), context)
        )
    except ledger.AlreadyBooked as error:
        fresh = _match(now, context, read_books(path.parent))
        if not fresh["booked_by"]:
            raise StepFailed(
                f"{error}, with other values. The ledger was not changed; correct it by hand.",
                code="already_booked",
            ) from error
        context.log(f"{error}: nothing was booked", level="warning")
        return Go(to=decision["back"], update={"match": fresh, "decision": None, "cleared": []})
    context.log(f"Booked {count(len(batch.positions), 'position')} in {LEDGER}", entries=added)
    update = _posted(now, case, batch)
    if open_positions(cast(BookingState, {**now, **update}), case):
        return Go(to=decision["back"], update=update)
    outcome = outcome_of(cast(BookingState, {**now, **update}))
    return Done(update={**update, "outcome": outcome, CONCLUSION: WORDS[outcome]})


def _decided_anew(
    now: BookingState, decision: BookingDecision, context: Context
) -> dict[str, Any] | None:
    """What the rules rest on, where the invoice and the books give another decision by now; None
    where they give this one.

    So a decision, findings or a match that anybody wrote into the state moves no money.
    """
    there = replace(
        context, step=decision["back"], config=context.configs.get("booking.decide", context.config)
    )
    books = read_books(_folder(there))
    findings, made = (
        [asdict(finding) for finding in check(_invoice(now))],
        _match(now, there, books),
    )
    again = cast(BookingState, {**now, "findings": findings, "match": made})
    outcome = _next(again, _case(again, there), books, there)
    same = isinstance(outcome, Go) and outcome.update["decision"] == decision
    return (
        None
        if same and (now["findings"], now["match"]) == (findings, made)
        else {"findings": findings, "match": made}
    )


def _append(path: Path, rows: list[ledger.LedgerEntry], context: Context) -> int:
    """The ledger that others keep comes first: what it refuses is not in the journal either."""
    if context.config.get("ledger") == "rest":
        ledger.require_free(path, rows)
        remote.send(rows, key=context.key)
    return ledger.append(path, rows, check=context.check)


def _batch(now: BookingState, case: Case, decision: BookingDecision) -> Batch:
    left = set(open_positions(now, case)) - set(decision["positions"])
    return Batch(
        number=now.get("batches", 0) + 1,
        positions=[position for position in case.positions if position.id in decision["positions"]],
        last=not left,
        whole=not now.get("refused"),
        net_before=now.get("net_posted", {}),
        vat_before=now.get("vat_posted", {}),
    )


def _rows(
    now: BookingState, case: Case, batch: Batch, context: Context
) -> list[ledger.LedgerEntry]:
    heading = Heading(
        key=invoice_key(
            case.invoice,
            case.match,
            context.order.id,
            another=bool(case.accepted.get("not_duplicate")),
        ),
        order=context.order.id,
        document=now["document"],
        # a key has one body
        booked_at=context.once("booked_at", lambda: timing.now().isoformat(timespec="seconds")),
        rate=Decimal(case.accepted.get("rate", "1")),
        vat_account=case.policy.vat_account,
        payables_account=case.policy.payables_account,
        sign=sign_of(case.booked, case.reading),
    )
    accounts = {
        position.id: case.key_of(position.id, now.get("assigned", {}))
        for position in batch.positions
    }
    return entries(case.booked, case.match, batch, accounts, heading)


def _posted(now: BookingState, case: Case, batch: Batch) -> dict[str, Any]:
    def added(before: dict[str, str], more: dict[str, Decimal]) -> dict[str, str]:
        return {
            **before,
            **{name: str(Decimal(before.get(name, "0")) + amount) for name, amount in more.items()},
        }

    return {
        "posted": [*now.get("posted", []), *(position.id for position in batch.positions)],
        "batches": batch.number,
        "net_posted": added(now.get("net_posted", {}), nets_of(batch)),
        "vat_posted": added(now.get("vat_posted", {}), vat_of(case.booked, batch)),
        "decision": None,
    }


def _folder(context: Context) -> Path:
    return folder_of(context.shared, context.config)


def _invoice(state: BookingState) -> Any:
    try:
        return invoice_of(state)
    except (NotAnInvoice, KeyError) as error:
        raise StepFailed(
            f"The state holds no invoice that can be read: {error}. Go on from the first "
            "checkpoint.",
            code="no_invoice",
        ) from error


def _match(state: BookingState, context: Context, books: Books) -> Match:
    """What this order itself booked is no earlier booking."""
    rows = [
        row for row in ledger.read(_folder(context) / LEDGER) if row["order"] != context.order.id
    ]
    accepted = state.get("accepted", {})
    invoice = booked(_invoice(state), accepted)
    read_as = reading(invoice, accepted)
    factor = Decimal(accepted.get("rate", "1")) * sign_of(invoice, read_as) if read_as else None
    chosen = str(accepted.get("supplier", ""))
    return match(invoice, books, rows, chosen=chosen, factor=factor)


def _case(state: BookingState, context: Context) -> Case:
    _invoice(state)
    try:
        return case_of(state, BookingPolicy.of(context.config))
    except ValueError as error:
        raise StepFailed(
            f"The booking is configured wrongly: {error}. Correct the step template.",
            code="bad_configuration",
        ) from error
