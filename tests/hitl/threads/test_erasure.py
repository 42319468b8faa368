"""Erasing a thread: all that belongs to it is gone, others' things stay, the ledger holds, and that
it happened is known.
"""

from __future__ import annotations

import datetime as dt
import json
from io import StringIO

import pytest
from django.contrib.auth.models import Permission, User
from django.contrib.messages import get_messages
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from django.urls import reverse
from django.utils import timezone

from checkpoints import ids, store
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
)
from checkpoints.state import codec
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Decision, Erasure, Via
from hitl.threads import erasure, export
from hitl.threads.erasure import CannotErase
from runs import definitions
from runs.git.housekeeping import workspace_path
from runs.models import Pause, Run, WorkOrder
from runs.workflows.base import Ask, Done, Report
from tests.conftest import drive, fresh, pause_of
from tests.databases.undone import undone
from tests.databases.whole import rows
from tests.doors.admin import client_of, staff
from tests.killed import moments
from tests.worlds.histories.whole_story import broken
from tests.worlds.scripted_step import order_that as order_that

pytestmark = pytest.mark.django_db

LONG_AGO = dt.timedelta(hours=1)


def age_content():
    """What was stored so far was stored long ago."""
    for kind in (Blob, Chunk):
        kind.objects.update(touched_at=timezone.now() - LONG_AGO)


@pytest.fixture
def ended(paused, ben):
    """An order that was sent back with words about somebody, then approved, and is complete."""
    for action, words in (
        ("revise", "Ask Mrs Smith, 0171 555"),
        ("approve", ""),
        ("approve", ""),
        ("approve", ""),
    ):
        services.decide(pause_of(paused).pk, Answer(action, Via.PAGE, feedback=words), by=ben)
        drive(paused)
    order = fresh(paused)
    assert order.status == "completed"
    Memo.objects.create(thread=order.thread, scope="s", key="k", value=["Mrs Smith"])
    age_content()
    return order


@pytest.fixture
def quick(make_order):
    """An order that is complete, and nobody was asked."""
    return drive(make_order("writing-quick"))


def everything(word):
    """The tables in which a word stands."""
    return {table for table, found in rows().items() if any(word in str(row) for row in found)}


@pytest.mark.both_databases
def test_nothing_of_the_thread_is_left_and_the_ledger_holds(ended):
    thread = ended.thread_id
    assert len(everything("Mrs Smith")) > 3
    done = erasure.erase(thread, by="dpo", reason="Asked for in writing")
    assert everything("Mrs Smith") == set()
    for model in (Thread, WorkOrder, Run, Pause, Checkpoint, Event, Memo, Blob, Chunk):
        assert not model.objects.exists(), model
    assert [decision.position for decision in Decision.objects.order_by("position")] == [1, 2, 3, 4]
    assert {decision.decided_by.username for decision in Decision.objects.all()} == {"ben"}
    assert broken() == {}
    assert (done.thread_id, done.erased_by, done.reason) == (thread, "dpo", "Asked for in writing")
    assert (
        done.counts["pauses"] == 4 and done.counts["decisions"] == 4 and done.counts["threads"] == 1
    )


@pytest.mark.both_databases
def test_of_an_imported_thread_what_its_document_brought_goes_at_once(ended, zoe):
    """Before, patches and evidence of imported questions stayed until a round of retention."""
    document = export.export(ended.thread_id)
    erasure.erase(ended.thread_id, by="dpo", reason="Asked for in writing")
    assert document["blobs"] and not Blob.objects.exists()
    there = export.load(json.loads(codec.encode(document)), owner=zoe).thread
    age_content()
    assert Blob.objects.count() == len(document["blobs"])
    erasure.erase(there.pk, by="dpo", reason="Asked for in writing")
    assert not Blob.objects.exists()


