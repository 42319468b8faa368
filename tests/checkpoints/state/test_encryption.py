"""Encryption at rest: nothing readable in a dump, all of it readable with the keys, and none of it
lost when keys change.
"""

from __future__ import annotations

import re
import uuid
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test import Client

from checkpoints import store
from checkpoints.events import log
from checkpoints.models import (
    Blob,
    Checkpoint,
    CheckpointStatus,
    Chunk,
    Event,
    EventKind,
    Memo,
    Thread,
    fields,
)
from checkpoints.security import key_rotation
from checkpoints.state import encryption
from checkpoints.store import CheckpointDamaged, Entry, StateLocked, bodies
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Decision, Via
from runs import definitions, env
from runs import services as runs
from runs.engine.context import effects
from runs.models import Pause, Run
from runs.workflows.base import Context, Go, Outcome, Report, State
from runs.workflows.registry import step
from tests.conftest import drive, fresh, pause_of, state_at_head
from tests.databases.encryption_keys import NEW, OLD, dump, keys
from tests.worlds import steps
from tests.worlds.histories.whole_story import broken

pytestmark = pytest.mark.django_db
WORD = "Wiesenschaumkraut"
"""Stands in everything that a person or a step says in these tests, and in no name of ours."""


def rotate(*arguments: str) -> str:
    out = StringIO()
    call_command("rotate_keys", *arguments, stdout=out, stderr=out)
    return out.getvalue()


@step("test.telling")
def telling(state: State, context: Context) -> Outcome:
    got = context.once("thought", lambda: f"{WORD} memo", optional=True)
    context.log(f"{WORD} line")
    long = [f"{WORD} item {number} " + "x" * 100 for number in range(200)]
    return Go(
        update={"got": got, "long": long},
        report=Report(content=f"{WORD} report", facts={"A": WORD}, patch=f"+{WORD}"),
    )


@pytest.fixture
def telling_template(templates):
    definitions.edit_step_template(
        "test-telling", title="Telling", function="test.telling", config={}
    )
    listed = [
        {
            "step_type": "planning",
            "step_template_slug": "test-plan",
            "pause_after": True,
            "pause_phase": "awaiting_plan_approval",
        },
        {
            "step_type": "telling",
            "step_template_slug": "test-telling",
            "pause_after": True,
            "pause_phase": "awaiting_review_decision",
        },
        {"step_type": "deliver", "name": "finish", "step_template_slug": "test-finish"},
    ]
    definitions.edit_template("telling", steps=listed, title="Telling", needs_repository=False)


def run_through(make_order, ana):
    """Run, pause, revise, pause, approve, pause, approve, complete; something is said at every
    door.
    """
    order = drive(
        make_order(
            "telling", title="A title", request=f"{WORD} request", input={"a": f"{WORD} input"}
        )
    )
    services.decide(
        pause_of(order).pk, Answer("revise", Via.PAGE, feedback=f"{WORD} feedback"), by=ana
    )
    order = drive(order)
    services.decide(
        pause_of(order).pk, Answer("approve", Via.PAGE, update={"given": f"{WORD} payload"}), by=ana
    )
    order = drive(order)
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
    return drive(order)


def test_a_dump_shows_nothing_and_the_product_everything(telling_template, make_order, ana):
    """A real run on both databases: S4's state persisted, yet nothing of it in clear."""
    with keys(NEW):
        order = run_through(make_order, ana)
        assert order.status == "completed"
        assert WORD not in dump()
        assert state_at_head(order.thread_id)["given"] == f"{WORD} payload"
        assert len(state_at_head(order.thread_id)["long"]) == 200
        assert order.request == f"{WORD} request"
        assert order.input == {"a": f"{WORD} input"}
        assert f"{WORD} line" in [
            event.data.get("message") for event in Event.objects.filter(kind="log")
        ]
        assert Memo.objects.get().value == [f"{WORD} memo"]
        last = Pause.objects.get(step="telling")
        assert [last.content, last.facts, store.get_blob(last.patch_digest)] == [
            f"{WORD} report",
            [["A", WORD]],
            f"+{WORD}".encode(),
        ]
        assert Decision.objects.filter(feedback="").count() == 2
        assert f"{WORD} feedback" in {decision.feedback for decision in Decision.objects.all()}
        assert broken() == {}


