"""Checkpoints: what was saved is what is loaded, at every one of them, or it is loudly not."""

from __future__ import annotations

import uuid
import zlib

import pytest
from django.contrib.auth.models import User
from django.db import connection
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints import codec, store
from checkpoints.models import Blob, Checkpoint, CheckpointStatus, Thread
from checkpoints.store import CheckpointDamaged, Entry
from tests.checkpoints.test_codec import passes, values

pytestmark = pytest.mark.django_db

updates = st.dictionaries(st.sampled_from(["a", "b", "drafts", "long"]), values | st.just("x" * 500)).filter(passes)


def make_thread() -> Thread:
    owner, _ = User.objects.get_or_create(username="owner")
    return Thread.objects.create(owner=owner)


def save_all(changes):
    """Fold updates into a state and save it after each; give the checkpoints and the states."""
    thread, run = make_thread(), uuid.uuid4()
    saved, states, parent, before = [], [], None, None
    for update in changes:
        state = {**(before or {}), **update}
        parent = store.save(thread.pk, run, state, Entry(status=CheckpointStatus.ACTIVE), parent=parent, before=before)
        saved.append(parent.pk)
        states.append(state)
        before = state
    return [Checkpoint.objects.get(pk=key) for key in saved], states


def counted(number):
    return save_all([{"fixed": "x" * 300, "n": n} for n in range(number)])


def damage(checkpoint, text):
    """Change stored bytes behind the product's back."""
    with connection.cursor() as cursor:
        key = checkpoint.pk if connection.vendor == "postgresql" else checkpoint.pk.hex
        cursor.execute("UPDATE checkpoints_checkpoint SET body = %s WHERE id = %s", [text, key])


@settings(max_examples=40, deadline=None)
@given(st.lists(updates, min_size=1, max_size=45))
def test_every_checkpoint_loads_as_a_plain_fold_of_the_updates(changes):
    saved, states = save_all(changes)
    for checkpoint, state in zip(saved, states, strict=True):
        assert codec.encode(store.load(checkpoint)) == codec.encode(state)
    assert max(checkpoint.depth for checkpoint in saved) <= store.SNAPSHOT_EVERY


def test_a_snapshot_comes_every_twenty_deltas_and_bytes_stay_flat():
    """F26."""
    saved, _ = counted(45)
    assert [index for index, checkpoint in enumerate(saved) if checkpoint.is_snapshot] == [0, 21, 42]
    assert {checkpoint.size for checkpoint in saved if not checkpoint.is_snapshot} <= {
        len('{"set":{"n":0},"unset":[]}') + extra for extra in (0, 1)
    }


def test_the_newest_checkpoint_is_the_threads_head():
    saved, _ = counted(3)
    assert Thread.objects.get().head == saved[-1]


@pytest.mark.parametrize("text", ['{"set":{"fixed":"y"},"unset":[]}', '{"set":{},"unset":["fixed"]}', "{}", "[]", "null", '"', ""])
def test_a_changed_delta_is_never_loaded(text):
    """C24: neither that checkpoint nor one that needs it."""
    saved, states = counted(4)
    damage(saved[2], text)
    for checkpoint in (saved[2], saved[3]):
        with pytest.raises(CheckpointDamaged, match="Nothing was resumed from it"):
            store.load(Checkpoint.objects.get(pk=checkpoint.pk))
    assert store.load(Checkpoint.objects.get(pk=saved[1].pk)) == states[1]


@pytest.mark.parametrize("text", ["{}", "null", "[]", '{"fixed": "x'])
def test_a_changed_snapshot_spoils_what_builds_on_it_and_is_named(text):
    """C24."""
    saved, _ = counted(3)
    damage(saved[0], text)
    with pytest.raises(CheckpointDamaged, match=saved[2].shown_id):
        store.load(Checkpoint.objects.get(pk=saved[2].pk))


def test_a_state_that_json_cannot_hold_writes_nothing():
    """F14."""
    thread = make_thread()
    with pytest.raises(codec.NotJson, match=r"state\.socket"):
        store.save(thread.pk, uuid.uuid4(), {"socket": object()}, Entry(status=CheckpointStatus.ACTIVE), parent=None, before=None)
    assert not Checkpoint.objects.exists()


def test_odd_text_survives():
    """NUL, lone surrogates and what needs four bytes."""
    odd = {"text": "a\x00b \udcff \ud800 \U0001f9d0", "\x00": "\x7f"}
    saved, _ = save_all([odd])
    assert store.load(saved[0]) == odd


def test_a_blob_is_kept_once_and_comes_back():
    one, other = store.put_blob(b"patch" * 1000), store.put_blob(b"patch" * 1000)
    assert one == other
    assert store.get_blob(one) == b"patch" * 1000
    assert Blob.objects.count() == 1


@pytest.mark.parametrize("content", [b"", b"no zlib", zlib.compress(b"other")])
def test_a_changed_blob_is_never_given(content):
    key = store.put_blob(b"patch")
    Blob.objects.filter(pk=key).update(content=content)
    with pytest.raises(CheckpointDamaged, match=key[:12]):
        store.get_blob(key)


def test_a_blob_that_is_not_there_is_said_to_be_missing():
    with pytest.raises(Blob.DoesNotExist):
        store.get_blob("0" * 64)
