"""Expenses, played and crashed: see `docs/how-to/test-workflows.md`."""

import base64

import expenses as example
import pytest

from hitl.testing import play, survives_every_crash

RECEIPT = {"name": "receipt.txt", "content": base64.b64encode(b"Thank you!").decode()}


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setattr(example, "FOLDER", tmp_path)
    return tmp_path


def claim(*amounts):
    lines = [{"day": "2026-11-02", "kind": "meal", "amount": amount} for amount in amounts]
    return {"reason": "A customer came.", "lines": lines, "receipt": RECEIPT}


def paid(folder):
    return [file.read_text() for file in folder.iterdir()]


def test_a_small_claim_is_paid_and_nobody_was_asked(folder):
    run = play(example.expenses, input=claim(20, 29.99))
    assert run.done
    assert paid(folder) == ["49.99"]
    assert "The receipt has 10 bytes" in run.logs
    assert run.decisions == [("check", "approve", "")], "by the rule, and by no person"


def test_the_lead_sees_lines_and_receipt(folder):
    run = play(example.expenses, input=claim(100, 0.5))
    assert run.question.title == "Approve 100.50 EUR?"
    assert "| 2026-11-02 | meal | 0.50 |" in run.question.content
    assert run.question.facts["Receipt"] == "receipt.txt"
    run.approve()
    assert (run.done, paid(folder)) == (True, ["100.50"])


def test_a_large_claim_is_released_by_finance_too(folder):
    run = play(example.expenses, input=claim(900, 200))
    run.approve(by="leads-1")
    assert (run.question.title, paid(folder)) == ("Release 1100.00 EUR?", [])
    run.approve(by="finance-1")
    assert (run.done, paid(folder)) == (True, ["1100.00"])


def test_it_is_paid_once_whoever_dies():
    survives_every_crash(
        example.expenses,
        input=claim(900, 200),
        answers=["approve", "approve"],
        watch=[example.pay_out],
    )
