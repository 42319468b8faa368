"""Credentials that are bound to hosts: sent there, to nobody else, and to no program that could
send them anywhere.
"""

from __future__ import annotations

import io
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from runs.agents import model
from runs.agents.model import providers
from runs.engine.context import delivery
from runs.models import Credential, Repository
from runs.security import allowed_hosts, credentials
from runs.threads import turns
from runs.workflows.base import PullRequestDraft, StepFailed
from tests.databases.encryption_keys import NEW, keys
from tests.databases.whole import file_database as file_database
from tests.doors.admin import operator as operator
from tests.servers.model_endpoint import KEY, ModelReply, by_loop, serving
from tests.worlds import agents

# What a host is


@pytest.mark.parametrize(
    ("entry", "kept"),
    [("API.Example.org", "api.example.org"), (" localhost:11434 ", "localhost:11434"),
    ("[::1]:8080", "[::1]:8080"),
     ("10.0.0.1", "10.0.0.1"), ("my_forge", "my_forge"), ("example.org.", "example.org")],
)  # fmt: skip
def test_hosts_are_kept_in_one_writing(entry, kept):
    assert allowed_hosts.parse([entry, kept]) == [kept]


@pytest.mark.parametrize(
    "entry",
    ["https://api.example.org", "api.example.org/v1", "*.example.org", "", "a b", "host:0",
    "host:70000", "user@host", "[::1", "[x]",
     "-a.org", "a..b", "x" * 300, "host:", "müller.example"],
)  # fmt: skip
def test_what_is_no_host_is_refused_by_name(entry):
    with pytest.raises(allowed_hosts.HostInvalid, match="is no host"):
        allowed_hosts.parse([entry])
    with pytest.raises(allowed_hosts.HostInvalid, match="up to 50"):
        allowed_hosts.parse([f"h{number}" for number in range(51)])


@pytest.mark.parametrize(
    ("url", "entry", "covered"),
    [
        ("https://api.example.org/v1", "api.example.org", True),
        ("https://API.example.org./v1", "api.example.org", True),
        ("https://api.example.org:443/v1", "api.example.org", True),
        ("https://api.example.org/v1", "api.example.org:443", True),
        ("http://localhost:11434/v1", "localhost:11434", True),
        ("http://[::1]:8080/", "[::1]:8080", True),
        ("https://api.example.org:8443/v1", "api.example.org", False),
        ("http://api.example.org/", "api.example.org:443", False),
        ("https://evil.example/?api.example.org", "api.example.org", False),
        ("https://api.example.org.evil.example/", "api.example.org", False),
        ("https://sub.api.example.org/", "api.example.org", False),
        ("https://api.example.org@evil.example/", "api.example.org", False),
        ("https://evil.example\\@api.example.org/", "api.example.org", False),
        ("https://user:word@api.example.org/", "api.example.org", False),
        ("https://api.example.org\t.evil.example/", "api.example.org", False),
        ("ftp://api.example.org/", "api.example.org", False),
        ("https://api.example.org:port/", "api.example.org", False),
        ("", "api.example.org", False),
    ],
)
def test_an_address_is_at_a_host_or_it_is_not(url, entry, covered):
    """One that two readers could take differently is at none."""
    assert allowed_hosts.covers([entry], url) is covered


# Who gets it

served = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _sealed() -> Any:
    with keys(NEW):
        yield


def refusal(name: str = "forge", **more: Any) -> str:
    with pytest.raises(StepFailed) as refused:
        credentials.resolve(name, team_id=None, **more)
    assert refused.value.code == "credential_host"
    return str(refused.value)


@pytest.mark.django_db
def test_a_bound_credential_goes_to_its_hosts_and_one_that_is_not_goes_anywhere(
    monkeypatch, settings
):
    credentials.put("forge", KEY, sent_to=["api.github.com", "github.com"])
    assert credentials.resolve("forge", team_id=None, to="https://api.github.com") == KEY
    assert "may be sent to api.github.com, github.com only, not to evil.example" in refusal(
        to="https://evil.example/x"
    )
    assert "a program, could send it anywhere" in refusal()
    assert KEY not in refusal(to="https://evil.example")
    assert Credential.objects.get().used_at, (
        "of the use that was none nothing is noted, of the other it is"
    )
    credentials.put("forge", KEY)
    assert Credential.objects.get().hosts == ["api.github.com", "github.com"], (
        "another value changes no host"
    )
    credentials.put("forge", KEY, sent_to=[])
    assert credentials.resolve("forge", team_id=None) == KEY
    settings.WAYSTATION_CREDENTIALS_FROM_ENV = ["FROM_ENV"]
    monkeypatch.setenv("FROM_ENV", KEY)
    assert credentials.resolve("FROM_ENV", team_id=None, to="https://anywhere.example") == KEY


@served
@pytest.mark.usefixtures("templates", "file_database")
def test_an_agent_sends_its_key_to_a_host_of_the_credential_alone(ana):
    with serving(by_loop(ModelReply("Fine."))) as endpoint:
        agents.load(endpoint.url, credential="model")
        credentials.put("model", KEY, sent_to=["api.openai.com"])
        run = agents.say(turns.open_thread(by=ana), "Go", by=ana)
        assert (run.status, run.failure_code, endpoint.requests) == (
            "failed",
            "credential_host",
            [],
        )
        assert (
            endpoint.url.removeprefix("http://").removesuffix("/v1") in run.error
            and KEY not in run.error
        )
        call_command(
            "credential",
            "bind",
            "model",
            "--host",
            endpoint.url.removeprefix("http://").removesuffix("/v1"),
            stdout=io.StringIO(),
        )
        assert agents.say(turns.open_thread(by=ana), "Go", by=ana).status == "completed"
        assert endpoint.keys == [KEY]


