"""Messages and endpoints on pages, over REST and in the admin: who sees what, and what they can do
about it.
"""

from __future__ import annotations

import datetime as dt
from types import SimpleNamespace

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.utils import timezone
from rest_framework.serializers import ChoiceField

from hitl import outbound
from hitl.api.outbound import EndpointIn
from hitl.models.channels import services
from hitl.models.outbound import Delivery, Endpoint
from hitl.outbound import endpoints
from tests.conftest import pause_of
from tests.databases.whole import rows
from tests.doors.html import fold
from tests.worlds.mailing import relay

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("reachable")]


@pytest.fixture
def dead(paused, ben):
    """A mail to Ben about Ana's order, given up."""
    relay()
    Delivery.objects.filter(recipient=ben).update(
        status="dead", sent_at=None, error="The mail server did not take it.", attempts=10
    )
    return Delivery.objects.get(recipient=ben)


@pytest.fixture
def root(django_user_model):
    return django_user_model.objects.create_superuser("root", password="root's long password")


def test_the_list_says_what_was_sent_to_whom_and_what_became_of_it(dead, page, paused):
    html = page.get("/deliveries/").content.decode()
    assert pause_of(paused).question in html
    assert "Asked · Mail to <b>Ben</b> · 10 tries · The mail server did not take it." in fold(html)
    assert html.count("Send again") == 1 + html.count('aria-label="Send again')
    assert "Ben" not in page.get("/deliveries/?status=sent").content.decode().split("<main")[1]
    assert page.get("/deliveries/?before=nonsense").status_code == 404
    assert page.get("/deliveries/?status=nonsense").status_code == 200


def test_the_list_has_pages(paused, page, ben, monkeypatch):
    monkeypatch.setattr("hitl.views.outbound.PAGE", 2)
    for number in range(5):
        outbound.plan(pause_of(paused), "reminded", mark=str(number), to=[ben])
    seen, address = 0, "/deliveries/"
    while address:
        html = page.get(address).content.decode()
        seen += html.count("Reminded")
        address = html.split('rel="next" href="')[1].split('"')[0] if 'rel="next"' in html else ""
    assert seen == 5


def test_what_was_given_up_is_sent_again(dead, page, mailoutbox):
    mailoutbox.clear()
    assert page.post(f"/deliveries/{dead.shown_id}/again").status_code == 302
    relay()
    assert [one.to for one in mailoutbox] == [["ben@example.org"]]
    before = rows()["hitl.Delivery"]
    assert (
        "Nothing holds it back"
        in page.post(f"/deliveries/{dead.shown_id}/again", follow=True).content.decode()
    )
    assert rows()["hitl.Delivery"] == before


def test_a_person_adds_a_webhook_and_sees_its_secret_once(page, ana, receiver):
    made = page.post(
        "/notifications/",
        {"channel": "webhook", "target": receiver.url, "scope": "me", "name": "My bot"},
    )
    endpoint = Endpoint.objects.get()
    secret = endpoint.secrets[0]["secret"]
    assert (made.status_code, endpoint.owner, made["Cache-Control"]) == (201, ana, "no-store")
    assert secret in made.content.decode()
    again = page.get("/notifications/").content.decode()
    assert "My bot" in again and secret not in again and receiver.url not in again


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"channel": "webhook", "target": "http://10.0.0.1/", "scope": "me"},
        {"channel": "email", "target": "a@b.c", "scope": "me"},
    ],
)
def test_a_place_that_cannot_be_is_refused_at_its_field(page, data):
    response = page.post("/notifications/", data)
    assert (response.status_code, "errorlist" in response.content.decode()) == (422, True)
    assert not Endpoint.objects.exists()


def test_only_who_looks_after_a_team_adds_places_for_it(page, ana, team, receiver):
    data = {"channel": "webhook", "target": receiver.url, "scope": f"team:{team.pk}"}
    assert page.post("/notifications/", data).status_code == 422
    ana.user_permissions.add(Permission.objects.get(codename="add_endpoint"))
    assert page.post("/notifications/", data).status_code == 201
    assert Endpoint.objects.get().team == team
    assert page.post("/notifications/", {**data, "scope": "everybody"}).status_code == 422


def test_an_endpoint_is_tried_switched_renewed_and_removed(page, ana, receiver):
    endpoint, old = endpoints.make(ana, channel="webhook", target=receiver.url)
    address = f"/notifications/{endpoint.shown_id}"
    page.post(address, {"do": "off"})
    assert not Endpoint.objects.get().enabled
    page.post(address, {"do": "test"})
    relay()
    assert len(receiver.got) == 1, (
        "who tries an endpoint that is off wants to know whether it works"
    )
    assert "Sent" in page.get("/notifications/").content.decode()
    assert "on its way already" in page.post(address, {"do": "test"}, follow=True).content.decode()
    new = page.post(address, {"do": "secret"})
    assert (new.status_code, old in new.content.decode()) == (200, False)
    assert Endpoint.objects.get().secrets[0]["secret"] in new.content.decode()
    page.post(address, {"do": "on"})
    assert Endpoint.objects.get().enabled
    page.post(address, {"do": "remove"})
    assert not Endpoint.objects.exists()


