"""What rows of lists show is brought by one query, however many they are, and says the same as the
objects of which it is.
"""

from __future__ import annotations

import datetime as dt
from itertools import pairwise

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone, translation

from checkpoints.models import Thread
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Decision, Via, name_of
from hitl.rendering.events import short_id
from hitl.rendering.links import home_of, place_of
from hitl.rendering.moments import Moments, since
from hitl.views import inbox
from hitl.views.cards import lines
from hitl.views.cards import orders as order_rows
from hitl.views.cards.rows import QuestionRows
from hitl.views.lists import reading
from runs.models import Panel, Pause, Run, WorkOrder
from tests.conftest import drive, pause_of
from tests.hitl.views.lists.copied_rows import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(ana, ben, paused, make_order) -> World:
    return World(ana, ben, paused, make_order)


@pytest.mark.both_databases
def test_more_rows_than_a_page_has_are_read_and_stand_in_the_order_of_their_keys(world):
    """A single one, a page, and more of them: by words that are made once each."""
    world.asked(reading.AT_ONCE + 5)
    keys = list(Pause.objects.order_by("-pk").values_list("pk", flat=True))
    for count in (1, 2, reading.AT_ONCE, len(keys)):
        with CaptureQueriesContext(connection) as captured:
            rows = reading.waiting(keys[:count])
        assert [row.pause.pk for row in rows] == keys[:count]
        assert len(captured) == -(-count // reading.AT_ONCE)
    assert not reading.waiting([]) and not reading.orders([]) and not reading.answers([])


@pytest.mark.both_databases
def test_a_row_says_of_its_work_what_the_work_says(world, ana):
    """Of an order, of a thread without a title, of child runs of both, at any depth."""
    order = world.order
    below = world.runs(1, parent_id=world.pause.run_id, child_name="part", depth=1)
    Run.objects.filter(pk=below[0].pk).update(work_order=order)
    threads = world.runs(4)
    chat = threads[0]
    for depth, (above, run) in enumerate(pairwise(threads), start=1):
        Run.objects.filter(pk=run.pk).update(parent=above, depth=depth, child_name="<b>x</b>")
    Thread.objects.filter(pk=chat.thread_id).update(title="", team=None)
    runs = [*below, *threads]
    world.copies(world.pause, len(runs), run_id=lambda n: runs[n].pk)
    pauses = Pause.objects.select_related("run__work_order", "run__thread", "run__parent")
    rows = {row.pause.pk: row for row in reading.waiting([pause.pk for pause in pauses])}
    assert len(rows) == len(runs) + 1
    for pause in pauses:
        run, row = pause.run, rows[pause.pk]
        whole = run.work_order
        assert row.work.title == (whole.title if whole else str(run.thread))
        assert row.work.asker == name_of(whole.created_by if whole else run.thread.owner)
        assert row.work.home == home_of(run)
        assert (row.work.child, row.work.definition) == (run.child_name, str(run.definition))
        assert row.work.team == (run.thread.team.name if run.thread.team else "")
        html = QuestionRows(ana.pk, {}).html(row)
        assert f'href="{place_of(pause)}"' in html and "<b>x" not in html


@pytest.mark.both_databases
def test_a_line_of_the_history_says_who_answered_what_and_for_whom(world, ana, ben):
    """And what a template calls its own answer; a reason is cut, and escaped."""
    reason = "<i>no</i> " + "long " * 40
    services.decide(world.pause.pk, Answer("revise", Via.PAGE, feedback=reason), by=ben)
    decision = Decision.objects.get()
    (past,) = reading.answers([decision.pk])
    (same,) = reading.answers_to([world.pause.pk])
    line = lines.history([past])
    assert lines.history([same]) == line
    assert f'data-of="{world.pause.shown_id}"' in line and ">Revised" not in line
    assert "Revised</span>" in line and name_of(ben) in line and "…</q>" in line
    assert "&lt;i&gt;no&lt;/i&gt;" in line and "<i>" not in line
    assert f'href="/decisions/{decision.shown_id}/"' in line
    with translation.override("de"):
        assert "Revised" not in lines.history([past])
    assert "<b>" not in lines.verdict("own", {"own": "<b>Ship</b>"})
    assert "own" in lines.verdict("own", {})


@pytest.mark.both_databases
def test_an_order_says_how_it_stands_as_its_page_does(world, ana):
    """As read with all that pages show of it: waiting, new, failed and completed."""
    failed, new = drive(world.make_order("writing-fail")), world.make_order()
    keys = [world.order.pk, failed.pk, new.pk]
    shown = WorkOrder.objects.shown().in_bulk(keys)
    with CaptureQueriesContext(connection) as captured:
        listed = reading.orders(keys)
        html = order_rows.rows(listed)
    assert len(captured) <= 2
    assert [one.order.pk for one in listed] == keys
    for one in listed:
        assert order_rows.order_status(one.order) == order_rows.order_status(shown[one.order.pk])
        assert one.asker == name_of(ana) and short_id(one.order.shown_id) in html
    with CaptureQueriesContext(connection) as captured:
        reading.orders(keys)
    assert len(captured) == 1, "a definition never changes, and is read once"


@pytest.mark.one_database
def test_a_moment_is_told_in_the_language_and_zone_of_the_page(ana: User):
    """What is kept of one is not told in the other."""
    at = timezone.now() - dt.timedelta(minutes=5, seconds=30)  # clocks differ by milliseconds
    told = set()
    for zone in ("UTC", "Europe/Berlin"):
        for language in ("en", "de"):
            with timezone.override(zone), translation.override(language):
                assert str(since(at)) == str(Moments().since(at))
                told.add(str(since(at)))
    assert len(told) == 4
    assert Moments().since(at, "<b>").count("&lt;b&gt;") == 2


@pytest.mark.one_database
def test_a_question_of_others_says_whom_it_waits_for_without_a_query_for_each(world, page, ana):
    """Under the tab of what others must answer, an escalation was read row by row."""
    rules = {"reviewers": {"users": ["ben"]}, "escalation": [{"users": ["zoe"]}]}
    panel = Panel.objects.create(digest="x", open_to_all=False, self_approval=True, quorum=1)
    counts = []
    for _ in range(2):
        world.asked(5, review=rules, panel_id=panel.pk, stage=1)
        with CaptureQueriesContext(connection) as captured:
            text = page.get("/?whose=asked").content.decode()
        counts.append(len(captured))
    assert text.count("waits for ben, zoe") == 10
    assert counts[0] == counts[1]


@pytest.mark.one_database
def test_who_waits_on_more_than_are_counted_is_told_of_what_comes_later(world, page, monkeypatch):
    """The page knows all that was asked when it was made, on whichever page that stands."""
    monkeypatch.setattr(inbox, "MOST_COUNTED", 3)
    world.asked(5)
    text = page.get("/").content.decode()
    newest = text.partition('data-newest="')[2].partition('"')[0]
    assert newest > max(pause.shown_id for pause in Pause.objects.all())
    again = page.get(f"/?live&seen={newest}").content.decode()
    assert 'data-news="0"' in again
    later = pause_of(drive(world.make_order()))
    assert later.shown_id > newest
    assert 'data-news="1"' in page.get(f"/?live&seen={newest}").content.decode()
