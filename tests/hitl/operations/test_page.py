"""What an operator sees of the whole."""

from __future__ import annotations

import datetime as dt

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.utils import timezone

from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs.engine.workers import heartbeat
from runs.models import Heartbeat, HeartbeatKind, Pause, Run, WorkOrder, installation
from tests.conftest import drive, pause_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator(zoe) -> Client:
    zoe.user_permissions.add(Permission.objects.get(codename="view_run"))
    client = Client()
    client.force_login(zoe)
    return client


def look(client: Client, query: str = "") -> str:
    answer = client.get(f"/operations/{query}")
    assert answer.status_code == 200
    return str(answer.content.decode())


def run_of(order: WorkOrder) -> Run:
    assert order.latest_run is not None
    return order.latest_run


def test_nothing_stuck_is_said_calmly(operator, templates):
    page = look(operator)
    assert "Nothing is stuck" in page
    assert "0 open questions" in page


def test_what_was_resumed_and_what_expired_is_counted_beside_what_waits(operator, make_order, ana):
    """S3-42: only what waits was counted."""
    answered, cancelled, late = (pause_of(drive(make_order())) for _ in range(3))
    services.decide(answered.pk, Answer("approve", Via.PAGE), by=ana)
    services.decide(cancelled.pk, Answer("cancel", Via.PAGE), by=ana)
    assert "1 open question" in look(operator)
    now = timezone.now()
    Pause.objects.filter(pk=late.pk).update(
        status="expired", deadline_at=now, extendable_until=now, closed_at=now
    )
    assert "In the last 24 hours, 1 resumed and 1 expired." in look(operator)


def test_a_run_that_no_worker_takes_is_named_with_its_queue(operator, make_order):
    order = make_order()
    Run.objects.filter(pk=order.latest_run_id).update(
        due_at=timezone.now() - dt.timedelta(minutes=5)
    )
    page = look(operator)
    assert run_of(order).shown_id in page
    assert "Not taken" in page
    assert "5 minutes ago" in page


def test_a_lost_worker_is_named_with_what_it_holds(operator, make_order):
    order = make_order()
    past = timezone.now() - dt.timedelta(seconds=30)
    Run.objects.filter(pk=order.latest_run_id).update(
        status="running", lease_owner="box:7:abc", lease_until=past
    )
    page = look(operator)
    assert "held by box:7:abc" in page
    assert "box:7:abc</b>" in page


def test_questions_and_their_runs_are_counted(operator, paused, make_order):
    drive(make_order())
    assert "2 open questions, the oldest asked" in look(operator)
    assert "2 runs paused, 0 pending, 0 running" in look(operator)


def test_incidents_of_the_last_day_are_listed(operator, make_order):
    order = make_order()
    words = "Step plan lost its worker 3 times in a row."
    Run.objects.filter(pk=order.latest_run_id).update(
        status="failed", failure_code="incident", error=words, ended_at=timezone.now()
    )
    assert words in look(operator)


def test_invariants_are_looked_at_when_asked_and_a_broken_one_is_named(operator, paused):
    """P1-P11: the same queries as `manage.py invariants`."""
    assert "checks passed" not in look(operator)
    assert "checks passed" in look(operator, "?invariants")
    Run.objects.filter(pk=paused.latest_run_id).update(status="completed", ended_at=timezone.now())
    page = look(operator, "?invariants")
    assert "checks failed" in page
    assert "A run that has ended asks nothing any more." in page


def test_processes_of_another_version_and_parts_that_are_not_well_are_named(operator):
    known = {"version": installation.version(), "commit": installation.commit()}
    for name, kind, more in (
        ("web@a:7", HeartbeatKind.WEB, {"version": "0.0.1"}),
        ("beat@a", HeartbeatKind.BEAT, {"commit": "f" * 40}),
        ("steps@a", HeartbeatKind.WORKER, {}),
    ):
        heartbeat._write(
            Heartbeat(
                name=name, kind=kind, queues=["steps"], facts={"concurrency": 4}, **known | more
            )
        )
    page = look(operator)
    assert page.count("Other version</span>") == 2
    assert page.index("beat@a") < page.index("web@a:7") < page.index("steps@a")
    assert "No worker that takes control and outbound was seen" in page
    assert "<td>1</td><td>4</td>" in page  # workers of `steps`, and their free places


def test_only_operators_see_it(page):
    assert page.get("/operations/").status_code == 403
    assert "Operations</a>" not in page.get("/").content.decode()


def test_the_page_takes_the_same_number_of_queries_whatever_there_is(
    operator, make_order, django_assert_max_num_queries
):
    for _ in range(3):
        drive(make_order())
    with django_assert_max_num_queries(43):
        look(operator)
