"""Signed webhooks: what a receiver gets, how it knows that it is genuine and new, and what its
answers do.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import hmac
import json

import pytest
from django.utils import timezone

from hitl import outbound
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from hitl.models.outbound import Delivery, Endpoint
from hitl.outbound import endpoints, sending, signatures
from hitl.outbound.endpoints import EndpointInvalid, NotYourEndpoint
from runs.models import Pause
from tests.conftest import drive, pause_of
from tests.databases.encryption_keys import NEW, dump, keys
from tests.worlds.mailing import later, relay

pytestmark = pytest.mark.django_db


def verified(headers, body, secret):
    """What docs/how-to/outbound.md tells receivers to do."""
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    wanted = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return any(
        hmac.compare_digest(one.removeprefix("v1,"), wanted)
        for one in headers["webhook-signature"].split()
    )


@pytest.fixture
def hook(ana, receiver):
    """Ana's webhook and its secret."""
    return endpoints.make(ana, channel="webhook", target=receiver.url)


@pytest.fixture
def root(django_user_model):
    return django_user_model.objects.create_superuser("root")


def test_a_signature_is_what_the_standard_says():
    """The example of the specification of Standard Webhooks."""
    made = signatures.headers(
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1614265330,
        b'{"test": 2432232314}',
        ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
    )
    assert made["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize(
    "secret", ["", "whsec_", "whsec_!!!", "whsec_c2hvcnQ=", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]
)
def test_what_is_no_secret_is_refused(secret):
    with pytest.raises(signatures.BadSecret):
        signatures.key_of(secret)


def test_a_question_and_its_answer_arrive_signed(make_order, ana, ben, hook, receiver):
    """S3-28: a system is asked too."""
    order = drive(make_order())
    pause = pause_of(order)
    relay()
    services.decide(pause.pk, Answer("approve", Via.PAGE), by=ben)
    relay()
    assert [verified(headers, body, hook[1]) for headers, body in receiver.got] == [True, True]
    asked, answered = (json.loads(body) for _, body in receiver.got)
    assert (asked["type"], answered["type"]) == ("question.asked", "question.answered")
    assert asked["data"]["pause_id"] == answered["data"]["pause_id"] == pause.shown_id
    assert asked["data"]["decision"] is None
    decision = answered["data"]["decision"]
    assert (decision["decision"], decision["decided_by"], "feedback" in decision) == (
        "approve",
        "ben",
        False,
    )
    assert len(set(receiver.ids)) == 2
    assert receiver.ids[0] == asked["data"]["delivery_id"]
    assert receiver.got[0][0]["content-type"] == "application/json"


def test_a_forged_body_is_noticed(make_order, hook, receiver):
    drive(make_order())
    relay()
    headers, body = receiver.got[0]
    assert not verified(headers, body.replace(b"asked", b"answered"), hook[1])
    assert not verified({**headers, "webhook-timestamp": "1"}, body, hook[1])


def test_what_is_no_2xx_is_tried_again_under_the_same_id(make_order, hook, receiver):
    drive(make_order())
    refusals = [500, 503, 404, 302, 429]
    for status in refusals:
        receiver.answer = status
        later()
        relay()
        assert Delivery.objects.get().status == "queued", status
        assert f"answered {status}" in Delivery.objects.get().error
    receiver.answer = 200
    later()
    relay()
    assert (len(receiver.ids), len(set(receiver.ids)), Delivery.objects.get().status) == (
        len(refusals) + 1,
        1,
        "sent",
    )
    assert len({body for _, body in receiver.got}) == 1, "the body is the same on every try"