def test_a_provider_without_an_address_is_asked_at_its_own_whatever_the_environment_says(
    monkeypatch,
):
    monkeypatch.setenv("OPENAI_BASE_URL", "https://evil.example/v1")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "https://evil.example/v1")
    for named, host in (
        ("openai:gpt", "api.openai.com"),
        ("anthropic:claude", "api.anthropic.com"),
    ):
        endpoint = model.ModelEndpoint(model=named)
        assert allowed_hosts.shown(endpoint.address) == host
        made = providers._openai if endpoint.provider == "openai" else providers._anthropic
        assert allowed_hosts.shown(str(made(endpoint, "x", KEY, None).base_url)) == host


@pytest.mark.django_db
def test_forges_and_git_are_given_it_for_their_own_host(settings):
    settings.WAYSTATION_FORGES = ["https://api.github.com"]
    asked: list[str] = []

    def give(name: str, *, to: str = "") -> str:
        asked.append(to)
        return credentials.resolve(name, team_id=None, to=to)

    credentials.put("forge", KEY, sent_to=["github.com"])
    place = Repository(
        name="r", url="https://github.com/a/b.git", forge="github", credential="forge"
    )
    access = delivery.access_to(place, give)
    assert access is not None and access.token == KEY
    wanted = PullRequestDraft(branch="b", base="", title="t", body="")
    with pytest.raises(StepFailed) as refused:
        delivery.propose_at(place, give, wanted)
    assert refused.value.code == "credential_host" and "not to api.github.com" in str(refused.value)
    elsewhere = Repository(name="r", url="https://git.evil.example/a/b.git", credential="forge")
    with pytest.raises(StepFailed, match=r"not to git\.evil\.example"):
        delivery.access_to(elsewhere, give)
    assert asked == [
        "https://github.com/a/b.git",
        "https://api.github.com",
        "https://git.evil.example/a/b.git",
    ]
    assert (
        delivery.access_to(
            Repository(name="r", url="git@github.com:a/b.git", credential="forge"), give
        )
        is None
    )
    assert len(asked) == 3, "who is reached without a token gets none"


# Where it is said


def test_the_admin_binds_a_credential_and_says_plainly_where_one_may_go(operator):
    add = reverse("admin:runs_credential_add")
    page = operator.get(add).content.decode()
    assert "it may be sent to ANY host" in page and "bound=api.github.com%2C+github.com" in page
    filled = operator.get(f"{add}?name=openai&bound=api.openai.com").content.decode()
    assert 'value="openai"' in filled and "api.openai.com</textarea>" in filled
    operator.post(
        add,
        {
            "name": "forge",
            "note": "",
            "secret": KEY,
            "bound": "API.github.com, github.com\r\nlocalhost:8080",
        },
    )
    row = Credential.objects.get()
    assert row.hosts == ["api.github.com", "github.com", "localhost:8080"]
    change = reverse("admin:runs_credential_change", args=[row.pk])
    assert (
        "api.github.com\ngithub.com\nlocalhost:8080</textarea>"
        in operator.get(change).content.decode()
    )
    refused = operator.post(change, {"note": "", "secret": "", "bound": "https://github.com/"})
    assert "is no host" in refused.content.decode() and Credential.objects.get().hosts == row.hosts
    operator.post(change, {"note": "", "secret": "", "bound": ""})
    assert Credential.objects.get().hosts == [] and Credential.objects.get().value == KEY
    assert "any host" in operator.get(reverse("admin:runs_credential_changelist")).content.decode()


def test_who_only_looks_sees_the_hosts_and_cannot_change_them(db):
    row = credentials.put("forge", KEY, sent_to=["github.com"])
    user = User.objects.create_user("vic", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="view_credential"))
    client = Client()
    client.force_login(user)
    change = reverse("admin:runs_credential_change", args=[row.pk])
    page = client.get(change).content.decode()
    assert "github.com" in page and 'name="bound"' not in page
    assert client.post(change, {"note": "", "bound": ""}).status_code == 403
    assert Credential.objects.get().hosts == ["github.com"]


@pytest.mark.django_db
def test_the_command_binds_and_tells(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(KEY))
    out = io.StringIO()
    call_command(
        "credential", "set", "forge", "--host", "api.github.com", "--host", "github.com", stdout=out
    )
    call_command("credential", "list", stdout=out)
    call_command("credential", "bind", "forge", "--any-host", stdout=out)
    said = out.getvalue()
    assert (
        said.count("api.github.com, github.com") == 2
        and "may be sent to any host from now on" in said
    )
    for words in (
        ["bind", "forge", "--host", "https://x/"],
        ["bind", "gone", "--any-host"],
        ["bind", "forge"],
    ):
        with pytest.raises(CommandError):
            call_command("credential", *words, stdout=io.StringIO())
    assert Credential.objects.get().hosts == []
