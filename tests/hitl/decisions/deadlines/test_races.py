"""Several sweeps at once, a sweep and an answer, a sweep that dies: one outcome, once, and the
others are told.
"""

from __future__ import annotations

import datetime as dt
import threading
from functools import partial

import pytest
from django.db import connection
from django.utils import timezone

from hitl.decisions import services
from hitl.decisions.deadlines import changes, outcomes
from hitl.decisions.services import Answer
from hitl.models import Decision, Via
from hitl.operations import invariants
from runs.models import Pause, Run
from runs.services import PauseClosed
from tests.conftest import fresh, kinds, pause_of
from tests.databases.whole import at_once
from tests.databases.whole import file_database as file_database
from tests.killed import moments as crash
from tests.worlds.deadlines import asked as asked
from tests.worlds.deadlines import at, fire, updates

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("file_database"),
    pytest.mark.both_databases,
]
FOUR = {"after": "PT4H"}
ENDS = {
    "approve": ("answered", "pending"),
    "cancel": ("cancelled", "cancelled"),
    "expire": ("expired", "expired"),
}


def no_errors(results):
    return [
        result
        for result in results
        if isinstance(result, Exception) and not isinstance(result, PauseClosed)
    ] == []


@pytest.mark.parametrize("outcome", ["expire", "approve", "cancel"])
def test_of_four_sweeps_at_once_one_ends_a_question(asked, outcome):
    """P8, F11: with two beats running a deadline acts once."""
    orders = [asked(deadline={**FOUR, "outcome": outcome}) for _ in range(3)]
    now = at(pause_of(orders[-1]), 4)
    assert no_errors(at_once(*[partial(outcomes.fire_due, now=now)] * 4))
    for order in orders:
        pause = Pause.objects.get(run__thread=order.thread_id)
        assert (pause.status, fresh(order).latest_run.status) == ENDS[outcome]
        assert kinds(order).count("run_expired") == (outcome == "expire")
        assert kinds(order).count("approval_received") == (outcome != "expire")
    assert Decision.objects.count() == (0 if outcome == "expire" else 3)
    crash.check_ledgers()


def test_of_four_sweeps_at_once_one_reminds_and_one_escalates(asked, zoe):
    """P8."""
    stages = [{"after": "PT6H", "users": ["zoe"]}]
    order = asked(deadline={**FOUR, "outcome": "escalate"}, reminders=["PT1H"], escalation=stages)
    opened = pause_of(order)
    at_once(*[partial(fire, opened.pk, now=at(opened, 1))] * 4)
    at_once(*[partial(fire, opened.pk, now=at(opened, 4))] * 4)
    assert [one["what"] for one in updates(order)] == ["reminded", "escalated"]
    assert pause_of(order).deadline_at == at(opened, 8)


@pytest.mark.parametrize("action", ["approve", "cancel"])
def test_an_answer_meets_the_deadline(asked, ana, ben, action):
    """P1, F8, F23: one outcome; who comes second reads what came first."""
    for _ in range(4):
        order = asked(deadline=FOUR)
        pause = pause_of(order)
        answer = partial(services.decide, pause.pk, Answer(action, Via.PAGE), by=ana)
        stop = partial(services.cancel_order, order.pk, by=ben, via=Via.PAGE)
        results = at_once(answer, partial(fire, pause.pk, now=at(pause, 4)), stop)
        pause.refresh_from_db()
        decided = [result for result in results if isinstance(result, Decision)]
        won = Decision.objects.filter(pause=pause).first()
        assert (pause.status == "expired") is (won is None)
        assert (
            fresh(order).latest_run.status == ("expired" if won is None else ENDS[won.action][1])
            or won.action == "approve"
        )
        if won is None:
            assert not decided
            assert "It expired at" in str(results[0])
        assert kinds(order).count("approval_received") + kinds(order).count("run_expired") == 1
    assert [
        found.invariant.code
        for found in invariants.check(now=timezone.now(), deep=True)
        if found.count
    ] == []


def test_more_time_meets_the_deadline(asked, ana):
    """Either it was moved and nothing expired, or it expired and was not moved."""
    for _ in range(6):
        order = asked(deadline=FOUR)
        pause = pause_of(order)
        more = partial(changes.extend, pause.pk, by=ana, until=at(pause, 6), reason="x")
        results = at_once(more, partial(fire, pause.pk, now=at(pause, 4)))
        pause.refresh_from_db()
        if pause.status == "expired":
            assert isinstance(results[0], changes.DeadlineMoved | services.AlreadyAnswered)
            assert pause.deadline_at == at(pause, 4)
        else:
            assert (pause.status, pause.deadline_at, fresh(order).status) == (
                "open",
                at(pause, 6),
                "paused",
            )
        assert len(updates(order)) == (pause.status == "open")


