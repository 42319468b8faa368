"""Who a program is: tokens, their scope and their end; and what everybody else gets."""

from __future__ import annotations

import datetime as dt

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from hitl.models import ApiToken
from tests.doors.rest import ORDERS, problem

pytestmark = pytest.mark.django_db


def client(header):
    found = APIClient()
    found.credentials(HTTP_AUTHORIZATION=header)
    return found


def with_token(user, **kwargs):
    return client(f"Bearer {ApiToken.make(user, name='test', **kwargs)[1]}")


def refused(response, code="token_invalid"):
    problem(response, 401, code)
    assert response["WWW-Authenticate"] == "Bearer"


def test_an_expired_token_is_refused(ana):
    now = timezone.now()
    refused(with_token(ana, expires_at=now - dt.timedelta(seconds=1)).get(ORDERS), "token_expired")
    assert with_token(ana, expires_at=now + dt.timedelta(hours=1)).get(ORDERS).status_code == 200


def test_a_token_of_a_deactivated_person_is_refused(ana):
    program = with_token(ana)
    ana.is_active = False
    ana.save()
    refused(program.get(ORDERS))


def test_a_header_that_holds_no_token_is_refused(subtests):
    for header in [
        "Bearer",
        "Bearer ",
        "Bearer nonsense",
        "bearer a b",
        "Bearer \xff\xfe",
        "Bearer wst_",
        "Bearer " + "x" * 10_000,
        "BEARER x",
    ]:
        with subtests.test(ascii(header)[:60]):
            refused(client(header).get(ORDERS))


def test_without_a_token_or_a_session_nobody_gets_in(subtests):
    for header in ["", "Basic YTpi", "Token x", "x"]:
        with subtests.test(header):
            refused(client(header).get(ORDERS), "not_authenticated")


def test_a_bad_token_is_refused_even_beside_a_good_session(ana):
    """What a program sends counts, not whose browser it borrowed."""
    browser = APIClient()
    browser.force_login(ana)
    refused(browser.get(ORDERS, headers={"authorization": "Bearer nonsense"}))


def test_that_a_token_asked_for_a_change_is_noted_once_a_minute_and_reading_never(ana):
    """F1."""
    program = with_token(ana)
    program.get(ORDERS)
    assert ApiToken.objects.get().last_used_at is None
    program.post(ORDERS, {"template": "nothing"}, format="json")
    first = ApiToken.objects.get().last_used_at
    assert first is not None
    program.post(ORDERS, {"template": "nothing"}, format="json")
    assert ApiToken.objects.get().last_used_at == first
    ApiToken.objects.update(last_used_at=first - dt.timedelta(minutes=2))
    program.post(ORDERS, {"template": "nothing"}, format="json")
    assert (ApiToken.objects.get().last_used_at or first) > first - dt.timedelta(minutes=1)
