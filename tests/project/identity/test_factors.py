"""Logging in with a second factor, and a forgotten password."""

from __future__ import annotations

import datetime as dt
import json
import re
import smtplib
import time

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal import auth
from django.contrib.auth.models import User
from django.core import mail
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from checkpoints.database import clock
from checkpoints.models.fields import demand
from hitl.identity import languages, service_accounts
from hitl.models.outbound import Delivery
from hitl.outbound import accounts, sending
from tests.doors import factors
from tests.servers.private import free_port

pytestmark = pytest.mark.django_db
WRONG = "000000"


def inside(client):
    return client.get("/account/").status_code == 200


def test_a_password_alone_opens_nothing_where_there_is_a_second_factor(ana, client):
    """Also the admin's own login, which would ask for none, sends on to the one page."""
    factors.enrol(ana)
    asked = factors.log_in(client, ana, second=False)
    assert (asked.status_code, asked["Location"]) == (302, "/login/factor")
    assert not inside(client)
    assert "recovery code" in client.get("/login/factor").content.decode()
    assert "Incorrect code" in client.post("/login/factor", {"code": WRONG}).content.decode()
    assert not inside(client)
    let_in = client.post("/login/factor", {"code": factors.code()})
    assert (let_in.status_code, let_in["Location"]) == (302, "/")
    assert inside(client)
    admin = Client().get("/admin/", follow=True)
    assert admin.redirect_chain[-1][0] == "/login?next=%2Fadmin%2F"
    assert client.get("/admin/login/?next=/admin/").status_code == 403  # she is no member of staff
    stranger = Client()
    assert stranger.post("/admin/login/", {"username": "ana"}).status_code == 302
    assert "sessionid" not in stranger.cookies


def test_the_code_before_counts_and_none_that_is_older(ana):
    """Before, whoever typed a code as it changed was refused."""
    factors.enrol(ana)
    now = int(time.time()) // 30
    totp = Authenticator.objects.get(user=ana, type="totp").wrap()
    for steps, good in [(-1, True), (-3, False), (3, False)]:
        cache.clear()
        value = auth.format_hotp_value(auth.hotp_value(factors.SECRET, now + steps))
        assert totp.validate_code(value) is good, steps


def test_the_page_that_was_asked_for_comes_after_the_second_factor(ana, client):
    factors.enrol(ana)
    words = {"username": "ana", "password": "ana's long password", "next": "/tokens/"}
    client.post("/login", words)
    assert client.post("/login/factor", {"code": factors.code()})["Location"] == "/tokens/"


def test_a_recovery_code_works_once_and_guessing_ends(ana):
    factors.enrol(ana)
    [code, *_] = factors.recovery_codes(ana)
    for let_in in (True, False):
        client = Client()
        factors.log_in(client, ana, second=False)
        client.post("/login/factor", {"code": code})
        assert inside(client) is let_in
    guessing = Client()
    factors.log_in(guessing, ana, second=False)
    for _ in range(6):
        said = guessing.post("/login/factor", {"code": WRONG}).content.decode()
    assert "Too many failed login attempts" in said
    [other, *_] = factors.recovery_codes(ana)
    guessing.post("/login/factor", {"code": other})
    assert not inside(guessing)


def test_a_factor_is_added_and_removed_by_who_says_the_password_once_more(ana, client):
    User.objects.filter(pk=ana.pk).update(email="ana@example.org")
    factors.log_in(client, ana, second=False)
    for path in ("/account/app", "/account/keys/add"):
        assert client.get(path)["Location"].startswith("/account/confirm?")
    back = client.post(
        "/account/confirm", {"password": "ana's long password", "next": "/account/app"}
    )
    assert back["Location"] == "/account/app"
    page = client.get("/account/app")
    assert "script-src 'self';" in f"{page['Content-Security-Policy']};"
    found = re.search(r'class="copy">(\w+)<', page.content.decode())
    assert found
    secret = found[1]
    assert "Incorrect code" in client.post("/account/app", {"code": WRONG}).content.decode()
    right = factors.code(secret)
    assert client.post("/account/app", {"code": right})["Location"] == "/account/codes"
    assert len(factors.recovery_codes(ana)) == 10
    kept = json.dumps(list(Authenticator.objects.values_list("data", flat=True)))
    assert secret not in kept
    assert factors.recovery_codes(ana)[0] in client.get("/account/codes").content.decode()
    assert client.post("/account/app/remove")["Location"] == "/account/"
    assert not Authenticator.objects.exists()
    assert mail.outbox == []
    sending.deliver(seconds=10)
    assert [letter.to for letter in mail.outbox] == [["ana@example.org"]]  # of the removal
    assert mail.outbox[0].subject.startswith("Waystation: ")
    assert "The following change was made" in mail.outbox[0].body


