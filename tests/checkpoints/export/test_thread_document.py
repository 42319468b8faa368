"""A thread as a document: what comes out goes in again, and nothing else does."""

from __future__ import annotations

import base64
import copy
import json
import uuid
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from checkpoints import ids, registry, store
from checkpoints.events import log
from checkpoints.export.schema import document_schema
from checkpoints.export.thread_document import ImportRefused
from checkpoints.models import Blob, Checkpoint, CheckpointStatus, Event, EventKind, Memo, Thread
from checkpoints.state import codec, reducers
from checkpoints.store import Entry
from hitl.decisions import services, undo
from hitl.decisions.reviewers.outsiders import Outsider
from hitl.decisions.services import Answer
from hitl.models import Decision, Import, Via
from hitl.threads import export as whole
from hitl.threads import messages
from runs import definitions
from runs.engine.advance import advance
from runs.models import Definition, Pause, Run
from runs.services.forks import ImportStands, NothingToFork
from runs.states import RunStatus
from runs.threads.turns import Turn, open_thread
from tests.checkpoints.state.random_states import passes, values
from tests.conftest import drive, pause_of, state_at_head
from tests.databases.encryption_keys import NEW, dump, keys
from tests.worlds.histories.documents import alike
from tests.worlds.histories.exported import bring_in, holds, read
from tests.worlds.histories.exported import told as told

# its parts are asked of each database by their own tests
pytestmark = [pytest.mark.django_db, pytest.mark.one_database]


def test_what_comes_out_goes_in_and_comes_out_again(told, zoe):
    """Equal apart from ids and owner, also the second time round; and no invariant breaks for
    it.
    """
    document = whole.export(told.thread_id)
    assert [
        len(document[section]) for section in ("runs", "pauses", "decisions", "blobs", "memos")
    ] == [1, 3, 2, 3, 1]
    first = bring_in(document, zoe)
    again = whole.export(first.pk)
    assert alike(again) == alike(document)
    assert alike(whole.export(bring_in(again, zoe).pk)) == alike(document)
    assert first.owner == zoe
    assert holds() == []


def test_votes_evidence_and_what_was_taken_back_come_along(make_order, ana, ben, zoe, team):
    """P11: who voted, what was shown, until when it could be taken back, and that it was; the
    second time too.
    """
    order = drive(make_order(team=team))
    rules = {"quorum": 2, "undo": 60, "external": ["a@supplier.example"]}
    Pause.objects.update(
        review=rules, outside={"to": ["a@supplier.example"], "answers": ["approve"]}
    )
    pause = pause_of(order)
    services.decide(
        pause.pk, Answer("approve", Via.LINK, feedback="fine"), by=Outsider("a@supplier.example")
    )
    decision = services.decide(pause.pk, Answer("approve", Via.PAGE), by=ben)
    undo.undo(decision.pk, by=ben, via=Via.PAGE)
    document = whole.export(order.thread_id)
    first, second = document["decisions"]
    votes = {one["id"]: one["votes"] for one in document["pauses"]}[pause.shown_id]
    assert [(vote["external"], vote["voter"], vote["feedback"]) for vote in votes] == [
        ("a@supplier.example", None, "fine"),
        ("", "ben", ""),
    ]
    assert (first["votes"], second["undoes"]) == ([vote["digest"] for vote in votes], first["id"])
    assert first["goes_on_at"] == decision.goes_on_at.isoformat()
    shown = json.loads(base64.b64decode(document["blobs"][first["evidence"]]))
    assert (shown["pause"], shown["question"]) == (pause.shown_id, pause.question)
    there = bring_in(document, zoe)
    again = whole.export(there.pk)
    assert again["decisions"][1]["undoes"] == again["decisions"][0]["id"]
    assert alike(again) == alike(document)
    assert registry.sources()["imports"]("", 10)[0] >= {first["evidence"], second["evidence"]}, (
        "kept as long as the thread is"
    )


updates = st.dictionaries(
    st.sampled_from(["a", "b", "list", "\x00"]), values | st.lists(values, max_size=3), max_size=3
).filter(passes)
moves = st.tuples(updates, st.integers(0, 30))


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(moves, min_size=1, max_size=30))
def test_any_tree_of_checkpoints_comes_back(ana, zoe, steps):
    """Lines that part anywhere; every state is the same to the letter, and so are the documents."""
    thread = Thread.objects.create(owner=ana)
    made: list[tuple[Checkpoint, Any]] = []
    for update, place in steps:
        parent, before = made[place % len(made)] if made else (None, None)
        state = reducers.apply(before if before is not None else codec.state({}), update, {})
        run = uuid.uuid4()
        made.append(
            (
                store.save(
                    thread.pk,
                    run,
                    state,
                    Entry(status=CheckpointStatus.ACTIVE),
                    parent=parent,
                    before=before,
                ),
                state,
            )
        )
        log.append(thread.pk, run, [(EventKind.LOG, {"message": made[-1][0].shown_id})])
    parents = {checkpoint.parent_id for checkpoint, _ in made}
    Thread.objects.filter(pk=thread.pk).update(
        head=next(one for one, _ in reversed(made) if one.pk not in parents)
    )
    document = whole.export(thread.pk)
    loaded = whole.load(read(document), owner=zoe)
    assert alike(whole.export(loaded.thread.pk)) == alike(document)
    for checkpoint, state in made:
        copied = Checkpoint.objects.get(pk=ids.parse("ckpt", loaded.names[checkpoint.shown_id]))
        assert codec.encode(store.load(copied)) == codec.encode(state)


