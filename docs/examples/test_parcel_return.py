"""The return of a parcel, played and crashed: see `docs/how-to/test-workflows.md`."""

import parcel_return as example
import pytest

from hitl.testing import play, survives_every_crash

GIVEN = {"order_number": "A-100", "amount": 40}


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setattr(example, "FOLDER", tmp_path)
    return tmp_path


def paid(folder):
    return [file.read_text() for file in folder.iterdir()]


def test_the_money_is_paid_back_when_the_parcel_came(folder):
    run = play(example.parcel_return, input=GIVEN)
    assert run.question.title == "Take order A-100 back?"
    run.approve()
    assert (run.question.title, paid(folder)) == ("Has the parcel come back?", [])
    run.answer(complete=True)
    assert (run.done, paid(folder)) == (True, ["40.00"])


def test_nothing_is_paid_for_half_a_parcel(folder):
    run = play(example.parcel_return, input=GIVEN)
    run.approve().answer(complete=False)
    assert (run.done, paid(folder)) == (True, [])
    assert run.state["conclusion"] == "The parcel was not complete: nothing was paid back"


def test_a_parcel_that_never_comes_ends_the_wait(folder):
    run = play(example.parcel_return, input=GIVEN)
    run.approve().advance(days=15)
    assert (run.done, paid(folder)) == (True, [])
    assert run.state["conclusion"] == "No parcel came: nothing was paid back"


def test_it_is_paid_once_whoever_dies():
    survives_every_crash(
        example.parcel_return,
        input=GIVEN,
        answers=["approve", {"complete": True}],
        watch=[example.pay_back],
    )
