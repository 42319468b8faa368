"""Taking an answer back: the effect waits, a second act is recorded, and of undo and going on
exactly one happens.
"""

from __future__ import annotations

import datetime as dt
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from checkpoints.models import Event
from hitl.decisions import services
from hitl.decisions import undo as undoing
from hitl.decisions.services import Answer
from hitl.ledger import verification
from hitl.models import Decision, Via
from runs import services as runs
from runs import tasks
from runs.engine.advance import advance
from runs.engine.recovery import lost_runs
from runs.models import Pause, Run
from tests.conftest import drive, fresh, pause_of
from tests.databases.moved_clock import later as later
from tests.databases.whole import at_once
from tests.databases.whole import file_database as file_database
from tests.hitl.decisions.undo_windows import (
    SECONDS,
    patient_template,
)
from tests.worlds import steps
from tests.worlds.histories.whole_story import broken

pytestmark = pytest.mark.django_db


@pytest.fixture
def asked(make_order):
    """An order that waits for its plan's approval, which may be taken back for a minute."""
    return drive(make_order(patient_template()))


def approve(order, by):
    return services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=by)


def whole():
    # here time passes without sweeps
    assert broken(late=dt.timedelta(hours=1)) == {}
    assert [breach.code for breach in verification.LedgerCheck().breaches()] == []


def status(order):
    return str(Run.objects.values_list("status", flat=True).get(work_order=order))


@pytest.mark.both_databases
def test_the_run_waits_until_the_time_is_up(asked, ana, later):
    """However often it is nudged before, and also without a message: the time is a row."""
    decision = approve(asked, ana)
    steps.CALLS.clear()
    drive(asked)
    assert (steps.CALLS, status(asked)) == ([], "pending")
    assert decision.goes_on_at == Run.objects.get(pk=asked.latest_run_id).due_at
    whole()
    later(SECONDS + 10)
    assert [
        run for run, _ in lost_runs.due_again(now=timezone.now(), patience=dt.timedelta(seconds=5))
    ] == [asked.latest_run_id]
    drive(asked)
    assert [step for step, _ in steps.CALLS] == ["execute"]
    assert status(asked) == "paused"
    whole()


@pytest.mark.both_databases
def test_taken_back_the_question_is_open_again_as_it_was(asked, ana, ben):
    before, decision = pause_of(asked), approve(asked, ana)
    undone = undoing.undo(decision.pk, by=ana, via=Via.PAGE)
    again = pause_of(asked)
    assert again.pk != before.pk
    for name in (
        "question",
        "content",
        "facts",
        "revision",
        "content_digest",
        "answers",
        "review",
        "step",
    ):
        assert getattr(again, name) == getattr(before, name)
    assert (undone.action, undone.undoes, undone.pause) == ("undo", decision, before)
    assert (undone.position, undone.previous) == (decision.position + 1, decision.digest)
    assert (status(asked), fresh(asked).phase) == ("paused", "awaiting_plan_approval")
    told = list(
        Event.objects.filter(thread=asked.thread_id)
        .order_by("-seq")
        .values_list("kind", flat=True)[:6]
    )
    assert told == [
        "run_paused",
        "checkpoint_created",
        "approval_requested",
        "await_human_input",
        "log",
        "pause_updated",
    ]
    whole()


def test_it_may_be_answered_otherwise_then(asked, ana, ben, later):
    undoing.undo(approve(asked, ana).pk, by=ana, via=Via.PAGE)
    services.decide(pause_of(asked).pk, Answer("revise", Via.PAGE, feedback="Shorter"), by=ben)
    assert pause_of(drive(asked)).revision == 2
    undoing.undo(approve(asked, ben).pk, by=ben, via=Via.PAGE)
    approve(asked, ana)
    later(SECONDS + 1)
    order = drive(asked)
    assert (order.status, order.phase) == ("paused", "awaiting_implementation_review")
    assert list(Decision.objects.order_by("position").values_list("action", flat=True)) == [
        "approve", "undo", "revise", "approve", "undo", "approve"
    ]  # fmt: skip
    whole()


def test_a_revision_and_a_cancellation_act_at_once(asked, ana, make_order):
    assert (
        services.decide(
            pause_of(asked).pk, Answer("revise", Via.PAGE, feedback="x"), by=ana
        ).goes_on_at
        is None
    )
    assert pause_of(drive(asked)).revision == 2
    assert (
        services.decide(pause_of(asked).pk, Answer("cancel", Via.PAGE), by=ana).goes_on_at is None
    )