def test_a_document_grows_as_the_history_and_not_with_its_square(ana):
    """F26."""
    sizes = []
    for count in (20, 40):
        thread, parent = Thread.objects.create(owner=ana), None
        before: dict[str, Any] = codec.state({"messages": []})
        for number in range(count):
            state = reducers.apply(
                before, {"messages": [f"{number} " + "x" * 1000]}, {"messages": "append"}
            )
            parent = store.save(
                thread.pk,
                uuid.uuid4(),
                state,
                Entry(status=CheckpointStatus.ACTIVE),
                parent=parent,
                before=before,
            )
            before = state
        sizes.append(len(codec.encode(whole.export(thread.pk))))
    assert sizes[1] < 2.2 * sizes[0]


def test_the_schema_is_one_and_documents_fit_it(told):
    Draft202012Validator.check_schema(document_schema())
    Draft202012Validator(document_schema()).validate(
        json.loads(codec.encode(whole.export(told.thread_id)))
    )


# what can be done with it


def test_an_imported_question_is_history_and_its_run_can_be_resumed(told, zoe, committing):
    """Its decisions are no part of this server's ledger: the first step that asks does so again
    here, and the run completes.

    Before, a run went on behind every question that a document said was answered.
    """
    decisions, pauses = Decision.objects.count(), Pause.objects.count()
    thread = bring_in(whole.export(told.thread_id), zoe)
    run = Run.objects.get(thread=thread)
    assert (run.status, run.failure_code) == (RunStatus.FAILED, "imported")
    assert (Decision.objects.count(), Pause.objects.count()) == (decisions, pauses)
    assert [one["action"] for one in Import.objects.get().source["decisions"]] == [
        "revise",
        "approve",
    ]
    followed = messages.resume(run.pk, by=zoe, via=Via.REST).run
    while advance(followed.pk, budget=60):
        pass
    asked = []
    while pause := Pause.objects.open().filter(run__thread=thread).first():
        asked.append(pause.step)
        services.decide(pause.pk, Answer("approve", Via.PAGE), by=zoe)
        while advance(followed.pk, budget=60):
            pass
    assert Run.objects.get(pk=followed.pk).status == RunStatus.COMPLETED
    assert asked[0] == "planning"
    assert state_at_head(thread.pk)["drafts"] == ["first", "shorter", "first"]
    assert holds() == []
    document = whole.export(thread.pk)
    assert [len(document[section]) for section in ("runs", "pauses", "decisions")] == [
        2,
        3 + len(asked),
        2 + len(asked),
    ]
    assert [one.get("imported", False) for one in document["decisions"]] == [
        True,
        True,
        *[False for _ in asked],
    ]
    assert alike(whole.export(bring_in(document, zoe).pk)) == alike(document)


def test_an_imported_checkpoint_can_be_forked(told, zoe):
    thread = bring_in(whole.export(told.thread_id), zoe)
    start = Checkpoint.objects.filter(thread=thread, next_step="planning").earliest("pk")
    fork = services.fork(start.pk, by=zoe, reason="Another way")
    assert fork.thread_id == thread.pk
    while advance(fork.pk, budget=60):
        pass
    assert Pause.objects.open().get(run=fork).step == "planning"
    assert holds() == []


def test_recorded_work_comes_along_as_history_that_no_step_is_given(told, zoe):
    """Before, a document said what `once` had come to, and the step took that for its own work."""
    thread = bring_in(whole.export(told.thread_id), zoe)
    assert not Memo.objects.filter(thread=thread).exists()
    (memo,) = Import.objects.get(pk=thread.pk).source["memos"]
    assert memo["scope"] == f"{Run.objects.get(thread=thread).shown_id}/execute/1"
    assert memo["value"] == {"a": None}
    assert whole.export(thread.pk)["memos"][0]["imported"] is True