def test_codes_outlive_a_new_secret_key_that_names_the_old_one(ana, client, settings):
    factors.enrol(ana)
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another one, which signs sessions from now on"
    factors.log_in(client, ana)
    assert inside(client)


def test_an_operator_removes_the_factors_of_who_lost_them(ana, client):
    factors.enrol(ana)
    client.force_login(User.objects.create_superuser("root"))
    listed = client.get("/admin/mfa/authenticator/").content.decode()
    assert "ana" in listed
    for factor in Authenticator.objects.all():
        page = client.get(f"/admin/mfa/authenticator/{factor.pk}/change/").content.decode()
        assert str(next(iter(factor.data.values()))) not in page
        client.post(f"/admin/mfa/authenticator/{factor.pk}/delete/", {"post": "yes"})
    assert not Authenticator.objects.exists()


def ask_for(email):
    response = Client().post("/password/forgotten", {"email": email})
    return response.status_code, response["Location"]


def test_a_forgotten_password_is_changed_by_a_link_once(ana, client, settings):
    """F1: opening the link changes nothing. The link begins with the address that operators named,
    not with that of the request.
    """
    settings.WAYSTATION_URL = "https://ways.example"
    User.objects.filter(pk=ana.pk).update(email="ana@example.org")
    assert ask_for("Ana@example.org") == (302, "/password/forgotten/sent")
    sending.deliver(seconds=10)
    [letter] = mail.outbox
    assert letter.to == ["ana@example.org"]
    assert letter.subject.startswith("Waystation: ")
    [link] = re.findall(r"https://ways\.example(/\S+)", str(letter.body))
    before = User.objects.get(pk=ana.pk).password
    page = client.get(link, follow=True)
    assert User.objects.get(pk=ana.pk).password == before
    here = page.redirect_chain[-1][0]
    new = {"password1": "quite another phrase", "password2": "quite another phrase"}
    assert client.post(here, {"password1": "x", "password2": "y"}).status_code == 200
    assert client.post(here, new)["Location"] == "/password/changed"
    assert not inside(client)  # it is no login: a second factor might be due
    assert User.objects.get(pk=ana.pk).check_password("quite another phrase")
    used = Client().get(link, follow=True).content.decode()
    assert "used before, or is too old" in used


def test_nobody_learns_who_has_an_account(ana, settings, monkeypatch):
    """An unknown address, a service account, somebody without a password, and a mail server that is
    away get the same answer by the same statements; and no mail.
    """
    bot = service_accounts.make("bot", purpose="asks").user
    elsewhere = User.objects.create(username="eve", email="eve@example.org")
    elsewhere.set_unusable_password()
    elsewhere.save()
    User.objects.filter(pk=bot.pk).update(email="bot@example.org", password="pbkdf2$set$by$hand")
    User.objects.filter(pk=ana.pk).update(email="ana@example.org")
    before = set(User.objects.values_list("pk", "password"))
    asked = []
    for name in ("nobody", "bot", "eve", "ana"):
        with CaptureQueriesContext(connection) as queries:
            assert ask_for(f"{name}@example.org") == (302, "/password/forgotten/sent")
        asked.append([re.sub(r"VALUES.*", "", query["sql"]) for query in queries])
    assert asked[1:] == asked[:-1]
    assert not [sql for sql in asked[0] if "auth_user" in sql]
    assert mail.outbox == []

    def away(*_: object, **__: object) -> None:
        raise smtplib.SMTPServerDisconnected("gone")

    with monkeypatch.context() as patch:
        patch.setattr("django.core.mail.EmailMessage.send", away)
        sending.deliver(seconds=10)
    assert set(User.objects.values_list("pk", "password")) == before
    waits = Delivery.objects.get(status="queued")
    assert demand(waits.contact) == "ana@example.org"
    assert Delivery.objects.filter(status="cancelled").count() == 3
    Delivery.objects.filter(pk=waits.pk).update(next_at=clock.now())
    sending.deliver(seconds=10)
    assert [letter.to for letter in mail.outbox] == [["ana@example.org"]]


