"""Who looks is looked up once for each request, and whoever acts is looked up anew."""

from __future__ import annotations

import pytest
from csp.middleware import CSPMiddleware
from django.contrib.admin import site
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext
from django.utils import translation

from checkpoints.database import one_look
from hitl.decisions import visibility
from hitl.host.policy import ContentPolicy
from hitl.http.logins import Backend
from tests.conftest import pause_of

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]

OF_PEOPLE = (
    '"hitl_delegation"."to_user_id" = ',
    'FROM "runs_panelmember"',
    'FROM "auth_permission"',
)


def asked_by(act) -> dict[str, int]:
    """How often a request reads each table that says what somebody may."""
    with CaptureQueriesContext(connection) as asked:
        act()
    return {of: sum(of in query["sql"] for query in asked) for of in OF_PEOPLE}


@pytest.mark.parametrize("path", ["/", "/work-orders/", "/work-orders/{order}/", "/decisions/"])
def test_a_page_asks_once_what_its_reader_may(path, paused, client, ana):
    client.force_login(ana)
    address = path.format(order=paused.shown_id)
    asked = asked_by(lambda: client.get(address))
    assert max(asked.values()) == 1, asked


def test_rights_that_were_taken_are_gone_at_the_next_look(paused, client, ana, zoe):
    """The same browser, the same process: nothing of the look before is left."""
    client.force_login(zoe)
    address = f"/work-orders/{paused.shown_id}/"
    assert client.get(address).status_code == 404
    team = Group.objects.create(name="for a while")
    zoe.groups.add(team)
    paused.thread.team = team
    paused.thread.save()
    assert client.get(address).status_code == 200
    zoe.groups.clear()
    assert client.get(address).status_code == 404


def test_what_one_look_saw_is_what_that_person_sees_and_nobody_else(paused, ana, zoe):
    """F4: a trace is named to whom the row was shown."""
    key = pause_of(paused).pk
    with one_look.only(when=True):
        visibility.find_shown(key, by=ana)
        assert visibility.seen(key, by=ana) == (paused.thread_id, paused.latest_run_id)
        assert visibility.seen(key, by=zoe) is None


def people():
    """Of each kind one."""
    see, change = Permission.objects.filter(codename__in=["view_run", "change_run"]).order_by("pk")
    group = Group.objects.create(name="operators")
    group.permissions.add(see)
    made = {
        name: User.objects.create_user(name) for name in ("none", "own", "group", "both", "off")
    }
    for name in ("own", "both", "off"):
        made[name].user_permissions.add(change)
    for name in ("group", "both"):
        made[name].groups.add(group)
    User.objects.filter(pk=made["off"].pk).update(is_active=False)
    return [*made.values(), User.objects.create_superuser("all")]


def test_permissions_are_djangos_own_asked_in_one_query(django_assert_max_num_queries):
    for person in people():
        mine, djangos = (User.objects.get(pk=person.pk) for _ in range(2))
        with django_assert_max_num_queries(2 if person.is_superuser else 1):
            found = Backend().get_all_permissions(mine)
        assert found == ModelBackend().get_all_permissions(djangos), person.username
        for right in ("runs.view_run", "runs.change_run"):
            assert Backend().has_perm(mine, right) == ModelBackend().has_perm(djangos, right)


def menu_of(person, language="en"):
    request = RequestFactory().get("/admin/")
    request.user = User.objects.get(pk=person.pk)
    with translation.override(language):
        return [str(model["name"]) for app in site.get_app_list(request) for model in app["models"]]


def test_the_menu_of_the_admin_has_what_its_reader_may_see_now():
    person = User.objects.create_user("operator", is_staff=True)
    assert menu_of(person) == []
    person.user_permissions.add(Permission.objects.get(codename="view_run"))
    assert menu_of(person) == menu_of(person) == ["Runs"]
    assert len(menu_of(User.objects.create_superuser("all"))) > 30
    person.user_permissions.clear()
    assert menu_of(person) == []


def test_each_page_has_the_policy_that_django_csp_writes(client, monkeypatch):
    """Ours is written once; with what a view adds, that of the library is."""
    client.force_login(User.objects.create_superuser("root"))
    paths = ("/", "/admin/", "/api/reference/", "/nowhere", "/api/v1/pauses")
    ours = [client.get(path)["Content-Security-Policy"] for path in paths]
    monkeypatch.setattr(ContentPolicy, "process_response", CSPMiddleware.process_response)
    theirs = [client.get(path)["Content-Security-Policy"] for path in paths]
    same = [
        {*one.split("; ")} == {*other.split("; ")} for one, other in zip(ours, theirs, strict=True)
    ]
    assert all(same), (ours, theirs)
    assert len(set(theirs)) == 3
