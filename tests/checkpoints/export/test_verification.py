"""`manage.py verify_checkpoints`: silent over what is as it was written, and by name over each kind
of damage.
"""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from checkpoints import store
from checkpoints.export import verification
from checkpoints.models import Blob, Checkpoint, Chunk
from checkpoints.state import codec
from tests.checkpoints.retention.trees import Tree, counted, messages
from tests.checkpoints.store.damaged_rows import damage
from tests.databases.whole import rows

pytestmark = pytest.mark.django_db


def verify(*words):
    """(exit code, output)"""
    out = StringIO()
    try:
        call_command("verify_checkpoints", *words, stdout=out)
    except SystemExit as ended:
        return ended.code, out.getvalue()
    return 0, out.getvalue()


def named(*words):
    """The ids that are named as damaged."""
    code, text = verify("--json", *words)
    found = json.loads(text)
    assert (code == 0) == found["ok"] == (not found["damaged"])
    return {one["id"] for one in found["damaged"]}


@pytest.fixture
def tree():
    tree = counted(30)
    messages(tree, 3)
    tree.step({}, metadata={"git": {"bundle": store.put_blob(b"code")}})
    return tree


def test_an_empty_database_is_whole(db):
    assert verify()[0] == 0


def test_what_is_as_it_was_written_is_counted_and_nothing_is_changed(tree, monkeypatch):
    """Also in pages that are smaller than the thread."""
    monkeypatch.setattr(verification, "PAGE", 7)
    before = rows()
    code, text = verify()
    assert rows() == before
    assert (code, text.strip()) == (
        0,
        "Checked 36 checkpoints, 3 chunks, 1 blobs: all as they were written.",
    )


def test_a_changed_delta_is_named_with_what_builds_on_it(tree):
    kept = tree.kept()
    snapshot = next(index for index, one in enumerate(kept) if index > 5 and one.is_snapshot)
    damage(kept[5], '{"set":{"n":99},"unset":[]}')
    assert kept[5].shown_id in named()
    assert named() <= {one.shown_id for one in kept[5:snapshot]}
    code, text = verify()
    assert code == 1 and f"checkpoint {kept[5].shown_id}: " in text and "damaged." in text


def test_a_changed_digest_is_named(tree):
    head = tree.head
    Checkpoint.objects.filter(pk=head.pk).update(digest=codec.digest("x"))
    assert named() == {head.shown_id}


def test_a_changed_blob_is_named(tree):
    blob = Blob.objects.get()
    Blob.objects.update(content=b"x")
    assert named() == {blob.pk}
    assert named("--thread", tree.thread.shown_id) == {blob.pk}


def test_a_blob_that_is_gone_is_named_by_the_checkpoint_that_needs_it(tree):
    Blob.objects.all().delete()
    assert named() == {tree.head.shown_id}


def test_a_changed_chunk_is_named_with_the_checkpoints_that_need_it(tree):
    chunk = Chunk.objects.get(previous=None)
    Chunk.objects.filter(pk=chunk.pk).update(content=b"x")
    found = named()
    assert chunk.pk in found and len(found) > 1


def test_a_thread_is_looked_at_alone(tree):
    other = Tree()
    damage(other.head, "[]")
    assert named("--thread", tree.thread.shown_id) == set()
    assert named("--thread", other.thread.shown_id) == {other.head.shown_id}


@pytest.mark.parametrize("word", ["x", "thr_0000000000000000000000000a"])
def test_a_thread_that_is_none_is_refused_with_a_sentence(db, word):
    with pytest.raises(CommandError):
        verify("--thread", word)
