"""`Idempotency-Key`: a request that is sent again is answered again, and done once."""

from __future__ import annotations

import datetime as dt
import threading
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest
from django.conf import settings as configured
from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import F
from django.utils import timezone
from rest_framework.test import APIClient

from checkpoints.state import codec, encryption
from hitl import tasks
from hitl.http import idempotency, replay
from hitl.http.problems import response as problem_response
from hitl.models import ApiToken, Decision, IdempotencyKey
from hitl.models.outbound import Endpoint
from hitl.threads import erasure
from runs.models import WorkOrder
from runs.services import work_orders
from tests.conftest import pause_of
from tests.databases.whole import at_once, rows
from tests.databases.whole import file_database as file_database
from tests.doors.rest import ORDERS, problem
from tests.doors.rest import ana_api as ana_api

pytestmark = pytest.mark.django_db

ORDER = {"template": "writing", "title": "Once"}


def send(client, url, data, key="k1"):
    return client.post(url, data, format="json", headers={"Idempotency-Key": key})


@pytest.mark.both_databases
def test_an_order_that_is_sent_twice_is_made_once_and_answered_the_same(ana_api):
    """S3-43, F7."""
    first, second = send(ana_api, ORDERS, ORDER), send(ana_api, ORDERS, ORDER)
    assert first.status_code == second.status_code == 201
    assert first.content == second.content
    assert "Idempotent-Replayed" not in first
    assert second["Idempotent-Replayed"] == "true"
    assert WorkOrder.objects.count() == 1


def test_a_decision_that_is_sent_twice_is_taken_once_and_answered_the_same(ana_api, paused):
    """S3-43, F7: the second is not told that somebody was quicker."""
    url = f"/api/v1/pauses/{pause_of(paused).shown_id}/decisions"
    first, second = (send(ana_api, url, {"decision": "approve"}) for _ in range(2))
    assert (
        (first.status_code, first.json())
        == (second.status_code, second.json())
        == (201, second.json())
    )
    assert Decision.objects.count() == 1


def test_a_refusal_is_replayed_too(ana_api):
    first, second = (send(ana_api, ORDERS, {"template": "nowhere"}) for _ in range(2))
    assert (first.status_code, first.content) == (second.status_code, second.content)
    assert second["Idempotent-Replayed"] == "true"


def test_the_same_key_with_another_request_is_refused(ana_api):
    send(ana_api, ORDERS, ORDER)
    problem(send(ana_api, ORDERS, {**ORDER, "title": "Other"}), 422, "idempotency_key_reused")
    problem(
        send(ana_api, f"{ORDERS}/wo_01m80tjaghfs8v8fct10r6c3jb/cancel", ORDER),
        422,
        "idempotency_key_reused",
    )
    assert WorkOrder.objects.count() == 1


def test_another_key_and_another_person_are_other_requests(ana_api, ben, api):
    for client, key in ((ana_api, "k1"), (ana_api, "k2"), (api(ben), "k1")):
        assert send(client, ORDERS, ORDER, key=key).status_code == 201
    assert WorkOrder.objects.count() == 3


def test_a_key_that_is_none_is_refused(ana_api):
    before = rows()
    for key in ("", "x" * 256, "a\tb"):
        problem(send(ana_api, ORDERS, ORDER, key=key), 400, "idempotency_key_invalid")
    assert rows() == before


def test_what_only_reads_needs_no_key_and_keeps_none(ana_api, paused):
    ana_api.get("/api/v1/pauses", headers={"Idempotency-Key": "k1"})
    assert not IdempotencyKey.objects.exists()


def test_who_is_not_known_leaves_no_key(db):
    assert send(APIClient(), ORDERS, ORDER).status_code == 401
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION="Bearer wst_forged")
    assert send(client, ORDERS, ORDER).status_code == 401
    assert not IdempotencyKey.objects.exists()


def die(**made):
    """As after a server that was killed when all was committed and nothing answered."""
    IdempotencyKey.objects.update(
        status=None, kept="", body=b"", made_at=F("made_at") - replay.ANSWERING, **made
    )


