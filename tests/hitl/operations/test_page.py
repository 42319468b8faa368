"""What an operator sees of the whole."""

from __future__ import annotations

import datetime as dt
import html
import re

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.utils import timezone

from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from hitl.rendering.diagrams import bars
from runs.definitions import compatibility
from runs.engine.workers import heartbeat
from runs.models import Heartbeat, HeartbeatKind, Pause, Run, WorkOrder, installation
from tests.conftest import drive, pause_of
from tests.doors.html import fold

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


def text_of(page: str, part: str) -> str:
    """The words of a part of the page, by the id of its heading."""
    _, _, inside = page.partition(f'aria-labelledby="{part}">')
    inside, _, _ = inside.partition("</section>")
    return fold(re.sub("<[^>]*>", " ", inside))


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
        due_at=timezone.now() - dt.timedelta(minutes=5, seconds=1)
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


def test_incidents_of_the_last_day_are_one_line_for_each_template(operator, make_order):
    words = "Step plan lost its worker 3 times in a row."
    orders = [make_order(), make_order(), make_order("writing-quick")]
    Run.objects.filter(pk__in=[order.latest_run_id for order in orders]).update(
        status="failed", failure_code="incident", error=words, ended_at=timezone.now()
    )
    lines = re.findall(r'href="(/operations/failures/[?]code=incident[^"]+)"', look(operator))
    assert len(lines) == 2
    page = operator.get(html.unescape(lines[0])).content.decode()
    assert page.count(words) == 2


def test_runs_of_changed_code_are_one_linked_line_for_each_template_and_reason(
    operator, make_order, monkeypatch
):
    """Ninety-nine of them stood as a wall of ids, in red, before the queues."""
    orders = [drive(make_order()) for _ in range(3)]
    monkeypatch.setattr(
        compatibility,
        "_verdict",
        lambda step: "changed" if step["name"] == "execute" else "compatible",
    )
    page = look(operator)
    (line,) = re.findall(r'href="(/operations/code/[^"]+)"', page)
    assert page.index('id="queues"') < page.index('id="code"')
    assert "Changed writing Steps: execute 3 runs" in text_of(page, "code")
    assert run_of(orders[0]).shown_id not in page
    assert '<span class="status wait">Changed</span>' in page  # amber: they go on
    there = operator.get(html.unescape(line)).content.decode()
    assert all(run_of(order).shown_id in there for order in orders)
    for strange in ("reason=changed", "reason=odd&template=writing", "template=%00&reason=held"):
        answer = operator.get(f"/operations/code/?{strange}")
        assert answer.status_code == 200
        assert "No run is left here" in answer.content.decode()


def test_answers_ages_and_times_are_drawn_with_their_tables(operator, make_order, ana):
    first, second, _ = (pause_of(drive(make_order())) for _ in range(3))
    Pause.objects.filter(pk=second.pk).update(opened_at=timezone.now() - dt.timedelta(hours=30))
    services.decide(first.pk, Answer("approve", Via.PAGE), by=ana)
    services.decide(second.pk, Answer("approve", Via.PAGE), by=ana)
    page = look(operator)
    assert page.count('role="img"') == 3
    assert "Time to answer: bars; the table has the same figures" in page
    assert "under ten minutes 1" in text_of(page, "speeds")
    assert "under three days 1" in text_of(page, "speeds")
    assert re.search(r"under an hour [12] ", text_of(page, "waiting"))


def test_bars_keep_their_proportions_and_none_is_lost():
    drawn = bars.chart([bars.Count("a", 1000), bars.Count("b", 1), bars.Count("c", 0, 500)])
    long, short, wrong = drawn.rows
    assert long.width == bars.WIDTH - bars.LABELS - bars.NUMBERS
    assert short.width == bars.THINNEST
    assert (wrong.width, wrong.wrong_width, wrong.numbers) == (0, long.width / 2, "0 + 500")
    assert bars.chart([]).height == 0


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
