"""The engine, step by step: what a run writes, and what it does not."""

from __future__ import annotations

import pytest

from checkpoints import store
from checkpoints.models import Checkpoint, Event
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs import services as runs
from runs.models import Pause, Run
from tests.conftest import drive, kinds, log_lines, pause_of
from tests.worlds import steps

pytestmark = pytest.mark.django_db


def answer(order, by, action="approve", feedback=""):
    services.decide(pause_of(order).pk, Answer(action, Via.PAGE, feedback=feedback), by=by)
    return drive(order)


def test_an_order_pauses_three_times_and_completes(make_order, ana):
    """S4-62, S4-31."""
    order = drive(make_order())
    phases = [order.phase]
    for _ in range(3):
        order = answer(order, ana)
        phases.append(order.phase)
    assert phases == [
        "awaiting_plan_approval",
        "awaiting_implementation_review",
        "awaiting_review_decision",
        "completed",
    ]
    assert order.status == "completed"
    assert order.outputs == {"git_commit_count": 2}
    # P5: nothing ran again
    assert [step for step, _ in steps.CALLS] == ["planning", "execute", "review", "finish"]
    numbers = Event.objects.filter(thread=order.thread_id).order_by("seq")
    assert list(numbers.values_list("seq", flat=True)) == list(range(1, order.thread.last_seq + 1))


def test_a_template_without_pauses_runs_from_end_to_end(make_order):
    """S4-11, S4-63: no pause row, no line about a pause.

    S2-4, S0-15, C9: every step ends in a checkpoint that names the next; S0-32, C22: the last one
    follows the end of the run at once.
    """
    order = drive(make_order("writing-quick"))
    assert order.status == "completed"
    assert not Pause.objects.exists()
    assert "Workflow paused" not in log_lines(order)
    assert kinds(order)[-2:] == ["run_completed", "checkpoint_created"]
    found = Checkpoint.objects.filter(thread=order.thread_id).order_by("id")
    assert list(found.values_list("node_id", "next_step")) == [
        ("", "planning"),
        ("planning", "execute"),
        ("execute", "review"),
        ("review", "finish"),
        ("finish", ""),
    ]


def test_revise_runs_the_step_again_with_the_feedback(make_order, ana):
    """S4-29, S4-58: feedback injected, a new revision, the lines of the log to the letter.

    It is gone once the next answer is given.
    """
    order = answer(drive(make_order()), ana, "revise", "Add security considerations")
    pause = pause_of(order)
    assert (pause.revision, pause.phase) == (2, "awaiting_plan_approval")
    assert "Add security considerations" in pause.content
    assert log_lines(order)[-5:] == [
        "Workflow resumed with decision: revise",
        "Re-running step: planning with feedback",
        "Revision feedback: Add security considerations",
        "Executing step: planning",
        "Workflow paused",
    ]
    order = answer(order, ana)
    assert store.load(order.thread.head)["revision_feedback"] == ""


def test_an_extra_answer_skips_the_review(make_order, ana):
    """S4-2."""
    order = answer(drive(make_order()), ana)
    order = answer(order, ana, "skip_review")
    assert order.status == "completed"
    assert "review" not in [step for step, _ in steps.CALLS]


def test_corrections_asked_for_at_the_review_go_back_to_the_execution_and_through_its_review(
    make_order, ana
):
    """S4-3."""
    order = answer(answer(drive(make_order()), ana), ana)
    order = answer(order, ana, "revise", "less")
    assert order.phase == "awaiting_implementation_review"
    assert pause_of(order).revision == 2


def test_events_of_a_pause_come_in_the_documents_order(paused):
    """S0-22, S0-25, S0-27, S0-30; S2-19: in the words of both documents."""
    expected = [
        "step_started",
        "log",
        "step_completed",
        "await_human_input",
        "approval_requested",
        "checkpoint_created",
        "run_paused",
        "log",
    ]
    assert kinds(paused) == ["checkpoint_created", "run_started", *expected]
    created = Event.objects.filter(thread=paused.thread_id, kind="checkpoint_created").latest("seq")
    head = paused.thread.head
    assert created.data == {
        "checkpoint_id": head.shown_id,
        "status": "pending_input",
        "node_id": "planning",
        "loop_num": 1,
        "completed_nodes": 1,
        "total_nodes": 4,
    }


def test_a_paused_run_holds_nothing(paused):
    """S0-83, P7, S2-18, S3-12: no lease, no worker, no time at which anybody must look."""
    run = paused.latest_run
    assert (run.status, run.lease_owner, run.lease_until) == ("paused", "", None)
    assert not Run.objects.overdue(before=run.created_at.replace(year=9999)).exists()


def test_a_failing_step_ends_the_run_with_its_words_and_a_retry_begins_at_it(make_order, ana):
    order = drive(make_order("writing-fail"))
    assert (order.status, order.phase) == ("failed", "executing")
    assert order.latest_run.error == "The shop is closed. Try again in the morning."
    assert order.latest_run.failure_code == "shop_closed"
    assert kinds(order)[-2:] == ["run_failed", "checkpoint_created"]
    new = runs.retry(order.pk, by=ana)
    assert new.retry_of == order.latest_run
    drive(order)
    assert [step for step, _ in steps.CALLS] == ["planning", "execute", "execute"]
