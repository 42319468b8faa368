"""Limits of work at once on the page and over REST, and who holds the places an order waits for."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission, User

from runs.engine import advance as loop
from runs.engine import places
from runs.models import WorkLimit
from runs.workflows.base import Go
from tests.worlds.scripted_step import order_that as order_that

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]
URL = "/api/v1/limits"
BODY = {"template": "writing", "most": 3, "pointer": "/customer", "name": "crm"}
FORM = {**BODY, "priority": 0}


def read(order):
    """Its run, as a worker reads it before the claim."""
    held = loop._read(order.latest_run_id)
    assert held is not None
    return held


@pytest.fixture
def editor(ana, templates):
    ana.user_permissions.add(Permission.objects.get(codename="add_template"))
    return User.objects.get(pk=ana.pk)


def test_made_read_changed_and_removed_over_rest(api, editor, ben):
    rest = api(editor)
    made = rest.post(URL, BODY, format="json")
    assert made.status_code == 201, made.json()
    one = f"{URL}/{made.json()['id']}"
    assert made.json() | BODY == made.json()
    assert (made.json()["at_work"], made.json()["waiting"]) == (0, 0)
    assert rest.patch(one, {"most": 5}, format="json").json()["most"] == 5
    assert api(ben).get(URL).json()["results"] == [rest.get(one).json()]
    for refused in (
        api(ben).post(URL, BODY, format="json"),
        api(ben).patch(one, {"most": 1}, format="json"),
        api(ben).delete(one),
    ):
        assert (refused.status_code, refused.json()["code"]) == (403, "may_not_limit")
    assert rest.delete(one).status_code == 204
    assert rest.get(one).status_code == 404


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"template": "wriitng"}, "template"),
        ({"pointer": "customer"}, "pointer"),
        ({"most": 0}, "most"),
        ({"name": "c r m"}, "name"),
        ({}, "template"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_its_field(api, editor, wrong, field):
    WorkLimit.objects.create(template="writing", most=3, pointer="/customer", name="crm")
    refused = api(editor).post(URL, {**BODY, **wrong}, format="json")
    assert refused.status_code in {400, 422}
    assert field in refused.json()["errors"]
    assert WorkLimit.objects.count() == 1


def test_the_page_makes_changes_and_removes_limits_for_those_who_may(page, editor):
    assert page.post("/limits/", FORM).status_code == 302
    found = WorkLimit.objects.get()
    text = page.get("/limits/").content.decode()
    assert "3 at once" in text
    assert "0 at work, 0 waiting" in text
    one = f"/limits/{found.pk}/"
    wrong = page.post(one, {**FORM, "most": 0})
    assert wrong.status_code == 422
    assert page.post(one, {**BODY, "most": 2, "priority": 1}).status_code == 302
    found.refresh_from_db()
    assert (found.most, found.priority) == (2, 1)
    editor.user_permissions.clear()
    assert page.get(one).status_code == 200
    assert page.post(one, {"do": "remove"}).status_code == 403
    assert page.post("/limits/", FORM).status_code == 403
    assert WorkLimit.objects.count() == 1


def test_the_page_of_an_order_names_who_holds_the_places_that_its_reader_may_see(
    order_that, page, ben, make_order
):
    WorkLimit.objects.create(template="anything", most=2)
    mine = order_that(lambda state, context: Go(), order={"title": "My own report"})
    theirs = make_order("anything", by=ben, team=None, title="A secret of Ben")
    for order in (mine, theirs):
        assert places.claim(read(order))
    waiting = make_order("anything", title="The third")
    assert not places.claim(read(waiting))
    text = page.get(f"/work-orders/{waiting.shown_id}/").content.decode()
    assert "It waits for a place: 2 of 2 at work" in text
    assert f"/work-orders/{mine.shown_id}/" in text
    assert ", 1 more" in " ".join(text.split())
    assert "A secret of Ben" not in text


DECLARED = {"most": 5, "rate": "", "priority": 0, "place": "flows.py, line 8"}


@pytest.fixture
def declared(templates):
    return WorkLimit.objects.create(template="writing", most=5, declared=DECLARED)


def test_rest_says_what_the_code_declares_that_a_change_stands_over_it_and_goes_back(
    api, editor, declared
):
    rest, one = api(editor), f"{URL}/{declared.pk}"
    assert (rest.get(one).json()["declared"], rest.get(one).json()["changed"]) == (DECLARED, False)
    changed = rest.patch(one, {"most": 2, "rate": "60/min"}, format="json").json()
    assert (changed["most"], changed["rate"], changed["changed"]) == (2, "60/min", True)
    refused = rest.patch(one, {"pointer": "/customer"}, format="json")
    assert (refused.status_code, [*refused.json()["errors"]]) == (422, ["pointer"])
    assert rest.patch(one, {"rate": "60"}, format="json").status_code == 422
    assert rest.delete(one).status_code == 204
    assert (rest.get(one).json()["off"], rest.get(one).json()["changed"]) == (True, True)
    back = rest.patch(one, {"as_declared": True}, format="json").json()
    assert (back["most"], back["rate"], back["off"], back["changed"]) == (5, "", False, False)
    own = WorkLimit.objects.create(template="writing", name="own", most=1)
    refused = rest.patch(f"{URL}/{own.pk}", {"as_declared": True}, format="json")
    assert (refused.status_code, [*refused.json()["errors"]]) == (422, ["as_declared"])


def test_the_page_says_so_and_has_the_way_back(page, editor, declared):
    one = f"/limits/{declared.pk}/"
    text = page.get(one).content.decode()
    assert "The code declares it in flows.py, line 8. A change here stands over" in text
    assert "Back to what the code declares" not in text
    page.post(one, {"template": "writing", "most": 2, "priority": 0, "rate": "1/s"})
    text = page.get(one).content.decode()
    assert "Somebody changed it since, and that stands." in text
    assert "Back to what the code declares" in text
    assert "1/s begin" in " ".join(page.get("/limits/").content.decode().split())
    page.post(one, {"do": "remove"})
    assert "Somebody took it away" in page.get(one).content.decode()
    assert "taken away" in page.get("/limits/").content.decode()
    assert page.post(one, {"do": "declared"}).status_code == 302
    declared.refresh_from_db()
    assert (declared.most, declared.rate, declared.off) == (5, "", False)
    editor.user_permissions.clear()
    assert page.post(one, {"do": "declared"}).status_code == 403


def test_the_admin_settles_limits_by_the_same_rules(admin_client, editor, declared):
    """Before: another template could be given to what the code declares, which then was gone with
    the next load; a limit that was taken away stayed so; 20 000 places were taken.
    """
    one = f"/admin/runs/worklimit/{declared.pk}/change/"
    kept = {"template": "writing", "name": "", "pointer": "", "most": 5, "rate": "", "priority": 0}
    for field, wrong in {
        "pointer": "/customer", "template": "wriitng", "most": "20000", "rate": "60",
    }.items():  # fmt: skip
        refused = admin_client.post(one, {**kept, field: wrong})
        assert [*refused.context["adminform"].form.errors] == [field]
    chosen = {"action": "delete_selected", "_selected_action": [declared.pk], "post": "yes"}
    admin_client.post("/admin/runs/worklimit/", chosen)
    declared.refresh_from_db()
    assert declared.off
    assert admin_client.post(one, {**kept, "most": 3}).status_code == 302
    declared.refresh_from_db()
    assert (declared.most, declared.off, declared.template) == (3, False, "writing")
    made = admin_client.post("/admin/runs/worklimit/add/", {**kept, "name": "crm"})
    crm = WorkLimit.objects.get(name="crm")
    assert (made.status_code, crm.most) == (302, 5)
    admin_client.post(f"/admin/runs/worklimit/{crm.pk}/delete/", {"post": "yes"})
    assert not WorkLimit.objects.filter(name="crm").exists()
