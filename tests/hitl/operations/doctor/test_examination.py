"""`manage.py doctor`: what is set up wrong is said in words, with its mend, and never with a
secret.
"""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

from checkpoints.database import clock
from hitl.operations import health
from hitl.operations.doctor import Level, people, store
from runs.engine.workers import heartbeat
from runs.models import Heartbeat, HeartbeatKind, HostClock, Run, installation
from tests.servers.certificates import pair
from tests.servers.private import Redis, free_port
from tests.worlds.people import person

SECRETS = ("hush-redis", "hush-mail", "hush-key-that-is-rather-short")


@pytest.fixture
def well(db, settings, tmp_path):
    """Several processes, set up as they should be, with workers and beat at work."""
    settings.ALLOWED_HOSTS = ["waystation.example.org"]
    settings.WAYSTATION_URL = "https://waystation.example.org"
    settings.SECRET_KEY = "0123456789abcdefghij" * 3
    settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = True
    settings.NUM_PROXIES = 1
    settings.WAYSTATION_DATA = tmp_path
    settings.WHITENOISE_USE_FINDERS = False
    person("root", is_superuser=True)
    for name, queues in (("steps@a", ["control", "steps", "outbound"]), ("agents@a", ["agents"])):
        known: dict[str, Any] = {"version": installation.version(), "commit": installation.commit()}
        facts = {"pool": "prefork", **installation.own_facts()}
        heartbeat._write(
            Heartbeat(name=name, kind=HeartbeatKind.WORKER, queues=queues, facts=facts, **known)
        )
    heartbeat._write(Heartbeat(name="beat@a", kind=HeartbeatKind.BEAT, **known))
    heartbeat._write(Heartbeat(name="web@a:7", kind=HeartbeatKind.WEB, **known))
    heartbeat._write(Heartbeat(name=heartbeat.LOOK, kind=HeartbeatKind.LOOK))


def examined(*options: str) -> tuple[int, dict[str, list[Any]]]:
    """The exit code, and the findings by level."""
    output, code = StringIO(), 0
    try:
        call_command("doctor", "--json", *options, stdout=output)
    except SystemExit as end:
        code = int(str(end.code))
    told = json.loads(output.getvalue())
    assert told["ok"] is not any(one["level"] == "wrong" for one in told["findings"])
    assert all(
        one["mend"] or one["level"] == "fine"
        for one in told["findings"]
        if "check " not in one["subject"]
    )
    assert not [secret for secret in SECRETS if secret in output.getvalue()]
    levels: dict[str, list[Any]] = {str(level): [] for level in Level}
    for one in told["findings"]:
        levels[one["level"]].append(SimpleNamespace(**one))
    return code, levels


def said(level: str = "wrong", *options: str) -> str:
    """All that is said at a level, in one text."""
    return " | ".join(
        f"{one.subject}: {one.words} {one.mend}" for one in examined(*options)[1][level]
    )


@pytest.mark.both_databases
@pytest.mark.usefixtures("well")
def test_where_all_is_well_nothing_is_wrong_and_it_says_what_it_looked_at():
    code, found = examined()
    assert (code, found["wrong"], found["warning"]) == (0, [], [])
    assert {one.subject for one in found["fine"]} >= {
        "database", "clock", "disk", "redis", "mail", "workers", "work", "beat", "hosts",
        "web servers",
    }  # fmt: skip
    output = StringIO()
    call_command("doctor", "--strict", stdout=output)
    assert output.getvalue().splitlines()[-1] == "0 wrong, 0 will bite."