def test_the_same_words_stand_in_a_dump_without_keys(telling_template, make_order, ana):
    """So the test above can fail."""
    run_through(make_order, ana)
    text = dump()
    for said in ("request", "input", "line", "memo", "feedback", "payload", "report"):
        assert f"{WORD} {said}" in text


def save(state, thread=None, parent=None, before=None):
    thread = thread or Thread.objects.create(owner=User.objects.get_or_create(username="keeper")[0])
    return store.save(
        thread.pk,
        uuid.uuid4(),
        state,
        Entry(status=CheckpointStatus.ACTIVE),
        parent=parent,
        before=before,
    )


def reread(checkpoint):
    return Checkpoint.objects.get(pk=checkpoint.pk)


def test_plain_and_encrypted_rows_live_together():
    """Switched on, changed, and switched off again in the midst of one lineage."""
    states = [{"fixed": "x" * 500, "n": n} for n in range(4)]
    saved = [save(states[0])]
    for number, known in enumerate(((OLD,), (NEW, OLD), (encryption.PLAIN, NEW, OLD)), start=1):
        with keys(*known):
            parent = saved[-1]
            saved.append(save(states[number], parent.thread, parent, states[number - 1]))
    with keys(OLD, NEW):
        assert [store.load(reread(one)) for one in saved] == states
    assert dump().count("xxx") == 1 * 166  # the first one only, 500 signs


def test_a_missing_key_is_named_and_nothing_begins_anew(telling_template, make_order, ana):
    """C24: the run stops with words that name the key; with the key again it is retried and
    completes.
    """
    with keys(OLD):
        order = drive(make_order("telling", input={"a": WORD}))
        services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
        checkpoints = Checkpoint.objects.count()
    named = encryption.Key.parse(OLD).id
    with keys(NEW):
        order = drive(order)
        assert order.latest_run.failure_code == "encryption_key_missing"
        assert named in order.latest_run.error
        assert Checkpoint.objects.count() == checkpoints
        with pytest.raises(StateLocked, match=named):
            store.load(Checkpoint.objects.latest("pk"))
        page = Client()
        page.force_login(ana)
        assert page.get(f"/work-orders/{order.shown_id}/").status_code == 200
    with keys(NEW, OLD):
        runs.retry(order.pk, by=ana)
        order = drive(order)
        services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
        assert drive(order).status == "completed"


def test_rest_says_which_key_is_missing(telling_template, make_order, ana, api):
    with keys(OLD):
        order = drive(make_order("telling"))
        pause = pause_of(order)
    with keys(NEW):
        client = api(ana)
        head = client.get(f"/api/v1/checkpoints/{order.thread.head.shown_id}")
        assert (head.status_code, head.json()["code"]) == (503, "encryption_key_missing")
        assert encryption.Key.parse(OLD).id in head.json()["detail"]
        answered = client.post(
            f"/api/v1/pauses/{pause.shown_id}/decisions",
            {"decision": "approve", "revision": 1},
            format="json",
        )
        assert answered.status_code in {409, 503}
        for path in ("events", "history", ""):
            assert (
                client.get(
                    f"/api/v1/threads/{order.thread.shown_id}/{path}".rstrip("/")
                ).status_code
                == 200
            )
        events = client.get(f"/api/v1/threads/{order.thread.shown_id}/events").json()["results"]
        assert all(set(event["data"]) == {"unreadable"} for event in events)
        assert not Decision.objects.exists()


