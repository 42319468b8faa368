"""Threads that the round of keeping leaves alone: nothing stays longer for it, and nothing goes
that somebody needs.
"""

from __future__ import annotations

import datetime as dt
import uuid
from dataclasses import dataclass, field

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import example, given, settings
from hypothesis import strategies as st

from checkpoints import store
from checkpoints.events import log
from checkpoints.models import (
    Blob,
    Chore,
    Chunk,
    Event,
    EventKind,
    Memo,
    RestingThread,
    Thread,
)
from checkpoints.retention import housekeeping, resting
from checkpoints.retention.rules import RetentionPolicy, Rules
from tests.checkpoints.retention.trees import Tree

pytestmark = pytest.mark.django_db(transaction=True)

DAY = dt.timedelta(days=1)
LONG_AGO = dt.timedelta(hours=1)
LONG = [{"text": "x" * 1000, "n": n} for n in range(50)]
"""Some of it is kept as chunks."""


@dataclass
class World:
    """Some threads, of which some have a run under way, and a clock that only goes on."""

    policy: RetentionPolicy
    trees: list[Tree] = field(default_factory=lambda: [Tree() for _ in range(2)])
    live: set[uuid.UUID] = field(default_factory=set)
    now: dt.datetime = field(default_factory=timezone.now)

    def work(self, n):
        """A step, with all that steps write, and a line in the log."""
        tree = self.trees[n]
        blob = store.put_blob(f"{tree.run} {len(tree.states)}".encode())
        said = [*tree.states[tree.head.pk].get("said", []), *LONG]
        tree.step({"said": said}, snapshot=True, metadata={"patch": blob})
        Memo.objects.create(thread=tree.thread, scope=str(uuid.uuid4()), key="k", value=[1])
        lines = [
            (EventKind.STREAMING_CHUNK, {"text": "a"}),
            (EventKind.STEP_COMPLETED, {"step": "s"}),
        ]
        with transaction.atomic():
            log.append(tree.thread.pk, tree.run, lines)
        self.stamp(tree)

    def stamp(self, tree):
        """What was written since is of this world's time: keys as well are by the true one."""
        Event.objects.filter(thread=tree.thread, at__lt=self.now).filter(
            seq__gt=Thread.objects.get(pk=tree.thread.pk).last_seq - 2
        ).update(at=self.now)

    def rules(self):
        return Rules(
            policies=lambda threads: dict.fromkeys(threads, self.policy),
            spared=(),
            live_runs=lambda thread: [
                tree.run for tree in self.trees if tree.thread.pk == thread and thread in self.live
            ],
            sources={},
            may_rest=lambda thread: thread not in self.live,
            version=lambda: repr(self.policy),
        )

    def round(self):
        for kind in (Blob, Chunk):
            kind.objects.update(touched_at=timezone.now() - LONG_AGO)
        Chore.objects.update(busy_until=self.now - LONG_AGO, due_at=self.now - LONG_AGO)
        return housekeeping.tend(self.rules(), seconds=600, every=DAY, now=self.now)

    def check(self):
        """Nothing is left that a look at every thread would drop, and everything loads."""
        Chore.objects.update(busy_until=self.now - LONG_AGO)
        place = Chore.objects.get(pk=housekeeping.NAME).place
        left = housekeeping.report(self.rules(), now=self.now)
        Chore.objects.update(place=place)
        assert {kind: rows for kind, rows in left.rows.items() if rows} == {}
        for tree in self.trees:
            tree.check()


ACTIONS = st.lists(
    st.tuples(st.sampled_from(["work", "begin", "end"]), st.integers(0, 1))
    | st.tuples(st.just("days"), st.sampled_from([0.2, 1, 5]))
    | st.tuples(st.just("policy"), st.sampled_from([None, 1, 3]))
    | st.tuples(st.just("round"), st.just(0)),
    min_size=4,
    max_size=16,
)


OLD, LATER = [("work", 1), ("round", 0)], [("days", 5), ("work", 1)]