@pytest.mark.both_databases
def test_decisions_after_it_go_on_in_the_same_chain(ended, make_order, ben):
    erasure.erase(ended.thread_id, by="dpo", reason="x")
    order = drive(make_order())
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ben)
    assert Decision.objects.order_by("position").last().position == 5
    assert broken() == {}


@pytest.mark.both_databases
@pytest.mark.usefixtures("unguarded")
def test_a_decision_that_pretends_to_be_erased_is_found(ended, make_order, ben):
    """P11: only one that an erasure names may say nothing; nor may that be changed."""
    other = drive(make_order())
    kept = services.decide(pause_of(other).pk, Answer("approve", Via.PAGE), by=ben)
    erasure.erase(ended.thread_id, by="dpo", reason="x")
    done = Erasure.objects.get()
    with transaction.atomic():
        Decision.objects.filter(pk=kept.pk).update(
            pause=None, feedback="", by_name="", erasure=done
        )
        assert "ledger_rewritten" in broken()
        transaction.set_rollback(True)
    Erasure.objects.update(decisions=[*done.decisions, kept.digest])
    assert broken().keys() == {"ledger_rewritten"}


@pytest.mark.both_databases
@pytest.mark.usefixtures("unguarded")
def test_a_decision_without_a_pause_needs_its_erasure(ended):
    with (
        pytest.raises(IntegrityError, match=r"decision_says_nothing_if_erased|CHECK"),
        transaction.atomic(),
    ):
        Decision.objects.update(pause=None, feedback="", by_name="")


def test_what_came_with_an_answer_goes_with_its_words(templates, order_that, ben):
    """The data of an answer may be about people; the chain holds without it."""
    order = drive(order_that(asks_for_a_name))
    services.decide(
        pause_of(order).pk, Answer("answer", Via.PAGE, payload={"name": "Mrs Smith"}), by=ben
    )
    assert drive(order).status == "completed"
    assert "hitl.Decision" in everything("Mrs Smith")
    erasure.erase(order.thread_id, by="olga", reason="On request.")
    assert (Decision.objects.get().payload, everything("Mrs Smith"), broken()) == (None, set(), {})
    with pytest.raises(IntegrityError), transaction.atomic():
        Decision.objects.update(payload={"name": "Mrs Smith"})


def asks_for_a_name(state, context):
    if state.get("name"):
        return Done()
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    return Ask(
        question="Who?",
        answers={"answer": context.step},
        report=Report(content=""),
        phase="who",
        required_inputs=schema,
    )


@pytest.mark.both_databases
def test_what_others_share_stays(ended, make_order, ben):
    """A blob that another thread names too."""
    shared = (
        Pause.objects.filter(run__work_order=ended).exclude(patch_digest="").first().patch_digest
    )
    other = drive(make_order())
    services.decide(pause_of(other).pk, Answer("approve", Via.PAGE), by=ben)
    other = drive(other)
    assert pause_of(other).patch_digest == shared
    age_content()
    erasure.erase(ended.thread_id, by="dpo", reason="x")
    assert store.get_blob(shared)
    assert Thread.objects.get() == other.thread
    assert broken() == {}


@pytest.mark.both_databases
def test_what_somebody_stored_just_now_is_left_to_the_next_round(ended):
    digest = Pause.objects.exclude(patch_digest="").first().patch_digest
    store.put_blob(store.get_blob(digest))  # a writer that is about to refer to it
    erasure.erase(ended.thread_id, by="dpo", reason="x")
    assert Blob.objects.get().pk == digest


@pytest.mark.parametrize("status", ["pending", "paused"])
def test_a_live_run_refuses(make_order, status):
    order = make_order()
    if status == "paused":
        drive(order)
    before = rows()
    with pytest.raises(CannotErase, match=f"is {status}. Cancel it first"):
        erasure.erase(order.thread_id, by="dpo", reason="x")
    assert rows() == before


