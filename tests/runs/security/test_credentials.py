"""Secrets by name: who gets which, that they lie encrypted, and that none of them is in anything a
run writes (S0-63, issue 7).
"""

from __future__ import annotations

import io
import json
import logging
import pickle
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.test import Client
from django.urls import reverse

from checkpoints.export import thread_document
from checkpoints.models import Event, Memo
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from hitl.threads import erasure
from runs import definitions
from runs.models import Artifact, Credential, Pause, Run
from runs.security import credentials
from runs.workflows.base import Ask, Call, Context, Go, Outcome, Report, State, StepFailed
from runs.workflows.registry import step
from tests.conftest import drive, pause_of, state_at_head
from tests.databases.encryption_keys import NEW, OLD, dump, keys
from tests.databases.whole import file_database as file_database
from tests.doors.admin import operator as operator

pytestmark = pytest.mark.django_db
SECRET = "sk-Wiesenschaumkraut-1234567890"
OTHER = "sk-Sumpfdotterblume-1234567890"


@pytest.fixture(autouse=True)
def _sealed() -> Any:
    with keys(NEW):
        yield


def locked(name: str, **more: Any) -> str:
    """The code that asking for a credential fails with."""
    with pytest.raises(StepFailed) as refused:
        credentials.resolve(name, **{"team_id": None, **more})
    assert SECRET not in str(refused.value)
    return refused.value.code


# Who gets which


def test_a_team_gets_its_own_before_that_of_all_teams_and_never_one_of_others(team):
    other = Group.objects.create(name="others")
    credentials.put("forge", SECRET)
    assert credentials.resolve("forge", team_id=team.pk) == SECRET
    credentials.put("forge", OTHER, team=team)
    assert credentials.resolve("forge", team_id=team.pk) == OTHER
    assert (
        credentials.resolve("forge", team_id=other.pk)
        == credentials.resolve("forge", team_id=None)
        == SECRET
    )
    credentials.put("ours", OTHER, team=team)
    assert locked("ours", team_id=other.pk) == locked("ours") == "credential_missing"


def test_the_environment_is_read_for_allowed_names_only(monkeypatch, settings):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("SHORT_ONE", "abc")
    assert locked("OPENAI_API_KEY") == "credential_missing"
    settings.WAYSTATION_CREDENTIALS_FROM_ENV = ["OPENAI_API_KEY", "SHORT_ONE", "NOT_SET"]
    assert credentials.resolve("OPENAI_API_KEY", team_id=None) == SECRET
    assert (
        locked("SHORT_ONE")
        == locked("NOT_SET")
        == locked("SECRET_KEY")
        == locked("PATH")
        == "credential_missing"
    )
    credentials.put("OPENAI_API_KEY", OTHER)
    assert credentials.resolve("OPENAI_API_KEY", team_id=None) == OTHER


def test_a_use_is_noted_once_a_minute_and_a_new_value_is_used_at_once():
    credentials.put("forge", SECRET, note="the forge's")
    credentials.resolve("forge", team_id=None)
    first = Credential.objects.get()
    credentials.resolve("forge", team_id=None)
    assert first.used_at == Credential.objects.get().used_at and first.rotated_at is None
    credentials.put("forge", OTHER)
    now = Credential.objects.get()
    assert (
        now.rotated_at
        and now.note == "the forge's"
        and credentials.resolve("forge", team_id=None) == OTHER
    )


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [("", SECRET, "name"), ("a b", SECRET, "name"), ("x" * 81, SECRET, "name"), ("forge\n", SECRET,
    "name"),
     ("forge", "short", "value"), ("forge", " " * 20, "value"), ("forge", "x" * 40_000, "value"),
     ("forge", "a\0" + SECRET, "value")],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused_without_repeating_it(name, value, field):
    with pytest.raises(credentials.CredentialInvalid) as refused:
        credentials.put(name, value)
    assert refused.value.field == field
    assert not value.strip() or value not in str(refused.value)


