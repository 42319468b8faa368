"""The refund, played and crashed: see `docs/how-to/test-workflows.md`."""

import pytest
import refund

from hitl.testing import NothingAsked, play, survives_every_crash

GIVEN = {"order_number": "A-100", "amount": 40, "reason": "The parcel came late."}


def test_support_then_finance_then_a_day_then_one_payment(monkeypatch):
    paid = []
    monkeypatch.setattr(refund, "call_bank", lambda *call: paid.append(call) or "receipt 1")
    run = play(refund.refund, input=GIVEN)
    run.approve()
    assert "Support approved **40.00 EUR**" in run.question.content
    assert run.question.effects == ["40.00 EUR are paid back a day later. That cannot be undone."]
    run.approve()
    assert (run.status, paid) == ("pending", [])
    run.advance(hours=25)
    assert run.done
    assert [call[1:] for call in paid] == [("A-100", "40.00")]
    assert run.state["receipt"] == "receipt 1"


def test_finance_cancels_and_nothing_is_paid(monkeypatch):
    monkeypatch.setattr(refund, "call_bank", lambda *call: 1 / 0)
    run = play(refund.refund, input=GIVEN)
    run.approve()
    run.cancel("A duplicate.")
    assert run.status == "cancelled"
    with pytest.raises(NothingAsked):
        run.approve()


def test_a_refund_is_paid_once_whoever_dies(monkeypatch):
    monkeypatch.setattr(refund, "call_bank", lambda key, order, amount: f"receipt of {order}")
    survives_every_crash(
        refund.refund,
        input=GIVEN,
        answers=["approve", "approve", refund.COOLING_OFF * 2],
        watch=["refund.call_bank"],
    )