def test_a_crash_between_sending_and_recording_sends_the_same_id_again(
    make_order, hook, receiver, monkeypatch
):
    drive(make_order())
    real = sending._record

    def die(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(sending, "_record", die)
    with pytest.raises(KeyboardInterrupt):
        relay()
    monkeypatch.setattr(sending, "_record", real)
    Delivery.objects.update(lease_until=timezone.now())
    relay()
    assert (len(receiver.ids), len(set(receiver.ids)), Delivery.objects.get().status) == (
        2,
        1,
        "sent",
    )


def test_a_receiver_says_when_to_come_again(make_order, hook, receiver):
    def busy(handler):
        handler.send_response(429)
        handler.send_header("Retry-After", "900")
        handler.end_headers()

    receiver.answer = busy
    drive(make_order())
    relay()
    assert (Delivery.objects.get().next_at - timezone.now()).total_seconds() > 890


def test_gone_switches_the_endpoint_off(make_order, hook, receiver):
    receiver.answer = 410
    drive(make_order())
    relay()
    endpoint = Endpoint.objects.get()
    assert (endpoint.enabled, endpoint.why_disabled, Delivery.objects.get().status) == (
        False,
        "The receiver answered 410 Gone.",
        "dead",
    )
    drive(make_order())
    relay()
    assert len(receiver.got) == 1


def test_a_receiver_that_moved_inside_since_is_not_called(make_order, hook, receiver, settings):
    """What was fine when it was made is looked at again each time."""
    settings.WAYSTATION_OUTBOUND_ALLOW = []
    drive(make_order())
    relay()
    assert (receiver.got, Delivery.objects.get().status) == ([], "dead")


def test_a_secret_is_changed_without_a_gap(make_order, hook, receiver):
    """Both are signed with for a day, then the new one alone."""
    endpoint, old = hook
    new = endpoints.rotate_secret(endpoint)
    drive(make_order())
    relay()
    headers, body = receiver.got[0]
    assert verified(headers, body, new) and verified(headers, body, old)
    endpoint.refresh_from_db()
    endpoint.secrets = [
        secret if secret["until"] is None else {**secret, "until": timezone.now().isoformat()}
        for secret in endpoint.secrets
    ]
    endpoint.save()
    drive(make_order())
    relay()
    headers, body = receiver.got[1]
    assert verified(headers, body, new) and not verified(headers, body, old)


def test_a_callback_hears_of_one_thread_and_gets_the_answers_data(make_order, receiver, ana, ben):
    """For who waits for that answer: its words and data come along."""
    order, other = drive(make_order()), drive(make_order())
    endpoint, secret = outbound.register_callback(order.thread, receiver.url)
    assert outbound.register_callback(order.thread, receiver.url)[0] == endpoint
    services.decide(pause_of(order).pk, Answer("revise", Via.PAGE, feedback="shorter"), by=ben)
    services.decide(pause_of(other).pk, Answer("approve", Via.PAGE), by=ben)
    relay()
    ((headers, body),) = receiver.got
    decision = json.loads(body)["data"]["decision"]
    assert verified(headers, body, secret)
    assert (decision["feedback"], decision["input"]) == ("shorter", None)


def test_a_callback_is_told_of_an_answer_even_if_nobody_ever_sent_it_the_question(
    make_order, receiver, ben
):
    order = drive(make_order())
    outbound.register_callback(order.thread, receiver.url)
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ben)
    relay()
    assert [json.loads(body)["type"] for _, body in receiver.got] == ["question.answered"]


def test_addresses_and_secrets_are_sealed_at_rest(ana, receiver):
    with keys(NEW):
        endpoint, secret = endpoints.make(ana, channel="webhook", target=receiver.url)
        assert secret not in dump() and receiver.url not in dump()
        assert Endpoint.objects.get(pk=endpoint.pk).target == receiver.url


def test_what_cannot_be_opened_is_tried_again_not_sent_broken(make_order, ana, receiver):
    order = make_order()
    with keys(NEW):
        endpoints.make(ana, channel="webhook", target=receiver.url)
    drive(order)
    relay()
    assert (receiver.got, Delivery.objects.get().status) == ([], "queued")


def test_with_encryption_at_rest_a_webhook_tells_no_content(make_order, hook, receiver):
    drive(make_order())
    Pause.objects.update(question="Fire Zoe?")
    with keys(NEW):
        relay()
    assert b"Fire Zoe" not in receiver.got[0][1]
    assert json.loads(receiver.got[0][1])["data"]["title"] is None


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"channel": "pigeon", "target": "https://example.org"}, "channel"),
        ({"channel": "email", "target": "ana@example.org"}, "channel"),
        ({"channel": "webhook", "target": "http://10.0.0.1/"}, "target"),
        ({"channel": "webhook", "target": "nonsense"}, "target"),
        ({"channel": "apprise", "target": "json://10.0.0.1/"}, "target"),
        (
            {"channel": "webhook", "target": "http://127.0.0.1/", "occasions": ["payday"]},
            "occasions",
        ),
    ],
)
def test_an_endpoint_that_cannot_be_kept_is_refused_with_the_field(ana, receiver, values, field):
    with pytest.raises(EndpointInvalid) as refused:
        endpoints.make(ana, **values)
    assert refused.value.field == field
    assert not Endpoint.objects.exists()


def test_who_may_make_endpoints_for_others(ana, team, root, receiver):
    for scope in ("team", "everybody"):
        with pytest.raises(NotYourEndpoint):
            endpoints.make(ana, channel="webhook", target=receiver.url, scope=scope, team=team)
    endpoints.make(root, channel="email", target="team@example.org", scope="team", team=team)
    endpoints.make(root, channel="webhook", target=receiver.url, scope="everybody")
    assert Endpoint.objects.managed_by(ana).count() == 0


def test_a_person_has_a_bounded_number_of_endpoints(ana, receiver, monkeypatch):
    monkeypatch.setattr(endpoints, "MOST", 2)
    for _ in range(2):
        endpoints.make(ana, channel="webhook", target=receiver.url)
    with pytest.raises(EndpointInvalid, match="remove one first"):
        endpoints.make(ana, channel="webhook", target=receiver.url)


def test_a_test_message_is_sent_to_the_endpoint_once_in_ten_seconds(ana, hook, receiver):
    assert endpoints.send_test(ana, hook[0]) is not None
    assert endpoints.send_test(ana, hook[0]) is None
    relay()
    assert json.loads(receiver.got[0][1])["type"] == "test"
    Delivery.objects.update(made_at=timezone.now() - dt.timedelta(minutes=1))
    assert endpoints.send_test(ana, hook[0]) is not None