@pytest.mark.both_databases
def test_a_server_killed_before_it_answered_has_made_one_order_and_the_key_names_it(ana_api):
    """F7: the key was free after a minute, and made a second order."""
    made = send(ana_api, ORDERS, ORDER).json()
    die()
    again = send(ana_api, ORDERS, ORDER)
    assert (again.status_code, again.json()["id"], again["Idempotent-Replayed"]) == (
        200,
        made["id"],
        "rebuilt",
    )
    assert WorkOrder.objects.count() == 1


@pytest.mark.both_databases
def test_what_was_undone_left_no_key(ana_api, monkeypatch):
    """A server killed before the commit: the database takes the key back with the order."""
    ana_api.raise_request_exception = False
    with monkeypatch.context() as patched:
        patched.setattr("runs.services.work_orders.begin", lambda *_, **__: 1 / 0)
        assert send(ana_api, ORDERS, ORDER).status_code == 500
    assert (WorkOrder.objects.count(), IdempotencyKey.objects.count()) == (0, 0)
    assert send(ana_api, ORDERS, ORDER).status_code == 201


@pytest.mark.both_databases
def test_keys_are_forgotten_after_a_day_by_the_sweep_and_at_once(ana_api, settings):
    """They stayed, with their answers, until their person sent the next one."""
    send(ana_api, ORDERS, ORDER)
    IdempotencyKey.objects.update(
        made_at=timezone.now()
        - dt.timedelta(hours=settings.WAYSTATION_IDEMPOTENCY_HOURS, seconds=1)
    )
    assert send(ana_api, ORDERS, ORDER).status_code == 201
    IdempotencyKey.objects.update(
        made_at=timezone.now()
        - dt.timedelta(hours=settings.WAYSTATION_IDEMPOTENCY_HOURS, seconds=1)
    )
    send(ana_api, ORDERS, ORDER, key="k2")
    tasks.announce()
    assert list(IdempotencyKey.objects.values_list("key", flat=True)) == ["k2"]


# What is kept, and who gets it


def stored():
    """The answers as a dump of the database shows them."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT body FROM hitl_idempotencykey")
        return [bytes(body) for (body,) in cursor.fetchall()]


def test_answers_are_sealed_also_where_no_key_is_configured(ana_api):
    """They lay in plain text in every backup."""
    made = send(ana_api, ORDERS, ORDER)
    assert all(body.startswith(b"wse1.") and b"Once" not in body for body in stored())
    assert send(ana_api, ORDERS, ORDER).content == made.content
    encryption.configure([], secret="another")  # a SECRET_KEY that was replaced
    try:
        again = send(ana_api, ORDERS, ORDER)
    finally:
        encryption.configure(configured.WAYSTATION_ENCRYPTION_KEYS, secret=configured.SECRET_KEY)
    assert (again.status_code, again.json()["id"]) == (200, made.json()["id"])


def test_a_secret_is_told_once_and_never_by_its_key(ana_api, settings):
    """It was told to the person's token that may only read."""
    settings.WAYSTATION_OUTBOUND_ALLOW = ["127.0.0.1"]
    hook = {"channel": "webhook", "target": "http://127.0.0.1/hook"}
    first = send(ana_api, "/api/v1/endpoints", hook)
    assert first.status_code == 201, first.content
    again = send(ana_api, "/api/v1/endpoints", hook)
    problem(again, 409, "idempotency_answer_not_kept")
    assert (again.json()["made"], again.json()["first_status"]) == ([first.json()["id"]], 201)
    assert (b"whsec_" in again.content, Endpoint.objects.count()) == (False, 1)


def test_a_token_that_only_reads_gets_no_answer_of_one_that_writes(ana_api, ana):
    send(ana_api, ORDERS, ORDER)
    reader = APIClient()
    reader.credentials(
        HTTP_AUTHORIZATION=f"Bearer {ApiToken.make(ana, name='reader', scope='read')[1]}"
    )
    problem(send(reader, ORDERS, ORDER), 403, "scope_missing")