def test_the_database_holds_one_of_a_name_for_all_and_one_for_each_team_and_none_without_value(
    team,
):
    Credential.objects.create(name="forge", value=SECRET)
    Credential.objects.create(name="forge", value=SECRET, team=team)
    for more, constraint in (
        ({}, "for_all"),
        ({"team": team}, "per_team"),
        ({"name": "empty", "value": ""}, "has_value"),
    ):
        with pytest.raises(IntegrityError) as refused, transaction.atomic():
            Credential.objects.create(**{"name": "forge", "value": SECRET, **more})
        assert constraint in str(refused.value) or "UNIQUE" in str(refused.value)


def test_of_two_who_keep_a_first_value_at_once_one_is_told(monkeypatch):
    """A race: both saw none, and the database has one of a name."""
    credentials.put("forge", SECRET)
    monkeypatch.setattr(QuerySet, "first", lambda self: None)
    with pytest.raises(credentials.CredentialInvalid, match="at the same moment"):
        credentials.put("forge", OTHER)


# At rest


def test_a_dump_shows_no_value_and_keys_are_changed_with_all_others():
    """Key rotation covers it."""
    with keys(OLD):
        credentials.put("forge", SECRET)
        assert SECRET not in dump()
    with keys(NEW):
        assert locked("forge") == "credential_locked"
    with keys(NEW, OLD):
        call_command("rotate_keys", stdout=io.StringIO())
    with keys(NEW):
        assert credentials.resolve("forge", team_id=None) == SECRET


def test_without_a_key_nothing_is_kept_in_plain():
    with keys(), pytest.raises(credentials.CredentialInvalid, match="WAYSTATION_ENCRYPTION_KEYS"):
        credentials.put("forge", SECRET)
    assert not Credential.objects.exists()


def test_a_credential_tells_its_value_to_no_repr_and_no_pickle():
    row = credentials.put("forge", SECRET)
    assert SECRET not in f"{row!r} {row}"
    with pytest.raises(TypeError):
        pickle.dumps(row)


# In a run


SEEN: list[str] = []


@step("test.leaking")
def leaking(state: State, context: Context) -> Outcome:
    """Puts the secret wherever a step can."""
    secret = context.credential("forge")
    SEEN.append(secret)
    context.log(f"used {secret}", header={"bearer": [secret]})
    context.keep(f"of {secret}", secret)
    made = context.artifact(f"{secret}.txt", f"used {secret}".encode())
    assert (made["name"], context.content_of(made)) == ("[redacted].txt", b"used [redacted]")
    memo = context.once(f"asked with {secret}", lambda: {"said": secret, secret: 1})
    call = Call(id="c1", tool="send", arguments={"text": [f"with {secret}"]}, preview=secret)
    update = {"memo": memo, "given": {"deep": [f"x{secret}y", 1, None, secret]}, "plain": "kept"}
    report = Report(content=secret, patch=f"+{secret}", facts={"Key": secret}, effects=[secret])
    answers = {"approve": "finish", "answer": "finish", "cancel": ""}
    return Ask(
        question=f"Send {secret}?", answers=answers, report=report, update=update, calls=[call]
    )


@step("test.leaking_aloud")
def leaking_aloud(state: State, context: Context) -> Outcome:
    secret = context.credential("forge")
    for piece in (secret[:5], secret[5:11], secret[11:] + " and sk-", "other sk"):
        context.stream(piece)
    return Go()


@step("test.leaking_error")
def leaking_error(state: State, context: Context) -> Outcome:
    raise ValueError(f"401 for Bearer {context.credential('forge')}")


@step("test.leaking_failure")
def leaking_failure(state: State, context: Context) -> Outcome:
    raise StepFailed(f"The forge refused {context.credential('forge')}.", code="forge_refused")


@step("test.leaking_then_fine")
def leaking_then_fine(state: State, context: Context) -> Outcome:
    assert SECRET not in repr(context)
    return Go(update={"said": context.credential("forge")})


