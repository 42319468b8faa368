"""Saved views: kept, shared with a team, changed by whoever made them."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group

from hitl.models import SavedView
from runs import limits
from tests.doors.html import join
from tests.worlds.people import group
from tests.worlds.ruled_order import browser

pytestmark = pytest.mark.django_db

VIEWS = "/api/v1/views"
FAILED = {"list": "orders", "name": "Failed lately", "query": "?sort=oldest&status=failed&q="}


def test_a_view_is_kept_from_the_bar_and_shown_above_its_list(page, ana, paused):
    """Before, what a list was asked was lost with its tab."""
    shown = page.get("/work-orders/?status=paused&sort=oldest").content.decode()
    assert 'name="query" value="status=paused&amp;sort=oldest"' in shown
    kept = page.post(
        "/views/", {"list": "orders", "name": " My  work ", "query": "status=paused&sort=oldest"}
    )
    assert kept.status_code == 302
    assert kept["Location"] == "/work-orders/?status=paused&sort=oldest"
    shown = page.get(kept["Location"]).content.decode()
    assert 'aria-current="page">My work</a>' in join(shown)
    assert "Save this view" not in shown
    assert ">My work</a>" in join(page.get("/work-orders/").content.decode())
    assert ">My work</a>" not in join(page.get("/threads/").content.decode())
    again = page.post("/views/", {"list": "orders", "name": "My work", "query": ""})
    assert again.status_code == 422 and "with this name" in again.content.decode()
    (view,) = SavedView.objects.all()
    do = f"/views/{view.shown_id}/do"
    for team in ("999999", "9" * 5_000):  # before, an error of the server for so many signs
        assert page.post(do, {"do": "change", "name": "Others", "team": team}).status_code == 422
    assert page.post(do, {"do": "change", "name": "Others"}).status_code == 302
    assert "Others" in page.get("/views/").content.decode()
    assert page.post(do, {"do": "remove"}).status_code == 302
    assert not SavedView.objects.exists()


def test_a_shared_view_is_seen_by_its_team_and_changed_by_its_owner_alone(api, ana, ben, zoe):
    """And by nobody else, superusers among them."""
    made = api(ana).post(VIEWS, {**FAILED, "team": "platform"}, format="json")
    assert made.status_code == 201, made.content
    view = made.json()
    assert view["query"] == "status=failed&sort=oldest"
    assert view["address"] == "/work-orders/?status=failed&sort=oldest"
    one = f"{VIEWS}/{view['id']}"
    zoe.is_superuser = True
    zoe.save()
    for user, status in ((ana, 200), (ben, 200), (zoe, 404)):
        assert api(user).get(one).status_code == status
        listed = api(user).get(f"{VIEWS}?list=orders").json()["results"]
        assert [row["id"] for row in listed] == ([view["id"]] if status == 200 else [])
        shown = browser(user).get("/work-orders/").content.decode()
        assert (">Failed lately</a>" in shown) is (status == 200)
    for user, status, code in ((ben, 403, "not_your_view"), (zoe, 404, "not_found")):
        for refused in (
            api(user).patch(one, {"name": "Mine"}, format="json"),
            api(user).delete(one),
        ):
            assert (refused.status_code, refused.json()["code"]) == (status, code)
        do = f"/views/{view['id']}/do"
        assert browser(user).post(do, {"do": "remove"}).status_code == status
    assert api(ana).patch(one, {"team": None}, format="json").json()["team"] is None
    assert api(ben).get(one).status_code == 404
    assert api(ana).patch(one, {"team": "platform"}, format="json").json()["name"] == FAILED["name"]
    ben.groups.clear()
    assert api(ben).get(one).status_code == 404
    Group.objects.filter(name="platform").delete()
    assert api(ana).get(one).json()["team"] is None
    assert api(ana).delete(one).status_code == 204


def test_a_view_that_would_show_nothing_is_refused(api, ana, subtests):
    group("strangers")
    client = api(ana)
    for values, status, field in [
        ({"list": "nothing"}, 400, "list"),
        ({"query": "stauts=failed"}, 422, "query"),
        ({"query": "status=odd"}, 422, "query"),
        ({"query": "status=failed&status=paused"}, 422, "query"),
        ({"query": "after=1"}, 422, "query"),
        ({"name": "a\u202eb"}, 422, "name"),
        ({"name": "x" * 81}, 400, "name"),
        ({"team": "strangers"}, 422, "team"),
        ({"nmae": "x"}, 400, "nmae"),
    ]:
        with subtests.test(ascii(values)[:60]):
            refused = client.post(VIEWS, {**FAILED, **values}, format="json")
            assert refused.status_code == status, refused.content
            assert field in refused.json()["errors"]
    assert not SavedView.objects.exists()


def test_nobody_keeps_more_views_than_the_limit(api, ana, monkeypatch):
    """P12: SAVED_VIEWS."""
    monkeypatch.setattr(limits, "SAVED_VIEWS", 1)
    assert api(ana).post(VIEWS, FAILED, format="json").status_code == 201
    refused = api(ana).post(VIEWS, {**FAILED, "name": "Another"}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (422, "view_invalid")
