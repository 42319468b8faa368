"""Somebody who has an account here, and logs in by a provider that knows the same mail address."""

from __future__ import annotations

import re
import time

import pytest
from allauth.account.internal.flows import login
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import Group, User
from django.core import mail
from django.test import Client

from hitl.models import ClaimedGroup, MembershipChange
from hitl.outbound import sending
from tests.doors import factors

pytestmark = pytest.mark.django_db
ADDRESS = "ana@example.org"


@pytest.fixture
def known(ana):
    """Ana, with an address and a password."""
    User.objects.filter(pk=ana.pk).update(email=ADDRESS)
    ana.refresh_from_db()
    return ana


def inside(client):
    """Whose session it is; None for nobody's."""
    page = client.get("/account/")
    return page.context["user"] if page.status_code == 200 else None


def told(provider, subject="a1", address=ADDRESS, **more):
    provider.tell(subject, email=address, **{"email_verified": True, **more})


def refused(answer):
    assert answer.status_code == 403, answer.content.decode()
    assert "There is an account here with your mail address already" in answer.content.decode()
    assert not SocialAccount.objects.exists()
    assert not MembershipChange.objects.exists()
    assert User.objects.filter(email__iexact=ADDRESS).count() >= 1


def changes():
    return list(MembershipChange.objects.order_by("pk").values_list("provider", "connection"))


@pytest.mark.parametrize("kind", ["oidc", "saml"])
def test_the_same_address_opens_no_account_unless_operators_say_so(known, request, kind):
    """By default, verified or not; no second account is made either."""
    provider = request.getfixturevalue(kind)
    for verified in (True, False):
        told(provider, email_verified=verified)
        client, answer = provider.log_in("a1")
        refused(answer)
        assert not inside(client)
    assert User.objects.filter(email__iexact=ADDRESS).count() == 1


@pytest.mark.both_databases
def test_a_provider_that_operators_named_links_by_an_address_it_verified(known, both, settings):
    """Issue 20, 4: groups with it, a record, and a mail to the person."""
    oidc, saml = both
    settings.WAYSTATION_SSO_LINK = ["oidc"]
    ops = Group.objects.create(name="ops")
    ClaimedGroup.objects.create(claim="team-ops", group=ops)
    for doubtful in (False, None, "true", 1):
        told(oidc, email_verified=doubtful)
        refused(oidc.log_in("a1")[1])
    told(saml, email_verified="true")
    refused(saml.log_in("a1")[1])  # it was not named
    told(oidc, address="Ana@Example.org", groups=["team-ops"])
    client, answer = oidc.log_in("a1", next="/tokens/")
    assert (answer.status_code, answer["Location"]) == (302, "/tokens/")
    assert inside(client) == known
    assert ops in known.groups.all()
    assert changes() == [("oidc", "linked")]
    sending.deliver(seconds=10)
    assert [message.to for message in mail.outbox] == [[ADDRESS]]
    assert known.has_usable_password()
    told(oidc, address="ana.new@example.org")  # known by its subject from now on
    assert inside(oidc.log_in("a1")[0]) == known
    told(oidc, "a2")  # somebody else who has that address now
    answer = oidc.log_in("a2")[1]
    assert answer.status_code == 403
    assert SocialAccount.objects.count() == 1


def test_saml_that_operators_named_vouches_for_all_its_addresses_but_those_it_doubts(
    known, saml, settings
):
    settings.WAYSTATION_SSO_LINK = ["saml"]
    told(saml, email_verified="false")
    refused(saml.log_in("a1")[1])
    saml.tell("a1", email=ADDRESS)
    assert inside(saml.log_in("a1")[0]) == known
    assert changes() == [("saml", "linked")]


def test_some_accounts_are_linked_by_nobody_but_their_person(known, oidc, settings):
    """Those that administer, that are kept for the day the provider is away, and any of two."""
    settings.WAYSTATION_SSO_LINK = ["oidc"]
    told(oidc)
    for field in ("is_superuser", "is_staff"):
        User.objects.filter(pk=known.pk).update(**{field: True})
        refused(oidc.log_in("a1")[1])
        User.objects.filter(pk=known.pk).update(**{field: False})
    settings.WAYSTATION_BREAK_GLASS = ["ana"]
    refused(oidc.log_in("a1")[1])
    settings.WAYSTATION_BREAK_GLASS = []
    twin = User.objects.create_user("twin", email=ADDRESS.upper())
    refused(oidc.log_in("a1")[1])
    twin.email = ""
    twin.save()
    assert inside(oidc.log_in("a1")[0]) == known


@pytest.mark.parametrize("kind", ["oidc", "saml"])
def test_a_letter_that_only_looks_the_same_in_lower_case_opens_no_account(
    ana, request, kind, settings
):
    """U+212A, the Kelvin sign, becomes a `k`: another mailbox's owner had the account."""
    settings.WAYSTATION_SSO_LINK = [kind]
    User.objects.filter(pk=ana.pk).update(email="kim@example.org")
    provider = request.getfixturevalue(kind)
    told(provider, address="\u212aim@example.org", email_verified={"oidc": True}.get(kind, "true"))
    client, answer = provider.log_in("a1")
    assert not inside(client)
    assert answer.status_code == 403
    assert not SocialAccount.objects.exists()


def test_an_account_that_came_by_a_provider_is_linked_where_that_one_verified_it_too(
    both, settings
):
    """Else whoever chose that address there would wait in the account for its owner."""
    oidc, saml = both
    settings.WAYSTATION_SSO_LINK = ["oidc", "saml"]
    told(oidc, "mallory", email_verified=False)
    mallory = inside(oidc.log_in("mallory")[0])
    assert mallory.email == ADDRESS
    saml.tell("a1", email=ADDRESS)
    assert saml.log_in("a1")[1].status_code == 403
    told(oidc, "mallory")
    oidc.log_in("mallory")
    assert inside(saml.log_in("a1")[0]) == mallory


