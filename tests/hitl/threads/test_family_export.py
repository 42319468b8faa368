"""A thread with child runs, as one document: the family goes on elsewhere as one, and is erased as
one.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from checkpoints.export import thread_document
from checkpoints.export.schema import document_schema
from checkpoints.export.thread_document import ImportRefused
from checkpoints.models import Checkpoint, Thread
from checkpoints.state import codec
from checkpoints.state.reducers import StateTooLarge
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Import, Via
from hitl.threads import erasure, messages
from hitl.threads import export as whole
from runs import definitions
from runs.models import Definition, Pause, Run
from tests.conftest import state_at_head
from tests.runs.engine.children.crews import ASKING, crew, sub, work_off
from tests.worlds import steps
from tests.worlds.histories.documents import alike, signed

__all__ = ["crew"]
pytestmark = [pytest.mark.django_db, pytest.mark.one_database]


@pytest.fixture
def document(crew: Any) -> dict[str, Any]:
    """Of an order that waits for two child runs, one of which is done and one of which asks."""
    order = crew([sub("a"), sub("b", **ASKING)], parallel=True)
    work_off()
    exported: dict[str, Any] = json.loads(codec.encode(whole.export(order.thread_id)))
    return exported


def bring_in(document: dict[str, Any], owner: Any) -> Thread:
    for child in document.get("children", ()):
        child["digest"] = thread_document.digest(child)
    return whole.load(thread_document.read(signed(document), limit=10_000_000), owner=owner).thread


def test_a_family_comes_out_goes_in_and_comes_out_again(document, zoe):
    Draft202012Validator(document_schema()).validate(document)
    assert [one["runs"][0]["child_name"] for one in document["children"]] == ["a", "b"]
    first = bring_in(copy.deepcopy(document), zoe)
    again = json.loads(codec.encode(whole.export(first.pk)))
    for one, other in zip(
        thread_document.family(document), thread_document.family(again), strict=True
    ):
        assert alike({**one, "children": []}) == alike({**other, "children": []})
    run = Run.objects.get(thread=first)
    assert {(one.child_name, one.status, one.depth) for one in run.children.all()} == {
        ("a", "completed", 1),
        ("b", "failed", 1),
    }
    assert bring_in(again, zoe).owner == zoe


def test_an_imported_family_goes_on_as_one(document, zoe):
    """What a document says of child runs is no result here: they start anew."""
    thread = bring_in(document, zoe)
    done = [step for step, _ in steps.CALLS].count("a")
    messages.resume(Run.objects.get(thread=thread).pk, by=zoe, via=Via.REST)
    work_off()
    pause = Pause.objects.open().get(run__thread__owner=zoe)
    services.decide(pause.pk, Answer("approve", Via.PAGE), by=zoe)
    work_off()
    state = state_at_head(thread.pk)
    assert (state["finished"], state["said"]) == (True, ["a", "b"])
    assert [step for step, _ in steps.CALLS].count("a") == done + 1
    assert Run.objects.filter(thread=thread).latest("pk").status == "completed"


def test_definitions_of_child_runs_are_made_of_their_parents(document, zoe, monkeypatch):
    """A server on which none of them has run knows the template alone."""
    known = {row["definition"] for one in document["children"] for row in one["runs"]}
    real = definitions.of_today
    monkeypatch.setattr(
        definitions,
        "of_today",
        lambda digest, slug: None if digest in known else real(digest, slug),
    )
    thread = bring_in(document, zoe)
    assert Run.objects.get(thread=thread).children.count() == 2
    assert Definition.objects.filter(pk__in=known).count() == len(known)


def test_a_family_whose_template_is_not_known_is_history_and_erased_as_one(document, zoe):
    for row in (row for one in thread_document.family(document) for row in one["runs"]):
        row["definition"] = "0" * 64
    thread = bring_in(document, zoe)
    assert not Run.objects.filter(thread__owner=zoe).exists()
    children = Import.objects.filter(within=thread)
    assert children.count() == 2
    with pytest.raises(erasure.CannotErase, match="child run"):
        erasure.erase(children[0].pk, by="root", reason="asked for")
    erasure.erase(thread.pk, by="root", reason="asked for")
    assert not Thread.objects.filter(owner=zoe).exists()


def test_a_child_that_is_missing_leaves_its_parent_to_be_forked(document, zoe):
    document["children"].pop()
    thread = bring_in(document, zoe)
    assert Run.objects.get(thread=thread).status == "cancelled"
    assert (
        Checkpoint.objects.filter(thread=thread).latest("pk").metadata["gather"]["children"] == []
    )


def test_a_child_alone_is_a_thread_like_any_other(document, zoe):
    child = Run.objects.get(child_name="b").thread
    alone = json.loads(codec.encode(whole.export(child.pk)))
    assert "parent" not in alone["runs"][0]
    assert not Run.objects.filter(thread=bring_in(alone, zoe)).exists(), (
        "its definition is a part of a template, and none of its own"
    )
    brought = (
        Run.objects.get(child_name="b", thread__owner=zoe) if bring_in(document, zoe) else None
    )
    assert "parent" not in whole.export(brought.thread_id)["runs"][0]


def two_threads(document):
    document["children"].append(document["children"][0])


def two_runs(document):
    document["children"][1]["runs"][0]["id"] = document["children"][0]["runs"][0]["id"]


def nested(document):
    document["children"][0]["children"] = []


def no_list(document):
    document["children"] = None


HARMS = {
    two_threads: "duplicate_id",
    two_runs: "duplicate_id",
    nested: "document_invalid",
    no_list: "document_invalid",
}


def test_nonsense_among_children_is_refused_and_leaves_nothing(document, zoe):
    for harm, code in HARMS.items():
        harm(harmed := copy.deepcopy(document))
        signed_again = signed(_resigned(harmed))
        with pytest.raises(ImportRefused) as refused:
            whole.load(thread_document.read(signed_again, limit=10_000_000), owner=zoe)
        assert refused.value.code == code, harm
        assert not Thread.objects.filter(owner=zoe).exists(), harm


def _resigned(document):
    for child in document["children"] or ():
        child["digest"] = thread_document.digest(child)
    return document


def test_a_changed_child_is_found_though_the_whole_was_signed_again(document):
    document["children"][0]["thread"]["title"] = "other"
    with pytest.raises(ImportRefused) as refused:
        thread_document.read(signed(document), limit=10_000_000)
    assert refused.value.code == "digest_mismatch"


def test_a_circle_of_runs_is_history(document, zoe):
    """Each is said to wait for the other: none is made."""
    one, other = (child["runs"][0] for child in document["children"])
    one["parent"], other["parent"] = other["id"], one["id"]
    thread = bring_in(document, zoe)
    assert Run.objects.get(thread=thread).children.count() == 0


def test_a_document_with_a_state_that_is_too_large_is_refused_whole(document, zoe, settings):
    settings.WAYSTATION_STATE_BYTES = 10
    threads = Thread.objects.count()
    with pytest.raises(StateTooLarge):
        bring_in(document, zoe)
    assert Thread.objects.count() == threads
