"""What stands under the name of a secret is not kept, through whatever door it comes."""

from __future__ import annotations

import json
import re
import uuid

import pytest
from django.conf import settings as product
from hypothesis import given
from hypothesis import strategies as st

from checkpoints import store
from checkpoints.events import log
from checkpoints.models import Checkpoint, CheckpointStatus, Event, EventKind, Memo, Thread
from checkpoints.state import codec, redaction, reducers
from checkpoints.state.redaction import MARKER
from checkpoints.store import Entry
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from hitl.threads import messages
from runs import definitions
from runs.engine.drafts import step_rows
from runs.models import Pause, WorkOrder
from runs.threads.turns import Turn, open_thread
from runs.workflows.base import Context, Done, Go, Outcome, Report, State
from runs.workflows.registry import step
from tests.conftest import drive, log_lines, pause_of, state_at_head
from tests.databases.encryption_keys import dump

pytestmark = pytest.mark.django_db
SECRET = "s3cr3t-that-nobody-may-find"


@step("test.login")
def login(state: State, context: Context) -> Outcome:
    """A step that is careless with its secrets at every turn it has."""
    got = context.once("login", lambda: {"access_token": SECRET, "user": "ana"})
    context.log("Logged in", api_key=SECRET, user="ana")
    update = {
        "session": {"password": SECRET, "hosts": [{"Set-Cookie": SECRET, "name": "a"}]},
        "token": SECRET,
        "memo": got,
    }
    return Go(
        update=update, report=Report(content="Logged in.", facts={"API key": SECRET, "User": "ana"})
    )


@step("test.read_login")
def read_login(state: State, context: Context) -> Outcome:
    return Done(update={"seen": [state["token"], state["session"]["password"]], "tokens_used": 12})


@pytest.fixture
def careless(templates):
    for name in ("login", "read_login"):
        definitions.edit_step_template(
            f"test-{name}", title=name, function=f"test.{name}", config={}
        )
    steps = [
        {
            "step_type": "login",
            "step_template_slug": "test-login",
            "pause_after": True,
            "pause_phase": "awaiting_plan_approval",
        },
        {"step_type": "rotate_secret", "step_template_slug": "test-read_login"},
    ]
    definitions.edit_template("careless", steps=steps, title="Careless", needs_repository=False)


@pytest.mark.parametrize(
    "name",
    ["token", "TOKEN", "github_token", "accessToken", "access-token", "x.token", "API key",
    "apiKey", "API-Key", "X_API_KEY", "apikey",
     "AWS_SECRET_ACCESS_KEY", "Set-Cookie", "cookies", "Authorization", "proxy-authorization",
     "db_password", "password2", "secrets",
     "HTTPCookie"],
)  # fmt: skip
def test_names_of_secrets_are_known_however_they_are_written(name):
    assert redaction.is_secret(name)


@pytest.mark.parametrize(
    "name",
    ["tokens", "tokens_used", "next_token_count", "token_limit", "tokenizer", "secretary",
    "undersecretary", "authorized", "cookiecutter",
     "password_changed_at", "apikeys_total", "key", "api", "", "\x00", "\ud800", "messages"],
)  # fmt: skip
def test_other_names_are_none(name):
    assert not redaction.is_secret(name)


@pytest.mark.parametrize("value", [None, True, False, "", [], {}])
def test_what_gives_nothing_away_stays(value):
    """A step may ask whether there was one."""
    assert codec.state({"token": value}, names=redaction.names()) == {"token": value}


def test_a_careless_step_leaves_no_secret_anywhere(careless, make_order, ana):
    """S0: field redaction (api_key, password, secret, token).

    State, events, memo, pause and log line; what follows sees what is kept.
    """
    order = drive(make_order("careless"))
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
    order = drive(order)
    assert order.status == "completed"
    assert SECRET not in dump()
    state = state_at_head(order.thread_id)
    assert state["session"] == {"password": MARKER, "hosts": [{"Set-Cookie": MARKER, "name": "a"}]}
    assert state["seen"] == [MARKER, MARKER]
    assert state["memo"] == {"access_token": MARKER, "user": "ana"}
    assert state["tokens_used"] == 12
    assert Memo.objects.get().value == [{"access_token": MARKER, "user": "ana"}]
    assert Pause.objects.get().facts == [["API key", MARKER], ["User", "ana"]]
    assert {"api_key": MARKER, "user": "ana"}.items() <= Event.objects.get(
        data__contains="Logged in"
    ).data.items()


def test_the_names_of_steps_are_no_names_of_secrets(careless, make_order, ana):
    """`decided` is by step: what was decided about a step `rotate_secret` stays known."""
    update = {
        "decided": {"rotate_secret": "approve"},
        "gathered": {"find_secret": {"status": "completed", "token": "x"}},
    }
    after = reducers.apply(codec.state({}), update, {"decided": "merge"})
    assert after == {
        "decided": {"rotate_secret": "approve"},
        "gathered": {"find_secret": {"status": "completed", "token": MARKER}},
    }


