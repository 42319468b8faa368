"""How a work order ended: who is told, by template, once for each end, and where it was chosen."""

from __future__ import annotations

import json

import pytest
from django.contrib.auth.models import User
from django.core import mail
from rest_framework.test import APIClient

from hitl.decisions import notifications, services
from hitl.decisions.services import Answer
from hitl.models import Via
from hitl.models.outbound import ORDER_ENDS, Delivery, Endpoint
from hitl.outbound import endpoints, order_ends, signatures
from hitl.tasks import announce
from hitl.threads import erasure
from runs import services as runs
from runs.models import Pause, Run
from tests.conftest import drive, fresh, pause_of
from tests.databases.encryption_keys import NEW, keys
from tests.worlds.mailing import relay
from tests.worlds.ruled_order import browser

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("reachable")]

HOOK = "http://127.0.0.1:9/here"


@pytest.fixture(autouse=True)
def hooks_here(settings):
    settings.WAYSTATION_OUTBOUND_ALLOW = ["127.0.0.1"]


@pytest.fixture
def root(db):
    return User.objects.create_superuser("root")


def hook(by, *occasions, templates=(), **whose):
    made = {"target": HOOK, "occasions": occasions, "templates": templates, **whose}
    return endpoints.make(by, channel="webhook", **made)[0]


def end_of(make_order, ana, how):
    """An order of Ana's team that ended so."""
    if how == "failed":
        return drive(make_order("writing-fail"))
    order = drive(make_order("writing"))
    if how == "completed":
        while fresh(order).status == "paused":
            services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
            drive(fresh(order))
    elif how == "cancelled":
        services.cancel_order(order.pk, by=ana, via=Via.PAGE)
    else:
        Run.objects.filter(work_order=order).update(status="paused")
        pause = pause_of(order)
        now = pause.opened_at
        Pause.objects.filter(pk=pause.pk).update(deadline_at=now, extendable_until=now)
        pause = Pause.objects.answerable().get(pk=pause.pk)
        runs.expire(pause, now=now)
    return fresh(order)


def planned():
    order_ends.announce()
    rows = Delivery.objects.filter(run__isnull=False).order_by("pk")
    return [(row.endpoint_id, row.occasion) for row in rows]


@pytest.mark.parametrize("how", ["completed", "failed", "cancelled", "expired"])
def test_each_end_is_told_where_it_was_chosen_and_nowhere_else(make_order, ana, how, zoe):
    chosen = hook(ana, f"order_{how}")
    hook(ana, *({*ORDER_ENDS} - {f"order_{how}"}))
    hook(ana)  # whatever is about a question
    hook(ana, "asked")
    hook(zoe, *ORDER_ENDS)
    order = end_of(make_order, ana, how)
    assert order.latest_run.status == how
    assert planned() == [(chosen.pk, f"order_{how}")]
    assert planned() == [(chosen.pk, f"order_{how}")], "once"


def test_it_is_told_of_work_by_the_templates_that_were_chosen(make_order, ana):
    both = hook(ana, "order_completed", templates=["writing", "writing-quick"])
    hook(ana, "order_completed", templates=["writing"])
    order = drive(make_order("writing-quick"))
    assert order.status == "completed"
    assert planned() == [(both.pk, "order_completed")]


def test_templates_narrow_what_is_told_of_questions_but_for_ones_own_mail(make_order, ana):
    hook(ana, templates=["writing"])
    other = hook(ana, templates=["writing-quick"])
    endpoints.make(
        ana, channel="email", target="", occasions=["order_failed"], templates=["writing-quick"]
    )
    drive(make_order("writing"))
    announce()
    told = Delivery.objects.filter(occasion="asked")
    assert not told.filter(endpoint=other).exists()
    assert told.filter(channel="webhook").count() == 1
    assert told.filter(recipient=ana, channel="email").count() == 1


def test_those_of_the_owner_the_team_and_everybody_are_told_and_no_callback(
    make_order, ana, ben, root, team
):
    mine = hook(ana, "order_completed")
    hook(ben, "order_completed")  # sees the order, and does not own it
    teams = hook(root, "order_completed", scope="team", team=team)
    everybodys = hook(root, "order_completed", scope="everybody")
    off = hook(ana, "order_completed")
    endpoints.switch(off, on=False)
    order = make_order("writing-quick")
    endpoints.register_callback(order.thread, HOOK)
    drive(order)
    wanted = [mine.pk, teams.pk, everybodys.pk]
    assert sorted(key for key, _ in planned()) == sorted(wanted)


def test_what_ended_before_anybody_listened_and_what_belongs_to_another_run_is_not_told(
    make_order, ana
):
    drive(make_order("writing-quick"))
    assert planned() == []
    assert not Run.objects.ends_untold().exists()
    hook(ana, *ORDER_ENDS)
    assert planned() == []


