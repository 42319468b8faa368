"""The agent and its letter, played and crashed: see `docs/how-to/test-workflows.md`."""

import customer_answer as example
import pytest

from hitl.testing import play, survives_every_crash
from runs.agents.model.scripted import Wanted

SAYS = [Wanted("send_voucher", '{"amount": 50}'), "We have sent you a voucher."]


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setattr(example, "FOLDER", tmp_path)
    return tmp_path


def posted(folder):
    return sorted(file.read_text() for file in folder.glob("letters/*"))


def decide(run, **decision):
    """Decide the one call that is asked about."""
    [call] = run.question.calls
    return run.answer(calls={call["id"]: decision})


def test_a_person_makes_the_voucher_smaller_and_the_letter_friendlier(folder):
    run = play(example.customer_answer, request="My parcel was wet.", model=SAYS)
    assert posted(folder) == []
    decide(run, decision="edit", arguments={"amount": 20})
    assert posted(folder) == ["A voucher over 20 EUR"]
    assert run.question.calls[0]["arguments"]["text"].endswith("We have sent you a voucher.")
    decide(run, decision="edit", arguments={"text": "Dear Ada, we are sorry."})
    assert run.done
    assert posted(folder) == ["A voucher over 20 EUR", "Dear Ada, we are sorry."]


def test_what_a_person_refuses_is_not_sent(folder):
    run = play(example.customer_answer, request="My parcel was wet.", model=SAYS)
    decide(run, decision="reject", reason="It was not.")
    decide(run, decision="reject", reason="Say nothing.")
    assert (run.done, posted(folder)) == (True, [])
    assert run.state["conclusion"] == "No letter was sent"


def test_what_is_harmless_asks_nobody(folder):
    run = play(example.customer_answer, request="calculate 6 * 7")
    assert "42" in run.question.calls[0]["arguments"]["text"]


def test_voucher_and_letter_are_sent_once_whoever_dies():
    survives_every_crash(
        example.customer_answer,
        request="My parcel was wet.",
        model=SAYS,
        answers=[lambda run: decide(run, decision="approve")] * 2,
        watch=[example.post],
    )
