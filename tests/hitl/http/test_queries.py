"""The query of a REST request: what nobody knows is refused with what is known."""

from __future__ import annotations

import pytest
from django.urls import reverse
from drf_spectacular.generators import SchemaGenerator

from hitl.find import answers, orders, questions, threads

pytestmark = pytest.mark.django_db

NOWHERE = "0" * 26


def test_a_filter_that_nobody_knows_is_refused_with_the_known_ones(api, ana, subtests):
    """Before, it was passed over, or answered by an empty list with 200."""
    client = api(ana)
    for address, name, known in [
        ("deliveries?status=bogus", "status", "One of cancelled, dead, queued, sending, sent."),
        ("runs?status=bogus", "status", "pending_input"),
        ("pauses?open=perhaps", "open", "true or false."),
        ("pauses?kind=bogus", "kind", "approval"),
        ("pauses?open=1&open=0", "open", "Once only."),
        ("runs?thread=bogus", "thread", "thr_"),
        ("work-orders?status=odd", "status", "paused"),
    ]:
        with subtests.test(address):
            refused = client.get(f"/api/v1/{address}")
            assert (refused.status_code, refused.json()["code"]) == (400, "invalid")
            assert known in refused.json()["errors"][name][0]


def test_a_name_that_nobody_reads_is_refused_with_the_known_ones(api, ana, subtests):
    """Before, the code was that of any wrong value, and the known ones stood in words only."""
    client = api(ana)
    for address, name, known in [
        ("pauses?opne=1", "opne", "open"),
        ("tools?x=1", "x", None),
        ("work-orders?stauts=paused&status=odd", "stauts", "failure_code"),
        ("threads?kind=approval", "kind", "sort"),
        ("decisions?due=today", "due", "since"),
    ]:
        with subtests.test(address):
            refused = client.get(f"/api/v1/{address}")
            said = refused.json()
            assert (refused.status_code, said["code"]) == (422, "unknown_parameter")
            assert name in said["errors"]
            assert known in said["known"] if known else said["known"] == []


def test_a_value_of_which_no_schema_can_say_that_it_cannot_be_is_refused(api, ana):
    refused = api(ana).get("/api/v1/decisions?since=yesterday").json()
    assert (refused["status"], refused["code"]) == (422, "query_not_understood")
    assert "2026-07-31" in refused["errors"]["since"][0]


def test_a_filter_by_something_that_is_not_there_is_refused(api, ana):
    """Before, it was answered by an empty list."""
    for address in (f"runs?thread=thr_{NOWHERE}", f"deliveries?pause=pse_{NOWHERE}"):
        assert api(ana).get(f"/api/v1/{address}").status_code == 404, address


def test_a_sender_of_signed_events_may_put_what_it_likes_behind_the_address(client):
    """The signature decides, as ever."""
    assert (
        client.post(
            "/api/v1/inbound/partner?tenant=7", {}, content_type="application/json"
        ).status_code
        == 401
    )


def test_no_text_of_any_filter_is_an_error_of_ours(api, admin_user):
    """Each one that the document has: PostgreSQL takes no NUL, and thirty of them were 500."""
    client, asked = api(admin_user), set()
    for path, item in SchemaGenerator().get_schema(public=True)["paths"].items():
        for parameter in item.get("get", {}).get("parameters", []):
            schema, name = parameter["schema"], parameter["name"]
            if "{" in path or parameter["in"] != "query" or schema.get("type") != "string":
                continue
            refused = client.get(f"{path}?{name}=a%00b")
            assert (refused.status_code, refused.json()["code"]) == (400, "invalid"), (path, name)
            asked.add(name)
    assert {"person", "team", "template", "ledger", "function", "user_id", "cursor"} <= asked


def test_no_text_of_any_filter_is_an_error_of_a_page(client, admin_user):
    """The pages read the same words by themselves."""
    client.force_login(admin_user)
    for asked_of in (orders.ORDERS, threads.THREADS, questions.INBOX, answers.ANSWERS):
        for parameter in asked_of.parameters:
            page = client.get(reverse(asked_of.address), {parameter.name: "a\x00b"})
            assert page.status_code == 422, (asked_of.address, parameter.name)
