"""Checkpoints: what was saved is what is loaded, at every one of them, or it is loudly not."""

from __future__ import annotations

import hashlib
import json
import uuid
import weakref
import zlib

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints import store
from checkpoints.models import Blob, Checkpoint, CheckpointStatus, Chunk, Thread
from checkpoints.state import codec, reducers
from checkpoints.store import CheckpointDamaged, Entry
from tests.checkpoints.state.random_states import passes, values
from tests.checkpoints.store.damaged_rows import (
    damage,
    make_thread,
    updates,
)

pytestmark = pytest.mark.django_db


def save_all(changes):
    """Fold updates into a state and save it after each; give the checkpoints and the states."""
    thread, run = make_thread(), uuid.uuid4()
    saved, states, parent, before = [], [], None, None
    for update in changes:
        state = {**(before or {}), **update}
        parent = store.save(
            thread.pk,
            run,
            state,
            Entry(status=CheckpointStatus.ACTIVE),
            parent=parent,
            before=before,
        )
        saved.append(parent.pk)
        states.append(state)
        before = state
    return [Checkpoint.objects.get(pk=key) for key in saved], states


def counted(number):
    return save_all([{"fixed": "x" * 300, "n": n} for n in range(number)])


@settings(max_examples=25, deadline=None)
@given(st.lists(updates, min_size=1, max_size=45))
def test_every_checkpoint_loads_as_a_plain_fold_of_the_updates(changes):
    """S1-26."""
    saved, states = save_all(changes)
    for checkpoint, state in zip(saved, states, strict=True):
        assert codec.encode(store.load(checkpoint)) == codec.encode(state)
    assert max(checkpoint.depth for checkpoint in saved) <= store.SNAPSHOT_EVERY


def test_a_snapshot_comes_every_twenty_deltas_and_bytes_stay_flat():
    """F26."""
    saved, _ = counted(45)
    assert [index for index, checkpoint in enumerate(saved) if checkpoint.is_snapshot] == [
        0,
        21,
        42,
    ]
    assert {checkpoint.size for checkpoint in saved if not checkpoint.is_snapshot} <= {
        len('{"set":{"n":0},"unset":[]}') + extra for extra in (0, 1)
    }


def test_the_newest_checkpoint_is_the_threads_head():
    saved, _ = counted(3)
    assert Thread.objects.get().head == saved[-1]


@pytest.mark.parametrize(
    "text",
    [
        '{"set":{"fixed":"y"},"unset":[]}',
        '{"set":{},"unset":["fixed"]}',
        "{}",
        "[]",
        "null",
        '"',
        "",
    ],
)
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
        store.save(
            thread.pk,
            uuid.uuid4(),
            {"socket": object()},
            Entry(status=CheckpointStatus.ACTIVE),
            parent=None,
            before=None,
        )
    assert not Checkpoint.objects.exists()


def test_odd_text_survives():
    """NUL, lone surrogates and what needs four bytes."""
    odd = {"text": "a\x00b \udcff \ud800 \U0001f9d0", "\x00": "\x7f"}
    saved, _ = save_all([odd])
    assert store.load(saved[0]) == odd


def fresh(checkpoint):
    return Checkpoint.objects.get(pk=checkpoint.pk)


def walk(parent, state, steps, update):
    """Take steps from a checkpoint as a worker does, which holds the state; give each checkpoint
    with its state.
    """
    taken = []
    for number in range(steps):
        after = reducers.apply(state, update(number), {"messages": "append"})
        parent = store.save(
            parent.thread_id,
            uuid.uuid4(),
            after,
            Entry(status=CheckpointStatus.ACTIVE),
            parent=parent,
            before=state,
        )
        state = after
        taken.append((parent, state))
    return taken


def begin(state=None):
    state = codec.state({"messages": [], "title": "t" * 2000} if state is None else state)
    return store.save(
        make_thread().pk,
        uuid.uuid4(),
        state,
        Entry(status=CheckpointStatus.ACTIVE),
        parent=None,
        before=None,
    ), state


