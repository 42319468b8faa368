"""`Idempotency-Key`: a request that is sent again is answered again, and done once."""

from __future__ import annotations

import datetime as dt
from functools import partial

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from hitl import idempotency
from hitl.models import Decision, IdempotencyKey
from runs.models import WorkOrder
from tests.conftest import pause_of
from tests.databases import at_once, rows
from tests.databases import file_database as file_database
from tests.programs import ORDERS, problem

pytestmark = pytest.mark.django_db

ORDER = {"template": "writing", "title": "Once"}


@pytest.fixture
def ana_api(ana, api, templates):
    return api(ana)


def send(client, url, data, key="k1"):
    return client.post(url, data, format="json", headers={"Idempotency-Key": key})


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
    assert (first.status_code, first.json()) == (second.status_code, second.json()) == (201, second.json())
    assert Decision.objects.count() == 1


def test_a_refusal_is_replayed_too(ana_api):
    first, second = (send(ana_api, ORDERS, {"template": "nowhere"}) for _ in range(2))
    assert (first.status_code, first.content) == (second.status_code, second.content)
    assert second["Idempotent-Replayed"] == "true"


def test_the_same_key_with_another_request_is_refused(ana_api):
    send(ana_api, ORDERS, ORDER)
    problem(send(ana_api, ORDERS, {**ORDER, "title": "Other"}), 422, "idempotency_key_reused")
    problem(send(ana_api, f"{ORDERS}/wo_01m80tjaghfs8v8fct10r6c3jb/cancel", ORDER), 422, "idempotency_key_reused")
    assert WorkOrder.objects.count() == 1


def test_another_key_and_another_person_are_other_requests(ana_api, ben, api):
    for client, key in ((ana_api, "k1"), (ana_api, "k2"), (api(ben), "k1")):
        assert send(client, ORDERS, ORDER, key=key).status_code == 201
    assert WorkOrder.objects.count() == 3


@pytest.mark.parametrize("key", ["", "x" * 256, "a\tb"])
def test_a_key_that_is_none_is_refused(ana_api, key):
    before = rows()
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


def test_while_the_first_is_worked_on_the_second_is_told_to_wait(ana_api, ana):
    send(ana_api, ORDERS, ORDER)
    IdempotencyKey.objects.update(status=None)
    response = send(ana_api, ORDERS, ORDER)
    problem(response, 409, "idempotency_in_progress")
    assert response["Retry-After"] == "1"


def test_a_key_whose_server_was_killed_is_free_after_a_minute(ana_api):
    send(ana_api, ORDERS, ORDER)
    IdempotencyKey.objects.update(status=None, made_at=timezone.now() - idempotency.STALE - dt.timedelta(seconds=1))
    assert send(ana_api, ORDERS, ORDER).status_code == 201


def test_keys_are_forgotten_after_a_day(ana_api):
    send(ana_api, ORDERS, ORDER)
    IdempotencyKey.objects.update(made_at=timezone.now() - idempotency.KEPT - dt.timedelta(seconds=1))
    assert send(ana_api, ORDERS, ORDER, key="k2").status_code == 201
    assert list(IdempotencyKey.objects.values_list("key", flat=True)) == ["k2"]


def test_a_server_error_gives_the_key_back(ana_api, monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("broken")

    ana_api.raise_request_exception = False
    with monkeypatch.context() as patched:
        patched.setattr("runs.services.submit", broken)
        assert send(ana_api, ORDERS, ORDER).status_code == 500
    assert send(ana_api, ORDERS, ORDER).status_code == 201


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("file_database")
def test_of_many_at_the_same_moment_one_is_done(ana_api, ana, api):
    """S3-43, F7: on each database."""
    answers = at_once(*(partial(send, client, ORDERS, ORDER) for client in [api(ana) for _ in range(8)]))
    codes = [answer.status_code for answer in answers]
    assert set(codes) <= {201, 409}
    assert 201 in codes
    assert WorkOrder.objects.count() == 1
