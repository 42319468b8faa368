"""A worker that lost its run writes nothing, whatever it is doing at that moment."""

from __future__ import annotations

import datetime as dt
import os
import threading
import uuid
from collections import Counter

import pytest
from django.conf import settings
from django.utils import timezone

from checkpoints.models import Checkpoint, Event
from hitl.decisions import services
from hitl.models import Via
from runs.engine import record
from runs.engine.advance import _read, advance
from runs.engine.recovery import lost_runs
from runs.engine.workers import lease
from runs.models import Pause, Run
from runs.workflows.base import Go, Stopped
from tests.conftest import drive, fresh, kinds, log_lines
from tests.databases.whole import at_once
from tests.databases.whole import file_database as file_database
from tests.worlds import lost_worker, steps
from tests.worlds.scripted_step import order_that as order_that
from tests.worlds.scripted_step import state_of

pytestmark = pytest.mark.django_db


def lose_the_lease(run_id):
    """The worker stops beating; the sweep takes the run back."""
    Run.objects.filter(pk=run_id).update(lease_until=timezone.now() - dt.timedelta(seconds=1))
    assert lost_runs.take_back(now=timezone.now()) == [(run_id, "steps")]


def test_a_claim_is_given_once(make_order):
    """S0-12, F0, F13."""
    run_id = make_order().latest_run_id
    now = timezone.now()
    assert [lost_worker.claim(run_id, now=now), lost_worker.claim(run_id, now=now)] == [True, False]
    run = Run.objects.get()
    assert (run.status, run.epoch, run.lease_owner) == ("running", 1, lease.owner())
    assert run.lease_until == now + dt.timedelta(seconds=settings.WAYSTATION_LEASE_SECONDS)


@pytest.mark.parametrize("template", ["writing", "writing-quick"])
def test_a_worker_that_was_given_up_cannot_write_its_result(make_order, template):
    """P4, F11: the step ran twice under one key, its result is there once, and it is the second
    worker's.
    """
    order = make_order(template)

    def accident():
        steps.HOOKS.clear()
        lose_the_lease(order.latest_run_id)
        advance(order.latest_run_id, budget=60)

    steps.HOOKS["planning"] = accident
    assert not advance(order.latest_run_id, budget=60)
    assert [step for step, _ in steps.CALLS].count("planning") == 2
    assert len({key for step, key in steps.CALLS if step == "planning"}) == 1
    assert Checkpoint.objects.filter(node_id="planning").count() == 1
    assert kinds(order).count("step_completed") == len({step for step, _ in steps.CALLS})
    assert state_of(order)["drafts"] == ["first"]


def test_a_worker_that_comes_back_while_another_works_changes_nothing(make_order):
    """F11: at that moment the run is `running` again, only the epoch tells the two apart."""
    order = make_order()
    run_id = order.latest_run_id

    def accident():
        steps.HOOKS.clear()
        lose_the_lease(run_id)
        assert lost_worker.claim(run_id, now=timezone.now())

    steps.HOOKS["planning"] = accident
    assert not advance(run_id, budget=60)
    run = Run.objects.get()
    assert (run.status, run.epoch) == ("running", 2)
    assert not Pause.objects.exists()
    assert not Checkpoint.objects.filter(node_id="planning").exists()


def test_a_worker_that_fails_after_it_was_given_up_does_not_fail_the_run(order_that):
    """F11."""

    def accident(state, context):
        lose_the_lease(order.latest_run_id)
        raise ValueError("too late")

    order = order_that(accident)
    assert not advance(order.latest_run_id, budget=60)
    assert fresh(order).status == "pending"
    assert "run_failed" not in kinds(order)


def test_an_order_cancelled_while_it_works_is_not_written_to_afterwards(make_order, ana):
    """P6, S4-30: nothing after the cancellation, and no further step."""
    order = make_order("writing-quick")
    steps.HOOKS["execute"] = lambda: services.cancel_order(order.pk, by=ana, via=Via.PAGE)
    assert not advance(order.latest_run_id, budget=60)
    assert kinds(order)[-2:] == ["run_cancelled", "checkpoint_created"]
    assert [name for name, _ in steps.CALLS] == ["planning", "execute"]
    assert not Checkpoint.objects.filter(node_id="execute", status="active").exists()
    order = fresh(order)
    assert (order.status, order.latest_run.failure_code) == ("failed", "cancelled_by_user")


