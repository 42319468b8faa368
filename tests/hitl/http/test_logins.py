"""Guessing passwords and tokens: who has to wait, what they are told, and who never has to."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from redis.exceptions import ConnectionError as CacheGone
from rest_framework.test import APIClient

from hitl.http import clients, throttles

pytestmark = pytest.mark.django_db

RIGHT = "ana's long password"


@pytest.fixture(autouse=True)
def strict(settings, monkeypatch):
    settings.WAYSTATION_LOGIN_FAILURES = settings.AXES_FAILURE_LIMIT = 4
    settings.WAYSTATION_LOGIN_ADDRESS_FAILURES = 8
    settings.WAYSTATION_LOGIN_ACCOUNT_FAILURES = 12
    settings.WAYSTATION_ANONYMOUS_RATE = 5
    cache.clear()
    monkeypatch.setattr(throttles, "_away_until", 0.0)


def log_in(password, *, name="ana", at="192.0.2.1"):
    return Client(REMOTE_ADDR=at).post("/login", {"username": name, "password": password})


def test_after_some_wrong_passwords_the_right_one_waits_too(ana, monkeypatch):
    assert [log_in("wrong").status_code for _ in range(4)] == [200, 200, 200, 429]
    monkeypatch.setattr(
        "django.contrib.auth.models.User.check_password",
        lambda *_: pytest.fail("a password was hashed"),
    )
    refused = log_in(RIGHT)
    assert (refused.status_code, refused["Retry-After"]) == (429, str(15 * 60))
    shown = refused.content.decode()
    assert 'role="alert"' in shown
    assert "Try again 15 minutes after" in shown
    assert not Client().cookies


def test_nobody_else_is_locked_out_by_it(ana, ben):
    for _ in range(4):
        log_in("wrong")
    assert log_in(RIGHT, at="192.0.2.9").status_code == 302
    assert log_in("ben's long password", name="ben").status_code == 302


def test_who_waited_gets_in(ana, settings):
    for _ in range(5):
        log_in("wrong")
    settings.WAYSTATION_LOGIN_MINUTES = 0
    assert log_in(RIGHT).status_code == 302


def test_one_address_tries_many_accounts_in_vain(ana):
    """A right password in between is no fresh start for the address."""
    codes = [log_in("wrong", name=f"guess{n}").status_code for n in range(8)]
    assert codes == [200] * 7 + [429]
    assert log_in(RIGHT).status_code == 429


def test_many_addresses_guess_in_vain_and_the_person_still_logs_in_from_where_they_do(ana):
    """An attacker with many addresses cannot lock a person out of their own."""
    assert log_in(RIGHT, at="198.51.100.7").status_code == 302
    for n in range(12):
        log_in("wrong", at=f"203.0.113.{n}")
    assert log_in(RIGHT, at="203.0.113.99").status_code == 429
    assert log_in(RIGHT, at="198.51.100.7").status_code == 302


def test_accounts_that_there_are_not_are_locked_alike(ana):
    """Else the wait would tell which usernames there are."""
    said = [
        [log_in("wrong", name=name, at=at).status_code for _ in range(5)]
        for name, at in (("ana", "192.0.2.1"), ("nobody", "192.0.2.2"))
    ]
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("proxies", "forwarded", "address"),
    [
        (0, "198.51.100.1", "192.0.2.1"),
        (1, "", "192.0.2.1"),
        (1, "198.51.100.1", "198.51.100.1"),
        (1, "6.6.6.6, 198.51.100.1", "198.51.100.1"),
        (2, "6.6.6.6, 198.51.100.1, 10.0.0.1", "198.51.100.1"),
        (1, "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        (1, "::ffff:198.51.100.1", "198.51.100.1"),
        (1, "nonsense", clients.UNKNOWN),
    ],
)
def test_only_what_our_own_proxies_wrote_is_believed_of_where_a_request_comes_from(
    rf, settings, proxies, forwarded, address
):
    settings.NUM_PROXIES = proxies
    headers = {"HTTP_X_FORWARDED_FOR": forwarded} if forwarded else {}
    assert clients.address_of(rf.get("/", REMOTE_ADDR="192.0.2.1", **headers)) == address


def ask(**headers):
    return APIClient().get("/api/v1/threads", **headers)


def test_requests_without_credentials_and_with_wrong_ones_are_limited_per_address(ana, api):
    """They were refused before any throttle was asked."""
    codes = [ask().status_code for _ in range(3)] + [
        ask(HTTP_AUTHORIZATION="Bearer wrong").status_code for _ in range(3)
    ]
    assert codes == [401] * 5 + [429]
    refused = ask(HTTP_AUTHORIZATION="Bearer wrong")
    assert (refused.status_code, refused["Content-Type"]) == (429, "application/problem+json")
    assert refused.json()["code"] == "throttled"
    assert 0 < int(refused["Retry-After"]) <= 60
    assert ask(REMOTE_ADDR="192.0.2.77").status_code == 401
    assert api(ana).get("/api/v1/threads").status_code == 200, (
        "who brings a right token is served, whatever others send"
    )


def test_who_brings_nothing_is_told_so_however_often_they_ask(ana):
    """S0-54: a program without its token looks for a limit otherwise. Nothing is guessed there."""
    said = [ask() for _ in range(8)]
    assert [one.status_code for one in said] == [401] * 8
    assert said[0].json() == said[-1].json()
    assert said[0]["WWW-Authenticate"] == said[-1]["WWW-Authenticate"]
    assert APIClient().get("/api/v1/health").status_code == 401  # no address, and the same


def test_a_person_is_limited_whichever_token_they_use(ana, api, settings):
    settings.WAYSTATION_USER_RATE = 3
    said = [api(ana).get("/api/v1/threads") for _ in range(4)]
    assert [one.status_code for one in said] == [200, 200, 200, 429]
    assert 0 < int(said[-1]["Retry-After"]) <= 60


def test_a_cache_that_is_away_takes_nothing_down_and_is_said_once(
    ana, api, settings, monkeypatch, caplog
):
    """P2, P3: nothing but the counting needs it."""
    settings.WAYSTATION_USER_RATE = 1

    def gone(*_, **__):
        raise CacheGone("away")

    monkeypatch.setattr("hitl.http.throttles.cache.add", gone)
    assert [api(ana).get("/api/v1/threads").status_code for _ in range(3)] == [200, 200, 200]
    assert caplog.text.count("the cache is away") == 1


def test_a_browser_that_comes_logged_in_has_the_session_of_a_login(ana, page):
    """`force_login`, which tests/conftest.py makes cheap, leaves what Django's own does."""
    own: Any = Client()
    own._login(ana, own._get_backend())
    assert dict(page.session.items()) == dict(own.session.items())
    told, theirs = page.cookies["sessionid"], own.cookies["sessionid"]
    assert dict(told) == dict(theirs) and len(told.value) == len(theirs.value)
    assert page.get("/").status_code == own.get("/").status_code == 200
    ana.set_password("another one")
    ana.save()
    assert page.get("/").status_code == own.get("/").status_code == 302
