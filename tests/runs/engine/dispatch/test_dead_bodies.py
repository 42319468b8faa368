"""What becomes of a run whose step took its process along, or was ended with it."""

from __future__ import annotations

import datetime as dt
import uuid

import pytest
from django.utils import timezone

from runs.engine.dispatch import dead_bodies
from runs.engine.recovery import lost_runs
from runs.models import Run, WorkOrder
from tests.conftest import drive, fresh, log_lines
from tests.databases.whole import rows
from tests.worlds import lost_worker
from tests.worlds.scripted_step import order_that as order_that

LEASE = dt.timedelta(minutes=2)
pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def claimed(order: WorkOrder) -> tuple[uuid.UUID, int]:
    """Its run's id, and the epoch under which a worker holds it."""
    assert order.latest_run_id
    lost_worker.claim(order.latest_run_id, now=timezone.now())
    return order.latest_run_id, Run.objects.get(pk=order.latest_run_id).epoch


def test_a_step_that_ends_its_process_is_tried_once_more_and_then_put_aside(make_order):
    order = make_order()
    assert dead_bodies.died(*claimed(order), 3) == [(order.latest_run_id, "steps")]
    assert log_lines(order)[-1] == (
        "Step planning ended its worker with code 3; it is tried again."
    )
    assert dead_bodies.died(*claimed(order), -11) == []
    order = fresh(order)
    assert (order.status, order.latest_run.failure_code) == ("failed", "incident")
    assert order.latest_run.error == (
        "Step planning ended its worker by signal 11 (SIGSEGV), 2 times in a row. The state before "
        "it is kept; retry when the cause is found."
    )


def test_a_step_that_gets_through_starts_the_count_afresh(make_order):
    order = make_order()
    dead_bodies.died(*claimed(order), None)
    assert "ended its worker; it" in log_lines(order)[-1]
    assert drive(order).phase == "awaiting_plan_approval"
    assert Run.objects.get().deaths == 0


def test_hosts_that_were_lost_before_are_no_deaths_of_its_own(make_order):
    """An hour of chaos found it: a host and then one process of a step were lost, and its run was
    put aside for having ended its worker twice.
    """
    order = make_order()
    claimed(order)
    Run.objects.update(lease_until=timezone.now() - LEASE)
    assert lost_runs.take_back(now=timezone.now())
    assert dead_bodies.died(*claimed(order), -9) == [(order.latest_run_id, "steps")]
    assert (Run.objects.get().lost_attempts, Run.objects.get().deaths) == (1, 1)
    assert drive(order).phase == "awaiting_plan_approval"
    assert (Run.objects.get().lost_attempts, Run.objects.get().deaths) == (0, 0)


def test_one_that_was_ended_because_its_time_was_up_has_failed(make_order):
    order = make_order()
    assert dead_bodies.timed_out(*claimed(order)) == []
    assert fresh(order).latest_run.failure_code == "timeout"


def test_it_is_tried_again_where_its_template_says_so(order_that):
    def fails(state, context):
        raise ConnectionError("no")

    order = drive(order_that(fails, retry={"attempts": 3, "base": 5, "cap": 60}))
    Run.objects.update(due_at=timezone.now())
    assert dead_bodies.timed_out(*claimed(order)) == []
    run = fresh(order).latest_run
    assert (run.status, run.attempts) == ("pending", 2)


def test_a_run_that_is_anothers_by_now_is_left_alone(make_order):
    order = make_order()
    run_id, epoch = claimed(order)
    before = rows()
    assert dead_bodies.died(run_id, epoch - 1, 3) == []
    assert dead_bodies.timed_out(run_id, epoch - 1) == []
    assert rows() == before
