"""Messages from outside that start work: signed, once each, and what is refused is listed."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone

from hitl.models import IdempotencyKey, InboundSource, InboundStart, StartDelivery
from hitl.outbound import signatures
from hitl.threads import erasure
from hitl.wait_gate import starts
from runs import services
from runs.models import TemplateAccess, WorkOrder
from tests.conftest import drive, pause_of
from tests.databases.whole import at_once
from tests.databases.whole import file_database as file_database

pytestmark = pytest.mark.django_db
URL = "/api/v1/inbound-starts"
DOOR = "/api/v1/inbound/shop/start"
BODY = {
    "name": "shop",
    "template": "writing",
    "title": "From the shop",
    "user_request": "usual",
    "request_pointer": "/data/text",
    "input": {"source": "shop", "region": "eu"},
    "mapping": {"customer": "/data/customer/id", "region": "/data/region"},
}
MESSAGE = {"data": {"text": "A new order", "customer": {"id": 7}}}


def may_start(user: User) -> User:
    user.user_permissions.add(Permission.objects.get(codename="add_inboundstart"))
    return User.objects.get(pk=user.pk)


@pytest.fixture
def rest(api, ana, templates):
    return api(may_start(ana))


@pytest.fixture
def secret(rest):
    made = rest.post(URL, BODY, format="json")
    assert made.status_code == 201, made.json()
    assert made["Cache-Control"] == "no-store"
    return made.json()["secret"]


def send(secret, message, message_id="m1", url=DOOR, at=None):
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    at = at or timezone.now()
    headers = signatures.headers(message_id, int(at.timestamp()), body, [secret])
    return Client().post(url, body, content_type="application/json", headers=headers)


def came():
    return [
        (row.delivery_id, row.started, row.code) for row in StartDelivery.objects.order_by("id")
    ]


@pytest.mark.both_databases
def test_a_signed_message_is_an_order_in_its_makers_name(secret, ana, rest):
    answer = send(secret, MESSAGE)
    assert answer.status_code == 201, answer.json()
    order = WorkOrder.objects.get()
    assert answer.json() == {"delivery_id": "m1", "work_order_id": order.shown_id}
    assert (order.created_by, order.title, order.request) == (ana, "From the shop", "A new order")
    assert order.input == {"source": "shop", "region": "eu", "customer": 7}
    start = rest.get(URL).json()["results"][0]
    assert (start["address"], "secret" in start) == (DOOR, False)
    listed = rest.get(f"{URL}/{start['id']}/deliveries").json()["results"]
    assert [(one["delivery_id"], one["work_order_id"]) for one in listed] == [
        ("m1", order.shown_id)
    ]


@pytest.mark.both_databases
def test_a_message_that_comes_again_starts_nothing_more_however_late(secret):
    """S3-43, F7: also once its Idempotency-Key is forgotten, and once its order was erased."""
    first = send(secret, MESSAGE)
    assert send(secret, MESSAGE).json() == first.json()
    IdempotencyKey.objects.all().delete()
    late = send(secret, MESSAGE)
    assert (late.status_code, late.json()) == (200, first.json())
    order = WorkOrder.objects.get()
    services.cancel(order.pk, by=order.created_by)
    erasure.erase(order.thread_id, by="root", reason="asked for")
    IdempotencyKey.objects.all().delete()
    assert send(secret, MESSAGE).json() == {"delivery_id": "m1", "work_order_id": None}
    assert not WorkOrder.objects.exists()
    other = send(secret, {"data": {}}, "m2")
    assert WorkOrder.objects.get().request == "usual"
    assert send(secret, {"data": 1}, "m2").json()["code"] == "idempotency_key_reused"
    assert other.status_code == 201


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("file_database")
def test_of_one_message_four_times_at_once_one_order_comes(secret):
    answers = at_once(*[lambda: send(secret, MESSAGE)] * 4)
    assert {answer.status_code for answer in answers} <= {200, 201, 409}
    assert WorkOrder.objects.count() == StartDelivery.objects.filter(started=True).count() == 1


def test_what_is_not_signed_by_it_starts_and_writes_nothing(secret, ana):
    source = InboundSource.objects.create(
        name="gate", user=ana, secrets=[other := signatures.new_secret()]
    )
    old = timezone.now() - dt.timedelta(minutes=6)
    for answer in (
        send(other, MESSAGE),
        send(secret, MESSAGE, at=old),
        send(secret, MESSAGE, url="/api/v1/inbound/nobody/start"),
        send(other, MESSAGE, url=f"/api/v1/inbound/{source.name}/start"),
        Client().post(DOOR, "{}", content_type="application/json"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (401, "signature_invalid")
    assert (WorkOrder.objects.count(), came()) == (0, [])


def test_its_secret_answers_no_question(secret, make_order):
    """P6: who may let an order begin may not approve what it does."""
    order = drive(make_order())
    event = {"run_id": order.latest_run.shown_id, "payload": "approve"}
    refused = send(secret, event, url="/api/v1/inbound/shop")
    assert refused.status_code == 401
    assert pause_of(order).status == "open"


def test_refusals_have_codes_and_are_listed_with_their_reasons(secret, rest, ana, monkeypatch):
    monkeypatch.setattr(starts, "KEPT", 2)
    assert send(secret, b"{no json", "m0").json()["code"] == "parse_error"
    TemplateAccess.objects.create(slug="writing", enabled=False)
    answers = [send(secret, MESSAGE, f"m{n}") for n in range(1, 5)]
    assert {(one.status_code, one.json()["code"]) for one in answers} == {(409, "template_off")}
    assert came() == [("m3", False, "template_off"), ("m4", False, "template_off")]
    TemplateAccess.objects.all().delete()
    assert send(secret, MESSAGE, "m4").status_code == 201  # what was refused may come again
    assert send(secret, MESSAGE, "m" * 201).status_code == 401
    large = {"data": {"text": "x" * 1_100_000}}
    assert send(secret, large, "m5").status_code == 413


def test_a_maker_who_may_not_any_more_and_a_team_that_is_gone_refuse(rest, ana, team):
    secret = rest.post(URL, {**BODY, "team": "platform"}, format="json").json()["secret"]
    ana.groups.clear()
    refused = send(secret, MESSAGE)
    assert (refused.status_code, refused.json()["code"]) == (403, "team_not_allowed")
    User.objects.filter(pk=ana.pk).update(is_active=False)
    assert send(secret, MESSAGE, "m2").status_code == 401
    assert not WorkOrder.objects.exists()


def test_a_maker_who_lost_the_right_to_make_one_has_nothing_begun(secret, ana):
    """The right was asked when it was made, and never again."""
    ana.user_permissions.clear()
    refused = send(secret, MESSAGE)
    assert (refused.status_code, refused.json()["code"]) == (403, "may_not_add_inbound_start")
    assert not WorkOrder.objects.exists()


def test_switched_off_given_a_new_secret_and_removed(secret, rest, page):
    one = f"{URL}/{InboundStart.objects.get().shown_id}"
    new = rest.post(f"{one}/secret").json()["secret"]
    assert [send(key, MESSAGE, key[-9:]).status_code for key in (secret, new)] == [201, 201]
    assert rest.patch(one, {"enabled": False}, format="json").json()["enabled"] is False
    assert send(new, MESSAGE, "m2").status_code == 401
    assert rest.delete(one).status_code == 204
    assert not InboundSource.objects.exists()
    assert WorkOrder.objects.count() == 2


def test_of_two_who_give_it_a_new_secret_at_once_both_secrets_sign(secret):
    """Before, one that was shown was lost."""
    first, second = (InboundStart.objects.select_related("source").get() for _ in range(2))
    shown = [starts.rotate_secret(first), starts.rotate_secret(second)]
    assert [send(key, MESSAGE, key[-9:]).status_code for key in shown] == [201, 201]


def test_what_cannot_be_kept_is_refused_by_the_name_of_its_field(rest, subtests):
    cases: list[tuple[Any, ...]] = [
        ({"mapping": {"a": "data/id"}}, 422, "mapping"),
        ({"mapping": {f"{n}": "/x" for n in range(51)}}, 422, "mapping"),
        ({"request_pointer": "/a~2"}, 422, "request_pointer"),
        ({"input": {"password": "x"}}, 422, "input"),
        ({"input": {"x": "x" * 70_000}}, 422, "input"),
        ({"template": "no-such"}, 404, None),
        ({"name": "no spaces"}, 400, "name"),
        ({"team": "strangers"}, 422, "team"),
    ]
    for wrong, status, field in cases:
        with subtests.test(ascii(wrong)[:60]):
            answer = rest.post(URL, {**BODY, **wrong}, format="json")
            assert answer.status_code == status, answer.json()
            assert field is None or field in answer.json()["errors"]
            assert not InboundSource.objects.exists()


def test_a_name_is_taken_once_and_making_one_takes_a_right(rest, secret, api, zoe):
    assert "Another source" in rest.post(URL, BODY, format="json").json()["errors"]["name"][0]
    refused = api(zoe).post(URL, {**BODY, "name": "other"}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (403, "may_not_add_inbound_start")
    one = f"{URL}/{InboundStart.objects.get().shown_id}"
    assert api(zoe).get(one).status_code == 404
    assert api(zoe).post(f"{one}/secret").status_code == 404


def test_made_and_looked_after_on_the_page(page, ana, templates):
    assert "An operator can give you" in page.get("/inbound/").content.decode()
    assert page.post("/inbound/", {"name": "shop"}).status_code == 403
    may_start(ana)
    form = {"name": "shop", "template": "writing", "mapping": '{"customer": "/data/customer/id"}'}
    wrong = page.post("/inbound/", {**form, "mapping": "[1]"})
    assert (wrong.status_code, "A JSON object" in wrong.content.decode()) == (422, True)
    made = page.post("/inbound/", form)
    assert made.status_code == 201
    secret = made.content.decode().split('data-copy="Secret">')[1].split("<")[0]
    assert send(secret, MESSAGE).status_code == 201
    assert secret not in page.get("/inbound/").content.decode()
    url = f"/inbound/{InboundStart.objects.get().shown_id}/"
    assert "m1" in page.get(url).content.decode()
    assert "whsec_" in page.post(f"{url}do", {"do": "secret"}).content.decode()
    page.post(f"{url}do", {"do": "off"})
    assert "It is switched off" in page.get(url).content.decode()
    page.post(f"{url}do", {"do": "remove"})
    assert "None yet" in page.get("/inbound/").content.decode()
