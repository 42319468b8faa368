"""Damage, writes that stop half-way, and writers at the same time."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from django.conf import settings
from django.db import connections

from checkpoints.contract.base import (
    CheckpointDamaged,
    CheckpointStore,
    CheckpointUnknown,
    HeadMoved,
    StoredCheckpoint,
)
from checkpoints.testing.hooks import ACTIVE, RUN, Hooks, chain

WRITERS = 6


class Accidents(Hooks):
    def test_a_changed_state_is_never_loaded(
        self, store: CheckpointStore, thread: uuid.UUID
    ) -> None:
        """Neither that checkpoint nor, where it needs it, one after it; those before are as they
        were.
        """
        made = chain(store, thread, 5)
        self.damage(store, thread, made[2][0].id)
        with pytest.raises(CheckpointDamaged, match="Nothing was resumed"):
            store.load(thread, made[2][0].id)
        for kept, state in made[3:]:
            try:
                assert store.load(thread, kept.id) == state
            except CheckpointDamaged:
                continue
        assert [store.load(thread, kept.id) for kept, _ in made[:2]] == [
            state for _, state in made[:2]
        ]
        with pytest.raises(CheckpointDamaged):
            store.fork(thread, made[2][0].id, run_id=RUN, reason="go on from damage")
        assert store.latest(thread) == made[-1][0]

    def test_a_write_that_fails_half_way_leaves_everything_as_it_was(
        self, store: CheckpointStore, thread: uuid.UUID
    ) -> None:
        """The former head stays readable, here and for who looks anew, and the next write goes on
        from it.
        """
        made = chain(store, thread, 4)
        head, state = made[-1]
        attempts: list[Callable[[], Any]] = [
            lambda: store.put(thread, RUN, {**state, "n": "lost"}, ACTIVE, parent=head.id),
            lambda: store.fork(
                thread, made[1][0].id, run_id=RUN, reason="lost", state={"lost": True}
            ),
        ]
        for attempt in attempts:
            # whatever such an accident raises
            with self.failing(store), pytest.raises(Exception):  # noqa: B017, PT011
                attempt()
            for looking in (store, self.make()) if store.durable else (store,):
                assert looking.latest(thread) == head
                assert looking.load(thread, head.id) == state
                assert looking.history(thread) == [kept for kept, _ in reversed(made)]
        assert chain(store, thread, 2)[0][0].parent_id == head.id

    def test_of_writers_on_one_parent_exactly_one_becomes_the_head(
        self, store: CheckpointStore, thread: uuid.UUID
    ) -> None:
        """Compare-and-set: the others are told which head there is, and have written nothing."""
        root = store.put(thread, RUN, {"n": 0}, ACTIVE, parent=None)
        answers = at_once(
            *(partial(_put, store, thread, {"writer": n}, root.id) for n in range(WRITERS))
        )
        won = [answer for answer in answers if isinstance(answer, StoredCheckpoint)]
        lost = [answer for answer in answers if isinstance(answer, HeadMoved)]
        assert (len(won), len(lost)) == (1, WRITERS - 1), answers
        assert store.latest(thread) == won[0]
        assert {error.head for error in lost} == {won[0].id}
        assert store.history(thread) == [won[0], root]

    def test_of_first_writers_exactly_one_begins_the_thread(
        self, store: CheckpointStore, thread: uuid.UUID
    ) -> None:
        answers = at_once(
            *(partial(_put, store, thread, {"writer": n}, None) for n in range(WRITERS))
        )
        assert sum(isinstance(answer, StoredCheckpoint) for answer in answers) == 1, answers
        assert len(store.history(thread)) == 1

    def test_no_update_is_lost_where_losers_try_again(
        self, store: CheckpointStore, thread: uuid.UUID
    ) -> None:
        store.put(thread, RUN, {"n": 0}, ACTIVE, parent=None)

        def add() -> int:
            done = 0
            while done < 5:
                head = _head(store, thread)
                number = store.load(thread, head.id)["n"]
                done += isinstance(
                    _put(store, thread, {"n": number + 1}, head.id), StoredCheckpoint
                )
            return done

        assert at_once(*[add] * 4) == [5] * 4
        assert store.load(thread, _head(store, thread).id) == {"n": 20}
        assert len(store.history(thread)) == 21

    def test_forks_beside_a_writer_and_a_prune_spoil_nothing(
        self, store: CheckpointStore, thread: uuid.UUID
    ) -> None:
        """Whatever of them comes first, every checkpoint that is left loads and its parents lead to
        the root.
        """
        made = chain(store, thread, 25)

        def forks() -> None:
            for kept, _ in made[5:15]:
                with suppress(CheckpointUnknown):
                    store.fork(thread, kept.id, run_id=RUN, reason="race")

        def prunes() -> None:
            for keep in range(12, 2, -1):
                store.prune(thread, keep=keep)

        assert at_once(forks, prunes, prunes) == [None] * 3
        _is_whole(store, thread, made)

    def test_a_fork_whose_source_is_pruned_while_it_reads_writes_nothing(
        self, store: CheckpointStore, thread: uuid.UUID, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = chain(store, thread, 12)
        real = store.load
        pruned: list[uuid.UUID] = []

        def load(thread_id: uuid.UUID, checkpoint_id: uuid.UUID) -> dict[str, Any]:
            state = real(thread_id, checkpoint_id)
            if not pruned:
                pruned.append(checkpoint_id)
                store.prune(thread_id, keep=2)
            return state

        monkeypatch.setattr(store, "load", load)
        with suppress(CheckpointUnknown):
            store.fork(thread, made[5][0].id, run_id=RUN, reason="too late")
        monkeypatch.undo()
        _is_whole(store, thread, made)


def _is_whole(
    store: CheckpointStore,
    thread: uuid.UUID,
    made: Sequence[tuple[StoredCheckpoint, dict[str, Any]]],
) -> None:
    """Everything that is left loads, as it was written where it is one of `made`, and has a parent
    that is left.
    """
    left = store.history(thread, limit=100)
    ids, states = {kept.id for kept in left}, {kept.id: state for kept, state in made}
    for kept in left:
        state = store.load(thread, kept.id)
        assert state == states.get(kept.id, state)
        assert kept.parent_id in ids or kept.id == made[0][0].id


def _put(
    store: CheckpointStore, thread: uuid.UUID, state: dict[str, Any], parent: uuid.UUID | None
) -> StoredCheckpoint | HeadMoved:
    try:
        return store.put(thread, RUN, state, ACTIVE, parent=parent)
    except HeadMoved as moved:
        return moved


def _head(store: CheckpointStore, thread: uuid.UUID) -> StoredCheckpoint:
    head = store.latest(thread)
    assert head is not None
    return head


def at_once(*jobs: Callable[[], Any]) -> list[Any]:
    """Run jobs at the same moment, each in a thread of its own; give what they return or raise."""
    start = threading.Barrier(len(jobs))

    def run(job: Callable[[], Any]) -> Any:
        try:
            start.wait(10)
            return job()
        except Exception as error:  # noqa: BLE001  # the test looks at what each job ended with
            return error
        finally:
            if settings.configured:  # a store that needs no rows is tested without Django
                connections.close_all()

    with ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(run, jobs))