def test_a_link_for_a_new_password_lies_nowhere(ana, client, caplog):
    """No row, log or page of the admin has it: it is made when the mail is sent."""
    User.objects.filter(pk=ana.pk).update(email="ana@example.org")
    caplog.set_level("DEBUG")
    ask_for("ana@example.org")
    sending.deliver(seconds=10)
    found = re.search(r"/password/forgotten/(\S+)", str(mail.outbox[0].body))
    assert found
    secret = found[1].partition("/")[2]
    row = Delivery.objects.get()
    assert row.status == "sent"
    assert secret not in json.dumps(list(Delivery.objects.values()), default=str)
    client.force_login(User.objects.create_superuser("root"))
    for path in ("", f"{row.pk}/change/"):
        page = client.get(f"/admin/hitl/delivery/{path}", follow=True).content.decode()
        assert "About an account" in page
        assert secret not in page
    assert secret not in caplog.text


def test_mails_about_accounts_are_in_their_persons_language_and_go_in_time(ana, client):
    """A link that nobody waits for is not sent; rows that are done are dropped."""
    User.objects.filter(pk=ana.pk).update(email="ana@example.org")
    languages.choose(ana, "de")
    ask_for("ana@example.org")
    sending.deliver(seconds=10)
    assert "neues Passwort" in str(mail.outbox[0].body)
    ask_for("ana@example.org")
    Delivery.objects.filter(status="queued").update(made_at=clock.now() - dt.timedelta(hours=2))
    sending.deliver(seconds=10)
    assert len(mail.outbox) == 1
    assert Delivery.objects.get(status="cancelled").error == "Whoever asked for it waits no more."
    assert accounts.drop_old() == 0
    Delivery.objects.update(made_at=clock.now() - dt.timedelta(days=8))
    assert accounts.drop_old() == 2


def test_nobody_signs_up_and_no_other_page_of_allauth_is_served(client):
    for path in ("signup", "account/signup", "accounts/signup/", "account/email", "login/code"):
        assert client.get(f"/{path}").status_code == 404


@pytest.mark.parametrize("path", ["/login/factor", "/password/forgotten"])
def test_while_nothing_counts_tries_no_code_and_no_address_is_taken(ana, client, settings, path):
    """P3: it would be guessed without a limit, or be a 500."""
    factors.enrol(ana)
    factors.log_in(client, ana, second=False)
    code = factors.code()
    settings.CACHES = {
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": f"redis://127.0.0.1:{free_port()}/0",
        }
    }
    refused = client.post(path, {"code": code, "email": "ana@example.org"})
    assert (refused.status_code, refused["Retry-After"]) == (503, "5")
    assert "Nothing was changed" in refused.content.decode()
    assert not inside(client) and not mail.outbox


@pytest.mark.parametrize("path", ["password", "confirm", "confirm/code", "confirm/key"])
def test_who_has_no_password_here_is_led_back_to_their_account(ana, client, path):
    """People of a provider: it was an error page, or a refusal without words."""
    ana.set_unusable_password()
    ana.save()
    client.force_login(ana)
    assert client.get(f"/account/{path}")["Location"] in {"/account/", "/account/confirm/code"}
    assert client.get(f"/account/{path}", follow=True).redirect_chain[-1][0] == "/account/"
