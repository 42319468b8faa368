"""Messages to workers are hints: sent after the commit, never needed, and a dead broker costs nobody an answer."""

from __future__ import annotations

import datetime as dt
import uuid

import pytest
from django.db import transaction
from django.utils import timezone

from hitl import services
from hitl.models import Via
from runs import services as runs
from runs import tasks
from runs.models import Run
from runs.states import PENDING, RUNNING
from tests import steps
from tests.conftest import fresh, pause_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def sent(monkeypatch):
    """The run ids in messages, in order."""
    messages: list[str] = []
    monkeypatch.setattr(tasks.advance_run, "delay", messages.append)
    monkeypatch.setattr(tasks, "_broken_until", 0.0)
    return messages


@pytest.fixture
def broker_down(monkeypatch):
    """Every send fails; gives the list of attempts."""
    attempts: list[str] = []

    def refuse(run_id):
        attempts.append(run_id)
        raise ConnectionError("no broker")

    monkeypatch.setattr(tasks.advance_run, "delay", refuse)
    monkeypatch.setattr(tasks, "_broken_until", 0.0)
    return attempts


def test_a_new_order_is_announced_after_its_commit(templates, ana, sent, committing):
    """F10."""
    with committing():
        order = runs.submit("writing", by=ana)
        assert sent == []
    assert sent == [str(order.latest_run_id)]


def test_an_answer_is_announced_after_its_commit(paused, ana, sent, committing):
    """P3, S4-26."""
    with committing():
        services.decide(pause_of(paused).pk, action="approve", by=ana, via=Via.PAGE)
        assert sent == []
    assert sent == [str(paused.latest_run_id)]


def test_a_rolled_back_order_is_never_announced(templates, ana, sent, committing):
    with committing(), pytest.raises(ZeroDivisionError), transaction.atomic():
        tasks.nudge_on_commit(uuid.uuid4())
        raise ZeroDivisionError
    assert sent == []


def test_with_the_broker_away_the_answer_counts_all_the_same(paused, ana, broker_down, committing):
    """P2."""
    with committing():
        services.decide(pause_of(paused).pk, action="approve", by=ana, via=Via.PAGE)
    assert fresh(paused).status == "pending"
    assert broker_down == [str(paused.latest_run_id)]


def test_after_a_failed_send_nobody_waits_for_the_broker_again_for_a_while(broker_down, monkeypatch):
    for _ in range(5):
        tasks.nudge(uuid.uuid4())
    assert len(broker_down) == 1
    monkeypatch.setattr(tasks, "_broken_until", 0.0)
    tasks.nudge(uuid.uuid4())
    assert len(broker_down) == 2


def test_a_lost_message_is_sent_again_by_the_sweep(make_order, sent):
    """P3, F10."""
    order = make_order()
    Run.objects.update(due_at=timezone.now() - dt.timedelta(minutes=1))
    tasks.sweep()
    assert sent == [str(order.latest_run_id)]


def test_the_sweep_leaves_alone_what_is_not_overdue(make_order, paused, sent):
    """P7, F30: neither a paused run, nor one just made, nor one that is due later, nor one at work."""
    make_order()
    later, working = make_order(), make_order()
    Run.objects.filter(pk=later.latest_run_id).update(due_at=timezone.now() + dt.timedelta(minutes=1))
    Run.objects.filter(pk=working.latest_run_id).move(
        {PENDING}, RUNNING, lease_until=timezone.now() + dt.timedelta(minutes=1), due_at=timezone.now() - dt.timedelta(hours=1)
    )
    tasks.sweep()
    assert sent == []


def test_the_sweep_names_a_run_of_a_lost_worker_once(make_order, sent):
    """F11."""
    order = make_order()
    long_ago = timezone.now() - dt.timedelta(hours=1)
    Run.objects.filter(pk=order.latest_run_id).move({PENDING}, RUNNING, lease_until=long_ago, due_at=long_ago)
    tasks.sweep()
    assert sent == [str(order.latest_run_id)]


def test_a_message_takes_the_run_as_far_as_it_goes(make_order, sent):
    """S4-56."""
    order = make_order()
    tasks.advance_run(str(order.latest_run_id))
    assert fresh(order).phase == "awaiting_plan_approval"
    assert sent == []


def test_a_run_whose_time_slice_is_over_asks_for_another_message(make_order, sent, settings):
    settings.WAYSTATION_SLICE_SECONDS = 0
    order = make_order("writing-quick")
    tasks.advance_run(str(order.latest_run_id))
    assert [step for step, _ in steps.CALLS] == ["planning"]
    assert fresh(order).status == "pending"
    assert sent == [str(order.latest_run_id)]


@pytest.mark.parametrize("template", ["writing", "writing-quick"])
def test_messages_that_come_late_or_twice_change_nothing(make_order, sent, template):
    """F13, F0."""
    order = make_order(template)
    tasks.advance_run(str(order.latest_run_id))
    calls = list(steps.CALLS)
    tasks.advance_run(str(order.latest_run_id))
    tasks.advance_run(str(uuid.uuid4()))
    assert calls == steps.CALLS