def message(number):
    return {"messages": [f"{number} " + "word " * 200], "n": number}


def test_bytes_stay_flat_though_a_list_grows_for_ever():
    """F26: neither a delta nor a snapshot grows with the list."""
    first, state = begin()
    taken = [checkpoint for checkpoint, _ in walk(first, state, 210, message)]
    deltas = [checkpoint.size for checkpoint in taken if not checkpoint.is_snapshot]
    snapshots = [checkpoint.size for checkpoint in taken if checkpoint.is_snapshot]
    assert max(deltas) < 1100
    assert len(snapshots) == 10
    assert max(snapshots) < 2200


@pytest.mark.django_db(transaction=True)
def test_an_item_goes_to_one_chunk_only():
    """Where no transaction is open a chunk is committed at once, and the next one goes on from
    it.
    """
    first, state = begin()
    taken = walk(first, state, 64, message)
    assert Chunk.objects.count() == 3
    texts = [
        zlib.decompress(content).decode()
        for content in Chunk.objects.values_list("content", flat=True)
    ]
    assert sum(len(json.loads(f"[{text}]")) for text in texts) == 63
    checkpoint, state = taken[-1]
    assert store.load(fresh(checkpoint)) == state
    # another worker takes over from a snapshot, and shares the chunks from there on
    loaded = store.load(fresh(taken[41][0]))
    walk(taken[41][0], loaded, 21, message)
    assert Chunk.objects.count() == 4


@pytest.mark.django_db(transaction=True)
def test_chunks_that_were_rolled_back_are_written_again():
    """A snapshot never refers to a chunk that was not committed, though the worker still holds the
    list.
    """
    first, state = begin()
    taken = walk(first, state, 20, message)
    head, state = taken[-1]
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        walk(head, state, 1, lambda number: {"n": 0})
        assert Chunk.objects.count() == 1
        raise ZeroDivisionError
    assert not Chunk.objects.exists()
    [(checkpoint, after)] = walk(head, state, 1, lambda number: {"n": 0})
    assert checkpoint.is_snapshot
    assert store.load(fresh(checkpoint)) == after


@pytest.mark.parametrize("steps", [1, 20, 21, 30, 100])
def test_a_load_is_two_queries_at_most_however_long_the_history(steps):
    first, state = begin()
    checkpoint, state = walk(first, state, steps, message)[-1]
    checkpoint = fresh(checkpoint)
    with CaptureQueriesContext(connection) as queries:
        assert store.load(checkpoint) == state
    assert len(queries) <= (1 if steps < 21 else 2)


def test_lines_that_part_keep_their_own_lists():
    """Forks: each loads its own lineage, whatever the others wrote since."""
    first, state = begin()
    trunk = walk(first, state, 50, message)
    branches = [
        walk(
            trunk[at][0],
            store.load(fresh(trunk[at][0])),
            45,
            lambda number, at=at: {"messages": [f"of {at}: {number} " + "y" * 900]},
        )
        for at in (0, 20, 21, 30, 49)
    ]
    for checkpoint, state in [*trunk, *(step for branch in branches for step in branch)]:
        assert store.load(fresh(checkpoint)) == state