def test_a_person_switches_their_mail(page, ana, mailoutbox):
    page.post("/notifications/mail", {"do": "off"})
    assert "You get no mail." in page.get("/notifications/").content.decode()
    page.post("/notifications/mail", {"do": "on"})
    page.post("/notifications/mail", {"do": "test"})
    relay()
    assert [one.subject for one in mailoutbox] == ["Waystation: a test"]


def test_rest_makes_reads_switches_tests_and_removes(api, ana, receiver):
    client = api(ana)
    made = client.post(
        "/api/v1/endpoints",
        {"channel": "webhook", "target": receiver.url, "name": "bot"},
        format="json",
    )
    assert (made.status_code, made.json()["secret"][:6], "target" in made.json()) == (
        201,
        "whsec_",
        False,
    )
    address = f"/api/v1/endpoints/{made.json()['id']}"
    assert "secret" not in client.get(address).json()
    assert client.get("/api/v1/endpoints").json()["results"][0]["id"] == made.json()["id"]
    assert client.patch(address, {"enabled": False}, format="json").json()["enabled"] is False
    tested = client.post(f"{address}/test")
    assert (tested.status_code, tested.json()["status"]) == (202, "queued")
    assert client.post(f"{address}/test").status_code == 422
    renewed = client.post(f"{address}/secret")
    assert (renewed.status_code, renewed.json()["secret"] == made.json()["secret"]) == (201, False)
    assert client.delete(address).status_code == 204
    assert client.get(address).status_code == 404


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        (
            {"channel": "webhook", "target": "http://169.254.169.254/latest/meta-data"},
            422,
            "endpoint_invalid",
        ),
        (
            {"channel": "webhook", "target": "https://example.org", "scope": "everybody"},
            403,
            "forbidden",
        ),
        (
            {
                "channel": "webhook",
                "target": "https://example.org",
                "scope": "team",
                "team": "platform",
            },
            403,
            "forbidden",
        ),
        (
            {
                "channel": "webhook",
                "target": "https://example.org",
                "scope": "team",
                "team": "nobody",
            },
            403,
            "forbidden",
        ),
        ({"channel": "smoke", "target": "x"}, 400, "invalid"),
    ],
)
def test_rest_refuses_with_a_code(api, ana, data, status, code):
    response = api(ana).post("/api/v1/endpoints", data, format="json")
    assert (response.status_code, response.json()["code"]) == (status, code)
    assert not Endpoint.objects.exists()


def test_rest_takes_a_channel_that_is_switched_on_after_its_fields_were_read(monkeypatch):
    monkeypatch.setitem(services, "pigeon", SimpleNamespace(place="A loft"))
    asked = EndpointIn().fields["channel"]
    assert isinstance(asked, ChoiceField) and asked.choices["pigeon"] == "A loft"


def test_rest_lists_messages_and_sends_again(api, ana, dead, paused):
    client = api(ana)
    found = client.get(f"/api/v1/deliveries?status=dead&pause={pause_of(paused).shown_id}").json()[
        "results"
    ]
    assert [(one["id"], one["to"], one["pause_id"]) for one in found] == [
        (dead.shown_id, "Ben", pause_of(paused).shown_id)
    ]
    assert client.post(f"/api/v1/deliveries/{dead.shown_id}/again").json()["status"] == "queued"
    assert client.get(f"/api/v1/deliveries/{dead.shown_id}").json()["attempts"] == 0


def test_the_admin_shows_no_address_and_sends_again_after_asking(root, ana, dead, receiver):
    endpoint, secret = endpoints.make(ana, channel="webhook", target=receiver.url)
    client = Client()
    client.force_login(root)
    for path in (
        "endpoint/",
        f"endpoint/{endpoint.pk}/change/",
        "delivery/",
        f"delivery/{dead.pk}/change/",
    ):
        html = client.get(f"/admin/hitl/{path}").content.decode()
        assert secret not in html and receiver.url not in html
    act = {"action": "send_again", "_selected_action": [dead.pk]}
    client.post("/admin/hitl/delivery/", act)
    assert Delivery.objects.get(pk=dead.pk).status == "dead"
    client.post("/admin/hitl/delivery/", {**act, "confirmed": "yes"})
    assert Delivery.objects.get(pk=dead.pk).status == "queued"
    client.post(
        "/admin/hitl/endpoint/",
        {"action": "switch_off", "_selected_action": [endpoint.pk], "confirmed": "yes"},
    )
    assert not Endpoint.objects.get(pk=endpoint.pk).enabled


def test_a_message_that_failed_is_sent_at_once_and_one_that_nothing_holds_back_is_refused(
    api, ana, dead
):
    """Issue 15, 18."""
    soon = timezone.now() + dt.timedelta(hours=1)
    Delivery.objects.filter(pk=dead.pk).update(status="queued", attempts=3, next_at=soon)
    again = api(ana).post(f"/api/v1/deliveries/{dead.shown_id}/again")
    assert (again.status_code, again.json()["attempts"]) == (200, 3)
    dead.refresh_from_db()
    assert dead.next_at < soon
    refused = api(ana).post(f"/api/v1/deliveries/{dead.shown_id}/again")
    assert (refused.status_code, refused.json()["code"]) == (409, "delivery_not_held_back")
