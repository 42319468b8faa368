"""Logging in by an OpenID Connect provider: a real one, `oidc-provider` of npm, in a process of its
own.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import Group, User
from django.test import Client

from hitl.models import ApiToken, ClaimedGroup, MembershipChange
from project.identity import elsewhere
from project.identity import oidc as ours
from tests.servers.private import free_port
from tests.servers.providers import HERE, SECRET, OidcProvider

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def provider(oidc):
    return oidc


def inside(client):
    return client.get("/account/").status_code == 200


def test_the_first_login_makes_an_account_and_every_login_brings_its_groups(provider, settings):
    """Added, removed and left alone, each with a record; never by a name."""
    own = User.objects.create_user("mia", email="another.mia@example.org")
    ops, qa, local = (Group.objects.create(name=name) for name in ("ops", "qa", "local"))
    ClaimedGroup.objects.create(claim="team-ops", group=ops)
    ClaimedGroup.objects.create(claim="team-qa", group=qa)
    provider.tell(
        "m1",
        preferred_username="mia",
        name="Mia Moe",
        email="mia@example.org",
        groups=["team-ops", "unknown"],
    )
    page = Client().get("/login?next=/tokens/").content.decode()
    assert "Log in by Keyring" in page
    client = Client()
    sent = provider.begin(client, next="/tokens/")
    asked = parse_qs(urlsplit(sent).query)
    assert {"nonce", "state", "code_challenge"} <= asked.keys()
    assert asked["redirect_uri"] == [f"{HERE}{OidcProvider.back}"]
    assert set(asked["scope"][0].split()) == {"openid", "profile", "email"}
    assert SECRET not in sent
    back = client.get(provider.at_provider(sent, "m1"))
    assert (back.status_code, back["Location"]) == (302, "/tokens/")
    assert inside(client)
    assert client.session.get_expiry_age() <= settings.WAYSTATION_SSO_SESSION_HOURS * 3600
    mia = User.objects.exclude(pk=own.pk).get(first_name="Mia")
    assert mia.username != "mia"
    assert not mia.has_usable_password()
    assert set(mia.groups.all()) == {ops}
    mia.groups.add(local)
    provider.tell("m1", preferred_username="mia", groups="team-qa")
    client, back = provider.log_in("m1")
    assert back.status_code == 302
    assert set(mia.groups.all()) == {qa, local}
    provider.log_in("m1")
    assert [(row.added, row.removed) for row in MembershipChange.objects.order_by("pk")] == [
        (["ops"], []),
        (["qa"], ["ops"]),
    ]
    assert User.objects.count() == 2
    assert not own.groups.exists()


def test_who_lost_the_group_that_lets_in_loses_tokens_sessions_and_teams(provider, settings):
    settings.WAYSTATION_SSO_ALLOWED_GROUPS = ["staff"]
    ops = Group.objects.create(name="ops")
    ClaimedGroup.objects.create(claim="staff", group=ops)
    provider.tell("s1", preferred_username="sol", groups=["guests"])
    client, refused = provider.log_in("s1")
    assert refused.status_code == 403
    assert "do not let you in" in refused.content.decode()
    assert not User.objects.exists()
    provider.tell("s1", preferred_username="sol", groups=["staff"])
    client, _ = provider.log_in("s1")
    assert inside(client)
    sol = User.objects.get()
    token, secret = ApiToken.make(sol, name="x")
    bearer = {"authorization": f"Bearer {secret}"}
    assert Client().get("/api/v1/work-orders", headers=bearer).status_code == 200
    provider.tell("s1", preferred_username="sol", groups=[])
    assert provider.log_in("s1")[1].status_code == 403
    assert not inside(client)
    assert Client().get("/api/v1/work-orders", headers=bearer).status_code == 401
    change = MembershipChange.objects.latest("pk")
    assert (change.refused, change.removed) == (True, ["ops"])
    User.objects.update(is_active=False)  # by an operator: the provider's word does not open it
    provider.tell("s1", preferred_username="sol", groups=["staff"])
    assert not inside(provider.log_in("s1")[0])
    assert token.pk


def test_what_was_tampered_with_is_refused(provider, monkeypatch):
    """State, nonce, signature, algorithm, subject and issuer; each alone."""
    provider.tell("t1", preferred_username="tim", groups=[])

    def refused(path, client):
        answer = client.get(path)
        assert answer.status_code == 403, answer.content.decode()
        assert "did not hold" in answer.content.decode()
        assert not User.objects.exists()

    client = Client()
    back = provider.at_provider(provider.begin(client), "t1")
    refused(re.sub(r"state=[^&]+", "state=another", back), client)
    refused(back, Client())  # another browser
    client = Client()
    back = provider.at_provider(provider.begin(client), "t1")
    session = client.session
    session[ours.NONCES] = ["another"]
    session.save()
    refused(back, client)
    refused(back, client)  # once more: its state is used

    def altering(end, change):
        """What the provider's endpoint of this name says, changed on the way."""
        made = elsewhere.ElsewhereAdapter.get_requests_session

        def session(self):
            found = made(self)

            def alter(answer, **_):
                if urlsplit(answer.url).path.endswith(end):
                    answer._content = change(answer.content)

            found.hooks["response"].append(alter)
            return found

        monkeypatch.setattr(elsewhere.ElsewhereAdapter, "get_requests_session", session)

    others = httpx.get(f"{provider.address}/jwks").json()
    modulus = others["keys"][0]["n"]
    others["keys"][0]["n"] = f"{modulus[:50]}{'A' if modulus[50] != 'A' else 'B'}{modulus[51:]}"
    for end, change in {
        "/jwks": lambda _: httpx.Response(200, json=others).content,
        "/token": lambda said: re.sub(
            rb'("id_token":")[^.]+(\.[^.]+\.)[^"]+', rb"\1eyJhbGciOiJub25lIn0\2", said
        ),
        "/me": lambda said: said.replace(b'"t1"', b'"somebody else"'),
        "/openid-configuration": lambda said: said.replace(b'"issuer":"http', b'"issuer":"https'),
    }.items():
        with monkeypatch.context() as patch:
            altering(end, change)
            client = Client()
            refused(provider.at_provider(provider.begin(client), "t1"), client)
            patch.undo()
        monkeypatch.undo()
    assert not User.objects.exists()


