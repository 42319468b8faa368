"""Signed events from outside: who signed is believed, once each."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.utils import timezone

from checkpoints.security.key_rotation import columns
from hitl.models import Decision, InboundSource, Via
from hitl.outbound.signatures import new_secret
from hitl.wait_gate import signatures
from runs.workflows.base import Ask, Done, Report
from tests.conftest import drive, pause_of
from tests.databases.whole import at_once, rows
from tests.databases.whole import file_database as file_database
from tests.worlds.scripted_step import order_that as order_that
from tests.worlds.scripted_step import state_of

pytestmark = pytest.mark.django_db

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def source(ana):
    return InboundSource.objects.create(name="crm", user=ana, secrets=[SECRET])


def post(
    body, *, name="crm", secret=SECRET, message_id="msg_1", at=None, signature=None, sent=None
):
    at = at or timezone.now()
    text = json.dumps(body).encode() if not isinstance(body, bytes) else body
    headers = {
        signatures.ID: message_id,
        signatures.TIMESTAMP: str(int(at.timestamp())),
        signatures.SIGNATURE: signature
        if signature is not None
        else signatures.sign(secret, message_id, at, text),
    }
    return Client().post(
        f"/api/v1/inbound/{name}", sent or text, content_type="application/json", headers=headers
    )


def event(order, **more):
    return {
        "run_id": order.latest_run.shown_id,
        "payload": {"decision": "approve"},
        "sender_metadata": {"ticket": 7},
        **more,
    }


def test_the_signature_is_that_of_the_specification():
    """The vector of the Standard Webhooks documentation's own libraries."""
    at = dt.datetime.fromtimestamp(1614265330, dt.UTC)
    body = b'{"test": 2432232314}'
    assert (
        signatures.sign(SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", at, body)
        == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    )


def test_a_signed_event_answers_as_its_sources_person(paused, source, ana):
    """S3-22, S3-30."""
    assert post(event(paused)).status_code == 200
    decision = Decision.objects.get()
    assert (decision.decided_by, decision.via, decision.action) == (ana, Via.WEBHOOK, "approve")
    source.refresh_from_db()
    assert source.last_used_at is not None


def test_a_replay_is_the_same_answer_and_no_second_effect(paused, source):
    """F24, S3-43: also with a fresh timestamp, and once the run has gone on."""
    first = post(event(paused))
    drive(paused)
    again = post(event(paused), at=timezone.now() + dt.timedelta(minutes=2))
    assert (again.status_code, again.content, again["Idempotent-Replayed"]) == (
        200,
        first.content,
        "true",
    )
    assert (pause_of(paused).step, Decision.objects.count()) == ("execute", 1)
    other = post(event(paused, payload={"decision": "cancel"}))
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")


def test_what_is_not_signed_is_refused_and_nothing_is_written(paused, source, subtests):
    """F2, F6."""
    before, now = rows(), timezone.now()
    cases: list[dict[str, Any]] = [
        {"secret": "whsec_" + "A" * 32},
        {"signature": ""},
        {"signature": "v1,"},
        {"signature": "v1,é"},
        {"signature": "v2," + "A" * 44},
        {"signature": "v1a,AAAA"},
        {"message_id": ""},
        {"message_id": "x" * 300},
        {"at": now - dt.timedelta(minutes=6)},
        {"at": now + dt.timedelta(minutes=30)},
        {"sent": b'{"run_id": "other"}'},
        {"name": "nobody"},
    ]
    for forged in cases:
        with subtests.test(ascii(forged)[:60]):
            refused = post(event(paused), **forged)
            assert (refused.status_code, refused.json()["code"]) == (401, "signature_invalid")
            assert refused["WWW-Authenticate"] == "Signature"
    assert rows() == before


@pytest.mark.parametrize("off", ["source", "person"])
def test_a_source_that_was_switched_off_is_out_at_once(paused, source, ana, off):
    target = source if off == "source" else ana
    setattr(target, "active" if off == "source" else "is_active", False)
    target.save()
    assert post(event(paused)).status_code == 401
    assert not Decision.objects.exists()


def test_both_secrets_sign_while_one_is_replaced(paused, source):
    new = new_secret()
    source.secrets = [new, SECRET]
    source.save()
    at = timezone.now()
    body = json.dumps(event(paused)).encode()
    both = f"v1,{'A' * 43}= {signatures.sign(new, 'msg_1', at, body)}"
    assert post(body, at=at, signature=both).status_code == 200
    assert post(event(paused), message_id="msg_2", secret=SECRET).status_code == 200


def test_a_step_waits_for_a_system_and_goes_on_with_what_that_sends(order_that, source):
    """S3-28: the actor may be a system; what it sends joins the state."""
    wanted = {"type": "object", "required": ["paid"], "properties": {"paid": {"type": "boolean"}}}

    def pay(state, context):
        if "paid" in state:
            return Done(update={"done": state["paid"]})
        return Ask(
            question="Was it paid?",
            answers={"answer": context.step},
            report=Report(content=""),
            required_inputs=wanted,
            kind="external",
            phase="awaiting_payment",
        )

    order = drive(order_that(pay))
    assert pause_of(order).kind == "external"
    sent = {
        "run_id": order.latest_run.shown_id,
        "input_type": "awaiting_payment",
        "payload": {"paid": True},
    }
    assert post(sent).status_code == 200
    assert state_of(drive(order))["done"] is True


def test_a_step_that_asks_for_no_kind_that_there_is_fails(order_that):
    order = drive(
        order_that(
            lambda state, context: Ask(
                question="?",
                answers={"answer": ""},
                report=Report(content=""),
                kind="strange",  # type: ignore[arg-type]  # to be refused
            )
        )
    )
    assert (order.status, order.latest_run.failure_code) == ("failed", "step_error")


def test_a_source_sees_what_its_person_sees(paused, zoe):
    """F4."""
    InboundSource.objects.create(name="crm", user=zoe, secrets=[SECRET])
    refused = post(event(paused))
    assert (refused.status_code, refused.json()["code"]) == (404, "not_found")
    assert not Decision.objects.exists()


def test_what_came_too_soon_may_come_again_under_its_id(paused, source):
    wrong = event(paused, node_id="execute", input_type="nothing")
    assert post(wrong).status_code in {202, 409}
    missing = {"run_id": "booking-1", "payload": {}}
    assert [post(missing, message_id="msg_9").status_code for _ in range(2)] == [404, 404]


def test_hostile_bodies_are_refused_with_a_code(source, subtests):
    for body in [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b"[" * 50_000,
        b'{"run_id": "\\u0000"}',
        b'{"run_id": 5, "payload": NaN}',
    ]:
        with subtests.test(ascii(body)[:60]):
            refused = post(body)
            assert 400 <= refused.status_code < 500
            assert refused.json()["code"]


def test_what_is_too_large_is_refused_before_it_is_read(source):
    refused = post(b"x" * 1_100_000)
    assert (refused.status_code, refused.json()["code"]) == (413, "too_large")


def test_only_post_is_taken(source, ana, client):
    client.force_login(ana)
    assert client.get("/api/v1/inbound/crm").status_code in {401, 405}
    assert (
        client.post("/api/v1/inbound/crm", {}, content_type="application/json").status_code == 401
    )


@pytest.mark.django_db(transaction=True)
def test_replays_at_the_same_moment_are_one_answer(file_database, paused, source):
    """F0: what is sent twelve times at once has one effect."""
    ended = at_once(*[lambda: post(event(paused)).status_code] * 12)
    assert set(ended) <= {200, 409}
    assert 200 in ended
    assert Decision.objects.count() == 1


def test_secrets_are_among_what_is_sealed_at_rest():
    assert {
        "hitl_inboundsource.secrets",
        "hitl_earlyanswer.event",
        "hitl_wait.callback_secret",
        "runs_pause.calls",
    } <= {one.about for one in columns()}


# For operators


@pytest.fixture
def desk(django_user_model):
    client = Client()
    client.force_login(django_user_model.objects.create_superuser("root"))
    return client


def act(client, action, *names, confirmed=True):
    return client.post(
        "/admin/hitl/inboundsource/",
        {
            "action": action,
            "_selected_action": names,
            "index": "0",
            **({"confirmed": "yes"} if confirmed else {}),
        },
        follow=True,
    ).content.decode()


def test_a_source_is_made_in_the_admin_and_its_secret_is_told_once(desk, ana, paused):
    told = desk.post(
        "/admin/hitl/inboundsource/add/", {"name": "crm", "user": ana.pk}, follow=True
    ).content.decode()
    secret = InboundSource.objects.get().secrets[0]
    assert secret.replace("+", "&#x2B;") in told or secret in told
    for page in ("/admin/hitl/inboundsource/", "/admin/hitl/inboundsource/crm/change/"):
        assert secret not in desk.get(page).content.decode()
    assert post(event(paused), secret=secret).status_code == 200


def test_secrets_are_replaced_and_sources_switched_by_confirmed_actions(desk, source):
    assert "Make new secrets?" in act(desk, "new_secret", "crm", confirmed=False)
    act(desk, "new_secret", "crm")
    source.refresh_from_db()
    assert (len(source.secrets), source.secrets[1]) == (2, SECRET)
    act(desk, "drop_old_secrets", "crm")
    act(desk, "switch_off", "crm")
    source.refresh_from_db()
    assert (len(source.secrets), SECRET in source.secrets, source.active) == (1, False, False)
    act(desk, "switch_on", "crm")
    source.refresh_from_db()
    assert source.active


def test_staff_operate_no_source_that_acts_as_somebody_else(source, ben):
    """F4."""
    ben.is_staff = True
    ben.save()
    ben.user_permissions.set(Permission.objects.filter(codename__endswith="inboundsource"))
    client = Client()
    client.force_login(ben)
    act(client, "switch_off", "crm")
    assert "acts as somebody else" in act(client, "new_secret", "crm")
    assert (
        client.post(
            "/admin/hitl/inboundsource/add/", {"name": "mine", "user": source.user_id}
        ).status_code
        == 200
    )
    source.refresh_from_db()
    assert (source.active, source.secrets, InboundSource.objects.count()) == (True, [SECRET], 1)
