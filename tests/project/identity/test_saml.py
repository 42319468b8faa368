"""Logging in by a SAML identity provider: a real one, `samlp` of npm, in a process of its own."""

from __future__ import annotations

import base64
import html
import random
import re
import sys
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from defusedxml import ElementTree
from django.contrib.auth.models import Group, User
from django.core.exceptions import ImproperlyConfigured
from django.test import Client

from hitl.models import ApiToken, ClaimedGroup, MembershipChange
from project.identity import assertions, options, saml
from tests.doors.html import join
from tests.servers.certificates import pair
from tests.servers.private import free_port
from tests.servers.providers import HERE, SamlProvider

pytestmark = pytest.mark.django_db
ROUNDS = 150


@pytest.fixture(scope="module")
def other_key(tmp_path_factory):
    """One that the provider's metadata does not name."""
    return str(pair(tmp_path_factory.mktemp("saml"), "other")[0])


@pytest.fixture(autouse=True)
def provider(saml):
    return saml


def inside(client):
    return client.get("/account/").status_code == 200


def test_the_first_login_makes_an_account_and_every_login_brings_its_groups(provider, settings):
    """As with OpenID Connect: added, removed and left alone, each with a record."""
    ops, qa, local = (Group.objects.create(name=name) for name in ("ops", "qa", "local"))
    ClaimedGroup.objects.create(claim="team-ops", group=ops)
    ClaimedGroup.objects.create(claim="team-qa", group=qa)
    provider.tell(
        "m1",
        givenName="Mia",
        sn="Moe",
        email="mia@example.org",
        groups=["team-ops", "unknown"],
    )
    client = Client(enforce_csrf_checks=True)
    page = client.get("/login?next=/tokens/").content.decode()
    link = found(r'(?<=href=")[^"]+(?=">Log in by Castle)', join(page))
    sent = client.get(html.unescape(link))["Location"]
    assert sent.startswith(f"{provider.address}/saml?SAMLRequest=")
    back = provider.arrive(client, provider.at_provider(sent, "m1"))
    assert (back.status_code, back["Location"]) == (302, "/tokens/")
    assert inside(client)
    assert client.session.get_expiry_age() <= settings.WAYSTATION_SSO_SESSION_HOURS * 3600
    mia = User.objects.get(first_name="Mia")
    assert (mia.last_name, mia.email) == ("Moe", "mia@example.org")
    assert not mia.has_usable_password()
    assert set(mia.groups.all()) == {ops}
    mia.groups.add(local)
    provider.tell("m1", groups="team-qa")
    client, back = provider.log_in("m1")
    assert back.status_code == 302
    assert set(mia.groups.all()) == {qa, local}
    assert [(row.added, row.removed) for row in MembershipChange.objects.order_by("pk")] == [
        (["ops"], []),
        (["qa"], ["ops"]),
    ]
    assert User.objects.count() == 1
    token = client.get("/account/").context["csrf_token"]
    client.post("/logout", {"csrfmiddlewaretoken": str(token)})
    assert not inside(client)


def test_who_lost_the_group_that_lets_in_loses_tokens_sessions_and_teams(provider, settings):
    settings.WAYSTATION_SSO_ALLOWED_GROUPS = ["staff"]
    ops = Group.objects.create(name="ops")
    ClaimedGroup.objects.create(claim="staff", group=ops)
    provider.tell("s1", groups=["guests"])
    assert provider.log_in("s1")[1].status_code == 403
    assert not User.objects.exists()
    provider.tell("s1", groups=["staff"])
    client, _ = provider.log_in("s1")
    assert inside(client)
    ApiToken.make(User.objects.get(), name="x")
    provider.tell("s1", groups=[])
    refused = provider.log_in("s1")[1]
    assert refused.status_code == 403
    assert "do not let you in" in refused.content.decode()
    assert not inside(client)
    assert not ApiToken.objects.filter(revoked_at=None).exists()
    assert not User.objects.get().groups.exists()


def found(pattern, text):
    match = re.search(pattern, text, re.S)
    assert match, pattern
    return match[0]


def refused(answer, words="did not hold", status=403):
    assert answer.status_code == status, answer.content.decode()
    assert words in answer.content.decode()
    assert not User.objects.exists()