def test_a_document_cannot_reach_what_other_runs_recorded(told, zoe):
    """A key of somebody else's execution is history like any other."""
    document = json.loads(codec.encode(whole.export(told.thread_id)))
    foreign = f"{ids.show('run', uuid.uuid4())}/execute/1"
    document["checkpoints"][-1]["metadata"]["scope"] = foreign
    document["memos"].append({"scope": foreign, "key": "other", "value": "planted"})
    thread = bring_in(document, zoe)
    assert "scope" not in Thread.objects.get(pk=thread.pk).head.metadata
    assert not Memo.objects.filter(scope=foreign).exists()


def test_a_document_brings_no_template_along(told, zoe):
    """A definition says what is run, so only this server's own are used; without one there is
    history, and no run.
    """
    document = json.loads(codec.encode(whole.export(told.thread_id)))
    document["runs"][0]["definition"] = codec.digest("a definition of mine")
    definitions = Definition.objects.count()
    thread = bring_in(document, zoe)
    assert not Run.objects.filter(thread=thread).exists()
    assert Definition.objects.count() == definitions
    head = Thread.objects.get(pk=thread.pk).head
    assert state_at_head(thread.pk)["drafts"] == ["first", "shorter"]
    with pytest.raises(NothingToFork, match="not known here"):
        services.fork(head.pk, by=zoe, reason="Try")
    assert holds() == []
    assert alike(whole.export(thread.pk)) == alike(document)


def test_steps_that_the_template_does_not_have_make_no_run(told, zoe):
    document = json.loads(codec.encode(whole.export(told.thread_id)))
    document["checkpoints"][-1]["node_id"] = "elsewhere"
    thread = bring_in(document, zoe)
    assert not Run.objects.filter(thread=thread).exists()


def test_a_document_names_no_definition_of_before(told, zoe):
    """Before, any that was ever frozen here could be named: one without the review that its
    template has by now, say.
    """
    document = json.loads(codec.encode(whole.export(told.thread_id)))
    digest, template = document["runs"][0]["definition"], definitions.current("writing")
    assert definitions.of_today(digest, "writing").pk == digest
    definitions.edit_template(
        "writing", steps=[*template.steps[:-1], {**template.steps[-1], "max_revisions": 7}]
    )
    assert definitions.of_today(digest, "writing") is None
    assert definitions.of_today(digest, "no-such-template") is None
    thread = bring_in(document, zoe)
    assert not Run.objects.filter(thread=thread).exists()


def test_a_thread_of_a_repository_is_history(told, zoe):
    document = json.loads(codec.encode(whole.export(told.thread_id)))
    document["thread"]["repository_url"] = "https://github.com/a/b"
    thread = bring_in(document, zoe)
    assert not Run.objects.filter(thread=thread).exists()
    assert whole.export(thread.pk)["thread"]["repository_url"] == "https://github.com/a/b"


def test_old_ids_are_kept_and_others_point_to_what_is_here(told, zoe):
    document = whole.export(told.thread_id)
    thread = bring_in(document, zoe)
    heads = Thread.objects.get(pk=thread.pk).head
    origin = {
        "id": document["thread"]["head"],
        "run_id": document["runs"][0]["id"],
        "thread_id": told.thread.shown_id,
    }
    assert heads.metadata["imported"] == origin
    created = [
        event.data["checkpoint_id"]
        for event in Event.objects.filter(thread=thread, kind="checkpoint_created")
    ]
    assert set(created) == {one.shown_id for one in Checkpoint.objects.filter(thread=thread)}
    assert list(
        Event.objects.filter(thread=thread).order_by("seq").values_list("at", flat=True)
    ) == list(
        Event.objects.filter(thread=told.thread_id).order_by("seq").values_list("at", flat=True)
    )


def test_a_log_whose_beginning_was_dropped_is_numbered_anew(told, zoe):
    document = json.loads(codec.encode(whole.export(told.thread_id)))
    document["events"] = document["events"][5:]
    thread = bring_in(document, zoe)
    numbers = list(
        Event.objects.filter(thread=thread).order_by("seq").values_list("seq", flat=True)
    )
    assert numbers == list(range(1, len(document["events"]) + 1))
    assert thread.last_seq == len(numbers)


def test_a_time_in_the_future_becomes_now(told, zoe):
    document = json.loads(codec.encode(whole.export(told.thread_id)))
    document["events"][-1]["at"] = "2999-01-01T00:00:00+00:00"
    thread = bring_in(document, zoe)
    assert Event.objects.filter(thread=thread).latest("seq").at <= timezone.now()


