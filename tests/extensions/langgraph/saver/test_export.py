"""A thread with a graph, as a document: the graph goes on from it elsewhere, and what was changed
on the way is found.
"""

from __future__ import annotations

import base64
import copy
import json
import zlib
from typing import Any

import pytest
from django.contrib.auth.models import User
from jsonschema import Draft202012Validator
from langgraph.types import Command

from checkpoints import store
from checkpoints.export import thread_document
from checkpoints.export.schema import document_schema
from checkpoints.export.thread_document import Document, ImportRefused
from checkpoints.models import Checkpoint, Thread
from checkpoints.models.graphs import GraphBlob, GraphCheckpoint, GraphThread
from checkpoints.state import codec
from extensions.langgraph.saver import DjangoSaver
from hitl.threads import erasure
from hitl.threads import export as whole
from tests.databases.encryption_keys import NEW, keys
from tests.databases.whole import file_database
from tests.extensions.langgraph.saver import graphs
from tests.extensions.langgraph.saver.saving import owner as owner
from tests.extensions.langgraph.saver.saving import saver as saver
from tests.worlds.histories.documents import alike, signed

__all__ = ["file_database"]
AT: Any = {"configurable": {"thread_id": "t"}}


@pytest.fixture
def zoe(file_database: None) -> User:
    return User.objects.create_user("zoe", password="zoe's long password")


@pytest.fixture
def document(saver: DjangoSaver) -> Document:
    """A graph with lists that grew, a sub-graph, and an open question."""
    graphs.nested(saver).invoke(
        {"log": [f"message {number} " + "x" * 40 for number in range(20)]}, AT
    )
    return whole.export(Thread.objects.get().pk)


def bring_in(document: Document, owner: User) -> Thread:
    return whole.load(
        thread_document.read(signed(json.loads(codec.encode(document))), limit=10_000_000),
        owner=owner,
    ).thread


def values(owner: User, **at: Any) -> list[Any]:
    with DjangoSaver(owner=owner) as saver:
        return [
            (state.values, state.next, state.interrupts)
            for state in graphs.nested(saver).get_state_history({"configurable": at})
        ]


def test_a_graph_goes_on_from_a_document_elsewhere(document, owner, zoe):
    """S2-31: history, sub-graph, question and answer; the bytes are the same, and no value is kept
    twice.
    """
    Draft202012Validator(document_schema()).validate(document)
    assert document["checkpoints"] == []
    thread = bring_in(document, zoe)
    assert values(zoe, thread_id="t") == values(owner, thread_id="t")
    with DjangoSaver(owner=zoe) as saver:
        assert graphs.nested(saver).invoke(Command(resume="yes"), AT)["answers"] == ["yes"]
        assert graphs.nested(saver).get_state(AT).values["log"][-1] == "after"
    assert GraphBlob.objects.filter(namespace__thread=thread.pk, base__isnull=False).exists()
    shown = Checkpoint.objects.filter(thread=thread, graph__isnull=False).latest("pk")
    assert store.load(shown)["answers"] == ["yes"]


def test_what_comes_out_goes_in_and_comes_out_again(document, zoe, owner):
    first = bring_in(document, zoe)
    again = whole.export(first.pk)
    assert alike(again) == alike(document)
    second = bring_in(again, zoe)
    assert GraphThread.objects.get(pk=second.pk).name == second.shown_id, "the name is taken"
    assert values(zoe, thread_id=second.shown_id) == values(owner, thread_id="t")


def test_encryption_does_not_reach_into_a_documents_graph(owner, zoe):
    with keys(NEW), DjangoSaver(owner=owner) as saver:
        graphs.line(saver).invoke({"log": ["in"]}, AT)
        document = whole.export(Thread.objects.get().pk)
    thread = bring_in(document, zoe)
    assert store.load(Checkpoint.objects.filter(thread=thread).latest("pk"))["log"] == ["in", "a"]


def test_an_erasure_takes_all_of_an_imported_graph(document, zoe, owner):
    thread = bring_in(document, zoe)
    erasure.erase(thread.pk, by="root", reason="asked for")
    assert not GraphCheckpoint.objects.filter(namespace__thread=thread.pk).exists()
    assert values(owner, thread_id="t")


def content(row: Document, data: bytes) -> None:
    row["content"] = base64.b64encode(data).decode()


def damage_blob(space: Document) -> None:
    space["blobs"][0]["kind"] = "msgpack"
    content(space["blobs"][0], b"other")


def damage_checkpoint(space: Document) -> None:
    content(space["checkpoints"][0], b"other")


def lose_blob(space: Document) -> None:
    space["blobs"] = []


def grow_from_itself(space: Document) -> None:
    space["blobs"][0]["base"] = 0


def twice(space: Document) -> None:
    space["checkpoints"].append(space["checkpoints"][0])


def pickle(space: Document) -> None:
    space["blobs"][0]["kind"] = "pickle"


def no_base64(space: Document) -> None:
    space["blobs"][0]["content"] = "ä"


def bomb(space: Document) -> None:
    space["writes"][0]["kind"] = "z:msgpack"
    content(space["writes"][0], zlib.compress(bytes(300_000_000), 9))


REFUSALS = {
    damage_blob: "digest_mismatch",
    damage_checkpoint: "digest_mismatch",
    lose_blob: "blob_missing",
    twice: "duplicate_id",
    grow_from_itself: "parent_missing",
    pickle: "document_invalid",
    no_base64: "document_invalid",
    bomb: "document_too_large",
}


def test_a_graph_that_was_changed_is_refused_and_leaves_nothing(document, zoe):
    """F15: nothing is unpickled; what unpacks to more than there is room for is not unpacked."""
    before, refusals = (Thread.objects.count(), GraphCheckpoint.objects.count()), {}
    for harm in REFUSALS:
        changed = copy.deepcopy(document)
        harm(next(one for one in changed["graph"]["spaces"] if one["blobs"] and one["writes"]))
        try:
            bring_in(changed, zoe)
        except ImportRefused as refused:
            refusals[harm] = refused.code
    assert refusals == REFUSALS
    assert (Thread.objects.count(), GraphCheckpoint.objects.count()) == before


def test_a_document_without_a_graph_makes_none(document, zoe):
    del document["graph"]
    assert not GraphThread.objects.filter(pk=bring_in(document, zoe).pk).exists()