def test_a_reason_is_needed(quick, subtests):
    for reason in ["", "  ", "x" * 2001, "a\0b"]:
        with subtests.test(ascii(reason)[:60]):
            with pytest.raises(CannotErase, match="Say why"):
                erasure.erase(quick.thread_id, by="dpo", reason=reason)
            assert Thread.objects.exists()


@pytest.mark.both_databases
def test_child_runs_go_with_the_run_that_started_them(templates, ana, ben, team):
    work = [
        {"step_type": "execute", "name": name, "step_template_slug": "test-work"}
        for name in ("a", "b")
    ]
    definitions.edit_step_template(
        "two", title="Two", sub_steps=work, config={"parallel": True, "into": "parts"}
    )
    definitions.edit_template(
        "family",
        title="F",
        needs_repository=False,
        steps=[{"step_type": "execute", "step_template_slug": "two"}],
    )
    order = moments.make("family", by=ana, team=team)
    moments.finish_order(order.pk, ben)
    child = Run.objects.filter(parent__isnull=False).first()
    assert Thread.objects.count() == 3
    with pytest.raises(CannotErase, match="child run"):
        erasure.erase(child.thread_id, by="dpo", reason="x")
    erasure.erase(order.thread_id, by="dpo", reason="x")
    assert (
        not Thread.objects.exists() and not Run.objects.exists() and not Checkpoint.objects.exists()
    )
    assert broken() == {}


def test_the_workspace_goes_as_well(quick):
    folder = workspace_path(Run.objects.get())
    beside = folder.with_name(folder.name + ".lock")
    other = folder.with_name("wo_other")
    for made in (folder, other):
        made.mkdir(parents=True)
        (made / "secret.txt").write_text("Mrs Smith")
    beside.touch()
    erasure.erase(quick.thread_id, by="dpo", reason="x")
    assert not folder.exists() and not beside.exists() and other.exists()


@pytest.mark.both_databases
def test_a_thread_with_chunks_loses_them(templates, ana):
    thread = Thread.objects.create(owner=ana)
    state = {"said": [{"n": n, "text": f"{n} " * 100} for n in range(100)]}
    store.save(
        thread.pk,
        ids.new(),
        state,
        store.Entry(status=CheckpointStatus.COMPLETED),
        parent=None,
        before=None,
    )
    with transaction.atomic():
        log.append(thread.pk, None, [(EventKind.LOG, {"message": "x"})])
    age_content()
    assert Chunk.objects.exists()
    erasure.erase(thread.pk, by="dpo", reason="x")
    assert not Chunk.objects.exists()


def command(*words):
    out = StringIO()
    call_command("erase_thread", *words, stdout=out)
    return out.getvalue()


def test_the_command_says_what_would_go_and_erases_nothing(ended):
    before = rows()
    said = command(ended.thread.shown_id, "--dry-run")
    assert rows() == before
    assert "decisions" in said and "Nothing was erased" in said
    assert command(ended.thread.shown_id, "--reason", "because", "--by", "eve").startswith(
        "Erased ("
    )
    assert Erasure.objects.get().erased_by == "eve"


@pytest.mark.parametrize("word", ["x", "thr_0000000000000000000000000a"])
def test_the_command_refuses_with_a_sentence(db, word):
    with pytest.raises(CommandError, match=r"no thr_ id|no such thread"):
        command(word, "--reason", "x")


# The admin


def act(client, thread, **more):
    url = reverse("admin:checkpoints_thread_changelist")
    return client.post(
        url, {"action": "erase", "_selected_action": [str(thread.pk)], **more}, follow=True
    )


def test_an_operator_with_the_right_erases_after_a_confirmation_with_a_reason(quick):
    eve = client_of(staff("eve", "checkpoints.view_thread", "checkpoints.erase_thread"))
    page = act(eve, quick.thread)
    assert "Erase these threads for good?" in page.content.decode() and Thread.objects.exists()
    page = act(eve, quick.thread, confirmed="yes", reason=" ")
    assert "This field is required" in page.content.decode() and Thread.objects.exists()
    page = act(eve, quick.thread, confirmed="yes", reason="Asked for")
    assert not Thread.objects.exists()
    assert "erased, recorded as era_" in next(
        str(message) for message in get_messages(page.wsgi_request)
    )