def test_a_parent_that_waited_for_child_runs_can_be_forked_only(told, zoe):
    """Their threads are not in the document."""
    document = json.loads(codec.encode(whole.export(told.thread_id)))
    head = next(row for row in document["checkpoints"] if row["id"] == document["thread"]["head"])
    head["status"], head["metadata"]["gather"] = (
        "active",
        {"to": "finish", "children": [], "report": None},
    )
    thread = bring_in(document, zoe)
    run = Run.objects.get(thread=thread)
    assert run.status == RunStatus.CANCELLED
    head = Checkpoint.objects.filter(thread=thread).latest("pk")
    with pytest.raises(ImportStands, match=r"\(planning\) asks"):
        services.fork(head.pk, by=zoe, reason="Again")
    start = Checkpoint.objects.filter(thread=thread, next_step="planning").earliest("pk")
    assert services.fork(start.pk, by=zoe, reason="Again").status == RunStatus.PENDING


def test_an_empty_thread_is_a_document_too(ana, zoe):
    document = whole.export(open_thread(by=ana, title="Nothing yet").pk)
    assert alike(whole.export(bring_in(document, zoe).pk)) == alike(document)


def test_an_imported_thread_takes_the_next_turn(told, zoe):
    """With new input alone, from the accumulated state (S1)."""
    thread = bring_in(whole.export(told.thread_id), zoe)
    said = messages.say(
        thread.pk, Turn(template="writing-quick", input={"more": 1}), by=zoe, via=Via.REST
    )
    while advance(said.run.pk, budget=60):
        pass
    state = state_at_head(thread.pk)
    assert state["more"] == 1
    assert state["drafts"][:2] == ["first", "shorter"]


def test_encryption_does_not_reach_into_a_document(make_order, zoe, ana):
    """What is sealed here comes out plain, and is sealed with the other server's key there."""
    with keys(NEW):
        order = drive(make_order())
        services.decide(
            pause_of(order).pk, Answer("revise", Via.PAGE, feedback="Wiesenschaumkraut"), by=ana
        )
        drive(order)
        document = whole.export(order.thread_id)
        assert "wse1." not in codec.encode(document)
        thread = bring_in(document, zoe)
        assert alike(whole.export(thread.pk)) == alike(document)
        assert "Wiesenschaumkraut" in codec.encode(document)
        assert "Wiesenschaumkraut" not in dump()


def test_what_cannot_be_read_is_not_exported(told):
    """C24: never half a document."""
    Blob.objects.update(content=b"nonsense")
    with pytest.raises(store.CheckpointDamaged):
        whole.export(told.thread_id)
    with keys(NEW):
        Pause.objects.filter(run__thread=told.thread_id).update(content="sealed")
    with pytest.raises(store.CheckpointDamaged):
        whole.export(told.thread_id)


def test_a_stranger_gets_no_document(told, zoe):
    with pytest.raises(services.NotFound):
        whole.export_for(zoe, told.thread_id)


def test_reading_changes_nothing(told):
    before = dump()
    document = whole.export(told.thread_id)
    read(copy.deepcopy(json.loads(codec.encode(document))))
    assert dump() == before


def test_who_imports_is_who_owns(told, zoe):
    thread = bring_in(whole.export(told.thread_id), zoe)
    assert Thread.objects.visible_to(zoe).filter(pk=thread.pk).exists()
    assert (
        not Thread.objects.visible_to(User.objects.get(username="ana"))
        .filter(pk=thread.pk)
        .exists()
    )


@pytest.mark.parametrize("known", [True, False])
def test_pages_and_admin_show_what_was_imported(told, zoe, admin_client, known):
    """With a run, and as history alone."""
    document = json.loads(codec.encode(whole.export(told.thread_id)))
    if not known:
        document["runs"][0]["definition"] = codec.digest("a definition of mine")
    thread = bring_in(document, zoe)
    page = Client()
    page.force_login(zoe)
    assert page.get(f"/threads/{thread.shown_id}/").status_code == 200
    assert page.get("/threads/").status_code == 200
    shown = admin_client.get(f"/admin/hitl/import/{thread.pk}/change/").content.decode()
    assert "shorter" in shown
    assert admin_client.get("/admin/hitl/import/").status_code == 200
    for checkpoint in Checkpoint.objects.filter(thread=thread).order_by("pk")[::3]:
        assert (
            "Matches"
            in admin_client.get(
                f"/admin/checkpoints/checkpoint/{checkpoint.pk}/change/"
            ).content.decode()
        )


def test_a_document_in_which_answers_had_other_names_is_read(told, zoe):
    """Such a one was exported before they were called `answers`; one without either is refused."""
    document = json.loads(codec.encode(whole.export(told.thread_id)))
    for pause in document["pauses"]:
        pause["ways"], pause["bare"] = pause.pop("answers"), pause.pop("answers_without_input")
    assert alike(whole.export(bring_in(document, zoe).pk)) == alike(document)
    del document["pauses"][0]["ways"]
    with pytest.raises(ImportRefused):
        bring_in(document, zoe)
