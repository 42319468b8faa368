"""Who is in a group, and which names there are, is no business of those who share no team with
them.
"""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group, Permission, User

from hitl.decisions import notifications
from hitl.models.outbound import Delivery

pytestmark = pytest.mark.django_db

URL = "/api/v1/workflows/wait"


@pytest.fixture
def finance(db):
    """A group of others; one of its members answers."""
    group = Group.objects.create(name="finance")
    for name in ("frank", "fiona"):
        User.objects.create_user(name, email=f"{name}@example.org").groups.add(group)
    return group


def asked(client, **changes):
    told = {"run_id": "r", "node_id": "n", "blocking_reason": "b", **changes}
    answer = client.post(URL, told, format="json")
    assert answer.status_code == 201
    notifications.announce()
    return answer


def seen(client, page):
    return [
        client.get("/api/v1/deliveries").json()["results"],
        "frank" in page.get("/deliveries/").content.decode(),
    ]


def test_deliveries_do_not_tell_who_is_in_a_group(api, page, ana, finance):
    asked(api(ana), reviewers={"groups": ["finance"]})
    assert Delivery.objects.count() == 2
    assert seen(api(ana), page) == [[], False]
    ana.groups.add(finance)
    assert len(seen(api(ana), page)[0]) == 2


def test_who_may_see_users_sees_them(api, page, ana, finance):
    asked(api(ana), reviewers={"groups": ["finance"]})
    ana.user_permissions.add(Permission.objects.get(codename="view_user"))
    assert len(api(User.objects.get(pk=ana.pk)).get("/api/v1/deliveries").json()["results"]) == 2


@pytest.mark.parametrize("name", ["frank", "nobody-of-this-name"])
@pytest.mark.parametrize("how", ["recipients", "reviewers"])
def test_a_name_that_there_is_and_one_that_there_is_not_look_alike(
    api, page, ana, finance, name, how
):
    """A message more or less told which usernames there are."""
    changes = (
        {"recipients": [name], "reviewers": {"groups": ["finance"]}}
        if how == "recipients"
        else {"reviewers": {"users": [name]}}
    )
    answer = asked(api(ana), **changes).json()
    assert seen(api(ana), page) == [[], False]
    assert not {"frank", "fiona"} & set(str(answer).replace("'", " ").split()) or how == "reviewers"


@pytest.mark.parametrize("named", ["finance", "no-such-team"])
def test_a_team_of_others_and_one_that_there_is_not_are_refused_alike(api, ana, finance, named):
    """422 said that there was none, 403 that there was one."""
    wanted = {"channel": "webhook", "target": "https://example.org", "scope": "team", "team": named}
    refused = api(ana).post("/api/v1/endpoints", wanted, format="json")
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    thread = api(ana).post("/api/v1/threads", {"team": named}, format="json")
    assert (thread.status_code, thread.json()["errors"]) == (
        422,
        {"team": ["You are in no team of this name."]},
    )