@pytest.mark.parametrize("rules", [{}, {"outcome": "escalate"}], ids=["expire", "escalate"])
def test_a_sweep_may_die_at_any_moment_of_a_deadline(asked, zoe, rules):
    """P8: what it did not commit the next one does, and what it did the next one does not."""
    stages = (
        {"escalation": [{"after": "PT9H", "users": ["zoe"]}]}
        if rules.get("outcome") == "escalate"
        else {}
    )
    moment, ends = 0, set()
    while True:
        moment += 1
        order = asked(deadline={**FOUR, **rules}, reminders=["PT1H"], **stages)
        pause = pause_of(order)
        with crash.killing(moment, statements=False) as moments:
            outcomes.fire_due(now=at(pause, 4))
        outcomes.fire_due(now=at(pause, 4))
        pause.refresh_from_db()
        told = [one["what"] for one in updates(order)]
        ends.add(
            (
                pause.status,
                pause.stage,
                Run.objects.get(pk=pause.run_id).status,
                tuple(told),
                tuple(kinds(order)[-4:]),
            )
        )
        if not moments.dead:
            break
    assert len(ends) == 1
    assert moment > 2
    crash.check_ledgers()


@pytest.mark.parametrize("killed_at", [0, 9], ids=["both live", "one is killed"])
def test_two_sweeps_share_what_is_due_and_each_question_acts_once(asked, zoe, killed_at):
    """P8: also where one of them dies in the middle; then the other does its part too."""
    stages = {"escalation": [{"after": "PT9H", "users": ["zoe"]}]}
    rules = [
        {"outcome": "expire"},
        {"outcome": "cancel"},
        {"outcome": "approve"},
        {"outcome": "escalate"},
    ]
    orders = [
        asked(deadline={**FOUR, **rule}, **(stages if rule["outcome"] == "escalate" else {}))
        for rule in rules * 2
    ]
    pauses = [pause_of(order) for order in orders]
    now, done = at(pauses[-1], 4), []
    begun = threading.Event()

    def begins(execute, sql, *more):
        if sql.startswith("UPDATE"):
            begun.set()
        return execute(sql, *more)

    def sweep(share, dies_at):
        if killed_at and not dies_at:  # else it might have done all before the other one's death
            begun.wait(60)
        try:
            with connection.execute_wrapper(begins), crash.killing(dies_at):
                while outcomes.fire_due(now=now, limit=2, share=share) == 2:
                    pass
                done.append(share)
        finally:
            begun.set()

    assert no_errors(at_once(partial(sweep, 0.0, killed_at), partial(sweep, 0.6, 0)))
    assert len(done) == (1 if killed_at else 2)
    outcomes.fire_due(now=now)  # what died with its sweep after the other one had looked
    ends = [
        (Pause.objects.get(pk=pause.pk).status, fresh(order).latest_run.status)
        for pause, order in zip(pauses, orders, strict=True)
    ]
    assert (
        ends
        == [
            ("expired", "expired"),
            ("cancelled", "cancelled"),
            ("answered", "pending"),
            ("open", "paused"),
        ]
        * 2
    )
    told = [
        [
            kind
            for kind in kinds(order)
            if kind in {"run_expired", "approval_received", "pause_updated"}
        ]
        for order in orders
    ]
    assert (
        told
        == [["run_expired"], ["approval_received"], ["approval_received"], ["pause_updated"]] * 2
    )
    assert Decision.objects.count() == 4
    crash.check_ledgers()


def test_an_answer_that_meets_a_deadline_between_two_looks_is_told_what_happened(
    asked, ana, monkeypatch
):
    """P1: it was told that the question was closed, "open"."""
    order = asked(deadline=FOUR)
    pause = pause_of(order)
    meet = outcomes.meet
    looks = []

    def lost(judged):
        raise PauseClosed

    def met(pauses):
        looks.append(pauses)
        if len(looks) > 1:  # its time is over, and a sweep acts just before this look
            pauses.update(deadline_at=timezone.now())
            assert meet(pauses) == "expire"
        return meet(pauses)

    monkeypatch.setattr("hitl.decisions.services.pauses._write", lost)
    monkeypatch.setattr(
        "hitl.decisions.services.pauses.SURE", dt.timedelta(days=1)
    )  # as if it were near
    monkeypatch.setattr(outcomes, "meet", met)
    with pytest.raises(services.AlreadyAnswered) as refusal:
        services.decide(pause.pk, Answer("approve", Via.PAGE), by=ana)
    assert len(looks) == 2
    assert "expired" in str(refusal.value) and "open" not in str(refusal.value)
