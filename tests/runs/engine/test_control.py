"""Stopping, stepping in, and going on from elsewhere: interrupts, suspension, forks."""

from __future__ import annotations

import pytest

from checkpoints.models import Checkpoint
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs import services as runs
from runs.models import Run
from runs.services import InputInvalid
from runs.services.forks import NothingToFork
from runs.states import RunEnded
from tests.conftest import drive, fresh, kinds, log_lines, pause_of
from tests.worlds import steps
from tests.worlds.scripted_step import state_of

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]


def approve(order, by):
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=by)
    return drive(order)


def called():
    return [step for step, _ in steps.CALLS]


def test_an_interrupt_after_a_step_goes_on_with_the_next_one(make_order, ana):
    """S1-24: stopped after step 2, it continues at step 3, and step 2 does not run again.

    Its answer is no verdict on the step; it may be revised as little.
    """
    order = drive(make_order("writing-quick", interrupt_after=["execute"]))
    assert (order.status, order.phase) == ("paused", "interrupted_after")
    with pytest.raises(services.AnswerInvalid):
        services.decide(pause_of(order).pk, Answer("revise", Via.PAGE, feedback="other"), by=ana)
    order = approve(order, ana)
    assert (order.status, state_of(order)["decided"]) == ("completed", {})
    assert called() == ["planning", "execute", "review", "finish"]


def test_an_interrupt_before_a_step_asks_once_and_then_runs_it(make_order, ana):
    order = drive(make_order("writing-quick", interrupt_before=["review"]))
    assert (order.phase, called()) == ("interrupted_before", ["planning", "execute"])
    order = approve(order, ana)
    assert (order.status, state_of(order)["decided"]) == ("completed", {})
    assert called() == ["planning", "execute", "review", "finish"]


def test_an_interrupt_before_the_very_first_step_lets_nothing_run(make_order, ana, page):
    """To cancel it was an error of the server, through every door, and the run waited on."""
    order, cancelled = (
        drive(make_order("writing-quick", interrupt_before=["planning"])) for _ in range(2)
    )
    assert (order.status, called()) == ("paused", [])
    assert b", done</span>" not in page.get(f"/work-orders/{order.shown_id}/").content
    services.decide(pause_of(cancelled).pk, Answer("cancel", Via.PAGE), by=ana)
    assert (fresh(cancelled).latest_run.status, called()) == ("cancelled", [])
    assert approve(order, ana).status == "completed"


def test_an_interrupt_at_an_unknown_step_is_refused(make_order):
    with pytest.raises(InputInvalid):
        make_order("writing-quick", interrupt_after=["dancing"])


def test_a_run_stops_at_the_next_step_boundary_when_a_person_suspends_it(make_order, ana):
    order = make_order("writing-quick")
    steps.HOOKS["execute"] = lambda: runs.suspend(order.pk, by=ana)
    order = drive(order)
    assert (order.status, order.phase) == ("paused", "suspended")
    assert pause_of(order).question == "Suspended by Ana Ruiz"
    assert called() == ["planning", "execute"]
    assert kinds(order)[-6:] == [  # those of a pause
        "step_completed",
        "await_human_input",
        "approval_requested",
        "checkpoint_created",
        "run_paused",
        "log",
    ]
    steps.HOOKS.clear()
    order = approve(order, ana)
    assert (order.status, order.latest_run.suspend_by) == ("completed", "")
    # what was done when it stopped is not done again
    assert called() == ["planning", "execute", "review", "finish"]


def test_an_order_that_waits_for_a_person_or_has_ended_cannot_be_suspended(paused, make_order, ana):
    ended = drive(make_order("writing-quick"))
    for order in (paused, ended):
        with pytest.raises(RunEnded):
            runs.suspend(order.pk, by=ana)


def checkpoint_after(order, node):
    return Checkpoint.objects.filter(
        thread=order.thread_id, node_id=node, next_step__gt=""
    ).earliest("id")


def test_a_fork_goes_on_from_an_old_checkpoint_and_the_old_branch_stays(make_order, ana):
    """S0-80, S1-21: time travel as a new run."""
    order = drive(make_order("writing-quick"))
    old = list(Checkpoint.objects.filter(thread=order.thread_id).order_by("id"))
    run = services.fork(checkpoint_after(order, "planning").pk, by=ana, reason="the plan was fine")
    assert drive(order).status == "completed"
    assert called() == ["planning", "execute", "review", "finish", "execute", "review", "finish"]
    assert len(set(steps.CALLS)) == len(steps.CALLS), "each under a key of its own"
    assert list(Checkpoint.objects.filter(pk__in=[one.pk for one in old]).order_by("id")) == old
    assert (fresh(order).latest_run, run.thread_id) == (run, order.thread_id)
    assert any("the plan was fine" in line for line in log_lines(order))


def test_a_fork_of_a_thread_whose_run_lives_is_refused(paused, ana):
    with pytest.raises(NothingToFork, match="still alive"):
        services.fork(
            Checkpoint.objects.filter(thread=paused.thread_id).earliest("id").pk,
            by=ana,
            reason="now",
        )
    assert Run.objects.filter(work_order=paused).count() == 1


def test_a_fork_needs_a_reason_a_place_and_somebody_who_may(make_order, ana, zoe):
    order = drive(make_order("writing-quick"))
    at = checkpoint_after(order, "planning")
    for reason in ("", "   "):
        with pytest.raises(NothingToFork):
            services.fork(at.pk, by=ana, reason=reason)
    with pytest.raises(NothingToFork):  # nothing follows the end
        services.fork(order.thread.head.pk, by=ana, reason="once more")
    with pytest.raises(services.NotFound):
        services.fork(at.pk, by=zoe, reason="mine")


def test_fork_and_suspend_over_rest(make_order, ana, api):
    order = drive(make_order("writing-quick"))
    client = api(ana)
    at = checkpoint_after(order, "planning")
    answer = client.post(
        f"/api/v1/checkpoints/{at.shown_id}/fork", {"reason": "again"}, format="json"
    )
    assert (answer.status_code, answer.json()["status"]) == (201, "pending")
    assert client.post(f"/api/v1/work-orders/{order.shown_id}/suspend").status_code == 200
    drive(order)
    assert fresh(order).phase == "suspended"
    late = client.post(
        f"/api/v1/checkpoints/{at.shown_id}/fork", {"reason": "again"}, format="json"
    )
    assert (late.status_code, late.json()["code"]) == (409, "cannot_fork")


def test_a_person_suspends_on_the_page_and_sees_that_it_will_stop(make_order, ana, page):
    order = make_order("writing-quick")
    assert b"Suspend after this step" in page.get(f"/work-orders/{order.shown_id}/").content
    assert page.post(f"/work-orders/{order.shown_id}/suspend").status_code == 302
    assert (
        b"Stops after the current step, as Ana Ruiz asked."
        in page.get(f"/work-orders/{order.shown_id}/").content
    )
    drive(order)
    assert b"Suspended by Ana Ruiz" in page.get(f"/work-orders/{order.shown_id}/").content


def test_an_interrupt_after_the_last_step_completes_the_run_when_it_is_answered(make_order, ana):
    order = drive(make_order("writing-quick", interrupt_after=["finish"]))
    assert order.phase == "interrupted_after"
    order = approve(order, ana)
    assert (order.status, order.outputs) == ("completed", {"git_commit_count": 2})
    assert kinds(order)[-2:] == ["run_completed", "checkpoint_created"]
    assert called() == ["planning", "execute", "review", "finish"]