def test_what_a_person_gives_is_not_kept_either_and_they_are_told(careless, make_order, ana):
    """A payload, an order's input, new input on a thread, a whole state, an edited one."""
    order = drive(make_order("careless", input={"login": {"password": SECRET}}))
    update = {"form": [{"apiKey": SECRET}], "note": "kept"}
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE, update=update), by=ana)
    order = drive(order)
    assert WorkOrder.objects.get().input == {"login": {"password": MARKER}}
    assert state_at_head(order.thread_id)["form"] == [{"apiKey": MARKER}]
    told = [words for words in log_lines(order) if "Not kept" in words]
    assert ["login.password" in told[0], "form[0].apiKey" in told[1]] == [True, True]
    thread = open_thread(by=ana)
    messages.say(
        thread.pk, Turn(template="careless", input={"token": SECRET}), by=ana, via=Via.REST
    )
    other = open_thread(by=ana)
    messages.say(
        other.pk, Turn(template="careless", state={"a": {"cookie": SECRET}}), by=ana, via=Via.REST
    )
    checkpoint = order.thread.checkpoints.filter(status="active", next_step="rotate_secret").latest(
        "pk"
    )
    services.fork(
        checkpoint.pk, by=ana, reason="Try", state={**store.load(checkpoint), "secret": SECRET}
    )
    assert SECRET not in dump()


def test_an_answer_cannot_make_a_list_of_a_secret(careless):
    """The marker is no list, so a reducer has nothing to do with it."""
    after = reducers.apply(
        codec.state({"token": MARKER, "a": 1}), {"token": ["x"]}, {"token": "append"}
    )
    assert after == {"token": MARKER, "a": 1}


def test_the_digest_is_of_what_is_kept(ana):
    thread = Thread.objects.create(owner=ana)
    saved = store.save(
        thread.pk,
        uuid.uuid4(),
        {"token": SECRET},
        Entry(status=CheckpointStatus.ACTIVE),
        parent=None,
        before=None,
    )
    found = Checkpoint.objects.get(pk=saved.pk)
    assert store.load(found) == {"token": MARKER}
    assert found.digest == codec.state_digest(codec.state({"token": MARKER}))


def test_what_was_kept_before_still_loads_after_a_name_was_added(ana, redacting):
    """Redaction is at write: a load never changes what is stored, or its digest would not match."""
    redacting([])
    thread = Thread.objects.create(owner=ana)
    first = store.save(
        thread.pk,
        uuid.uuid4(),
        {"token": "x" * 300},
        Entry(status=CheckpointStatus.ACTIVE),
        parent=None,
        before=None,
    )
    redacting(["token"])
    before = store.load(Checkpoint.objects.get(pk=first.pk))
    assert before == {"token": "x" * 300}
    after = reducers.apply(before, {"n": 1}, {})
    second = store.save(
        thread.pk,
        uuid.uuid4(),
        after,
        Entry(status=CheckpointStatus.ACTIVE),
        parent=first,
        before=before,
    )
    assert store.load(Checkpoint.objects.get(pk=second.pk)) == {"token": "x" * 300, "n": 1}
    assert reducers.apply(before, {"token": "y"}, {})["token"] == MARKER


def test_names_only_so_a_secret_in_a_text_is_kept(ana):
    """Said in README: texts are never searched."""
    thread = Thread.objects.create(owner=ana)
    log.append(
        thread.pk,
        None,
        [(EventKind.LOG, {"message": f"token={SECRET}", "headers": [["Authorization", SECRET]]})],
    )
    assert Event.objects.get().data == {
        "message": f"token={SECRET}",
        "headers": [["Authorization", SECRET]],
    }


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"api_key": {"type": "string"}}},
        {
            "properties": {
                "shop": {"type": "object", "properties": {"password": {"type": "string"}}}
            }
        },
        {
            "properties": {"shops": {"type": "array", "items": {"$ref": "#/$defs/shop"}}},
            "$defs": {"shop": {"properties": {"accessToken": {}}}},
        },
        {"required": ["token"]},
    ],
)
def test_a_template_that_asks_for_a_secret_is_refused(templates, schema):
    """The form would ask for what no step would ever get."""
    with pytest.raises(definitions.TemplateInvalid, match="named like a secret") as refused:
        definitions.edit_template("writing", input_schema=schema)
    assert list(refused.value.errors) == ["input_schema"]


def test_a_template_may_ask_whether_there_is_a_secret(templates):
    definitions.edit_template(
        "writing",
        input_schema={
            "properties": {"uses_password": {"type": "boolean"}, "token_limit": {"type": "integer"}}
        },
    )


def test_labels_of_a_report_are_names_too():
    kept = step_rows.kept_report(Report(content="x", facts={"Password": "p", "Tokens": 3}))
    assert kept["facts"] == [["Password", MARKER], ["Tokens", 3]]


names = st.sampled_from(["token", "a", "api-key", "tokens", "decided", "\x00"])
trees = st.recursive(
    st.none() | st.integers() | st.just(SECRET),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
)
SECRET_PLACE = re.compile(r'"(?:token|api-key)":(?!null|\[\]|\{\}|"\[redacted\]")')


@given(st.dictionaries(names, trees, max_size=5))
def test_all_walks_agree(tree):
    """The one that freezes, the one that redacts any value, and the one that tells what was
    found.
    """
    frozen = codec.state(tree, names=redaction.names())
    inside = {key: value for key, value in tree.items() if key != "decided"}
    assert codec.encode(
        {key: value for key, value in frozen.items() if key != "decided"}
    ) == codec.encode(redaction.redact(inside))
    assert (codec.encode(redaction.redact(inside)) != codec.encode(inside)) is bool(
        list(redaction.found(inside))
    )
    assert not list(redaction.found(frozen))
    assert not SECRET_PLACE.search(codec.encode(redaction.redact(tree)))


def test_redacting_copies_nothing_where_there_is_nothing():
    value = {"a": [{"b": 1}], "tokens": 3}
    assert redaction.redact(value) is value


def test_the_setting_is_what_the_documents_name():
    """S0: api_key, password, secret, token; and what a request carries."""
    assert {"api_key", "password", "secret", "token", "authorization", "cookie"} <= set(
        product.WAYSTATION_REDACT
    )
    assert json.loads(codec.encode(MARKER)) == MARKER