def test_who_sees_the_question_no_more_is_not_told_of_it_again(paused, ben, api):
    url = f"/api/v1/pauses/{pause_of(paused).shown_id}/claim"
    client = api(ben)
    assert [send(client, url, {}).status_code for _ in range(2)] == [200, 200]
    ben.groups.clear()
    problem(send(client, url, {}), 404, "not_found")
    ben.is_active = False
    ben.save()
    assert send(client, url, {}).status_code in {401, 403}


def test_a_method_that_an_address_has_not_is_said_before_any_key_or_person_is_judged(
    ana_api, client
):
    """S0-54: what helps is another method, whoever asks and with whatever key."""
    asked: tuple[tuple[Any, dict[str, str]], ...] = (
        (ana_api, {"Idempotency-Key": "a\tb"}),
        (ana_api, {}),
        (client, {}),
    )
    for asks, headers in asked:
        refused = asks.generic(
            "PUT", ORDERS, "{}", content_type="application/json", headers=headers
        )
        problem(refused, 405, "method_not_allowed")
        assert refused["Allow"] == "GET, POST, HEAD, OPTIONS"


SECOND_LOOKS = [
    (401, 404, "not_found"),
    (403, 404, "not_found"),
    (404, 404, "not_found"),
    (410, 410, "erased"),
    (302, 409, "idempotency_answer_not_kept"),
    (405, 409, "idempotency_answer_not_kept"),
    (429, 503, "idempotency_answer_unavailable"),
    (500, 503, "idempotency_answer_unavailable"),
    (503, 503, "idempotency_answer_unavailable"),
    (507, 503, "idempotency_answer_unavailable"),
]
"""How the second look at what was made ends → what is told, and its code."""


@pytest.mark.parametrize("answered", [True, False])
def test_no_answer_to_a_repeated_request_says_less_than_is_known(
    ana_api, monkeypatch, subtests, answered
):
    """Every status but 200 of the second look was a 404: a client took its order for gone."""
    send(ana_api, ORDERS, ORDER)
    if not answered:
        die()
    for read, status, code in SECOND_LOOKS:
        looked = problem_response(read, "looked", "At what the first request made.")
        looked["Retry-After"] = "7"
        with subtests.test(str(read)), monkeypatch.context() as patched:
            patched.setattr(replay, "_show", lambda *_, looked=looked: looked)
            again = send(ana_api, ORDERS, ORDER)
            problem(again, status, code)
            assert again.get("Retry-After") == ("7" if status == 503 else None)
            assert ("stands" in again.json()["detail"]) is (status == 503)
    assert send(ana_api, ORDERS, ORDER).status_code == (201 if answered else 200)
    assert WorkOrder.objects.count() == 1


@pytest.mark.parametrize("where", ["_refused", "_answered", "_show"])
def test_trouble_on_the_way_to_an_answer_that_is_known_is_a_503_that_says_so(
    ana_api, monkeypatch, where
):
    send(ana_api, ORDERS, ORDER)
    for error in (OperationalError("lost"), InterfaceError("closed"), KeyError()):
        with monkeypatch.context() as patched:
            patched.setattr(replay, where, Mock(side_effect=error))
            again = send(ana_api, ORDERS, ORDER)
        problem(again, 503, "idempotency_answer_unavailable")
        assert again["Retry-After"] == "5"
        assert "the same Idempotency-Key" in again.json()["detail"]
    assert send(ana_api, ORDERS, ORDER).status_code == 201


def test_a_view_that_cannot_ask_who_it_is_says_that_what_was_made_stands(ana_api, monkeypatch):
    send(ana_api, ORDERS, ORDER)
    refused = problem_response(503, "database_unavailable", "Whether this was done is not known.")
    with monkeypatch.context() as patched:
        patched.setattr(replay, "_refused", lambda *_: refused)
        problem(send(ana_api, ORDERS, ORDER), 503, "idempotency_answer_unavailable")


def test_an_address_that_is_none_is_told_so_twice(ana_api):
    for _ in range(2):
        assert send(ana_api, "/api/v1/nowhere", ORDER).status_code == 404


