"""What pages and REST say of child runs that wait their turn."""

from __future__ import annotations

import re
import uuid

import pytest

from checkpoints.store.prepared_queries import Prepared
from hitl.views import family
from runs.engine.advance import advance
from runs.workflows.base import Go
from tests.conftest import fresh
from tests.doors.html import fold, join
from tests.doors.rest import ORDERS
from tests.doors.rest import ana_api as ana_api
from tests.hitl.views.order_pages import text, url
from tests.runs.engine.children.crews import PLAYS, fails, worked
from tests.runs.engine.children.crews import crew as crew
from tests.runs.engine.children.crews import many as many

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]


def count(state, context):
    return fails(state, context) if state["number"] == 1 else Go(update={"count": 1})


@pytest.fixture
def begun(many):
    """Six children, two at once: the first completed, the second failed."""
    PLAYS["count"] = count
    order = many(6, at_once=2, on_child_failure="continue")
    for run_id, _ in advance(order.latest_run_id, budget=60):
        advance(run_id, budget=60)
    return fresh(order)


def test_the_page_says_how_many_have_ended_failed_and_wait(page, begun):
    shown = fold(join(text(page.get(url(begun)))))
    assert "Waiting for 4 child runs" in shown
    assert "2 of 6 have ended. 1 did not complete. 2 begin when others have ended." in shown
    bar = shown.split(f'data-progress="{begun.latest_run.shown_id}"')[1].split("</p>")[0]
    assert 'max="6.000000" value="2.000000"' in bar
    assert "2 of 6" in bar


def test_the_list_of_very_many_begins_with_those_that_matter_and_says_what_it_leaves_out(
    page, begun, monkeypatch
):
    monkeypatch.setattr(family, "MANY", 3)
    monkeypatch.setattr(family, "_children", Prepared(family._children._build, uuid.UUID))
    begun = worked(begun)
    shown = fold(join(text(page.get(url(begun)))))
    listed = shown.split('id="children-title"')[1].split("</section>")[0]
    assert "<b>c1</b>" in listed  # it failed
    assert listed.count("<b>c") == 3
    assert "3 more are counted and not listed" in listed
    for words, number in (("All", 6), ("Not completed", 1), ("Completed", 5)):
        assert re.search(rf">\s*{words}\s*<b>{number}</b>", listed)


def test_rest_tells_the_counts_and_lists_the_children_of_a_run(ana_api, begun):
    run_id = begun.latest_run.shown_id
    counts = {"total": 6, "queued": 2, "live": 2, "ended": 2, "failed": 1}
    progress = {"done": 2.0, "of": 6.0, "unit": ""}
    run = ana_api.get(f"/api/v1/runs/{run_id}").json()
    assert (run["children"], run["progress"], run["awaited"]) == (counts, progress, 4)
    order = ana_api.get(f"{ORDERS}/{begun.shown_id}").json()
    assert (order["children"], order["progress"]) == (counts, progress)
    found = ana_api.get(f"/api/v1/runs?parent={run_id}&status=failed").json()["results"]
    assert [(one["child_name"], one["error"]) for one in found] == [("c1", "No paper left.")]
    assert len(ana_api.get(f"/api/v1/runs?parent={run_id}").json()["results"]) == 4


def test_the_children_of_a_run_that_one_may_not_see_are_nowhere(begun, api, zoe):
    found = api(zoe).get(f"/api/v1/runs?parent={begun.latest_run.shown_id}").json()["results"]
    assert found == []