@pytest.fixture
def leaky(make_order):
    """Makes an order whose first step is that function."""
    credentials.put("forge", SECRET)

    def make(function: str) -> Any:
        definitions.edit_step_template("leaky", title="Leaky", function=function, config={})
        steps = [
            {"step_type": "planning", "step_template_slug": "leaky"},
            {"name": "finish", "step_template_slug": "test-finish"},
        ]
        definitions.edit_template("leaky", title="Leaky", steps=steps, needs_repository=False)
        return drive(make_order("leaky"))

    return make


def everything() -> str:
    """What was said, opened."""
    texts = [json.dumps(event.data) for event in Event.objects.all()]
    texts += [repr(vars(artifact)) for artifact in Artifact.objects.all()]
    texts += [repr(memo.value) + memo.key for memo in Memo.objects.all()]
    texts += [repr(vars(pause)) for pause in Pause.objects.all()] + [
        run.error for run in Run.objects.all()
    ]
    return "\n".join(texts)


def test_a_secret_is_in_nothing_that_a_step_writes(leaky, ana):
    """State, log, events, memos, question, report, patch, calls: a marker stands in its place, and
    the rest is as it was.
    """
    SEEN.clear()
    order = leaky("test.leaking")
    assert SEEN == [SECRET]
    state = state_at_head(order.thread_id)
    assert (
        state["given"] == {"deep": ["x[redacted]y", 1, None, "[redacted]"]}
        and state["plain"] == "kept"
    )
    assert state["memo"] == {"said": "[redacted]", "[redacted]": 1}
    pause = pause_of(order)
    assert (pause.question, pause.content, pause.calls[0]["preview"]) == (
        "Send [redacted]?",
        "[redacted]",
        "[redacted]",
    )
    assert SECRET not in everything()
    services.decide(pause.pk, Answer("approve", Via.PAGE), by=ana)
    assert drive(order).status == "completed" and SECRET not in everything()


@pytest.mark.usefixtures("file_database")
@pytest.mark.django_db(transaction=True)
def test_a_secret_that_is_said_in_pieces_is_not_heard(leaky):
    """An end that may begin one waits for the next piece, and is said when nothing follows."""
    order = leaky("test.leaking_aloud")
    said = "".join(
        event.data["content"]
        for event in Event.objects.filter(kind="streaming_chunk").order_by("seq")
    )
    assert (order.status, said) == ("completed", "[redacted] and sk-other sk")


def test_a_secret_is_in_no_row_at_all_when_nothing_is_encrypted(leaky):
    """The scrub stands without sealing: only the credential's own row, kept before, is sealed
    here.
    """
    with keys("plain", NEW):
        assert leaky("test.leaking").status == "paused"
        assert SECRET not in dump()


@pytest.mark.parametrize(
    ("function", "words", "code"),
    [
        ("test.leaking_error", "ValueError: 401 for Bearer [redacted]", "step_error"),
        ("test.leaking_failure", "The forge refused [redacted].", "forge_refused"),
    ],
)
def test_a_secret_is_in_no_error_and_in_no_line_of_the_servers_log(
    leaky, caplog, function, words, code
):
    with caplog.at_level(logging.DEBUG):
        order = leaky(function)
    assert (order.latest_run.error, order.latest_run.failure_code) == (words, code)
    logged = "\n".join(logging.Formatter().format(record) for record in caplog.records)
    assert "[redacted]" in logged and "Traceback" in logged
    assert SECRET not in logged and SECRET not in everything()


def test_exports_and_erasures_neither_carry_nor_touch_credentials(leaky, ana):
    order = leaky("test.leaking_then_fine")
    document = json.dumps(thread_document.export(order.thread))
    assert order.status == "completed" and SECRET not in document and "forge" not in document
    erasure.erase(order.thread_id, by="root", reason="asked for")
    assert credentials.resolve("forge", team_id=None) == SECRET


def test_a_run_that_may_not_have_it_fails_with_words_and_a_code(make_order, leaky):
    Credential.objects.all().delete()
    order = leaky("test.leaking_then_fine")
    assert (order.status, order.latest_run.failure_code) == ("failed", "credential_missing")
    assert "manage.py credential set" in order.latest_run.error