@pytest.mark.both_databases
@pytest.mark.usefixtures("well")
def test_workers_beats_and_clocks_are_held_against_what_should_be(make_order):
    worker = Heartbeat.objects.filter(pk="steps@a")
    worker.update(facts={"pool": "prefork", "database_pool": 8, "secret_key": "ffffffff"})
    worker.update(version="0.0.1", commit="0" * 40)
    HostClock.objects.create(host="far", ahead=-90.0, seen_at=timezone.now())
    wrong = said()
    assert "steps@a forks its children and has DATABASE_POOL=8" in wrong
    assert "steps@a has another SECRET_KEY" in wrong
    warned = said("warning")
    assert "steps@a is of 0.0.1 (000000000000)" in warned
    assert "The clock of far is 90.0 s behind" in warned
    Heartbeat.objects.exclude(kind="worker").update(version="0.0.1")
    warned = said("warning")
    assert "beat@a is of 0.0.1" in warned and "web@a:7 is of 0.0.1" in warned
    assert examined()[0] == 1
    Heartbeat.objects.exclude(pk="steps@a").update(seen_at=clock.FromNow(-600))
    wrong = said()
    assert "Beat's look was last carried out 600 s ago: no beat was seen. Deadlines do not" in wrong
    assert "No worker takes the queue agents: steps that talk" in said("warning")
    order = make_order()
    Run.objects.filter(pk=order.latest_run_id).update(queue="agents")
    assert "No worker takes the queue agents: what is in it waits. Start one" in said()
    Run.objects.filter(pk=order.latest_run_id).update(queue="steps", due_at=clock.FromNow(-75))
    Heartbeat.objects.update(seen_at=clock.FromNow())
    assert "work: Nothing takes the queue steps: 1 due, and the first has waited for 7" in said()
    worker.delete()
    assert "the queue outbound" in said()


@pytest.mark.usefixtures("well")
def test_settings_that_will_bite_are_named_with_their_mend(settings, monkeypatch, tmp_path):
    settings.DEBUG = True
    settings.ALLOWED_HOSTS = ["*"]
    settings.SECRET_KEY = SECRETS[2]
    settings.NUM_PROXIES = 0
    settings.WAYSTATION_URL = "http://waystation.example.org"
    (tmp_path / "secret_key").write_text("k" * 60)
    (tmp_path / "secret_key").chmod(0o644)
    wrong, warned = said(), said("warning")
    for words in (
        "DEBUG is on",
        "SECRET_KEY is short",
        "Other users may read",
        "begins with http:",
    ):
        assert words in wrong
    for words in ("ALLOWED_HOSTS has *", "NUM_PROXIES is 0"):
        assert words in warned
    settings.ALLOWED_HOSTS = ["other.example.org"]
    assert "Links in mails name waystation.example.org, which ALLOWED_HOSTS does not" in said()
    settings.SESSION_COOKIE_SECURE = False
    assert "HTTPS is off" in said("warning")
    settings.REST_FRAMEWORK = {**settings.REST_FRAMEWORK, "DEFAULT_PERMISSION_CLASSES": []}
    assert "check hitl.E001" in said()
    for free, level in ((50_000_000, "wrong"), (500_000_000, "warning")):
        usage = SimpleNamespace(total=10**10, used=0, free=free)
        monkeypatch.setattr(shutil, "disk_usage", lambda folder, usage=usage: usage)
        assert "disk: " in said(level)


@pytest.mark.usefixtures("well")
def test_the_day_on_which_the_provider_is_away_is_thought_of(settings, monkeypatch):
    """Issue 20, 4: a setting that locks everybody out is found before that day."""
    issuer = settings.WAYSTATION_OIDC_ISSUER = f"http://127.0.0.1:{free_port()}"
    settings.WAYSTATION_PASSWORDS, settings.WAYSTATION_BREAK_GLASS = "break-glass", ["glass"]
    settings.WAYSTATION_STEP_UP = "everyone"
    assert "description cannot be read" in said() and "none of them can log in" in said()
    assert "1 of 1 active people have none" in said("warning")
    person("glass")
    settings.WAYSTATION_BREAK_GLASS = ["glass", "gone"]
    assert "accounts" not in said() and "these cannot log in: gone" in said("warning")
    monkeypatch.setattr(people, "_discovered", lambda issuer: {"issuer": "https://other.example"})
    assert "another name" in said()
    monkeypatch.setattr(people, "_discovered", lambda asked: {"issuer": f"{issuer}/"})
    assert "The provider answers." in said("fine") and "single sign-on" not in said()
    User.objects.filter(username="root").update(is_superuser=False)
    assert "no active superuser" in said("warning")


