"""`replays`: work that was recorded, against the code at hand."""

from __future__ import annotations

import json

import pytest

from checkpoints.export.thread_document import ImportRefused
from hitl.testing import ReplayDiffers, play, replays
from runs.agents.model.scripted import Wanted
from runs.workflows import Done, Go, Report, registry
from tests.hitl.testing import shop
from tests.hitl.testing.shop import BANK, PARTS, PAY, PRICE, REFUND, flow

INPUT = {"amount": 200}


@pytest.fixture(autouse=True)
def empty_bank():
    BANK.reset()


@pytest.fixture
def change(monkeypatch):
    """Put other code in the place of a step, as a deploy does."""

    def put(name, function):
        monkeypatch.setitem(registry._STEPS, name, function)

    return put


@pytest.fixture(scope="module")
def export():
    """A thread that was sent back, approved and paid."""
    run = play(REFUND, input=INPUT).revise("too dear").approve()
    assert run.done
    return run.exported()


def test_code_that_did_not_change_comes_to_the_same_and_does_nothing(export):
    """17-3: the payment is recorded, so it is not made."""
    found = replays(REFUND, export, input=INPUT)
    assert list(found.steps) == ["price 1", "price 2", "pay 1"] and not found.passed_over
    assert not BANK.paid


def test_a_document_in_a_file_is_read_and_a_damaged_one_refused(export, tmp_path):
    (tmp_path / "thread.json").write_text(json.dumps(export))
    assert replays(REFUND, tmp_path / "thread.json", input=INPUT).steps
    with pytest.raises(ImportRefused, match="digest"):
        replays(REFUND, {**export, "memos": []}, input=INPUT)


def test_a_changed_step_is_told_with_the_path_and_both_values(export, change):
    def dearer(state, context):
        outcome = shop.price(state, context)
        return Go(update={**outcome.update, "amount": 201}, report=Report(content="# 201 EUR"))

    change("shop.price", dearer)
    with pytest.raises(ReplayDiffers) as caught:
        replays(REFUND, export, input=INPUT)
    told = str(caught.value)
    assert "price 1: /state/amount: 200 → 201" in told
    assert 'price 2: /question/content: "# 180 EUR" → "# 201 EUR"' in told


def test_an_effect_that_is_new_is_not_done_and_one_that_is_gone_is_told(export, change):
    def pay_twice(state, context):
        context.once("fee", lambda: BANK.pay(context.key, 1))
        return shop.pay(state, context)

    change("shop.pay", pay_twice)
    with pytest.raises(ReplayDiffers, match=r"pay 1: context\.once\('fee'\) is new"):
        replays(REFUND, export, input=INPUT)
    assert not BANK.paid
    change("shop.pay", lambda state, context: Done(update={"receipt": "receipt 180"}))
    with pytest.raises(ReplayDiffers) as caught:
        replays(REFUND, export, input=INPUT)
    assert "context.once('pay') is recorded, and not asked for now" in str(caught.value)
    assert '/approvals/price: "' in str(caught.value)  # the new code asks for no approval


def test_a_step_that_raises_or_is_gone_is_told(export, change):
    def broken(state, context):
        raise KeyError("price")

    change("shop.pay", broken)
    with pytest.raises(ReplayDiffers, match="pay 1: it raised KeyError: 'price'"):
        replays(REFUND, export, input=INPUT)
    with pytest.raises(ReplayDiffers, match="the template at hand has no such step"):
        replays(flow(PRICE), export, input=INPUT)
    with pytest.raises(ReplayDiffers, match="Nothing in the document could be compared"):
        replays(PARTS, export, input=INPUT)


def test_what_a_document_does_not_hold_is_said(export):
    """The order's input is no part of a thread's document."""
    found = replays(REFUND, export)
    assert list(found.steps) == ["pay 1"]
    assert "give replays(…, input=…)" in found.passed_over["price 1"]


def test_child_runs_timers_and_failures_are_replayed_too(change):
    run = play(PARTS).approve(at="card").approve(at="box")
    found = replays(PARTS, run.exported())
    assert sorted(found.steps) == ["Parts: box: part 1", "Parts: card: part 1", "parts 1"]
    change("shop.parts", lambda state, context: Go(update={"made": {}}))
    with pytest.raises(ReplayDiffers, match="parts 1: /children"):
        replays(PARTS, run.exported())

    BANK.refusals = 1
    slow = flow(PRICE, {"function": "shop.rest"}, PAY)
    failed = play(slow, input=INPUT).approve().advance(days=31)
    assert failed.failed
    assert "rest 1" in replays(slow, failed.exported(), input=INPUT).steps
    BANK.reset()
    assert failed.retry().done
    found = replays(slow, failed.exported(), input=INPUT)
    assert found.steps.count("pay 1") == 1
    assert "it failed with bank_closed" in found.passed_over["pay 1"]


def test_an_agents_answers_are_recorded_so_no_model_is_asked():
    kind = {"title": "Answer", "function": "agent", "config": {"tools": ["clock"]}}
    step = {"step_type": "answer", "step_template_slug": "answer"}
    whole = {"title": "Ask", "needs_repository": False, "steps": [step]}
    asking = {"STEP_TEMPLATES": {"answer": kind}, "TEMPLATES": {"ask": whole}}
    run = play(asking, request="What time is it?", model=[Wanted("clock", "{}"), "Late."])
    assert run.done
    found = replays(asking, run.exported(), request="What time is it?", ignore=["user_id"])
    assert len(found.steps) > 1 and not found.passed_over
