"""What a run that takes up another one keeps of it: stops that were asked for, and what is left to
do.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.db.models import F
from django.utils import timezone

from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs import services as runs
from runs.engine.advance import advance
from runs.engine.interruptions import guard_loops
from runs.engine.recovery import lost_runs
from runs.models import Pause, Run
from runs.workflows.base import Go, StepFailed
from tests.conftest import drive, fresh, log_lines, pause_of
from tests.worlds import lost_worker, steps
from tests.worlds.scripted_step import order_that as order_that

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]


def test_a_retry_stops_where_the_order_was_to_stop(order_that, ana):
    """A stop that somebody asked for is not lost because a step failed before it."""
    fails = [True]

    def once(state, context):
        if fails.pop() if fails else False:
            raise StepFailed("Not yet.")
        return Go()

    order = drive(order_that(once, order={"interrupt_before": ["finish"]}))
    runs.retry(order.pk, by=ana)
    order = drive(order)
    assert (order.status, pause_of(order).phase, pause_of(order).step) == (
        "paused",
        "interrupted_before",
        "finish",
    )


def test_a_retry_that_stops_before_its_first_step_is_the_same_execution(order_that, ana):
    """P4: what was recorded with `once` is not done again after such a stop."""
    done: list[str] = []

    def pay():
        done.append("paid")
        return len(done)

    def charge(state, context):
        context.once("charge", pay)
        if len(steps.CALLS) < 2:
            steps.CALLS.append(("again", ""))
            raise StepFailed("Not yet.")
        return Go()

    order = drive(order_that(charge))
    assert order.status == "failed"
    run = order.latest_run
    run.interrupt_before = ["execute"]
    run.save(update_fields=["interrupt_before"])
    runs.retry(order.pk, by=ana)
    order = drive(order)
    services.decide(pause_of(order).pk, Answer("approve", Via.REST), by=ana)
    assert drive(order).status == "completed"
    assert len(done) == 1


def test_a_fork_stops_where_the_order_was_to_stop(make_order, ana):
    order = drive(make_order("writing-quick", interrupt_before=["finish"]))
    services.decide(pause_of(order).pk, Answer("approve", Via.REST), by=ana)
    order = drive(order)
    first = order.thread.checkpoints.earliest("created_at")
    services.fork(first.pk, by=ana, reason="once more")
    assert drive(order).status == "paused"
    assert Pause.objects.open().get().step == "finish"


def test_a_fork_behind_the_last_answer_only_ends(make_order, ana):
    """P5: nothing is left to do, so no step runs again."""
    order = drive(make_order("writing-quick", interrupt_after=["finish"]))
    services.decide(pause_of(order).pk, Answer("approve", Via.REST), by=ana)
    order = drive(order)
    answered = order.thread.checkpoints.get(status="active", next_step="", node_id="finish")
    steps.CALLS.clear()
    services.fork(answered.pk, by=ana, reason="only the end")
    assert drive(order).status == "completed"
    assert steps.CALLS == []


def test_an_incident_after_the_last_answer_names_the_step_and_its_retry_only_ends(
    make_order, ana, settings
):
    settings.WAYSTATION_LOST_ATTEMPTS = 1
    order = drive(make_order("writing-quick", interrupt_after=["finish"]))
    services.decide(pause_of(order).pk, Answer("approve", Via.REST), by=ana)
    lose(order)
    order = fresh(order)
    assert "Step finish lost its worker" in order.latest_run.error
    assert order.current_step == "finish"
    steps.CALLS.clear()
    runs.retry(order.pk, by=ana)
    assert drive(order).status == "completed"
    assert steps.CALLS == []


def lose(order):
    now = timezone.now()
    assert lost_worker.claim(order.latest_run_id, now=now)
    Run.objects.filter(pk=order.latest_run_id).update(lease_until=now - dt.timedelta(hours=1))
    lost_runs.take_back(now=now)


def test_a_run_that_reached_its_loop_limit_may_be_given_as_many_loops_again(order_that, ana):
    order = drive(
        order_that(
            lambda state, context: Go(to="execute") if context.loop_num % 4 else Go(), max_loops=3
        )
    )
    assert order.latest_run.failure_code == "loop_limit"
    runs.retry(order.pk, by=ana)
    order = drive(order)
    assert order.status == "completed", order.latest_run.error
    assert order.thread.checkpoints.filter(node_id="execute").latest("created_at").loop_num == 4


def test_a_suspension_that_comes_while_a_step_asks_is_met_by_that_and_said(make_order, ana):
    """F22."""
    order = make_order()
    steps.HOOKS["planning"] = lambda: runs.suspend(order.pk, by=ana)
    order = drive(order)
    assert pause_of(order).phase == "awaiting_plan_approval"
    assert "Suspension wanted by Ana Ruiz: the run stops here by itself." in log_lines(order)
    steps.HOOKS.clear()
    services.decide(pause_of(order).pk, Answer("approve", Via.REST), by=ana)
    assert advance(order.latest_run.pk, budget=60) == []
    assert pause_of(order).phase == "awaiting_implementation_review"


def test_a_run_that_is_taken_over_in_the_middle_of_a_step_begins_no_further_effect(order_that):
    """P12, found by a planted fault: what is under `once` is not begun for nobody."""
    done: list[str] = []

    def pay(state, context):
        context.once("first", lambda: done.append("first"))
        Run.objects.update(epoch=F("epoch") + 1)  # as a claim by another worker does
        context.once("second", lambda: done.append("second"))
        return Go()

    order = drive_once(order_that(pay))
    assert done == ["first"]
    assert Run.objects.get(pk=order.latest_run_id).status == "running", "that worker's by now"


def drive_once(order):
    advance(order.latest_run_id, budget=60)
    return fresh(order)


@pytest.mark.parametrize(
    ("function", "limit"), [("coding.plan", 500), ("agent", 500), ("test.anything", 100)]
)
def test_a_step_that_may_be_an_agents_has_loops_for_several_rounds(function, limit):
    """S4-29: a template that was put as the document prints it says nothing of them, and two
    revisions ended it.
    """
    step: Any = {"name": "execute", "function": function}
    guard_loops(step, limit, before={})
    with pytest.raises(StepFailed, match=f"has run {limit} times"):
        guard_loops(step, limit + 1, before={})