@pytest.mark.usefixtures("well")
def test_whoever_is_off_and_has_another_account_is_listed(settings):
    """Issue 30, 6. By address, by name, and by what a provider calls them."""
    assert "share a name" not in said("warning")
    person("gone", is_active=False, email="Mia@example.org")
    assert "share a name" not in said("warning")
    person("mia7", email="mia@EXAMPLE.org")
    person("left", is_active=False)
    SocialAccount.objects.create(
        user=person("sol3"), provider="saml", uid="s1", extra_data={"uid": ["Left"]}
    )
    assert "one active: gone and mia7, left and sol3." in said("warning")


def metadata_of(issuer, folder, *, days):
    """A SAML provider's, with a certificate that lasts so long."""
    lines = pair(folder, "provider", days=days)[1].read_text().splitlines()
    return (
        '<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" '
        f'xmlns:ds="http://www.w3.org/2000/09/xmldsig#" entityID="{issuer}">'
        "<md:IDPSSODescriptor "
        'protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol">'
        '<md:KeyDescriptor use="signing"><ds:KeyInfo><ds:X509Data><ds:X509Certificate>'
        f"{''.join(lines[1:-1])}"
        "</ds:X509Certificate></ds:X509Data></ds:KeyInfo></md:KeyDescriptor>"
        '<md:SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" '
        'Location="https://idp.example/login"/>'
        "</md:IDPSSODescriptor></md:EntityDescriptor>"
    )


@pytest.mark.usefixtures("well")
def test_what_saml_lacks_is_said(settings, tmp_path, monkeypatch):
    """Issue 20, 4: the library, the metadata, the issuer in it, a login by redirect, and time."""
    source = tmp_path / "idp.xml"
    settings.WAYSTATION_SAML_ISSUER = "https://idp.example"
    settings.WAYSTATION_SAML_METADATA = str(source)
    assert "metadata cannot be used" in said()
    text = metadata_of("https://idp.example", tmp_path, days=90)
    for changed, words in {
        "<no": "no XML",
        text.replace('entityID="https://idp', 'entityID="https://other'): "names no provider",
        text.replace("HTTP-Redirect", "HTTP-POST"): "no address to log in at by redirect",
        text.replace("IDPSSODescriptor", "SPSSODescriptor"): "no identity provider",
        text.replace('use="signing"', 'use="encryption"'): "no certificate that signs",
        text.replace("<ds:X509Certificate>M", "<ds:X509Certificate>A"): "cannot be read",
        text.replace(" entityID", ' validUntil="2020-01-01T00:00:00Z" entityID'): "valid until",
        text.replace(" entityID", ' validUntil="2020-01-01T00:00:00" entityID'): "valid until",
        text.replace(" entityID", ' validUntil="2030-02-30T00:00:00Z" entityID'): "cannot be read",
        f'<!DOCTYPE x [<!ENTITY a "b">]>{text}': "no XML",
    }.items():
        assert changed != text
        source.write_text(changed)
        assert words in said()
    settings.WAYSTATION_SAML_METADATA = "https://idp.example/metadata"
    with monkeypatch.context() as patch:  # no OSError by itself, so that a login was a 500
        patch.setattr("urllib.request.urlopen", Mock(side_effect=http.client.BadStatusLine("x")))
        assert "metadata cannot be used" in said()
    settings.WAYSTATION_SAML_METADATA = str(source)
    source.write_text(text)
    assert "SAML" not in said() and "metadata can be used" in said("fine")
    own, other = (pair(tmp_path, name, days=90) for name in ("own", "other"))
    for paths, words in {
        ("/nowhere.key", own[1]): "WAYSTATION_SAML_KEY cannot be read",
        (own[0], "/nowhere.crt"): "WAYSTATION_SAML_CERTIFICATE cannot be read",
        (own[1], own[1]): "no PEM",
        (other[0], own[1]): "not that of WAYSTATION_SAML_KEY",
    }.items():
        settings.WAYSTATION_SAML_KEY, settings.WAYSTATION_SAML_CERTIFICATE = map(str, paths)
        assert words in said()
    settings.WAYSTATION_SAML_KEY, settings.WAYSTATION_SAML_CERTIFICATE = map(str, own)
    assert "SAML" not in said() + said("warning")
    soon = pair(tmp_path, "soon", days=5)
    settings.WAYSTATION_SAML_KEY, settings.WAYSTATION_SAML_CERTIFICATE = map(str, soon)
    assert "Our own certificate ends" in said("warning")
    source.write_text(metadata_of("https://idp.example", tmp_path, days=5))
    assert "The last certificate" in said("warning")
    monkeypatch.setattr(people, "find_spec", lambda name: None)
    assert "pip install -r requirements-saml.txt" in said()