def test_a_retry_that_ends_again_is_told_again(make_order, ana):
    hook(ana, "order_failed")
    order = drive(make_order("writing-fail"))
    assert len(planned()) == 1
    runs.retry(order.pk, by=ana)
    drive(fresh(order))
    assert len(planned()) == 2


def test_a_webhook_is_signed_and_says_what_ended(make_order, ana, receiver):
    _, secret = endpoints.make(
        ana, channel="webhook", target=receiver.url, occasions=["order_failed"]
    )
    order = drive(make_order("writing-fail"))
    order_ends.announce()
    relay()
    [(headers, body)] = receiver.got
    told = json.loads(body)
    assert told["type"] == "order.failed"
    data = told["data"]
    assert (data["work_order_id"], data["status"], data["template"]) == (
        order.shown_id, "failed", "writing-fail",
    )  # fmt: skip
    assert (data["failure_code"], data["error"]) == ("shop_closed", order.latest_run.error)
    at = int(headers["webhook-timestamp"])
    signed = signatures.headers(headers["webhook-id"], at, body, [secret])
    assert signed["webhook-signature"] in headers["webhook-signature"]


def test_the_owner_gets_a_mail_that_leads_to_the_order(make_order, ana):
    endpoints.make(ana, channel="email", target="", occasions=["order_failed"])
    order = drive(make_order("writing-fail"))
    order_ends.announce()
    relay()
    [letter] = mail.outbox
    assert (letter.to, letter.subject) == (["ana@example.org"], f"Failed: {order.title}")
    assert f"/work-orders/{order.shown_id}/" in letter.body
    assert "The shop is closed." in letter.body
    endpoints.tell_of_questions_alone(ana)
    drive(make_order("writing-fail"))
    assert len(planned()) == 1


def test_with_encryption_at_rest_it_tells_no_content(make_order, ana, receiver):
    with keys(NEW):
        endpoints.make(ana, channel="webhook", target=receiver.url, occasions=["order_failed"])
        endpoints.make(ana, channel="email", target="", occasions=["order_failed"])
        order = drive(make_order("writing-fail"))
        order_ends.announce()
        relay()
    for text in (receiver.got[0][1].decode(), mail.outbox[0].body, mail.outbox[0].subject):
        assert order.title not in text
        assert "shop is closed" not in text


def test_one_that_cannot_be_planned_holds_up_no_other(make_order, ana, monkeypatch):
    hook(ana, "order_completed")
    orders = [drive(make_order("writing-quick")) for _ in range(2)]
    write = notifications.write

    def broken(rows):
        found = list(rows)
        return 1 / 0 if found[0].run == orders[0].latest_run else write(found)

    monkeypatch.setattr(notifications, "write", broken)
    order_ends.announce()
    assert [row.run for row in Delivery.objects.filter(run__isnull=False)] == [orders[1].latest_run]
    monkeypatch.undo()
    assert len(planned()) == 2


def test_it_is_chosen_over_rest_and_on_the_page(make_order, ana, api):
    client: APIClient = api(ana)
    body = {"channel": "webhook", "target": HOOK, "occasions": ["order_failed"]}
    for templates, status in ((["writing"], 201), (["nothing"], 422)):
        answer = client.post("/api/v1/endpoints", {**body, "templates": templates}, format="json")
        assert answer.status_code == status
    assert Endpoint.objects.get().templates == ["writing"]
    own = {"channel": "email", "occasions": ["order_failed", "asked"]}
    refused = client.post("/api/v1/endpoints", own, format="json")
    assert (refused.status_code, refused.json()["code"]) == (422, "endpoint_invalid")
    page = browser(ana)
    form = {
        "channel": "email",
        "scope": "me",
        "occasions": ["order_failed"],
        "templates": ["writing"],
    }
    assert page.post("/notifications/", form).status_code == 201
    assert "Order failed (writing)" in " ".join(
        page.get("/notifications/").content.decode().split()
    )
    page.post("/notifications/mail", {"do": "questions"})
    assert "Order failed (" not in page.get("/notifications/").content.decode()


def test_its_messages_are_seen_by_those_who_see_the_order_and_go_with_its_thread(
    make_order, ana, ben, zoe, api
):
    hook(ana, "order_completed")
    order = drive(make_order("writing-quick"))
    order_ends.announce()
    [told] = api(ana).get("/api/v1/deliveries").json()["results"]
    assert (told["run_id"], told["pause_id"]) == (order.latest_run.shown_id, None)
    assert order.title in browser(ana).get("/deliveries/").content.decode()
    assert api(zoe).get("/api/v1/deliveries").json()["results"] == []
    erasure.erase(order.thread_id, by="root", reason="asked for")
    assert not Delivery.objects.filter(run__isnull=False).exists()
