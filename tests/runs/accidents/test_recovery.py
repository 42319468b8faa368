"""Accidents: lost workers, damaged rows, steps that misbehave.

What happens then is said, kept and can be repaired.
"""

from __future__ import annotations

import copy
import datetime as dt
import logging

import pytest
from django.utils import timezone

from checkpoints import store
from checkpoints.models import Checkpoint
from checkpoints.state import codec
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs import services as runs
from runs.engine.recovery import lost_runs
from runs.models import Pause, Run, WorkOrder
from runs.states import RunEnded
from runs.workflows.base import Ask, Go, Report, StepFailed
from tests.conftest import drive, fresh, kinds, log_lines, pause_of
from tests.databases.whole import rows
from tests.runs.accidents.losses import (
    LONG_AGO,
    damage_head,
    lose_a_worker,
)
from tests.worlds import lost_worker, steps
from tests.worlds.scripted_step import order_that as order_that
from tests.worlds.scripted_step import state_of

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
ONE = pytest.mark.one_database
ODD = "a\x00b caf\udce9.py"
"""Text that a database refuses, and a file's name that is no UTF-8."""


def test_a_run_of_a_lost_worker_is_taken_up_again(make_order):
    """F11, F12, P3."""
    order = make_order()
    assert lose_a_worker(order) == [(order.latest_run_id, "steps")]
    assert "was lost; another one takes over." in log_lines(order)[-1]
    assert drive(order).phase == "awaiting_plan_approval"
    assert Run.objects.get().lost_attempts == 0  # a step that got through starts the count afresh


def test_taking_back_twice_changes_nothing(make_order):
    """F11: recovery can be repeated."""
    order = make_order()
    lose_a_worker(order)
    before = rows()
    assert lost_runs.take_back(now=timezone.now()) == []
    assert rows() == before


def test_a_worker_that_still_beats_keeps_its_run(make_order):
    order = make_order()
    lost_worker.claim(order.latest_run_id, now=timezone.now())
    assert lost_runs.take_back(now=timezone.now()) == []
    assert fresh(order).status == "running"


def test_at_a_start_of_the_only_worker_every_running_one_is_taken_back(make_order):
    order = make_order()
    lost_worker.claim(order.latest_run_id, now=timezone.now())
    assert lost_runs.take_back(now=timezone.now(), everything=True) == [
        (order.latest_run_id, "steps")
    ]


def test_a_run_that_keeps_losing_workers_stops_as_an_incident(make_order, settings):
    settings.WAYSTATION_LOST_ATTEMPTS = 3
    order = make_order()
    assert [bool(lose_a_worker(order)) for _ in range(3)] == [True, True, False]
    order = fresh(order)
    assert (order.status, order.latest_run.failure_code) == ("failed", "incident")
    assert order.latest_run.error.startswith("Step planning lost its worker 3 times in a row.")
    assert kinds(order)[-2:] == ["run_failed", "checkpoint_created"]


def test_an_incident_can_be_retried_and_goes_on_from_its_checkpoint(make_order, ana, settings):
    settings.WAYSTATION_LOST_ATTEMPTS = 1
    order = make_order()
    lose_a_worker(order)
    new = runs.retry(order.pk, by=ana)
    assert new.retry_of.failure_code == "incident"
    order = drive(order)
    assert order.phase == "awaiting_plan_approval"
    assert state_of(order)["drafts"] == ["first"]


def test_only_what_failed_can_be_retried(paused, ana):
    before = rows()
    with pytest.raises(RunEnded, match="Only a failed work order"):
        runs.retry(paused.pk, by=ana)
    assert rows() == before


def test_a_cancelled_order_stays_cancelled(paused, ana):
    """S4-61, P6."""
    services.cancel_order(paused.pk, by=ana, via=Via.PAGE)
    before = rows()
    with pytest.raises(RunEnded, match="one that was cancelled stays so"):
        runs.retry(paused.pk, by=ana)
    assert rows() == before


def test_a_damaged_checkpoint_fails_the_run_loudly(paused, ana):
    """C24: no silent fresh start, and no empty state is written over what was there."""
    services.decide(pause_of(paused).pk, Answer("approve", Via.PAGE), by=ana)
    damage_head(paused, '{"set":{},"unset":[]}')
    head = fresh(paused).thread.head_id
    order = drive(paused)
    assert (order.status, order.latest_run.failure_code) == ("failed", "incident")
    assert "does not match its digest" in order.latest_run.error
    assert kinds(order)[-2:] == ["run_failed", "checkpoint_created"]
    assert Checkpoint.objects.get(parent=head).metadata["restored_from"], (
        "what comes next is said: tests/runs/accidents/test_damage.py"
    )
    assert [step for step, _ in steps.CALLS] == ["planning"]


def test_an_answer_on_a_damaged_checkpoint_is_refused_and_the_question_stays_open(paused, ana):
    """C24, P2."""
    damage_head(paused)
    before = rows()
    with pytest.raises(store.CheckpointDamaged):
        services.decide(pause_of(paused).pk, Answer("approve", Via.PAGE), by=ana)
    assert rows() == before


def test_an_order_with_a_damaged_checkpoint_can_still_be_cancelled(paused, ana):
    """F9, F23: it does not hang in the inbox for ever."""
    damage_head(paused)
    services.cancel_order(paused.pk, by=ana, via=Via.PAGE)
    order = fresh(paused)
    assert (order.status, order.latest_run.error) == (
        "failed",
        "Cancelled by user at planning phase",
    )
    assert not Pause.objects.open().exists()