def test_a_live_thread_is_refused_with_words(paused):
    eve = client_of(staff("eve", "checkpoints.view_thread", "checkpoints.erase_thread"))
    page = act(eve, paused.thread, confirmed="yes", reason="x")
    assert "Cancel it first" in next(str(message) for message in get_messages(page.wsgi_request))
    assert Thread.objects.exists()


@pytest.mark.both_databases
def test_erasures_are_listed_and_cannot_be_changed(ended):
    done = erasure.erase(ended.thread_id, by="dpo", reason="because <b>")
    eve = client_of(staff("eve", "hitl.view_erasure", "hitl.change_erasure", "hitl.view_decision"))
    assert "dpo" in eve.get(reverse("admin:hitl_erasure_changelist")).content.decode()
    page = eve.get(reverse("admin:hitl_erasure_change", args=[done.pk])).content.decode()
    assert "because &lt;b&gt;" in page and 'name="reason"' not in page
    decision = Decision.objects.first()
    assert (
        f"Matches what {done.shown_id} recorded"
        in eve.get(reverse("admin:hitl_decision_change", args=[decision.pk])).content.decode()
    )


@pytest.fixture
def eraser(api, ana):
    ana.user_permissions.add(Permission.objects.get(codename="erase_thread"))
    return api(User.objects.get(pk=ana.pk))


def test_who_has_the_right_erases_over_rest(ended, eraser):
    """What would go is told first; then it is gone, and who did it and why is recorded."""
    for what, name in (("threads", ended.thread.shown_id), ("work-orders", ended.shown_id)):
        with undone():
            erases_over_rest(ended, eraser, f"/api/v1/{what}/{name}/erasure", name)


def erases_over_rest(ended, eraser, path, name):
    before = rows()
    told = eraser.get(path).json()
    assert (told["thread_id"], told["kinds"]["pauses"]["rows"]) == (
        ended.thread.shown_id,
        Pause.objects.count(),
    )
    assert rows() == before
    done = eraser.post(path, {"confirm": name, "reason": "Asked for by letter"}, format="json")
    (record,) = Erasure.objects.all()
    assert (done.status_code, done.json()["id"], record.erased_by, record.reason) == (
        201,
        record.shown_id,
        "ana",
        "Asked for by letter",
    )
    assert done.json()["counts"] == record.counts
    assert not Thread.objects.exists()
    assert everything("Mrs Smith") == set()
    assert eraser.post(path, {"confirm": name, "reason": "again"}, format="json").status_code == 404
    assert broken() == {}


def test_nothing_is_erased_by_mistake(paused, eraser, subtests):
    shown, before = paused.thread.shown_id, rows()
    for body, status, code in [
        ({"reason": "x"}, 400, "required"),
        ({"confirm": "thr_other", "reason": "x"}, 422, "not_confirmed"),
        ({"confirm": "THE THREAD"}, 400, "required"),
        ({"confirm": "THE THREAD", "reason": " "}, 400, "blank"),
    ]:
        with subtests.test(ascii(body)[:60]):
            given = {
                name: shown if value == "THE THREAD" else value for name, value in body.items()
            }
            answer = eraser.post(f"/api/v1/threads/{shown}/erasure", given, format="json")
            assert answer.status_code == status
            assert code in answer.content.decode()
    assert rows() == before


def test_what_lives_is_not_erased_over_rest(paused, eraser):
    answer = eraser.post(
        f"/api/v1/work-orders/{paused.shown_id}/erasure",
        {"confirm": paused.shown_id, "reason": "x"},
        format="json",
    )
    assert (answer.status_code, answer.json()["code"]) == (409, "cannot_erase")