def test_a_memo_that_cannot_be_opened_is_not_done_again(ana):
    """P4: recorded work is never done again, also where its result cannot be read."""
    thread = Thread.objects.create(owner=ana)
    with keys(OLD):
        Memo.objects.create(thread=thread, scope="s", key="k", value=["x"])
    with keys(NEW), pytest.raises(StateLocked):
        effects._result(Memo.objects.get())
    with keys(OLD):
        assert effects._result(Memo.objects.get()) == "x"


@pytest.mark.parametrize("place", [20, 40, 60, -5])
def test_a_changed_ciphertext_is_never_loaded(place):
    """C24."""
    with keys(OLD):
        checkpoint = save({"a": "b" * 100})
        stored = raw("checkpoints_checkpoint", "body")
        other = "A" if stored[place] != "A" else "B"
        index = place % len(stored)
        overwrite("checkpoints_checkpoint", "body", stored[:index] + other + stored[index + 1 :])
        with pytest.raises(CheckpointDamaged, match="does not match its digest"):
            store.load(reread(checkpoint))


def test_a_value_that_was_moved_to_another_column_is_no_value(ana):
    with keys(OLD):
        save({"a": "b" * 100})
        log.append(Thread.objects.get().pk, None, [(EventKind.LOG, {"message": "x"})])
        overwrite("checkpoints_event", "data", raw("checkpoints_checkpoint", "body"))
        assert isinstance(Event.objects.get().data, fields.Locked)


def raw(table, column):
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {column} FROM {table}")
        return cursor.fetchone()[0]


def overwrite(table, column, value):
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {table} SET {column} = %s", [value])


def test_saving_a_row_that_could_not_be_opened_keeps_what_is_stored(make_order):
    with keys(OLD):
        order = drive(make_order(input={"a": 1}))
        before = raw("runs_workorder", "input")
        drafted = raw("runs_pause", "content")
    with keys(NEW):
        fresh(order).save()
        Pause.objects.get().save()
    assert raw("runs_workorder", "input") == before
    assert raw("runs_pause", "content") == drafted


def test_text_that_only_looks_encrypted_comes_back(ana):
    """Nobody can make a row unreadable by what they write."""
    words = f"{encryption.MARK}deadbeef.AAAA"
    for known in ((), (OLD,), (encryption.PLAIN, OLD)):
        with keys(*known):
            assert encryption.opened_text(encryption.seal_text(words, "a.b"), "a.b") == words
            assert (
                encryption.opened(encryption.seal(words.encode(), "a.b"), "a.b") == words.encode()
            )


def test_the_same_text_never_lies_there_twice_the_same():
    with keys(OLD):
        assert len({encryption.seal_text("x", "a.b") for _ in range(100)}) == 100


def test_a_process_takes_another_salt_in_good_time(monkeypatch):
    with keys(OLD):
        monkeypatch.setattr(encryption, "PER_SALT", 0)
        texts = [encryption.seal_text("x", "a.b") for _ in range(3)]
        assert [encryption.opened_text(text, "a.b") for text in texts] == ["x"] * 3


def test_keys_are_in_no_repr():
    with keys(OLD):
        assert OLD not in repr(encryption.newest())
        assert OLD not in repr(encryption._ring)


@pytest.mark.parametrize(
    "text",
    ["x", "A" * 43 + "!", OLD[:-2], f"{OLD},plain", f"{NEW},{OLD[:20]}"],
    ids=["short", "signs", "cut", "plain", "second"],
)
def test_a_bad_key_stops_the_start_without_being_shown(monkeypatch, text):
    monkeypatch.setenv("SOME_KEYS", text)
    with pytest.raises(ImproperlyConfigured, match="SOME_KEYS, key") as refused:
        env.encryption_keys("SOME_KEYS")
    assert not any(part in str(refused.value) for part in text.split(",") if len(part) > 10)


# rotation


