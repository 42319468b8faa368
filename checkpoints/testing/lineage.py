"""Order, branches, and what pruning leaves."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from checkpoints.contract.base import CheckpointStore
from checkpoints.testing.hooks import ACTIVE, RUN, WAITS, Hooks, chain


class Lineage(Hooks):
    def test_history_is_newest_first_in_pages(
        self, store: CheckpointStore, thread: uuid.UUID
    ) -> None:
        made = [kept for kept, _ in chain(store, thread, 23)]
        pages = [store.history(thread, limit=10)]
        while len(pages[-1]) == 10:
            pages.append(store.history(thread, before=pages[-1][-1].id, limit=10))
        assert [len(page) for page in pages] == [10, 10, 3]
        assert [kept for page in pages for kept in page] == made[::-1]
        assert store.history(thread, before=made[0].id) == []

    def test_ids_are_ordered_by_time_and_children_come_after_their_parents(
        self, store: CheckpointStore, thread: uuid.UUID
    ) -> None:
        made = [kept for kept, _ in chain(store, thread, 30)]
        assert [kept.id for kept in made] == sorted(kept.id for kept in made)
        assert [kept.parent_id for kept in made[1:]] == [kept.id for kept in made[:-1]]
        assert [kept.created_at for kept in made] == sorted(kept.created_at for kept in made)

    def test_a_clock_that_lags_behind_does_not_turn_the_order_round(
        self, store: CheckpointStore, thread: uuid.UUID, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Two hosts: the second one's clock is a day late."""
        first, second = [kept for kept, _ in chain(store, thread, 2)]
        late = iter(range(1000))
        monkeypatch.setattr(
            "checkpoints.ids.new",
            lambda: uuid.UUID(int=first.id.int - (86_400_000 << 80) + next(late)),
        )
        third = store.put(thread, RUN, {}, ACTIVE, parent=second.id)
        branch = store.fork(thread, first.id, run_id=RUN, reason="elsewhere")
        assert first.id < second.id < third.id < branch.id
        assert store.latest(thread) == branch == store.history(thread)[0]

    def test_a_fork_is_a_branch_of_its_own_and_the_old_one_stays(
        self, store: CheckpointStore, thread: uuid.UUID
    ) -> None:
        """Time travel: with an edited state, from any checkpoint, with a reason."""
        made = chain(store, thread, 6)
        source, state = made[2]
        other = uuid.uuid4()
        branch = store.fork(
            thread,
            source.id,
            run_id=other,
            reason=" the plan was wrong ",
            state={**state, "n": "edited"},
        )
        assert (branch.parent_id, branch.run_id, branch.entry.next_step) == (
            source.id,
            other,
            "work",
        )
        assert (branch.entry.metadata["reason"], branch.entry.status) == (
            "the plan was wrong",
            "active",
        )
        assert store.latest(thread) == branch
        assert store.load(thread, branch.id) == {**state, "n": "edited"}
        assert [store.load(thread, kept.id) for kept, _ in made] == [state for _, state in made]
        assert store.children(thread, source.id) == [made[3][0], branch]
        assert store.children(thread, branch.id) == []
        same = store.fork(thread, made[-1][0].id, run_id=other, reason="again")
        assert store.load(thread, same.id) == made[-1][1]
        grown = chain(store, thread, 3)
        assert grown[0][0].parent_id == same.id

    def test_a_fork_of_a_question_goes_on_with_the_step_that_asked(
        self, store: CheckpointStore, thread: uuid.UUID
    ) -> None:
        asked = store.put(thread, RUN, {}, WAITS, parent=None)
        assert store.fork(thread, asked.id, run_id=RUN, reason="ask anew").entry.next_step == "ask"

    @pytest.mark.parametrize("reason", ["", "  \n"])
    def test_a_fork_without_a_reason_is_refused(
        self, store: CheckpointStore, thread: uuid.UUID, reason: str
    ) -> None:
        kept = store.put(thread, RUN, {}, ACTIVE, parent=None)
        with pytest.raises(ValueError, match="Say why"):
            store.fork(thread, kept.id, run_id=RUN, reason=reason)
        assert store.latest(thread) == kept

    def test_any_two_are_compared(self, store: CheckpointStore, thread: uuid.UUID) -> None:
        first = store.put(thread, RUN, {"a": 1, "b": [1], "c": 1}, ACTIVE, parent=None)
        two = store.put(thread, RUN, {"a": 2, "b": [1, 2], "d": 1}, ACTIVE, parent=first.id)
        assert store.diff(thread, first.id, two.id) == {
            "set": {"a": 2, "d": 1},
            "unset": ["c"],
            "extend": {"b": [2]},
        }

    def test_prune_keeps_the_newest_the_root_the_head_and_what_waits(
        self, store: CheckpointStore, thread: uuid.UUID
    ) -> None:
        """What stays loads as before, and its parents lead to the root."""
        made = chain(store, thread, 30)
        asked = chain(store, thread, 1, entry=WAITS)
        made += asked + chain(store, thread, 30)
        states = {kept.id: state for kept, state in made}
        planned = store.prune(thread, keep=4, dry_run=True)
        assert len(store.history(thread, limit=100)) == 61
        assert planned.size == sum(kept.size for kept, _ in made if kept.id in planned.ids) > 0
        assert store.prune(thread, keep=4) == planned
        left = store.history(thread, limit=100)
        ids = [kept.id for kept in left]
        assert ids == [key for key in sorted(states, reverse=True) if key not in planned.ids]
        assert {made[0][0].id, asked[0][0].id, *(kept.id for kept, _ in made[-4:])} == set(ids)
        assert [store.load(thread, key) for key in ids] == [states[key] for key in ids]
        assert [kept.parent_id for kept in left] == [*ids[1:], None]
        assert [kept.digest for kept in left] == [
            kept.digest for kept, _ in reversed(made) if kept.id in ids
        ]
        assert store.prune(thread, keep=4).ids == ()
        more = chain(store, thread, 25)
        assert [store.load(thread, kept.id) for kept, _ in more] == [state for _, state in more]

    def test_prune_with_branches(self, store: CheckpointStore, thread: uuid.UUID) -> None:
        made = chain(store, thread, 12)
        branch = store.fork(thread, made[4][0].id, run_id=RUN, reason="try", state={"edited": True})
        states: dict[uuid.UUID, Any] = {kept.id: state for kept, state in made} | {
            branch.id: {"edited": True}
        }
        store.prune(thread, keep=0)
        left = store.history(thread)
        assert [kept.id for kept in left] == [branch.id, made[0][0].id]
        assert left[0].parent_id == made[0][0].id
        assert [store.load(thread, kept.id) for kept in left] == [states[kept.id] for kept in left]
        assert store.latest(thread) == left[0]

    def test_prune_of_nothing(self, store: CheckpointStore, thread: uuid.UUID) -> None:
        assert store.prune(thread, keep=0).ids == ()
        chain(store, thread, 1)
        assert store.prune(thread, keep=0).ids == ()
        with pytest.raises(ValueError, match="keep"):
            store.prune(thread, keep=-1)