def test_one_damaged_order_does_not_keep_the_sweep_from_the_others(make_order):
    """P3."""
    damaged, sound = make_order(), make_order()
    for order in (damaged, sound):
        lost_worker.claim(order.latest_run_id, now=LONG_AGO + dt.timedelta(minutes=1))
    Run.objects.update(due_at=LONG_AGO)
    Run.objects.filter(status="pending").update(
        status="running", epoch=1, lease_owner="x", lease_until=LONG_AGO
    )
    damage_head(damaged, "{")
    assert (sound.latest_run_id, "steps") in lost_runs.take_back(now=timezone.now())


@ONE
def test_a_step_that_changes_its_state_in_place_fails_with_words_that_help(order_that):
    """F14: nothing is kept that was not said, and the state before the step is as it was."""
    order = drive(order_that(lambda state, context: Go(update={"n": state["drafts"].append("x")})))
    assert (order.status, order.latest_run.failure_code) == ("failed", "step_error")
    assert "the state is read-only; return an update" in order.latest_run.error
    assert state_of(order)["drafts"] == ["first"]


@ONE
def test_a_step_may_change_a_copy_and_return_what_it_was_handed(order_that):
    """F14."""

    def careful(state, context):
        mine = copy.deepcopy(state)
        mine["drafts"].append("second")
        return Go(update={**mine, "kept": state["drafts"]})

    state = state_of(drive(order_that(careful)))
    assert (state["drafts"], state["kept"]) == (["first", "second"], ["first"])


@ONE
def test_what_a_step_changes_after_it_has_returned_is_not_kept(order_that):
    """F14: the worker holds values of its own."""
    returned = {"drafts": ["mine"]}

    def generous(state, context):
        if context.step == "execute" and context.loop_num == 1:
            return Go(update=returned, to="execute")
        returned["drafts"].append("too late")
        return Go()

    assert state_of(drive(order_that(generous)))["drafts"] == ["mine"]


@ONE
def test_a_step_that_points_nowhere_fails_at_once_and_its_order_can_be_shown(order_that):
    """C9: no checkpoint names a step that does not exist."""
    asked = Ask(question="?", answers={"approve": "nowhere"}, report=Report(content=""))
    order = drive(order_that(lambda state, context: asked))
    assert order.status == "failed"
    assert "the definition has no step 'nowhere'" in order.latest_run.error
    assert order.phase == "executing"


@pytest.fixture
def quiet():
    """The test runner cannot pass captured lines with odd text between its processes."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.usefixtures("quiet")
def test_whatever_an_error_says_the_run_ends(order_that):
    """F14: text that a database refuses must not leave the run hanging."""

    def step(state, context):
        raise StepFailed(f"{ODD}{'x' * 100_000}", code="c" * 100)

    order = drive(order_that(step))
    assert order.status == "failed"
    assert order.latest_run.error.encode()
    assert kinds(order)[-2:] == ["run_failed", "checkpoint_created"]


def test_a_report_with_odd_text_still_reaches_the_reviewer(order_that):
    """F14: a file name that is no UTF-8 is an ordinary thing in a repository."""
    report = Report(
        content=ODD,
        patch=f"diff --git a/x b/x\n@@ -1 +1 @@\n+{ODD}\n",
        facts={ODD: ODD},
        effects=[ODD],
    )
    order = drive(
        order_that(
            lambda state, context: Ask(
                question=ODD * 200, answers={"approve": "finish"}, report=report
            )
        )
    )
    assert order.status == "paused"
    pause = pause_of(order)
    for shown in (pause.content, pause.question, pause.facts, pause.effects):
        assert not codec.holds_unreadable(shown)
    assert b"\x00" not in store.get_blob(pause.patch_digest)


def test_a_crash_outside_the_step_leaves_the_run_to_the_next_worker(make_order, monkeypatch):
    """F10, F11: also when a worker dies between the step and its commit."""
    order = make_order()
    monkeypatch.setattr(
        store, "build", lambda *args, **kwargs: (_ for _ in ()).throw(MemoryError())
    )
    with pytest.raises(MemoryError):
        drive(order)
    monkeypatch.undo()
    Run.objects.update(lease_until=LONG_AGO)
    assert lost_runs.take_back(now=timezone.now()) == [(order.latest_run_id, "steps")]
    assert drive(order).phase == "awaiting_plan_approval"
    assert WorkOrder.objects.count() == 1


def test_a_lease_that_is_renewed_while_the_sweep_looks_is_left_alone(make_order, monkeypatch):
    """P4, found by a planted fault: its worker lives."""
    order = make_order()
    lost_worker.claim(order.latest_run_id, now=timezone.now())
    past, free = timezone.now() - dt.timedelta(hours=1), lost_runs._free
    Run.objects.update(lease_until=past)

    def renewed_meanwhile(found):
        runs = free(found)
        Run.objects.update(lease_until=timezone.now() + dt.timedelta(hours=1))
        return runs

    monkeypatch.setattr(lost_runs, "_free", renewed_meanwhile)
    assert lost_runs.take_back(now=timezone.now()) == []
    assert Run.objects.get().status == "running"