def test_only_who_answered_takes_it_back_or_an_administrator(asked, ana, ben, zoe):
    decision = approve(asked, ana)
    with pytest.raises(undoing.NotYourAnswer, match="Only Ana Ruiz"):
        undoing.undo(decision.pk, by=ben, via=Via.PAGE)
    with pytest.raises(services.NotFound):
        undoing.undo(decision.pk, by=zoe, via=Via.PAGE)
    assert status(asked) == "pending"
    root = User.objects.create_superuser("root")
    assert undoing.undo(decision.pk, by=root, via=Via.PAGE).decided_by == root


@pytest.mark.both_databases
def test_too_late_is_said_and_nothing_is_written(asked, ana, later):
    """Also before a worker came: the time is what was promised."""
    decision = approve(asked, ana)
    later(SECONDS)
    with pytest.raises(undoing.TooLate):
        undoing.undo(decision.pk, by=ana, via=Via.PAGE)
    drive(asked)
    with pytest.raises(undoing.TooLate):
        undoing.undo(decision.pk, by=ana, via=Via.PAGE)
    assert Decision.objects.count() == 1
    whole()


def test_what_was_taken_back_is_not_taken_back_again(asked, ana):
    decision = approve(asked, ana)
    undoing.undo(decision.pk, by=ana, via=Via.PAGE)
    approve(asked, ana)
    with pytest.raises(undoing.TooLate, match="Ana Ruiz undid this answer already"):
        undoing.undo(decision.pk, by=ana, via=Via.PAGE)


def test_an_answer_without_such_a_time_is_not_taken_back(paused, ana):
    decision = approve(paused, ana)
    with pytest.raises(undoing.TooLate, match="leaves no time"):
        undoing.undo(decision.pk, by=ana, via=Via.PAGE)


def test_a_step_that_failed_and_is_tried_again_is_not_taken_back(asked, ana, later, monkeypatch):
    """It waits for its time too, but its effect may have begun."""
    decision = approve(asked, ana)
    Run.objects.filter(pk=asked.latest_run_id).update(
        due_at=decision.goes_on_at + dt.timedelta(seconds=1), epoch=9
    )
    with pytest.raises(undoing.TooLate):
        undoing.undo(decision.pk, by=ana, via=Via.PAGE)


def test_an_order_that_is_cancelled_meanwhile_stays_so(asked, ana):
    decision = approve(asked, ana)
    runs.cancel(asked.pk, by=ana)
    with pytest.raises(undoing.TooLate):
        undoing.undo(decision.pk, by=ana, via=Via.PAGE)
    assert status(asked) == "cancelled"
    whole()


def test_an_approval_that_was_taken_back_approves_nothing(asked, ana):
    """P6: what follows the reopened question carries no approval of it."""
    undoing.undo(approve(asked, ana).pk, by=ana, via=Via.PAGE)
    assert "planning" not in pause_of(asked).checkpoint.metadata.get("approved", {})


@pytest.mark.both_databases
def test_the_process_that_decided_looks_again_at_the_end(asked, ana, committing, monkeypatch):
    """A hint only: the sweep finds the run without it."""
    given: list[Any] = []
    sent: list[Any] = []
    monkeypatch.setattr(tasks._later, "give", lambda *hint: given.append(hint))
    monkeypatch.setattr(tasks, "send", lambda run_id, queue, urgency: sent.append(run_id))
    with committing():
        approve(asked, ana)
    [(seconds, job)] = given
    assert SECONDS - 5 < seconds <= SECONDS + 1
    job()
    assert tasks._sender.flush(5)
    assert sent == [asked.latest_run_id]


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("file_database")
def test_of_undo_and_going_on_exactly_one_happens(templates, make_order, ana, later, monkeypatch):
    """Undo asks a clock that says "not yet", the worker one that says "now"."""
    from runs.services import undo

    patient_template()
    early = timezone.now
    for _ in range(10):
        order = drive(make_order("patient"))
        pause_run = pause_of(order).run_id
        decision = approve(order, ana)
        with monkeypatch.context() as clock:
            clock.setattr(undo, "clock", type("Clock", (), {"now": staticmethod(early)}))
            later(SECONDS + 1)
            undone, _ = at_once(
                partial(undoing.undo, decision.pk, by=ana, via=Via.PAGE),
                partial(advance, pause_run, budget=60),
            )
        paused = pause_of(order)
        if isinstance(undone, Decision):
            assert (paused.step, Pause.objects.filter(run=paused.run).count()) == ("planning", 2)
        else:
            assert isinstance(undone, undoing.TooLate)
            assert (paused.step, Decision.objects.filter(undoes=decision).count()) == ("execute", 0)
    whole()