def fill(count=12):
    """Rows in every sealed column of `checkpoints`, and a long list in chunks."""
    state: dict[str, Any] = {"long": ["y" * 500] * 40}
    first = save(state)
    for number in range(count):
        after = {**state, "n": number, "words": "z" * 100}
        first = save(after, first.thread, first, state)
        state = after
    store.put_blob(b"patch" * 100)
    Memo.objects.create(thread=first.thread, scope="s", key="k", value=[1])
    log.append(first.thread_id, None, [(EventKind.LOG, {"message": "x"})] * 3)
    return first, state


def test_rotation_brings_everything_to_the_newest_key_and_keeps_it():
    """From plain to a key, to another, and back."""
    head, state = fill()
    rows = {model: model.objects.count() for model in (Checkpoint, Event, Blob, Chunk, Memo)}
    for known in ((OLD,), (NEW, OLD), (encryption.PLAIN, NEW)):
        with keys(*known):
            planned = rotate("--dry-run", "--batch", "5").splitlines()[:-1]
            assert planned
            assert rotate("--batch", "5").splitlines()[:-1] == planned
            assert rotate("--dry-run").startswith("0 values")
        with keys(known[0]):  # the old one is not needed any more
            assert store.load(reread(head)) == state
    assert {model: model.objects.count() for model in rows} == rows
    assert "zzz" in dump()


def test_a_dry_run_writes_nothing():
    fill(2)
    with keys(NEW):
        before = dump()
        assert "under plain" in rotate("--dry-run")
        assert dump() == before


class Killed(BaseException):
    """Stands for a process that is gone."""


def test_a_rotation_that_was_killed_goes_on_where_it_stopped(monkeypatch):
    """Each batch is its own commit; until the end all is readable with both keys."""
    with keys(OLD):
        head, state = fill()
    take = key_rotation._take
    done: list[int] = []

    def dies(column, rows, found, *, dry_run):
        if len(done) == 3:
            with transaction.atomic():
                take(column, rows[:1], found, dry_run=dry_run)
                raise Killed
        done.append(1)
        take(column, rows, found, dry_run=dry_run)

    monkeypatch.setattr(key_rotation, "_take", dies)
    with keys(NEW, OLD):
        with pytest.raises(Killed):
            rotate("--batch", "4")
        assert store.load(reread(head)) == state
        monkeypatch.setattr(key_rotation, "_take", take)
        left = rotate("--dry-run")
        assert (
            0
            < int(left.splitlines()[-1].split()[0])
            < sum(model.objects.count() * 2 for model in (Checkpoint, Event, Blob, Memo))
        )
        rotate("--batch", "4")
    with keys(NEW):
        assert store.load(reread(head)) == state


def test_rotation_leaves_and_names_what_it_cannot_open():
    with keys(OLD):
        fill(1)
    before = dump()
    with keys(NEW), pytest.raises(SystemExit) as ended:
        out = StringIO()
        call_command("rotate_keys", stdout=out, stderr=out)
    assert ended.value.code == 1
    assert dump() == before
    assert "unreadable" in out.getvalue()


def test_rotation_never_writes_over_what_changed_meanwhile(make_order, monkeypatch):
    with keys(OLD):
        drive(make_order("writing-fail"))
    sealed = encryption.seal_text

    def slow(plain, about):
        if about == "runs_run.error" and plain != "changed meanwhile":
            Run.objects.update(error="changed meanwhile")
        return sealed(plain, about)

    with keys(NEW, OLD):
        monkeypatch.setattr(encryption, "seal_text", slow)
        rotate()
        monkeypatch.setattr(encryption, "seal_text", sealed)
        assert Run.objects.get().error == "changed meanwhile"


def test_every_sealed_column_is_rotated():
    """Also those of apps to come: they are found by the field."""
    assert {column.about for column in key_rotation.columns()} >= {
        "checkpoints_checkpoint.body", "checkpoints_checkpoint.metadata", "checkpoints_event.data",
        "checkpoints_memo.value",
        "checkpoints_blob.content", "checkpoints_chunk.content", "runs_pause.question",
        "runs_pause.content", "runs_pause.facts",
        "runs_pause.effects", "runs_run.input", "runs_run.error", "runs_run.reason",
        "runs_workorder.request", "runs_workorder.input",
        "hitl_decision.feedback",
    }  # fmt: skip
    assert {bodies.SEALED, store.ITEMS} <= {column.about for column in key_rotation.columns()}