def test_an_order_cancelled_between_the_claim_and_the_first_step_is_not_begun(make_order, ana):
    """P6: found by a race; the worker had read the run, but not yet taken it."""
    order = make_order()
    held = _read(order.latest_run_id)
    assert held is not None
    services.cancel_order(order.pk, by=ana, via=Via.PAGE)
    assert not record.claim(held)
    assert "run_started" not in kinds(order)
    assert kinds(order)[-2:] == ["run_cancelled", "checkpoint_created"]


def test_a_cancelled_step_that_goes_on_talking_is_not_heard(order_that, ana):
    """P6: a line of a worker that no longer has the run is not written, and stops the step."""

    def talkative(state, context):
        context.log("before")
        services.cancel_order(order.pk, by=ana, via=Via.PAGE)
        with pytest.raises(Stopped):
            context.log("after")
        return Go()

    order = order_that(talkative)
    drive(order)
    assert "before" in log_lines(order)
    assert "after" not in log_lines(order)
    assert kinds(order)[-2:] == ["run_cancelled", "checkpoint_created"]
    assert list(Event.objects.order_by("seq").values_list("seq", flat=True)) == list(
        range(1, fresh(order).thread.last_seq + 1)
    )


def test_a_step_can_ask_whether_it_must_stop(order_that, ana):
    """P6: cooperative cancelling."""
    went_on: list[bool] = []

    def careful(state, context):
        services.cancel_order(order.pk, by=ana, via=Via.PAGE)
        context.check()
        went_on.append(True)
        return Go()

    order = order_that(careful)
    drive(order)
    assert went_on == []
    assert fresh(order).status == "failed"


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("file_database")
def test_the_heartbeat_renews_what_this_process_holds_and_nothing_else(make_order):
    mine, theirs = make_order().latest_run_id, make_order().latest_run_id
    for run_id in (mine, theirs):
        lost_worker.claim(run_id, now=timezone.now())
    Run.objects.update(lease_until=timezone.now() - dt.timedelta(hours=1))
    Run.objects.filter(pk=theirs).update(lease_owner="another:1")
    at_once(lambda: lease._renew([mine, theirs]))
    assert lost_runs.take_back(now=timezone.now()) == [(theirs, "steps")]


def test_two_runs_of_one_thread_cannot_live_at_the_same_time(make_order):
    """S4-16's rule one level up: the database itself says so."""
    from django.db import IntegrityError, transaction

    order = make_order()
    with pytest.raises(IntegrityError), transaction.atomic():
        Run.objects.create(
            thread=order.thread,
            work_order=order,
            definition=order.definition,
            due_at=timezone.now(),
        )


def test_who_is_told_of_a_run_that_is_at_work_here_leaves_its_lease_alone():
    """The second one found nothing to do and went, and from then on nobody renewed the lease of the
    first: the run was taken from under a step that worked.
    """
    run_id = uuid.uuid4()
    with lease.renewed(run_id):
        with lease.renewed(run_id):
            pass
        assert list(lease._held[os.getpid()]) == [run_id]
    assert not lease._held[os.getpid()]


def test_the_thread_that_renews_leases_outlives_whatever_happens_to_it(monkeypatch, caplog):
    """P3: an error that was none of the database's ended it, and with it every lease of the
    process, step after step.
    """
    renewals = iter([RuntimeError("no such luck"), None, SystemExit()])

    def renew(runs):
        if (error := next(renewals)) is not None:
            raise error

    pid = -1
    monkeypatch.setitem(lease._held, pid, Counter(["a run"]))
    monkeypatch.setattr(lease, "_renew", renew)
    monkeypatch.setattr(threading.Event, "wait", lambda self, seconds: False)
    with pytest.raises(SystemExit):
        lease._beat(pid)
    assert "could not renew 1 leases" in caplog.text and next(renewals, "none") == "none"