def opened(known, client=None):
    """Logged in by the password."""
    client = client or Client(enforce_csrf_checks=False)
    factors.log_in(client, known, second=False)
    return client


def link(client, kind="oidc"):
    page = client.get("/account/elsewhere").content.decode()
    found = re.search(rf'href="(/account/elsewhere/{kind}[^"]+)"', page)
    assert found, page
    return found[1]


def confirm(client, answer, known):
    assert answer["Location"].startswith("/account/confirm?"), answer["Location"]
    return client.post(answer["Location"], {"password": f"{known.username}'s long password"})


@pytest.mark.parametrize("kind", ["oidc", "saml"])
def test_who_is_logged_in_connects_a_login_after_a_fresh_password(known, request, kind):
    provider = request.getfixturevalue(kind)
    ClaimedGroup.objects.create(claim="x", group=Group.objects.create(name="ops"))
    told(provider, address="other@example.org", groups=["x"])
    client = opened(known)
    asked = link(client, kind)
    sent = confirm(client, client.get(asked), known)
    assert sent["Location"] == "/account/elsewhere"  # a form may not lead on to another host
    there = client.get(asked)["Location"]
    answer = provider.arrive(client, provider.at_provider(there, "a1"))
    assert (answer.status_code, answer["Location"]) == (302, "/account/elsewhere")
    page = client.get("/account/elsewhere").content.decode()
    assert "From now on this login opens your account." in page
    assert changes() == [(kind, "connected")]
    assert inside(provider.log_in("a1")[0]) == known
    sending.deliver(seconds=10)
    assert [message.to for message in mail.outbox] == [[ADDRESS]]
    found = re.search(r'action="(/account/elsewhere/\d+/remove)"', page)
    assert found
    assert Client().post(found[1]).status_code == 302  # nobody's
    assert SocialAccount.objects.exists()
    client.post(found[1])
    assert not SocialAccount.objects.exists()
    assert changes()[-1] == (kind, "disconnected")
    assert not known.groups.filter(name="ops").exists()


def test_a_link_of_another_site_connects_nothing(known, oidc):
    """Nor does the login page, asked to: a browser may be logged in there as somebody else."""
    told(oidc, "mallory", address="")
    client = opened(known)
    confirm(client, client.get(link(client)), known)
    for wrong in ("", "?key=", "?key=x", "?process=connect"):
        answer = client.get(f"/account/elsewhere/oidc{wrong}")
        assert answer["Location"] == "/account/elsewhere"
    sent = client.get("/login/elsewhere?process=connect")["Location"]
    oidc.arrive(client, oidc.at_provider(sent, "mallory"))
    assert inside(client) != known
    assert not SocialAccount.objects.filter(user=known).exists()
    assert Client().get("/account/elsewhere/oidc").status_code == 302


def test_a_second_factor_is_asked_for_where_there_is_one(known, oidc):
    """The password alone connects nothing then."""
    factors.enrol(known)
    client = Client()
    factors.log_in(client, known)
    asked = client.get(link(client))["Location"]
    assert asked.startswith("/account/confirm/code?")
    client.post("/account/confirm", {"password": "ana's long password"})
    assert client.get(link(client))["Location"].startswith("/account/confirm/code?")


def test_a_proof_grows_old_while_somebody_is_at_the_provider(known, oidc, monkeypatch):
    told(oidc, address="")
    client = opened(known)
    asked = link(client)
    confirm(client, client.get(asked), known)
    brought = oidc.at_provider(client.get(asked)["Location"], "a1")
    session = client.session
    for record in session[login.AUTHENTICATION_METHODS_SESSION_KEY]:
        record["at"] = time.time() - 301
    session.save()
    oidc.arrive(client, brought)
    page = client.get("/account/elsewhere").content.decode()
    assert "That took too long, so nothing was connected" in page
    assert not SocialAccount.objects.exists()


def test_a_login_that_opens_another_account_is_not_taken_from_it(known, ben, oidc):
    told(oidc, address="")
    other = inside(oidc.log_in("a1")[0])
    told(oidc, "a2", address="")
    client = opened(known)
    asked = link(client)
    confirm(client, client.get(asked), known)
    oidc.arrive(client, oidc.at_provider(client.get(asked)["Location"], "a1"))
    assert "opens another account here" in client.get("/account/elsewhere").content.decode()
    assert SocialAccount.objects.get().user == other
    oidc.arrive(client, oidc.at_provider(client.get(asked)["Location"], "a2"))
    assert SocialAccount.objects.filter(user=known).count() == 1
    told(oidc, "a3", address="")
    oidc.arrive(client, oidc.at_provider(client.get(asked)["Location"], "a3"))
    assert "remove that one first" in client.get("/account/elsewhere").content.decode()


def test_the_last_way_in_is_not_taken_away(known, oidc, settings):
    told(oidc, address="")
    client, _ = oidc.log_in("a1")
    account = SocialAccount.objects.get()
    client = Client()
    oidc.log_in("a1", client)
    client.post(f"/account/elsewhere/{account.pk}/remove")
    assert "Nothing else opens your account" in client.get("/account/elsewhere").content.decode()
    opened_by_ana = opened(known)
    assert opened_by_ana.post(f"/account/elsewhere/{account.pk}/remove").status_code == 404
    account.user = known
    account.save()
    settings.WAYSTATION_PASSWORDS = "break-glass"
    opened_by_ana.post(f"/account/elsewhere/{account.pk}/remove")
    assert SocialAccount.objects.exists()
