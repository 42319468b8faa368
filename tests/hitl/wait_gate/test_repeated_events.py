"""An event without an id that comes again when the next question is open."""

from __future__ import annotations

import pytest

from hitl.decisions import undo
from hitl.models import Decision, EarlyAnswer, IdempotencyKey, Via, Vote
from hitl.wait_gate import early_answers, primitives, repeated_events, resume
from hitl.wait_gate.resume_events import ResumeEvent
from runs.models import Pause
from tests.conftest import drive, pause_of
from tests.hitl.decisions.undo_windows import patient_template

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]

RUN = "booking-4711"
URL = f"/api/v1/workflows/{RUN}"
EVENT = {
    "run_id": RUN,
    "input_type": "approval",
    "payload": {"decision": "approve", "feedback": "as agreed"},
    "sender_metadata": {"channel": "mail", "from": "supplier@example.com"},
}


def asks(ana, step="decide", **changes):
    """The other engine asks once more."""
    primitives.create_checkpoint(RUN, step, {}, {}, "approval", by=ana, **changes)
    return Pause.objects.open().get()


def send(by, **changes):
    return resume.ingest(ResumeEvent(**{**EVENT, **changes}), by=by, via=Via.REST)


def test_the_documents_event_sent_twice_does_not_answer_the_next_question(ana, api):
    """S3-13, S3-43, F3: it names no question, and has no id."""
    asks(ana)
    sender = api(ana)
    first = sender.post(f"{URL}/resume", EVENT, format="json")
    assert (first.status_code, first.json()["duplicate"]) == (200, False)
    second = asks(ana)
    for route in ("resume", "resume-and-continue", "resume"):
        again = sender.post(f"{URL}/{route}", EVENT, format="json")
        told = again.json()
        assert (again.status_code, told["duplicate"]) == (200, True)
        assert (told["status"], told["pause_id"]) == ("waiting_external", second.shown_id)
    assert Decision.objects.count() == 1
    meant = sender.post(f"{URL}/resume", {**EVENT, "pause_id": second.shown_id}, format="json")
    assert (meant.status_code, meant.json()["duplicate"]) == (200, False)


@pytest.mark.parametrize(
    "changes",
    [
        {"revision": 1},
        {"payload": {"decision": "approve", "revision": 1}},
        {"payload": "approve"},
        {"sender_metadata": {"channel": "mail", "message": "<2@example.com>"}},
        {"node_id": "post"},
    ],
)
def test_an_event_that_says_something_else_is_another_event(ana, changes):
    asks(ana)
    send(ana)
    asks(ana, "post")
    assert send(ana, **changes).duplicate is False
    assert Decision.objects.count() == 2


def test_the_same_words_of_somebody_else_are_another_event(ana, ben, team):
    ben.groups.add(team)
    for by in (ana, ben):
        asks(ana, team=team.name)
        assert send(by).duplicate is False


def test_a_request_with_a_key_is_known_by_that(ana, api):
    """S3-43."""
    sender = api(ana)
    for key in ("first", "second"):
        asks(ana)
        told = sender.post(
            f"{URL}/resume", EVENT, format="json", headers={"Idempotency-Key": key}
        ).json()
        assert told["duplicate"] is False
    assert Decision.objects.count() == 2


def test_a_run_of_ours_is_not_approved_further_by_an_event_that_comes_again(paused, ana):
    """S3-43, F3."""
    event = {"run_id": paused.latest_run.shown_id, "input_type": "approve", "payload": None}
    first = send(ana, **event)
    drive(paused)
    after = pause_of(paused)
    again = send(ana, **event)
    assert (again.duplicate, again.decision) == (True, first.decision)
    assert pause_of(paused) == after
    assert send(ana, **event, pause_id=after.shown_id).duplicate is False


def test_of_two_at_once_the_later_finds_the_next_question_and_leaves_it(ana, monkeypatch):
    """S3-43, F0: it had looked before the first was done."""
    asks(ana)
    send(ana)
    second = asks(ana)
    monkeypatch.setattr(repeated_events, "answered", lambda event, thread_id, by: None)
    assert send(ana).duplicate is True
    assert Pause.objects.open().get() == second
    assert Decision.objects.count() == 1


def test_what_was_kept_for_its_question_answers_no_later_one(ana, make_order):
    """F3: it was given by nobody's request."""
    order = make_order()
    event = {
        "run_id": order.latest_run.shown_id,
        "input_type": "cancel",
        "payload": None,
        "sender_metadata": {},
    }
    assert send(ana, **event).kept is not None
    drive(order)
    early_answers.sweep(now=pause_of(order).opened_at)
    assert EarlyAnswer.objects.get().status == "taken"
    assert IdempotencyKey.objects.get().about == EarlyAnswer.objects.get().pause.shown_id


def test_what_was_taken_back_is_not_given_again_by_an_event_that_comes_again(ana, make_order):
    """F3: the question is open anew, and whoever means it names it."""
    order = drive(make_order(patient_template()))
    event = {"run_id": order.latest_run.shown_id, "input_type": "approve", "payload": None}
    first = send(ana, **event)
    assert first.decision is not None
    undo.undo(first.decision.pk, by=ana, via=Via.REST)
    assert (send(ana, **event).duplicate, pause_of(order).status) == (True, "open")
    assert send(ana, **event, pause_id=pause_of(order).shown_id).duplicate is False


def test_a_vote_that_comes_again_votes_on_no_later_question(ana, ben, team):
    """F3: ben closed the first one meanwhile."""
    ben.groups.add(team)
    first = asks(ana, team=team.name, review={"quorum": 2})
    assert send(ana).vote is not None
    again = send(ana)  # while it is open
    assert (again.duplicate, again.vote is None) == (True, False)
    send(ben)
    second = asks(ana, team=team.name, review={"quorum": 2})
    assert send(ana).duplicate is True
    assert list(Vote.objects.values_list("pause", "voter__username")) == [
        (first.pk, "ana"),
        (first.pk, "ben"),
    ]
    assert not Decision.objects.filter(pause=second).exists()