def test_with_the_thread_its_answers_are_erased_and_the_key_stays_used(ana_api, ana):
    """The title and input of an erased order could still be had by its key."""
    made = send(ana_api, ORDERS, ORDER).json()
    send(ana_api, f"{ORDERS}/{made['id']}/cancel", {}, key="k2")
    send(ana_api, "/api/v1/threads", {"title": "Other"}, key="k3")
    erasure.erase(WorkOrder.objects.get().thread_id, by="root", reason="asked for")
    for url, body, key in ((ORDERS, ORDER, "k1"), (f"{ORDERS}/{made['id']}/cancel", {}, "k2")):
        problem(send(ana_api, url, body, key=key), 410, "erased")
    assert send(ana_api, "/api/v1/threads", {"title": "Other"}, key="k3").status_code == 201
    erased = IdempotencyKey.objects.filter(kept="erased").values_list("body", "made", "about")
    assert (list(erased), WorkOrder.objects.count()) == ([(b"", "", "")] * 2, 0)


def test_an_answer_that_was_too_large_is_made_anew(ana_api, monkeypatch):
    """It was an empty body with the status of the first."""
    monkeypatch.setattr(idempotency, "LARGEST", 10)
    made = send(ana_api, ORDERS, ORDER).json()
    assert send(ana_api, ORDERS, ORDER).json()["id"] == made["id"]


@pytest.mark.both_databases
def test_a_server_error_gives_the_key_back(ana_api, monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("broken")

    ana_api.raise_request_exception = False
    with monkeypatch.context() as patched:
        patched.setattr("runs.services.submit", broken)
        assert send(ana_api, ORDERS, ORDER).status_code == 500
    assert send(ana_api, ORDERS, ORDER).status_code == 201


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("file_database")
def test_of_many_at_the_same_moment_one_is_done_and_all_are_told(ana_api, ana, api):
    """S3-43, F7: on each database."""
    answers = at_once(
        *(partial(send, client, ORDERS, ORDER) for client in [api(ana) for _ in range(8)])
    )
    assert {(answer.status_code, answer.json()["id"]) for answer in answers} == {
        (201, WorkOrder.objects.get().shown_id)
    }


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("file_database")
def test_a_second_request_that_overtakes_the_first_makes_the_only_order(
    ana_api, ana, api, monkeypatch
):
    """F7: no clock decides; who commits first has made it."""
    before, overtaken = work_orders._take_in, []

    def overtake(*args, **kwargs):
        monkeypatch.setattr(work_orders, "_take_in", before)
        overtaken.append(at_once(partial(send, api(ana), ORDERS, ORDER))[0])
        return before(*args, **kwargs)

    monkeypatch.setattr(work_orders, "_take_in", overtake)
    first = send(ana_api, ORDERS, ORDER)
    assert (first.status_code, first.content) == (201, overtaken[0].content)
    assert (first["Idempotent-Replayed"], WorkOrder.objects.count()) == ("true", 1)


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("file_database")
def test_a_second_request_whose_first_holds_its_transaction_open_makes_nothing(ana_api, ana, api):
    """The first is a host that fell silent: its transaction is neither committed nor undone.

    What is sent again waits a while, is told to ask once more, and is done when the database has
    ended that session.
    """
    digest, other = codec.digest(b"x"), api(ana)
    other.raise_request_exception = False
    held, go_on = threading.Event(), threading.Event()

    def silent():
        with transaction.atomic():
            idempotency.ClaimedKey(ana, "k1", digest).make("wo_x")
            held.set()
            go_on.wait(20)
            transaction.set_rollback(True)

    def later():
        held.wait(10)
        with connection.cursor() as cursor:
            cursor.execute(
                "SET lock_timeout = '200ms'"
                if connection.vendor == "postgresql"
                else "PRAGMA busy_timeout = 200"
            )
        try:
            return send(other, ORDERS, ORDER), WorkOrder.objects.count()
        finally:
            go_on.set()

    _, (answer, made) = at_once(silent, later)
    assert (answer.status_code in {409, 503}, answer["Retry-After"] != "", made) == (True, True, 0)
    assert send(ana_api, ORDERS, ORDER).status_code == 201