@pytest.mark.one_database
@settings(max_examples=6, deadline=None)
@example([*OLD, ("begin", 1), *LATER, ("round", 0)])  # what went while its run is under way
@example([*OLD, *LATER, ("days", 1)])  # some of it is as old as what may go, to the second
@given(ACTIONS)
def test_a_round_that_leaves_threads_alone_drops_what_a_round_of_all_would(actions):
    """Issue 20: also after work went on, time passed or a policy was changed."""
    world = World(RetentionPolicy(days=2, count=4, chunk_days=1))
    for kind, value in actions:
        match kind:
            case "work":
                world.work(value)
            case "begin":
                world.live.add(world.trees[value].thread.pk)
            case "end":
                thread = world.trees[value].thread.pk
                world.live.discard(thread)
                with transaction.atomic():
                    log.append(thread, world.trees[value].run, [(EventKind.RUN_COMPLETED, {})])
            case "days":
                world.now += value * DAY
            case "policy":
                world.policy = RetentionPolicy(days=value, count=4, chunk_days=1)
            case "round":
                world.round()
                world.check()
    world.round()
    world.check()


def looked_at(world, monkeypatch):
    """The threads that a round looks at."""
    seen = []
    visit = housekeeping._visit

    def noting(held, thread_id, *more):
        seen.append(thread_id)
        return visit(held, thread_id, *more)

    monkeypatch.setattr(housekeeping, "_visit", noting)
    world.round()
    return seen


def test_a_thread_is_looked_at_when_something_of_it_goes_and_not_before(monkeypatch):
    """Issue 20: a round takes as long as there is something to do, not as long as history is."""
    world = World(RetentionPolicy(days=10, chunk_days=1))
    world.work(0)
    ids = [tree.thread.pk for tree in world.trees]
    assert looked_at(world, monkeypatch) == ids
    assert looked_at(world, monkeypatch) == []
    world.now += 1.01 * DAY
    assert looked_at(world, monkeypatch) == ids[:1]  # its streamed text is folded
    assert Event.objects.filter(kind=EventKind.STREAMING_CHUNK).count() == 0
    assert looked_at(world, monkeypatch) == []
    world.now += 10 * DAY
    assert looked_at(world, monkeypatch) == ids[:1]
    world.now += 1000 * DAY
    assert looked_at(world, monkeypatch) == []
    assert set(RestingThread.objects.values_list("until", flat=True)) == {resting.NEVER}


def test_work_and_another_policy_wake_a_thread(monkeypatch):
    world = World(RetentionPolicy())
    ids = [tree.thread.pk for tree in world.trees]
    world.round()
    world.work(1)
    assert looked_at(world, monkeypatch) == [ids[1]]
    world.policy = RetentionPolicy(days=5)
    assert looked_at(world, monkeypatch) == ids
    assert looked_at(world, monkeypatch) == []


def test_what_a_resting_thread_refers_to_stays_without_its_checkpoints_being_read(monkeypatch):
    world = World(RetentionPolicy())
    world.work(0)
    world.work(0)
    world.round()
    blobs, chunks = Blob.objects.count(), Chunk.objects.count()
    assert blobs == 2 and chunks
    assert resting.SOURCES["moving checkpoints"]("", 1000) == (set(), "")
    world.round()
    assert (Blob.objects.count(), Chunk.objects.count()) == (blobs, chunks)
    world.check()


def test_a_checkpoint_that_came_without_a_line_in_the_log_is_read_all_the_same():
    """No such writer is known; what it refers to would be lost."""
    world = World(RetentionPolicy())
    world.work(0)
    world.round()
    tree = world.trees[0]
    said = tree.states[tree.head.pk]["said"]
    tree.step({"said": [*said, *LONG]}, snapshot=True, metadata={"patch": store.put_blob(b"a")})
    blobs, chunks = Blob.objects.count(), Chunk.objects.count()
    world.round()
    assert (Blob.objects.count(), Chunk.objects.count()) == (blobs, chunks)
    tree.check()


def test_a_note_that_is_void_still_says_what_the_thread_goes_on_from():
    """The marking may have passed its checkpoints while it rested."""
    world = World(RetentionPolicy())
    world.work(0)
    world.round()
    before = resting.SOURCES["moving checkpoints"]("", 1000)[0]
    with transaction.atomic():
        log.append(world.trees[0].thread.pk, world.trees[0].run, [(EventKind.RUN_STARTED, {})])
    marked = before | resting.SOURCES["resting threads"]("", 1000)[0]
    assert marked >= set(Blob.objects.values_list("pk", flat=True)) != set()