WRONG: list[dict[str, Any]] = [
    {"saml": {"signAssertion": False}},
    {"saml": {"signAssertion": False, "signResponse": True}},
    {"saml": {"audience": "https://others.example"}},
    {"saml": {"issuer": "https://others.example"}},
    {"saml": {"recipient": "https://others.example/back"}},
    {"saml": {"destination": "https://others.example/back"}},
    {"saml": {"lifetimeInSeconds": -600}},
    {"saml": {"signatureAlgorithm": "rsa-sha1", "digestAlgorithm": "sha1"}},
    {"saml": {"inResponseTo": "_another"}},
    {"format": "urn:oasis:names:tc:SAML:2.0:nameid-format:transient"},
]


def test_what_the_provider_says_wrongly_is_refused(provider, other_key):
    """Unsigned, signed outside only, for others, by others, over, weak, unasked, by another key."""
    provider.tell("t1", groups=[])
    for wrong in (*WRONG, {"key": other_key}):
        provider.does(**wrong)
        answer = provider.log_in("t1")[1]
        told = answer.status_code, "did not hold" in answer.content.decode()
        assert (*told, User.objects.exists()) == (403, True, False), wrong
    provider.does()
    assert provider.log_in("t1")[1].status_code == 302


def test_what_was_tampered_with_on_the_way_is_refused(provider):
    """Changed, moved, wrapped, stripped, cut, and taken to another request or browser."""
    provider.tell("t1", email="tim@example.org", groups=["guests"])
    provider.tell("t2", groups=[])
    client = Client()
    fields = provider.at_provider(provider.begin(client), "t1")
    said = base64.b64decode(fields["SAMLResponse"]).decode()
    assertion = found(r"<saml:Assertion.*</saml:Assertion>", said)
    signature = found(r"<Signature.*</Signature>", said)
    forged = assertion.replace(signature, "").replace(">t1<", ">t9<")
    other = re.sub(r'ID="[^"]+"', 'ID="_forged"', forged, count=1)
    for change in (
        said.replace(">guests<", ">admins<"),
        said.replace(">t1<", ">t9<"),
        said.replace(signature, ""),
        said.replace(assertion, other + assertion),
        said.replace(assertion, assertion + other),
        said.replace(assertion, other.replace("</saml:Issuer>", f"</saml:Issuer>{signature}", 1)),
        said.replace(
            signature,
            signature.replace("</Signature>", f"<Object>{assertion}</Object></Signature>"),
        ).replace(">t1<", ">t9<", 1),
        f'<!DOCTYPE x [<!ENTITY a "t9">]>{said}',
        said[: len(said) // 2],
        "<Response/>",
        "",
    ):
        assert change != said
        raw = base64.b64encode(change.encode()).decode()
        refused(provider.arrive(client, {"SAMLResponse": raw}))
    for raw in ("", "%%%", "AAAA", "\x00", "é"):
        refused(provider.arrive(client, {"SAMLResponse": raw}))
    refused(provider.arrive(client, {}))
    refused(provider.arrive(Client(), fields))  # another browser
    later = Client()
    provider.begin(later)
    refused(provider.arrive(later, fields))  # one that began a login of its own
    own = provider.at_provider(provider.begin(later), "t2")
    asked = found(r'(?<=InResponseTo=")[^"]+', base64.b64decode(own["SAMLResponse"]).decode())
    outer = re.sub(r'(<samlp:Response[^>]*InResponseTo=")[^"]+', rf"\g<1>{asked}", said, count=1)
    assert outer != said
    refused(provider.arrive(later, {"SAMLResponse": base64.b64encode(outer.encode()).decode()}))
    assert Client().get("/login/saml/finish").status_code == 403
    assert provider.arrive(client, fields).status_code == 302
    assert User.objects.count() == 1
    again = provider.arrive(client, fields)
    assert again.status_code == 403  # once
    assert "did not hold" in again.content.decode()


def test_whatever_is_changed_in_it_is_refused_in_words(provider):
    """Bytes that are changed, left out or doubled: never a 500, and never somebody else."""
    provider.tell("t1", groups=["guests"])
    fields = provider.at_provider(provider.begin(Client()), "t1")
    said = base64.b64decode(fields["SAMLResponse"])
    dice, held = random.Random(421), 0  # the same in every run
    for _ in range(ROUNDS):
        changed = bytearray(said)
        for _ in range(dice.choice((1, 1, 1, 3))):
            at = dice.randrange(len(changed))
            match dice.randrange(3):
                case 0:
                    changed[at] = dice.randrange(256)
                case 1:
                    del changed[at : at + dice.choice((1, 8, 200))]
                case _:
                    changed[at:at] = changed[at : at + dice.choice((1, 8, 200))]
        raw = base64.b64encode(bytes(changed)).decode()
        answer = Client().post(SamlProvider.back, {"SAMLResponse": raw})
        held += answer.status_code == 302
        if answer.status_code == 302:  # what is not signed, as the outer ID, or nothing was changed
            assert assertions.verified(saml._provider(), raw).get_nameid() == "t1"
        else:
            refused(answer)
    assert held < ROUNDS / 2


def test_the_named_attribute_says_who_it_is_and_nothing_else_does(provider, settings):
    """A NameID that is a mail address, say, may be another person's tomorrow."""
    settings.WAYSTATION_SAML_SUBJECT_ATTRIBUTE = "employee"
    provider.tell("mail@example.org", groups=[])
    refused(provider.log_in("mail@example.org")[1])
    provider.tell("mail@example.org", employee="e1", groups=[])
    assert provider.log_in("mail@example.org")[1].status_code == 302
    provider.tell("mail@example.org", employee="e2", groups=[])
    assert provider.log_in("mail@example.org")[1].status_code == 302
    assert User.objects.count() == 2
    # SimpleSAMLphp and Shibboleth have it so, unless told otherwise
    provider.does(format="urn:oasis:names:tc:SAML:2.0:nameid-format:transient")
    provider.tell("another-each-time", employee="e2", groups=[])
    assert provider.log_in("another-each-time")[1].status_code == 302
    assert User.objects.count() == 2


@pytest.fixture
def own(settings, tmp_path):
    """A key of ours; gives what the provider has to know of it."""
    key, certificate = pair(tmp_path, "waystation")
    settings.WAYSTATION_SAML_KEY = str(key)
    settings.WAYSTATION_SAML_CERTIFICATE = str(certificate)
    return certificate.read_text()


def encrypted(certificate: str, **more: object) -> dict[str, object]:
    public = x509.load_pem_x509_certificate(certificate.encode()).public_key()
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return {
        "encryptionCert": certificate,
        "encryptionPublicKey": public.public_bytes(serialization.Encoding.PEM, form).decode(),
        **more,
    }


def test_a_provider_that_wants_signed_requests_gets_them(provider, own, settings, tmp_path):
    """Issue 20, 4. Keycloak wants them unless told otherwise."""
    provider.tell("t1", groups=[])
    provider.does(saml={"signingCert": own})
    assert provider.log_in("t1")[1].status_code == 302
    assert "RelayState" not in provider.begin(Client())
    for paths in (map(str, pair(tmp_path, "another")), ("", "")):
        settings.WAYSTATION_SAML_KEY, settings.WAYSTATION_SAML_CERTIFICATE = paths
        asked = provider.begin(Client())
        assert httpx.get(asked, params={**httpx.URL(asked).params, "login": "t1"}).is_error


@pytest.mark.parametrize("cipher", ["2001/04/xmlenc#aes256-cbc", "2009/xmlenc11#aes256-gcm"])
def test_an_assertion_that_is_encrypted_for_us_is_read(provider, own, settings, tmp_path, cipher):
    """Issue 20, 4. One for somebody else's key is refused, and any without a key of ours."""
    provider.tell("t1", givenName="Theodora", groups=[])
    algorithm = {
        "encryptionAlgorithm": f"http://www.w3.org/{cipher}",
        "disallowEncryptionWithInsecureAlgorithm": False,  # CBC, which AD FS has
    }
    other = pair(tmp_path, "another")[1].read_text()
    provider.does(saml=encrypted(other, **algorithm))
    refused(provider.log_in("t1")[1])
    provider.does(saml=encrypted(own, **algorithm, audience="https://others.example"))
    refused(provider.log_in("t1")[1])
    provider.does(saml={**encrypted(own, **algorithm), "signAssertion": False})
    refused(provider.log_in("t1")[1])
    provider.does(saml=encrypted(own, **algorithm))
    client = Client()
    fields = provider.at_provider(provider.begin(client), "t1")
    said = base64.b64decode(fields["SAMLResponse"])
    assert b"EncryptedAssertion" in said and b"Theodora" not in said
    dice = random.Random(426)
    for _ in range(ROUNDS // 5):
        changed = bytearray(said)
        at = dice.randrange(said.index(b"EncryptedAssertion"), len(said))
        changed[at] = dice.randrange(256)
        if bytes(changed) != said:
            raw = base64.b64encode(bytes(changed)).decode()
            assert Client().post(SamlProvider.back, {"SAMLResponse": raw}).status_code in {302, 403}
    assert provider.arrive(client, fields).status_code == 302
    assert User.objects.get().first_name == "Theodora"
    settings.WAYSTATION_SAML_KEY = settings.WAYSTATION_SAML_CERTIFICATE = ""
    assert provider.log_in("t1")[1].status_code == 403


def test_our_metadata_hands_the_certificate_over(own):
    text = Client().get("/login/saml/metadata").content.decode()
    assert 'AuthnRequestsSigned="true"' in text
    assert 'use="signing"' in text and 'use="encryption"' in text
    assert "".join(own.splitlines()[1:-1]) in "".join(text.split())


def test_a_key_that_cannot_be_used_lets_nobody_in_and_is_not_told(provider, own, settings, caplog):
    settings.WAYSTATION_SAML_KEY = settings.WAYSTATION_SAML_CERTIFICATE
    for path in ("/login/saml", "/login/saml/metadata"):
        refused(Client().get(path), "is set up wrongly", status=503)
    refused(Client().post(SamlProvider.back, {"SAMLResponse": "x"}), "set up wrongly", status=503)
    assert "Nobody logs in by SAML: WAYSTATION_SAML_KEY or" in caplog.text
    assert "CERTIFICATE-----" not in caplog.text


def test_our_metadata_says_where_assertions_go_and_that_they_are_signed():
    answer = Client().get("/login/saml/metadata")
    assert answer["Content-Type"] == "application/samlmetadata+xml"
    root = ElementTree.fromstring(answer.content)
    assert root.get("entityID") == f"{HERE}/login/saml/metadata"
    text = answer.content.decode()
    assert 'WantAssertionsSigned="true"' in text
    # what is pasted into a provider once stays good
    assert "validUntil" not in text and "cacheDuration" not in text
    assert f'Location="{HERE}{SamlProvider.back}"' in text


def test_a_provider_that_cannot_be_used_is_503_and_nobody_is_let_in(
    provider, settings, monkeypatch, caplog
):
    """Away, another one's metadata, none at all; and without the library."""
    for source in (f"http://127.0.0.1:{free_port()}/metadata", "/nowhere/metadata.xml"):
        settings.WAYSTATION_SAML_METADATA = source
        for path in ("/login/saml", "/login/saml/finish"):
            refused(Client().get(path), "cannot be reached just now", status=503)
    settings.WAYSTATION_SAML_METADATA = f"{provider.address}/metadata"
    settings.WAYSTATION_SAML_ISSUER = "https://others.example"
    refused(Client().get("/login/saml"), "cannot be reached just now", status=503)
    settings.WAYSTATION_SAML_ISSUER = provider.address
    monkeypatch.setitem(sys.modules, "project.identity.assertions", None)
    refused(Client().get("/login/saml"), "cannot be reached just now", status=503)
    refused(Client().post(SamlProvider.back, {}), "cannot be reached just now", status=503)
    assert "pip install -r requirements-saml.txt" in caplog.text


def test_without_a_provider_there_is_no_such_page(settings):
    settings.WAYSTATION_SAML_ISSUER = ""
    for path in ("/login/saml", "/login/saml/finish", "/login/saml/metadata"):
        assert Client().get(path).status_code == 404
    assert Client().post(SamlProvider.back, {}).status_code == 404
    assert "Log in by" not in Client().get("/login").content.decode()


@pytest.mark.parametrize(
    "half", [{"saml_issuer": "x"}, {"saml_pair": ("key", "")}, {"saml_pair": ("", "certificate")}]
)
def test_half_of_what_goes_together_stops_the_start(half):
    with pytest.raises(ImproperlyConfigured, match="go together"):
        options.providers(**half)
