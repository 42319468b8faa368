"""What was written is what is read."""

from __future__ import annotations

import json
import random
import uuid
from typing import Any

import pytest

from checkpoints.contract.base import (
    BodyStore,
    CheckpointStore,
    CheckpointUnknown,
    Entry,
    StoredCheckpoint,
)
from checkpoints.state import codec
from checkpoints.testing.hooks import ACTIVE, RUN, Hooks, chain

ODD: dict[str, Any] = {
    "text": "a\x00b \udcff \ud800 \U0001f9d0 ä",
    "numbers": [0, -0.0, 1e300, 2**70, False, None],
    "deep": {"a": [{"b": [[], {}]}]},
    "": "",
}


class Writing(Hooks):
    def test_what_was_put_is_what_is_loaded(
        self, store: CheckpointStore, thread: uuid.UUID
    ) -> None:
        """The state, and beside it run, node, status, why it waits, for what, until when."""
        why = {
            "blocking_reason": "missing_supplier_data",
            "required_inputs": {"type": "object"},
            "next_deadline": "2030-01-01T00:00:00+00:00",
        }
        entry = Entry(
            status="pending_input",
            node_id="ask",
            next_step="",
            loop_num=2,
            completed_nodes=3,
            total_nodes=7,
            metadata={**why, "odd": ODD},
        )
        kept = store.put(thread, RUN, ODD, entry, parent=None)
        assert codec.encode(store.load(thread, kept.id)) == codec.encode(ODD)
        read = store.get(thread, kept.id)
        assert (read.thread_id, read.run_id, read.parent_id) == (thread, RUN, None)
        assert (read.entry.status, read.entry.node_id, read.entry.loop_num) == (
            "pending_input",
            "ask",
            2,
        )
        assert codec.encode(read.entry.metadata) == codec.encode(entry.metadata)
        assert read == kept == store.latest(thread)

    def test_any_sequence_of_updates_loads_as_a_plain_fold(
        self, store: CheckpointStore, thread: uuid.UUID
    ) -> None:
        dice = random.Random(7)  # noqa: S311  # the same every time
        state: dict[str, Any] = {}
        states: dict[uuid.UUID, str] = {}
        kept: StoredCheckpoint | None = None
        for number in range(70):
            state = _changed(state, number, dice)
            # by turns the caller has the parent's state in hand, as loaded, or leaves it to the
            # store
            before = store.load(thread, kept.id) if kept and number % 2 else None
            kept = store.put(
                thread, RUN, state, ACTIVE, parent=kept.id if kept else None, before=before
            )
            states[kept.id] = codec.encode(state)
        assert {key: codec.encode(store.load(thread, key)) for key in states} == states

    def test_a_loaded_state_cannot_be_changed(
        self, store: CheckpointStore, thread: uuid.UUID
    ) -> None:
        kept = store.put(thread, RUN, {"a": [1]}, ACTIVE, parent=None)
        with pytest.raises(TypeError, match="read-only"):
            store.load(thread, kept.id)["a"].append(2)

    def test_a_step_costs_what_is_new(self, store: CheckpointStore, thread: uuid.UUID) -> None:
        """Of 60 messages, the deltas hold one each."""
        made = chain(store, thread, 60, wide=4000)
        sizes = sorted(kept.size for kept, _ in made[1:])
        assert sizes[len(sizes) // 2] < 200
        assert sum(size < 200 for size in sizes) >= 0.9 * len(sizes)

    def test_a_state_that_json_cannot_hold_is_refused_and_named(
        self, store: CheckpointStore, thread: uuid.UUID
    ) -> None:
        """It is refused at the write, not when it is needed."""
        first = store.put(thread, RUN, {"a": 1}, ACTIVE, parent=None)
        for bad in ({"socket": object()}, {"x": float("nan")}, {"x": {1: 2}}):
            with pytest.raises(codec.NotJson, match=r"state\.(socket|x)"):
                store.put(thread, RUN, bad, ACTIVE, parent=first.id)
        with pytest.raises(codec.NotJson, match="metadata"):
            store.put(
                thread, RUN, {}, Entry(status="active", metadata={"x": object()}), parent=first.id
            )
        assert store.latest(thread) == first
        assert store.history(thread) == [first]

    def test_what_is_not_there_is_said(self, store: CheckpointStore, thread: uuid.UUID) -> None:
        kept = store.put(thread, RUN, {"a": 1}, ACTIVE, parent=None)
        other, nobody = self.new_thread(), uuid.uuid4()
        assert store.latest(other) is None
        assert store.history(other) == []
        for where, key in ((thread, nobody), (other, kept.id)):
            for ask in (store.get, store.load, store.children):
                with pytest.raises(CheckpointUnknown):
                    ask(where, key)
            with pytest.raises(CheckpointUnknown):
                store.put(where, RUN, {}, ACTIVE, parent=key)
            with pytest.raises(CheckpointUnknown):
                store.fork(where, key, run_id=RUN, reason="why not")

    def test_threads_know_nothing_of_each_other(
        self, store: CheckpointStore, thread: uuid.UUID
    ) -> None:
        other = self.new_thread()
        mine, theirs = chain(store, thread, 3), chain(store, other, 4)
        assert [kept.id for kept in store.history(thread)] == [
            kept.id for kept, _ in reversed(mine)
        ]
        assert store.delete_thread(thread) == 3
        assert store.latest(thread) is None
        assert store.history(thread) == []
        with pytest.raises(CheckpointUnknown):
            store.load(thread, mine[-1][0].id)
        assert store.latest(other) == theirs[-1][0]
        assert store.load(other, theirs[-1][0].id) == theirs[-1][1]
        assert store.delete_thread(thread) == 0
        assert chain(store, thread, 2)[-1][0] == store.latest(thread)  # its id may be used again

    def test_bodies_for_the_engine(self, store: CheckpointStore, thread: uuid.UUID) -> None:
        """The same store keeps the bodies of checkpoints whose rows are in the database, if it does
        that at all.
        """
        if not isinstance(store, BodyStore):
            assert store.transactional  # then they are in the rows
            return
        keys, text = [uuid.uuid4() for _ in range(3)], json.dumps({"set": {"x": "\udcff" * 2000}})
        for key in keys[:2]:
            store.put_body(thread, key, text)
        store.put_body(thread, keys[0], "{}")
        assert store.get_bodies(thread, keys) == {keys[0]: "{}", keys[1]: text}
        assert {place for place in store.bodies() if place[0] == thread} == {
            (thread, key) for key in keys[:2]
        }
        store.drop_bodies(thread, [*keys, uuid.uuid4()])
        assert store.get_bodies(thread, keys) == {}
        assert store.get_bodies(thread, []) == {}


def _changed(state: dict[str, Any], number: int, dice: random.Random) -> dict[str, Any]:
    """A state with something added, appended, changed deep inside, or dropped."""
    new = json.loads(json.dumps(state))
    match dice.randrange(5):
        case 0:
            new[f"key{dice.randrange(6)}"] = "v" * dice.randrange(2000)
        case 1:
            new.setdefault("list", []).extend([number] * dice.randrange(1, 4))
        case 2:
            new.setdefault("inner", {})[f"k{dice.randrange(4)}"] = [number]
        case 3 if new:
            del new[dice.choice(sorted(new))]
        case _:
            new["n"] = dice.choice([0, 0.0, False, number])
    return dict(new)