@pytest.mark.usefixtures("well")
def test_redis_and_the_mail_server_are_reached(settings, tmp_path, monkeypatch):
    """Several processes: what was fine for one is not."""
    monkeypatch.delenv("SECRET_KEY", raising=False)
    (tmp_path / "secret_key").touch(0o600)
    settings.WAYSTATION_URL = "http://localhost:8000"
    settings.WHITENOISE_USE_FINDERS = True
    server = Redis(tmp_path)
    server.start()
    try:
        settings.REDIS_URL = server.url
        import redis

        with redis.Redis.from_url(server.url) as client:
            client.config_set("maxmemory", "100mb")
            client.config_set("maxmemory-policy", "allkeys-lru")
        warned = said("warning")
    finally:
        server.kill()
    for words in (
        "it drops keys (allkeys-lru)", "Mails go to no mail server", "links in mails and messages",
        "SECRET_KEY is the one in the data folder", "not encrypted at rest", "not collected",
    ):  # fmt: skip
        assert words in warned
    settings.REDIS_URL = f"redis://:{SECRETS[0]}@127.0.0.1:{free_port()}/0"
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", free_port()
    settings.EMAIL_HOST_PASSWORD = SECRETS[1]
    wrong = said()
    assert "Redis cannot be reached" in wrong
    assert "The mail server cannot be reached" in wrong


@pytest.mark.both_databases
@pytest.mark.usefixtures("well")
def test_a_database_without_a_migration_is_told_and_the_rest_is_still_examined():
    [(_, last)] = MigrationLoader(None).graph.leaf_nodes("hitl")
    newest = MigrationRecorder(connection).migration_qs.get(app="hitl", name=last)
    newest.delete()
    code, found = examined()
    assert (code, [one.words for one in found["wrong"]]) == (
        1,
        [f"1 migrations are missing, first hitl.{newest.name}."],
    )
    assert "disk" in {one.subject for one in found["fine"]}
    assert health.missing_migrations() == [f"hitl.{newest.name}"]


@contextmanager
def pooler(target: str) -> Iterator[int]:
    """As PgBouncer does it, answer by itself which session begins; all else goes on to the
    server's socket. Gives its port.
    """
    listening = socket.create_server(("127.0.0.1", 0))

    def pump(source: socket.socket, sink: socket.socket, *, told: bool) -> None:
        with source, sink:
            while data := source.recv(65536):
                if told and (at := data.find(b"K\x00\x00\x00\x0c")) >= 0:
                    data = data[: at + 5] + b"\x00\x01\x02\x03" + data[at + 9 :]
                    told = False
                sink.sendall(data)

    def serve() -> None:
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(target)
            with client, server:
                for source, sink, told in ((client, server, False), (server, client, True)):
                    pair = (source.dup(), sink.dup())
                    threading.Thread(
                        target=pump, args=pair, kwargs={"told": told}, daemon=True
                    ).start()

    threading.Thread(target=serve, daemon=True).start()
    with listening:
        yield listening.getsockname()[1]


@pytest.mark.django_db(transaction=True)
def test_prepared_statements_behind_a_pooler_are_found_by_asking_the_server():
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no poolers")
    known = connection.settings_dict
    assert list(store.pooler()) == []
    with pooler(f"{known['HOST']}/.s.PGSQL.{known['PORT'] or 5432}") as port:
        own, options = dict(known), dict(known["OPTIONS"])
        try:
            for prepared, level, words in (
                (True, Level.WRONG, "?prepare_threshold=none"),
                (False, Level.WARNING, "ALTER ROLE"),
            ):
                connection.close()
                if not prepared:
                    options = {
                        k: v
                        for k, v in options.items()
                        if k not in ("prepare_threshold", "options")
                    }
                known |= {"HOST": "127.0.0.1", "PORT": str(port), "OPTIONS": options}
                (found,) = store.pooler()
                assert found.level is level and words in found.mend, found
        finally:
            connection.close()
            known |= own
