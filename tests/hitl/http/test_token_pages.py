"""A person's own API tokens, made and revoked in the browser."""

from __future__ import annotations

import datetime as dt
import re

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from hitl.models import ApiToken
from hitl.views.tokens import MOST

pytestmark = pytest.mark.django_db

GIVEN = {"name": "nightly", "scope": "read", "days": "30"}


def asks(
    secret: str, method: str = "get", address: str = "/api/v1/work-orders", body: object = None
) -> int:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    return int(getattr(client, method)(address, body, format="json").status_code)


def make(page, **given: str) -> str:
    answer = page.post("/tokens/", {**GIVEN, **given})
    assert answer.status_code == 201
    found = re.search(r"wst_[\w-]+", answer.content.decode())
    assert found
    assert "no-store" in answer["Cache-Control"]
    return found[0]


def test_a_token_is_shown_once_and_does_what_its_scope_says(page, ana, templates):
    secret = make(page)
    assert secret not in page.get("/tokens/").content.decode()
    assert secret not in str(ApiToken.objects.values())
    assert asks(secret) == 200
    assert asks(secret, "post", body={"template": "writing"}) == 403
    token = ApiToken.objects.get(user=ana)
    assert token.expires_at is not None
    assert dt.timedelta(days=29) < token.expires_at - timezone.now() <= dt.timedelta(days=30)


def test_a_revoked_token_is_refused_from_then_on(page, ana):
    secret = make(page)
    token = ApiToken.objects.get(user=ana)
    assert page.post(f"/tokens/{token.pk}/revoke").status_code == 302
    assert asks(secret) == 401
    shown = page.get("/tokens/").content.decode()
    assert "Revoked" in shown
    first = ApiToken.objects.get(user=ana).revoked_at
    page.post(f"/tokens/{token.pk}/revoke")  # twice is once
    assert ApiToken.objects.get(user=ana).revoked_at == first


def test_nobody_sees_or_revokes_the_token_of_another(page, ben):
    token, _ = ApiToken.make(ben, name="of Ben")
    assert "of Ben" not in page.get("/tokens/").content.decode()
    assert page.post(f"/tokens/{token.pk}/revoke").status_code == 404
    token.refresh_from_db()
    assert token.revoked_at is None


def test_a_token_ends_unless_somebody_says_that_it_never_does(page, ana):
    """A key that was forgotten in a script worked for ever."""
    assert 'value="90"' in page.get("/tokens/").content.decode()
    make(page, never="on", days="")
    assert ApiToken.objects.get(user=ana).expires_at is None
    assert "without end" in page.get("/tokens/").content.decode()


def test_a_token_that_asks_is_made_on_the_page_and_answers_nothing(page, ana, paused):
    """A program that was to ask for approval held the key to give it."""
    secret = make(page, scope="ask")
    assert asks(secret, "get", f"/api/v1/work-orders/{paused.shown_id}") == 200
    assert (
        asks(
            secret, "post", f"/api/v1/work-orders/{paused.shown_id}/resume", {"decision": "approve"}
        )
        == 403
    )


def test_what_no_token_can_be_is_said_beside_its_field(page, subtests):
    for given in [
        {"name": ""},
        {"days": "0"},
        {"days": "367"},
        {"days": ""},
        {"scope": "admin"},
        {"name": "x" * 81},
    ]:
        with subtests.test(ascii(given)[:60]):
            assert page.post("/tokens/", {**GIVEN, **given}).status_code == 422
            assert not ApiToken.objects.exists()


def test_nobody_has_more_than_so_many_at_once(page, ana):
    for number in range(MOST):
        ApiToken.make(ana, name=str(number))
    answer = page.post("/tokens/", GIVEN)
    assert answer.status_code == 422
    assert "Revoke one first" in answer.content.decode()
    ApiToken.objects.filter(name="3").update(revoked_at=timezone.now())
    assert page.post("/tokens/", GIVEN).status_code == 201
