"""How bookings end: whatever is not booked is a question, a failure with its reason, or what a
person said; never just done.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from extensions.booking.outcomes import WORDS
from extensions.booking.state import IN_PART, POSTED, REJECTED
from extensions.einvoice.model import Extra, Invoice, Tax
from extensions.einvoice.sums import added_up
from hitl.models import Decision
from runs import services as runs
from runs.models import WorkOrder
from tests.conftest import drive, kinds, log_lines, pause_of
from tests.extensions.booking.houses import ends_truly
from tests.extensions.booking.houses import house as house
from tests.worlds.books import invoices
from tests.worlds.books.booking import House, state_of
from tests.worlds.books.writer import to_cii, to_pdf, to_ubl

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]
D = Decimal
FACTURX = "urn:factur-x.eu:1p0:"


def minimum() -> Invoice:
    """As Factur-X MINIMUM is: totals, and nothing of what they are for."""
    return replace(
        invoices.correct(), lines=(), taxes=(), line_total=None, due=None, terms=None,
        profile=f"{FACTURX}minimum",
    )  # fmt: skip


def basic_wl() -> Invoice:
    """As Factur-X BASIC WL is: with a VAT breakdown, without lines."""
    return replace(invoices.correct(), lines=(), profile=f"{FACTURX}basicwl")


def only_a_charge() -> Invoice:
    """No line, but something that could be booked."""
    freight = [Extra(charge=True, amount=D("20.00"), category="S", rate=D(19), reason="Freight")]
    return added_up(invoices.correct(), [], freight)


@pytest.mark.parametrize(
    ("made", "write"),
    [(minimum, to_cii), (minimum, to_ubl), (basic_wl, to_pdf), (only_a_charge, to_ubl)],
)
def test_an_invoice_without_lines_is_a_question_with_its_reason(house, page, api, ana, made, write):
    """It was rejected by itself, and shown as completed: Post, done, 5 of 5. Of its supplier terms
    were asked that nothing could be booked by.
    """
    order = house.book(made(), write=write)
    pause = pause_of(order)
    assert (order.status, pause.phase, pause.answers) == (
        "paused",
        "needs_bookkeeper_decision",
        {"reject": "decide"},
    )
    assert "approval_requested" in kinds(order)  # which webhooks and streams tell
    words = "The invoice has no line"
    assert words in pause.content
    path = f"/api/v1/work-orders/{order.shown_id}"
    asked_for = api(ana).get(f"{path}/pause-state").json()
    assert words in str(asked_for) and asked_for["answers"] == ["reject", "cancel"]
    shown = page.get(f"/work-orders/{order.shown_id}/").content.decode()
    assert words in shown and "Reject the invoice" in shown
    assert "bookkeeper" in page.get("/work-orders/").content.decode()
    done = api(ana).post(f"{path}/resume", {"decision": "reject"}, format="json")
    assert done.status_code == 200
    order = drive(order)
    assert (order.status, state_of(order)["outcome"], house.ledger()) == (
        "completed",
        "rejected",
        [],
    )
    assert Decision.objects.get().action == "reject"


def test_a_page_names_the_steps_that_a_rejected_invoice_never_came_to(house, page):
    """Post was shown as done, and all steps: nothing had been posted."""
    order = house.answer(house.book(invoices.wrong_total()), action="reject")
    shown = page.get(f"/work-orders/{order.shown_id}/").content.decode()
    assert '<span>Decide</span><span class="sr">, done</span>' in shown
    assert '<span>Post</span><span class="sr">, left out</span>' in shown
    assert "It ended at Decide: the steps after it were left out." in shown
    assert "All steps are done." not in shown
    assert "The invoice was rejected: nothing is booked" in log_lines(order)
    assert page.get(f"/work-orders/{order.shown_id}/picture").status_code == 200


def booked_in_part(house: House) -> WorkOrder:
    order = house.answer(house.book(invoices.fifty_lines()), {"send_back": {"7": "Wrong price"}})
    said = {"7": {"answer": "credited", "explanation": "Our mistake."}}
    order = house.answer(order, {"lines": said})
    return house.answer(order, {"refuse": {"7": "Credit note follows"}})


ENDINGS: dict[str, Callable[[House], WorkOrder]] = {
    WORDS[POSTED]: lambda house: house.book(invoices.correct()),
    WORDS[IN_PART]: booked_in_part,
    WORDS[REJECTED]: lambda house: house.answer(
        house.book(invoices.wrong_total()), action="reject"
    ),
}


@pytest.mark.parametrize("words", ENDINGS)
def test_how_a_booking_ended_is_said_wherever_it_is_completed(house, page, api, ana, words):
    """A rejected invoice and one that was booked in part read *Completed* like any other in lists,
    over REST and in the stream; only the state had the outcome.
    """
    order = ENDINGS[words](house)
    assert order.status == "completed"
    shown = page.get(f"/work-orders/{order.shown_id}/").content.decode()
    assert f"<p>{words}</p>" in shown
    assert f'<span class="phase">{words}</span>' in page.get("/work-orders/").content.decode()
    client, path = api(ana), "/api/v1/work-orders"
    for told in (
        client.get(f"{path}/{order.shown_id}").json(),
        client.get(path).json()["results"][0],
    ):
        assert told["checkpoint_data"]["outputs"]["conclusion"] == words
    ended = order.thread.events.get(kind="run_completed")
    assert ended.data == {"status": "success", "conclusion": words}


def test_a_page_of_what_was_booked_says_that_all_steps_are_done(house, page):
    order = house.book(invoices.correct())
    shown = page.get(f"/work-orders/{order.shown_id}/").content.decode()
    assert '<span>Post</span><span class="sr">, done</span>' in shown
    assert "All steps are done." in shown


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"refused": {"1": "no", "2": "no"}}, "content_changed"),
        ({"posted": ["1", "2"]}, "not_booked"),
        (
            {
                "asked": {"reason": "needs_bookkeeper_decision", "positions": [], "inputs": []},
                "shown": {"asked": {"inputs": []}},
                "decided": {"decide": "reject"},
            },
            "approval_missing",
        ),
    ],
)
def test_no_state_ends_a_booking_that_nobody_ended(house, ana, changed, code):
    """A fork's state could say that lines were refused, booked or rejected, and the order was
    completed, without an entry and without a decision.
    """
    order = house.book(invoices.correct())
    (house.books / "ledger.csv").unlink()
    before = order.thread.checkpoints.filter(next_step="decide").latest("pk")
    unbooked = {"posted": [], "batches": 0, "net_posted": {}, "vat_posted": {}, "outcome": ""}
    state = {**state_of(order), **unbooked, **changed}
    runs.fork(before.pk, by=ana, reason="otherwise", state=state)
    order = drive(order)
    assert (order.status, order.latest_run.failure_code) == ("failed", code)


FAULTS: list[Any] = [
    lambda one: replace(one, lines=()),
    lambda one: replace(one, lines=one.lines[:1]),
    lambda one: replace(one, lines=tuple(replace(line, net=None) for line in one.lines)),
    lambda one: added_up(one, [replace(line, quantity=D(0), net=D(0)) for line in one.lines]),
    lambda one: replace(one, taxes=()),
    lambda one: replace(one, taxes=(Tax(category="S", rate=D(19)),)),
    lambda one: replace(one, gross=D(-1), payable=D(-1)),
    lambda one: replace(one, kind="381"),
    lambda one: replace(one, kind="384"),
    lambda one: replace(one, kind="325"),
    lambda one: replace(one, kind=None),
    lambda one: replace(one, currency="USD"),
    lambda one: replace(one, number=None),
    lambda one: replace(one, line_total=None, net=None),
    lambda one: replace(one, seller=replace(one.seller, vat_id=None, name="Nobody"), iban=None),
    lambda one: replace(one, prepaid=D("10.00"), payable=(one.payable or D(0)) - 10),
]


def filled(schema: dict[str, Any], dice: random.Random) -> Any:
    """Something that a form of this schema takes; what may be left out is, every other time."""
    if "const" in schema:
        return schema["const"]
    if "oneOf" in schema:
        return dice.choice(schema["oneOf"])["const"]
    if "$ref" in schema:
        return "6335/110"
    if schema.get("type") == "object":
        needed = schema.get("required", [])
        return {
            name: filled(part, dice)
            for name, part in schema["properties"].items()
            if name in needed or dice.random() < 0.5
        }
    text = f"{schema.get('title', '')} {schema.get('pattern', '')}"
    examples = {
        "BT-1)": "77", "BT-2)": "2026-11-01", "BT-9)": "2026-12-01", "BT-27)": "Somebody",
        "BT-31)": "DE222222220", "BT-40)": "DE", "BT-44)": "We", "BT-5)": "EUR",
        "BT-84)": invoices.PAPER_IBAN, r"\d{1,12}": "10.00", "EUR for one": "0.9",
    }  # fmt: skip
    return next((said for part, said in examples.items() if part in text), "because")


@pytest.mark.parametrize("seed", range(12))
def test_no_booking_is_completed_that_neither_booked_nor_was_decided(house, seed):
    """Whatever an invoice lacks and whoever answers what: see `ends_truly`."""
    dice = random.Random(seed)
    invoice = dice.choice([invoices.correct, invoices.credit_note, invoices.without_order])()
    for fault in dice.sample(FAULTS, dice.randint(1, 2)):
        invoice = fault(invoice)
    order = house.book(invoice, write=dice.choice([to_ubl, to_cii]))
    for _ in range(6):
        if order.status != "paused":
            break
        pause = pause_of(order)
        if ("reject" in pause.answers and dice.random() < 0.1) or "approve" not in pause.answers:
            usual = next(iter(pause.answers))
            action = usual if usual == "answer" else "reject"
        else:
            action = ""
        wanted = None if action == "reject" else filled(pause.required_inputs, dice)
        order = house.answer(order, wanted, action=action)
    assert order.status in {"paused", "completed"}, order.latest_run.error
    ends_truly(house)


def test_the_property_sees_a_booking_that_only_says_that_it_is_done(house):
    order = house.book(invoices.correct())
    ends_truly(house)
    booked = house.entered
    (house.books / "ledger.csv").unlink()
    house.entered = set()
    with pytest.raises(AssertionError, match=order.shown_id):
        ends_truly(house)
    house.entered = booked
