"""The whole log of a thread."""

from __future__ import annotations

import json

import pytest

from checkpoints.events import log
from checkpoints.models import EventKind
from hitl.views.threads import log as view
from tests.conftest import drive

pytestmark = pytest.mark.django_db


@pytest.fixture
def order(paused):
    """An order with six hundred lines, of which two are errors."""
    lines = [
        (
            EventKind.LOG,
            {
                "message": f"line {number} of the catalogue",
                "level": "error" if number in {5, 550} else "info",
                "step": "plan",
            },
        )
        for number in range(600)
    ]
    log.append(paused.thread_id, paused.latest_run_id, lines)
    return paused


def test_older_lines_are_a_link_away_and_none_is_missing_or_twice(order, page):
    address, seen = f"/threads/{order.thread.shown_id}/log?q=catalogue", list[str]()
    while address:
        text = page.get(address)
        assert text.status_code == 200
        seen = [event.data["message"] for event in text.context["lines"]] + seen
        address = text.context["page"].next
    assert seen == [f"line {number} of the catalogue" for number in range(600)]


def test_what_is_searched_is_found_however_far_back_and_says_what_was_not_looked_at(
    order, page, monkeypatch
):
    """P12: one page looks through so many lines and no more."""
    monkeypatch.setattr(view, "SCANNED", 100)
    address, pages, found = f"/threads/{order.thread.shown_id}/log?level=error", 0, []
    while address:
        answer = page.get(address)
        found += [event.data["message"] for event in answer.context["lines"]]
        assert ("not looked through yet" in answer.content.decode()) == bool(
            answer.context["page"].next
        )
        address, pages = answer.context["page"].next, pages + 1
    assert [line.split()[1] for line in found] == ["550", "5"]
    assert pages > 5


def test_it_is_a_file_of_lines_or_of_json_objects(order, page):
    address = f"/threads/{order.thread.shown_id}/log/download"
    answer = page.get(f"{address}?q=line+5+of")
    assert answer["Content-Disposition"].startswith("attachment")
    [line] = answer.content.decode().splitlines()
    assert line.endswith("ERROR   plan: line 5 of the catalogue")
    rows = [json.loads(row) for row in page.get(f"{address}?as=jsonl").content.splitlines()]
    assert [row["seq"] for row in rows] == sorted(row["seq"] for row in rows)
    assert len(rows) >= 600


def test_the_timeline_has_three_densities_and_a_link_for_each_event(make_order, page):
    order = drive(make_order("writing-quick"))
    text = page.get(f"/work-orders/{order.shown_id}/").content.decode()
    for value in ("people", "steps", "all"):
        assert f'value="{value}"' in text
    for event in order.thread.events.exclude(kind__in=["log", "streaming_chunk"]):
        assert f'href="#event-{event.seq}"' in text
        assert f'id="event-{event.seq}"' in text
