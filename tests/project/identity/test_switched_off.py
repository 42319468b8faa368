"""Somebody whose account was switched off, at every door that would let them back in."""

from __future__ import annotations

import re
from typing import Any

import pytest
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import User
from django.core import mail
from django.test import Client

from hitl.identity import closed, service_accounts
from hitl.models import MembershipChange
from hitl.outbound import sending
from tests.databases.undone import undone
from tests.doors import factors
from tests.servers.providers import SECRET
from tests.worlds.people import person

pytestmark = pytest.mark.django_db
ADDRESS = "mia@example.org"
WORDS = "is switched off, so this login opens none"
SUBJECT = "m-4711"


def off(username, **more):
    return User.objects.create_user(username, is_active=False, **more)


def known_at(provider, user, uid="another", said=None):
    SocialAccount.objects.create(user=user, provider=provider, uid=uid, extra_data=said or {})


def the_same_address_as_somebody_else(here, there):
    off("gone", email="MIA@Example.ORG")
    person("here", email=ADDRESS)


def the_same_name(here, there):
    off("Mia")


def by_this_one(here, there):
    known_at(here, off("gone"), uid=SUBJECT)


def by_the_other_one_with_the_same_subject(here, there):
    known_at(there, off("gone"), uid=SUBJECT)


CASES = [
    the_same_address_as_somebody_else,
    the_same_name,
    by_this_one,
    by_the_other_one_with_the_same_subject,
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("here", ["oidc", "saml"])
def test_whoever_was_switched_off_is_not_back_by_a_provider(both, settings, caplog, here, case):
    """Issue 30, 6: they got a fresh, active account with the same address, in the provider's
    groups. Where providers may link, too.
    """
    settings.WAYSTATION_SSO_LINK = ["oidc", "saml"]
    provider = dict(zip(("oidc", "saml"), both, strict=True))[here]
    name = {"oidc": "preferred_username", "saml": "uid"}[here]
    case(here, "saml" if here == "oidc" else "oidc")
    said = {"email": ADDRESS, "email_verified": {"oidc": True, "saml": "true"}[here], name: "mia"}
    provider.tell(SUBJECT, groups=["staff"], **said)
    before = set(User.objects.values_list("pk", "is_active", "last_login"))
    accounts = set(SocialAccount.objects.values_list("pk", "user"))
    client, answer = provider.log_in(SUBJECT)
    assert answer.status_code == 403
    assert WORDS in answer.content.decode()
    assert client.get("/account/").status_code == 302
    assert set(User.objects.values_list("pk", "is_active", "last_login")) == before
    assert set(SocialAccount.objects.values_list("pk", "user")) == accounts
    assert not MembershipChange.objects.exists()
    [line] = [line for line in caplog.messages if "was refused: switched off is" in line]
    assert line.startswith(f"A login by {here}")
    assert SECRET not in caplog.text and ADDRESS not in caplog.text.replace(line, "")


SAID: dict[str, dict[str, Any]] = {
    "oidc": {"sub": SUBJECT, "email": "Mia@EXAMPLE.org", "preferred_username": "mia"},
    "saml": {"mail": ["Mia@EXAMPLE.org"], "uid": ["mia"]},
}
"""What each provider says of whoever logs in."""
CALLED: list[tuple[dict[str, str], tuple[str, dict[str, Any]] | None]] = [
    ({"username": "gone", "email": "mia@Example.org"}, None),
    ({"username": "MIA"}, None),
    ({"username": "mia@example.ORG"}, None),
    ({"username": SUBJECT.upper()}, None),
    ({"username": "gone"}, ("another", {"mail": ["Mia@example.org"]})),
    ({"username": "gone"}, ("another", {"email": "Mia@example.org"})),
    ({"username": "gone"}, ("another", {"uid": ["Mia"]})),
    ({"username": "gone"}, ("another", {"preferred_username": "Mia"})),
    ({"username": "gone", "email": "old@example.org"}, (SUBJECT, {})),
]
"""What an account is called that is off, here and at a provider."""


@pytest.mark.parametrize("here", SAID)
def test_an_account_that_is_off_is_known_by_any_of_its_names_at_each_place(here):
    names = closed.names_at(SUBJECT, SAID[here])
    person("here", email=ADDRESS)
    for account, elsewhere in CALLED:
        with undone():
            gone = off(**account)
            if elsewhere:
                known_at("saml", gone, *elsewhere)
            assert closed.named(names) == [gone], (account, elsewhere)
    assert closed.named(names) == []


@pytest.mark.both_databases
@pytest.mark.parametrize("here", ["oidc", "saml"])
def test_others_and_service_accounts_that_are_off_are_in_nobodys_way(request, here):
    provider = request.getfixturevalue(here)
    known_at("oidc", off("ben", email="ben@example.org"), uid="b1", said={"email": "", "sub": None})
    bot = service_accounts.make("mia", purpose="asks").user
    User.objects.filter(pk=bot.pk).update(is_active=False, email=ADDRESS)
    provider.tell(SUBJECT, email=ADDRESS, preferred_username="mia", uid="mia")
    assert provider.log_in(SUBJECT)[1].status_code == 302
    assert User.objects.filter(is_active=True, email=ADDRESS).count() == 1


def test_an_account_that_is_switched_on_again_is_open_again(oidc):
    oidc.tell(SUBJECT, email=ADDRESS)
    oidc.log_in(SUBJECT)
    User.objects.update(is_active=False)
    assert oidc.log_in(SUBJECT)[1].status_code == 403
    User.objects.update(is_active=True)
    client, _ = oidc.log_in(SUBJECT)
    assert client.get("/account/").status_code == 200


def inside(client):
    return client.get("/account/").status_code == 200


def switch_off(user):
    User.objects.filter(pk=user.pk).update(is_active=False)


@pytest.mark.parametrize("code", [factors.code, None], ids=["app", "recovery code"])
def test_a_second_factor_opens_nothing_that_was_switched_off_after_the_password(ana, client, code):
    """Their session was made all the same, and waited for the day they are switched on again."""
    factors.enrol(ana)
    recovery = factors.recovery_codes(ana)[0]
    factors.log_in(client, ana, second=False)
    switch_off(ana)
    sent = client.post("/login/factor", {"code": code() if code else recovery})
    assert sent["Location"] == "/login/closed"
    assert not inside(client)
    User.objects.update(is_active=True)
    assert not inside(client)
    assert User.objects.get(pk=ana.pk).last_login is None


def test_a_password_opens_nothing_and_a_session_is_over(ana, client):
    factors.log_in(client, ana, second=False)
    assert inside(client)
    switch_off(ana)
    assert not inside(client)
    other = Client()
    factors.log_in(other, ana, second=False)
    assert not inside(other)


def test_a_link_for_a_new_password_is_worth_nothing_once_its_account_is_off(ana, client):
    """It set the password of an account that was off. No other one is sent."""
    User.objects.filter(pk=ana.pk).update(email="ana@example.org")
    Client().post("/password/forgotten", {"email": "ana@example.org"})
    sending.deliver(seconds=10)
    [letter] = mail.outbox
    found = re.search(r"/password/forgotten/\S+", str(letter.body))
    assert found
    before = User.objects.get(pk=ana.pk).password
    page = client.get(found[0], follow=True).redirect_chain[-1][0]
    switch_off(ana)
    new = {"password1": "quite another phrase", "password2": "quite another phrase"}
    words = "used before, or is too old"
    for answer in (client.post(page, new), Client().get(found[0], follow=True)):
        assert words in answer.content.decode()
    assert User.objects.get(pk=ana.pk).password == before
    Client().post("/password/forgotten", {"email": "ana@example.org"})
    sending.deliver(seconds=10)
    assert len(mail.outbox) == 1
