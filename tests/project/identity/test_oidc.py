"""Logging in by an OpenID Connect provider: a real one, `oidc-provider` of npm, in a process of its
own.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from hitl.models import ApiToken, ClaimedGroup, MembershipChange
from project.identity import elsewhere, oidc, options
from tests.node import INSTALLED
from tests.servers.private import free_port
from tests.servers.stack import ROOT

pytestmark = pytest.mark.django_db
HERE = "http://ways.example"
BACK = "/login/elsewhere/back"
SECRET = "a secret of the tests"


@pytest.fixture(scope="module")
def provider():
    """Its address; it requires PKCE, and signs with a key of its own."""
    node = shutil.which("node")
    if node is None or not (INSTALLED / "node_modules" / "oidc-provider").exists():
        pytest.skip("oidc-provider could not be installed: see .venv/node/why-not.txt")
    port = free_port()
    words = [node, str(ROOT / "tests/servers/oidc_provider.mjs"), str(INSTALLED), str(port)]
    process = subprocess.Popen(
        [*words, f"{HERE}{BACK}"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture(autouse=True)
def server(settings, provider):
    settings.WAYSTATION_URL = HERE
    settings.WAYSTATION_OIDC_ISSUER = provider
    settings.WAYSTATION_OIDC_NAME = "Keyring"
    scopes = ["openid", "profile", "email"]
    given = options.providers(
        provider, secret=SECRET, client_id="waystation", name="Keyring", scopes=scopes
    )
    for name, value in given.items():
        setattr(settings, name, value)


def tell(provider, subject, **claims):
    httpx.put(f"{provider}/people/{subject}", json=claims).raise_for_status()


def at_provider(address, subject):
    """Log in there as a browser does; give the address that it sends back to."""
    with httpx.Client(follow_redirects=False) as browser:
        fields: dict[str, str] = {}
        for _ in range(12):
            response = browser.post(address, data=fields) if fields else browser.get(address)
            fields = {}
            if response.is_redirect:
                address = str(response.next_request.url)
                if address.startswith(HERE):
                    return address.removeprefix(HERE)
                continue
            prompt = re.search(r'name="prompt" value="(\w+)"', response.text)
            form = re.search(r'action="([^"]+)"', response.text)
            assert prompt and form, response.text
            address = form[1]
            fields = {"prompt": prompt[1], "login": subject, "password": "x"}
    raise AssertionError("the provider goes round in circles")


def begin(client, **query):
    return client.get("/login/elsewhere", query)["Location"]


def log_in(subject, client=None):
    client = client or Client()
    return client, client.get(at_provider(begin(client), subject))


def inside(client):
    return client.get("/account/").status_code == 200


def test_the_first_login_makes_an_account_and_every_login_brings_its_groups(provider, settings):
    """Added, removed and left alone, each with a record; never by a mail address or a name."""
    own = User.objects.create_user("mia", email="mia@example.org")
    ops, qa, local = (Group.objects.create(name=name) for name in ("ops", "qa", "local"))
    ClaimedGroup.objects.create(claim="team-ops", group=ops)
    ClaimedGroup.objects.create(claim="team-qa", group=qa)
    tell(
        provider,
        "m1",
        preferred_username="mia",
        name="Mia Moe",
        email="mia@example.org",
        groups=["team-ops", "unknown"],
    )
    page = Client().get("/login?next=/tokens/").content.decode()
    assert "Log in by Keyring" in page
    client = Client()
    sent = begin(client, next="/tokens/")
    asked = parse_qs(urlsplit(sent).query)
    assert {"nonce", "state", "code_challenge"} <= asked.keys()
    assert asked["redirect_uri"] == [f"{HERE}{BACK}"]
    assert set(asked["scope"][0].split()) == {"openid", "profile", "email"}
    assert SECRET not in sent
    back = client.get(at_provider(sent, "m1"))
    assert (back.status_code, back["Location"]) == (302, "/tokens/")
    assert inside(client)
    assert client.session.get_expiry_age() <= settings.WAYSTATION_SSO_SESSION_HOURS * 3600
    mia = User.objects.exclude(pk=own.pk).get(first_name="Mia")
    assert mia.username != "mia"
    assert not mia.has_usable_password()
    assert set(mia.groups.all()) == {ops}
    mia.groups.add(local)
    tell(provider, "m1", preferred_username="mia", groups="team-qa")
    client, back = log_in("m1")
    assert back.status_code == 302
    assert set(mia.groups.all()) == {qa, local}
    log_in("m1")
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
    tell(provider, "s1", preferred_username="sol", groups=["guests"])
    client, refused = log_in("s1")
    assert refused.status_code == 403
    assert "do not let you in" in refused.content.decode()
    assert not User.objects.exists()
    tell(provider, "s1", preferred_username="sol", groups=["staff"])
    client, _ = log_in("s1")
    assert inside(client)
    sol = User.objects.get()
    token, secret = ApiToken.make(sol, name="x")
    bearer = {"authorization": f"Bearer {secret}"}
    assert Client().get("/api/v1/work-orders", headers=bearer).status_code == 200
    tell(provider, "s1", preferred_username="sol", groups=[])
    assert log_in("s1")[1].status_code == 403
    assert not inside(client)
    assert Client().get("/api/v1/work-orders", headers=bearer).status_code == 401
    change = MembershipChange.objects.latest("pk")
    assert (change.refused, change.removed) == (True, ["ops"])
    User.objects.update(is_active=False)  # by an operator: the provider's word does not open it
    tell(provider, "s1", preferred_username="sol", groups=["staff"])
    assert not inside(log_in("s1")[0])
    assert token.pk


def test_what_was_tampered_with_is_refused(provider, monkeypatch):
    """State, nonce, signature, algorithm, subject and issuer; each alone."""
    tell(provider, "t1", preferred_username="tim", groups=[])

    def refused(path, client):
        answer = client.get(path)
        assert answer.status_code == 403, answer.content.decode()
        assert "did not hold" in answer.content.decode()
        assert not User.objects.exists()

    client = Client()
    back = at_provider(begin(client), "t1")
    refused(re.sub(r"state=[^&]+", "state=another", back), client)
    refused(back, Client())  # another browser
    client = Client()
    back = at_provider(begin(client), "t1")
    session = client.session
    session[oidc.NONCES] = ["another"]
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

    others = httpx.get(f"{provider}/jwks").json()
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
            refused(at_provider(begin(client), "t1"), client)
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


def test_without_a_provider_there_is_no_such_page(settings):
    settings.WAYSTATION_OIDC_ISSUER = ""
    assert Client().get("/login/elsewhere").status_code == 404
    assert "Log in by" not in Client().get("/login").content.decode()
    assert "APPS" in str(settings.SOCIALACCOUNT_PROVIDERS)