def test_while_the_provider_is_away_a_break_glass_account_gets_in(settings, ana, ben, caplog):
    """Others' passwords open nothing where passwords are switched off, and bring no reset mail."""
    settings.WAYSTATION_PASSWORDS, settings.WAYSTATION_BREAK_GLASS = "break-glass", ["ana"]
    away = f"http://127.0.0.1:{free_port()}"
    settings.WAYSTATION_OIDC_ISSUER = away
    settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"][0]["settings"]["server_url"] = away
    answer = Client().get("/login/elsewhere")
    assert answer.status_code == 503
    assert "cannot be reached just now" in answer.content.decode()
    for person, let_in in ((ana, True), (ben, False)):
        client = Client()
        name = person.username
        client.post("/login", {"username": name, "password": f"{name}'s long password"})
        assert inside(client) is let_in
    assert "Break-glass: ana logged in by a password" in caplog.text
    assert SECRET not in caplog.text


def ended(body):
    kind = "application/x-www-form-urlencoded"
    return Client(enforce_csrf_checks=True).post("/login/elsewhere/ended", body, content_type=kind)


def test_who_logs_out_at_the_provider_is_logged_out_here(provider, ana, settings):
    """By a token that it signed for that purpose alone; all their sessions, and nobody else's. A
    password stays.
    """
    provider.tell("o1", preferred_username="oda")
    provider.log_in("o1")
    SocialAccount.objects.update(user=ana)
    second, _ = provider.log_in("o1")
    provider.tell("o2")
    others, _ = provider.log_in("o2")
    by_password = Client()
    by_password.force_login(ana)
    body = provider.logged_out("o1")
    assert ended(body).status_code == 200
    assert not inside(second)
    assert not inside(by_password)
    assert inside(others)
    ana.refresh_from_db()
    assert ana.has_usable_password()
    assert ended(body).status_code == 200  # there is nothing left to end
    assert ended(provider.logged_out("nobody")).status_code == 200
    second, _ = provider.log_in("o1")
    token = body.partition("=")[2]
    head, claims, signature = token.split(".")
    id_token = jwt.encode({"sub": "o1"}, "x" * 40, algorithm="HS256")
    for wrong in (
        "",
        "logout_token=",
        f"logout_token={id_token}",
        f"logout_token={head}.{claims}.{signature[:-6]}AAAAAA",
        f"logout_token={head}.{claims}.",
    ):
        assert ended(wrong).status_code == 400, wrong
    settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"][0]["client_id"] = "another"
    assert ended(provider.logged_out("o1")).status_code == 400
    assert inside(second)
    away = f"http://127.0.0.1:{free_port()}"
    settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"][0]["settings"]["server_url"] = away
    assert ended(body).status_code == 503
    assert Client().get("/login/elsewhere/ended").status_code == 405


def test_an_id_token_ends_no_session(provider, monkeypatch):
    """It is signed for us as well, and browsers have it."""
    provider.tell("i1")
    seen = []
    checked = ours.Adapter.claims

    def note(self, app, token, *, require):
        seen.append(token)
        return checked(self, app, token, require=require)

    monkeypatch.setattr(ours.Adapter, "claims", note)
    client, _ = provider.log_in("i1")
    assert ended(f"logout_token={seen[0]}").status_code == 400
    assert inside(client)


def test_a_refusal_leaves_the_password_that_is_for_the_day_the_provider_is_away(
    provider, ana, settings
):
    """Its sessions end, as everybody's do."""
    provider.tell("g1", groups=["staff"])
    provider.log_in("g1")
    SocialAccount.objects.update(user=ana)
    client, _ = provider.log_in("g1")
    settings.WAYSTATION_BREAK_GLASS = ["ana"]
    settings.WAYSTATION_SSO_ALLOWED_GROUPS = ["staff"]
    provider.tell("g1", groups=[])
    assert provider.log_in("g1")[1].status_code == 403
    assert not inside(client)
    ana.refresh_from_db()
    assert ana.has_usable_password()


def test_without_a_provider_there_is_no_such_page(settings):
    settings.WAYSTATION_OIDC_ISSUER = ""
    assert Client().get("/login/elsewhere").status_code == 404
    assert ended("logout_token=x").status_code == 404
    assert "Log in by" not in Client().get("/login").content.decode()
    assert "APPS" in str(settings.SOCIALACCOUNT_PROVIDERS)