def test_a_new_key_is_one_and_another_each_time():
    one, other = rotate("--new").strip(), rotate("--new").strip()
    assert one != other
    assert encryption.ring_of([one, other]).newest == encryption.Key.parse(one)


@pytest.mark.parametrize("batch", ["0", "-1", "10001"])
def test_a_batch_without_bounds_is_refused(batch):
    with pytest.raises(CommandError):
        rotate("--batch", batch)


def test_keys_change_while_a_run_is_under_way(make_order, ana):
    """Between a question and its answer, and while a step works: the run holds what it needs, and
    goes on.
    """
    with keys(OLD):
        order = drive(make_order())
    with keys(NEW, OLD):
        assert not re.search(r"\b0 values", rotate())
    with keys(NEW):
        services.decide(pause_of(order).pk, Answer("revise", Via.PAGE, feedback=WORD), by=ana)
    third = encryption.new_key()
    with keys(third, NEW):
        steps.HOOKS["planning"] = rotate
        order = drive(order)
        del steps.HOOKS["planning"]
        rotate()
    with keys(third):
        assert state_at_head(order.thread_id)["drafts"] == ["first", WORD]
        for _ in range(3):
            services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
            order = drive(order)
        assert order.status == "completed"
        assert broken() == {}
        assert WORD not in dump()


# the admin


def staff(name, *rights):
    user = User.objects.create_user(name, password="a long password of staff", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=rights))
    client = Client()
    client.force_login(user)
    return client


VIEWS = (
    "view_checkpoint",
    "view_event",
    "view_pause",
    "view_run",
    "view_workorder",
    "view_decision",
    "change_pause",
)


def test_the_admin_shows_ciphertext_without_the_right_and_plain_with_it(
    telling_template, make_order, ana
):
    """Not even in a heading, a list, or the page that asks before an action."""
    with keys(NEW):
        order = run_through(make_order, ana)
        waiting = drive(make_order("telling", request=WORD))
        services.decide(pause_of(waiting).pk, Answer("approve", Via.PAGE), by=ana)
        waiting = drive(waiting)
        Pause.objects.filter(pk=pause_of(waiting).pk).update(question=WORD)
        pages = admin_pages(order, pause_of(waiting))
        low, high = staff("low", *VIEWS), staff("high", *VIEWS, "view_state")
        for page in pages:
            response = low.get(page)
            assert response.status_code == 200, page
            assert WORD not in response.content.decode(), page
        assert encryption.MARK in low.get(pages[0]).content.decode()
        assert all(WORD in high.get(page).content.decode() for page in pages)
        asked = {"action": "approve", "_selected_action": [str(pause_of(waiting).pk)]}
        assert WORD not in low.post("/admin/runs/pause/", asked).content.decode()


def admin_pages(order, pause):
    head = order.thread.head
    log_line = next(
        event for event in Event.objects.filter(thread=order.thread_id) if WORD in str(event.data)
    )
    revised = next(decision for decision in Decision.objects.all() if decision.feedback)
    return [
        f"/admin/checkpoints/checkpoint/{head.pk}/change/",
        f"/admin/checkpoints/event/{log_line.pk}/change/",
        f"/admin/runs/pause/{pause.pk}/change/",
        "/admin/runs/pause/",
        f"/admin/runs/workorder/{order.pk}/change/",
        f"/admin/hitl/decision/{revised.pk}/change/",
    ]


def test_without_keys_the_right_is_not_asked_for(make_order):
    order = drive(make_order(request=WORD))
    page = staff("low", *VIEWS).get(f"/admin/runs/workorder/{order.pk}/change/")
    assert WORD in page.content.decode()