# The admin


def test_a_value_is_written_in_the_admin_and_shown_on_no_page(operator, team):
    added = operator.post(
        reverse("admin:runs_credential_add"),
        {"name": "forge", "team": team.pk, "note": "n", "secret": SECRET},
        follow=True,
    )
    row = Credential.objects.get()
    assert added.status_code == 200 and (row.value, row.team, row.created_by.username) == (
        SECRET,
        team,
        "oli",
    )
    pages = [
        reverse("admin:runs_credential_changelist"),
        *(
            reverse(f"admin:runs_credential_{page}", args=[row.pk])
            for page in ("change", "history", "delete")
        ),
    ]
    for answer in (added, *(operator.get(page) for page in pages)):
        assert answer.status_code == 200 and SECRET not in answer.content.decode()


def test_an_empty_value_keeps_the_old_one_and_another_replaces_it(operator):
    row = credentials.put("forge", SECRET)
    url = reverse("admin:runs_credential_change", args=[row.pk])
    operator.post(url, {"note": "said", "secret": "", "name": "other"})
    assert [
        (one.name, one.value, one.note, one.rotated_at) for one in Credential.objects.all()
    ] == [("forge", SECRET, "said", None)]
    operator.post(url, {"note": "said", "secret": OTHER})
    assert Credential.objects.get().value == OTHER and Credential.objects.get().rotated_at


def test_a_refused_form_does_not_give_back_what_was_typed(operator):
    row = credentials.put("forge", SECRET)
    answer = operator.post(
        reverse("admin:runs_credential_change", args=[row.pk]), {"note": "n" * 201, "secret": OTHER}
    )
    assert (
        answer.status_code == 200
        and OTHER not in answer.content.decode()
        and Credential.objects.get().value == SECRET
    )
    short = operator.post(
        reverse("admin:runs_credential_add"), {"name": "x", "note": "", "secret": "seven77"}
    )
    assert (
        "8 to 32,000 characters" in short.content.decode()
        and "seven77" not in short.content.decode()
    )


def test_the_same_name_twice_is_told_on_the_form(operator):
    credentials.put("forge", SECRET)
    answer = operator.post(
        reverse("admin:runs_credential_add"), {"name": "forge", "note": "", "secret": OTHER}
    )
    assert answer.status_code == 200 and Credential.objects.get().value == SECRET


def test_who_only_looks_sees_names_and_no_field_for_a_value(db):
    row = credentials.put("forge", SECRET)
    user = User.objects.create_user("vic", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="view_credential"))
    client = Client()
    client.force_login(user)
    text = client.get(reverse("admin:runs_credential_change", args=[row.pk])).content.decode()
    assert "forge" in text and SECRET not in text and 'name="secret"' not in text


# The command


def test_the_command_reads_the_value_from_standard_input(monkeypatch, team):
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{SECRET}\n"))
    out = io.StringIO()
    call_command("credential", "set", "forge", "--team", "platform", "--note", "n", stdout=out)
    call_command("credential", "list", stdout=out)
    assert credentials.resolve("forge", team_id=team.pk) == SECRET
    assert (
        "forge kept for platform." in out.getvalue()
        and "used" in out.getvalue()
        and SECRET not in out.getvalue()
    )
    call_command("credential", "remove", "forge", "--team", "platform", stdout=out)
    assert not Credential.objects.exists()


@pytest.mark.parametrize(
    "words", [["set", "a b"], ["set", "forge", "--team", "nobody"], ["remove", "forge"]]
)
def test_the_command_refuses_with_a_sentence(monkeypatch, words):
    monkeypatch.setattr("sys.stdin", io.StringIO(SECRET))
    with pytest.raises(CommandError) as refused:
        call_command("credential", *words, stdout=io.StringIO())
    assert SECRET not in str(refused.value) and not Credential.objects.exists()
