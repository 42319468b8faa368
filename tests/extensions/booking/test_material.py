"""Money moves by what was answered and by what the books say, never by what somebody wrote into a
state since.
"""

from __future__ import annotations

from typing import Any

import pytest

from hitl.decisions import services
from hitl.models import Via
from runs import services as runs
from tests.conftest import drive
from tests.extensions.booking.houses import house as house
from tests.worlds.books import invoices
from tests.worlds.books.booking import state_of

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]
KNOWN = {"supplier": "79999", "assign": {"1": "6335/110"}}


def behind(order: Any) -> Any:
    """The checkpoint from which `post` begins."""
    return order.thread.checkpoints.filter(next_step="post").latest("pk")


def forked(order: Any, by: Any, **changed: Any) -> Any:
    """The order once more, from behind what was decided, with other values in its state."""
    unbooked = {"posted": [], "batches": 0, "net_posted": {}, "vat_posted": {}}
    decision = {"positions": ["1"], "confidence": "1.00", "by": "bookkeeper", "back": "decide"}
    state = {**state_of(order), **unbooked, "decision": decision, **changed}
    runs.fork(behind(order).pk, by=by, reason="otherwise", state=state)
    return drive(order)


def test_what_a_bookkeeper_answered_is_booked_and_nothing_else(house, ana):
    """Before, document and invoice alone were compared: accounts, rates, accepted lines and the
    supplier were anybody's to change.
    """
    order = house.answer(house.book(invoices.unknown_supplier()), KNOWN)
    assert order.status == "completed"
    # as if it had not been booked, so that nothing else stands in the way
    (house.books / "ledger.csv").unlink()
    before = state_of(order)
    changes: list[dict[str, Any]] = [
        {"assigned": {"1": "6815/110"}},
        {"accepted": {**before["accepted"], "rate": "0.01"}},
        {"accepted": {**before["accepted"], "supplier": "70001"}},
        {"accepted": {**before["accepted"], "not_duplicate": True}},
        {"cleared": ["1", "2"]},
        {"refused": {"1": "no"}},
        {"supplied": {"BT-84": invoices.STEEL_IBAN}},
        {"shown": {}},
        {"shown": {**before["shown"], "document": "0" * 64}},
        {"shown": None, "accepted": {}, "assigned": {}, "cleared": []},
    ]
    for changed in changes:
        order = forked(order, ana, **changed)
        assert (order.status, order.latest_run.failure_code) == ("failed", "content_changed"), (
            changed
        )
        assert house.ledger() == [], changed


def test_answers_that_nobody_gave_book_nothing(house, ana):
    """Before, a state that said "a bookkeeper cleared it" was booked without a bookkeeper."""
    order = house.book(invoices.unknown_supplier())
    enriched = order.thread.checkpoints.filter(next_step="decide").latest("pk")
    state = {**state_of(order), "asked": None, "decided": {}}
    gone = {key: value for key, value in state.items() if key != "shown"}
    forged = {
        "accepted": {"supplier": "79999", "currency": True},
        "assigned": {"1": "6335/110"},
        "cleared": ["1"],
    }
    services.cancel_order(order.pk, by=ana, via=Via.PAGE)
    runs.fork(enriched.pk, by=ana, reason="mine", state={**gone, **forged})
    order = drive(order)
    assert (order.status, order.latest_run.failure_code, house.ledger()) == (
        "failed",
        "approval_missing",
        [],
    )
    shown = {
        **state["shown"],
        **forged,
        "asked": {"reason": "bookkeeper", "positions": [], "inputs": []},
    }
    runs.fork(enriched.pk, by=ana, reason="mine", state={**gone, **forged, "shown": shown})
    order = drive(order)
    assert (order.status, order.latest_run.failure_code, house.ledger()) == (
        "failed",
        "approval_missing",
        [],
    )


def test_a_match_or_a_decision_that_was_written_by_hand_books_nothing(house, ana):
    """Before, the rules were believed to have found whatever the state said that they had found.

    The pass of the review is for what was decided, and not for what somebody wrote.
    """
    order = house.book(invoices.correct())
    assert order.status == "completed" and house.ledger()
    (house.books / "ledger.csv").unlink()
    before = state_of(order)
    forged = {**before["match"], "supplier": {**before["match"]["supplier"], "number": "79999"}}
    rule = {"positions": before["posted"], "confidence": "1.00", "by": "rule", "back": "decide"}
    order = forked(order, ana, match=forged, decision=rule)
    assert (order.latest_run.failure_code, house.ledger()) == ("content_changed", [])