def test_large_deltas_bring_the_next_snapshot_forward():
    """A load reads little more than the state weighs, also where each step sets a large value
    anew.
    """
    first, state = begin({"draft": "x" * 50_000, "kept": "y" * 100_000})
    taken = [
        checkpoint
        for checkpoint, _ in walk(first, state, 12, lambda number: {"draft": str(number) * 50_000})
    ]
    assert [index for index, checkpoint in enumerate(taken) if checkpoint.is_snapshot] == [
        2,
        5,
        8,
        11,
    ]
    resumed = fresh(taken[0])
    store.load(resumed)
    assert resumed.behind == taken[0].behind == taken[0].size


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("harm", ["content", "previous", "gone", "nonsense"])
def test_a_changed_chunk_is_never_loaded(harm):
    """C24."""
    first, state = begin()
    checkpoint, _ = walk(first, state, 63, message)[-1]
    last = json.loads(checkpoint.body)["long"][0][1]
    chunk = Chunk.objects.get(pk=last)
    match harm:
        case "content":
            text = zlib.decompress(chunk.content).replace(b"word", b"WORD", 1)
            Chunk.objects.filter(pk=last).update(content=zlib.compress(text))
        case "previous":
            Chunk.objects.filter(pk=last).update(previous=chunk)  # it follows itself, for ever
        case "gone":
            Chunk.objects.filter(pk=last).delete()
        case "nonsense":
            Chunk.objects.filter(pk=last).update(content=b"no zlib")
    with pytest.raises(CheckpointDamaged):
        store.load(fresh(checkpoint))


def test_two_long_lists_that_are_the_same_share_their_chunk(db):
    parent, state = begin({})
    twice = reducers.apply(state, {"one": ["x" * 9000] * 3, "other": ["x" * 9000] * 3}, {})
    checkpoint = store.save(
        parent.thread_id,
        uuid.uuid4(),
        twice,
        Entry(status=CheckpointStatus.ACTIVE),
        parent=parent,
        before=None,
    )
    assert checkpoint.is_snapshot
    assert Chunk.objects.count() == 1
    assert store.load(fresh(checkpoint)) == twice


growing = st.fixed_dictionaries(
    {},
    optional={
        "messages": st.lists(values | st.just("x" * 5000), max_size=3),
        "object": st.dictionaries(
            st.sampled_from("ab"), values | st.lists(st.just("y" * 5000), max_size=3)
        ),
        "other": values,
    },
).filter(passes)
GROWING = {"messages": "append", "object": "merge"}


def longer(value):
    """As a step does that builds a new list, or an object of such lists, from what was there."""
    if isinstance(value, dict):
        return {key: longer(item) for key, item in value.items()}
    return [*value, "new"] if isinstance(value, list) else value


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(growing, st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_every_checkpoint_of_growing_lists_loads_as_it_was(changes):
    """Held by one worker, taken over by another (`cold`), or lists rebuilt by the step."""
    parent, state = begin({})
    taken = []
    for update, cold, rebuilt in changes:
        before = store.load(fresh(parent)) if cold else state
        if rebuilt:
            update = {key: longer(before.get(key)) for key in ("messages", "object")}
        try:
            state = reducers.apply(before, update, {} if rebuilt else GROWING)
        except reducers.MergeFailed:
            continue
        parent = store.save(
            parent.thread_id,
            uuid.uuid4(),
            state,
            Entry(status=CheckpointStatus.ACTIVE),
            parent=parent,
            before=before,
        )
        taken.append((parent, codec.encode(state)))
    for checkpoint, text in taken:
        assert codec.encode(store.load(fresh(checkpoint))) == text


def test_a_worker_keeps_the_last_checkpoint_only():
    """Its memory does not grow with the history."""
    first, state = begin()
    taken = walk(first, state, 3, message)
    known = weakref.ref(taken[0][0])
    del taken[0]
    assert known() is None


def test_what_was_just_built_can_be_loaded_without_reading_it_back():
    first, state = begin()
    [(checkpoint, after)] = walk(first, state, 1, message)
    assert store.load(checkpoint) == after


def test_a_blob_is_kept_once_and_comes_back():
    """C15: a large value is kept whole and compressed, under the digest of its content."""
    one, other = store.put_blob(b"patch" * 1000), store.put_blob(b"patch" * 1000)
    assert one == other == hashlib.sha256(b"patch" * 1000).hexdigest()
    blob = Blob.objects.get()
    assert (blob.size, len(blob.content) < 100) == (5000, True)
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
