"""Keeping and dropping: what stays is what it was, to the digest; what anything needs stays; what
nothing names goes.
"""

from __future__ import annotations

import datetime as dt
import uuid
import zlib

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints import store
from checkpoints.events import log
from checkpoints.models import (
    Blob,
    Checkpoint,
    CheckpointStatus,
    Chore,
    Chunk,
    Event,
    EventKind,
    Mark,
    Memo,
    Thread,
)
from checkpoints.retention import garbage, housekeeping
from checkpoints.retention import rules as keeping
from checkpoints.retention.jobs import claim
from checkpoints.retention.rules import RetentionPolicy, Rules
from checkpoints.state import codec
from checkpoints.store import CheckpointDamaged, Entry
from tests.checkpoints.retention.trees import (
    Tree,
    counted,
    messages,
)
from tests.checkpoints.store.damaged_rows import damage, updates

pytestmark = pytest.mark.django_db(transaction=True)

DAY = dt.timedelta(days=1)
LONG_AGO = dt.timedelta(hours=1)


def rules(policy, *, spared=(), live=()):
    return Rules(
        policies=lambda threads: dict.fromkeys(threads, policy),
        spared=spared,
        live_runs=lambda _: list(live),
        sources={},
    )


def prune(policy, *, now=None, **more):
    """A whole round; what was written so far counts as written long ago."""
    for kind in (Blob, Chunk):
        kind.objects.update(touched_at=timezone.now() - LONG_AGO)
    Chore.objects.update(busy_until=timezone.now() - LONG_AGO)
    return housekeeping.whole(rules(policy, **more), every=DAY, now=now or timezone.now())


ACTIONS = st.lists(
    st.tuples(st.just("step"), updates)
    | st.tuples(st.just("many"), st.integers(1, 24))
    | st.tuples(st.just("list"), st.integers(1, 40))
    | st.tuples(st.just("fork"), st.integers(0, 1000))
    | st.tuples(st.just("prune"), st.integers(1, 12)),
    min_size=1,
    max_size=12,
)


@pytest.mark.one_database
@settings(max_examples=8, deadline=None)
@given(ACTIONS)
def test_any_mix_of_updates_forks_prunes_and_reloads_is_a_plain_fold(actions):
    """F25: states and digests of what is kept are those of a dict that was updated, chunks
    included.
    """
    tree = Tree()
    for kind, value in actions:
        match kind:
            case "step":
                tree.step(value)
            case "many":
                for n in range(value):
                    tree.step({"n": n})
            case "list":
                said = tree.states[tree.head.pk].get("said", [])
                tree.step(
                    {"said": [*said, *({"text": "y" * 300, "n": n} for n in range(value))]},
                    snapshot=value % 2 == 0,
                )
            case "fork":
                kept = tree.kept()
                tree.save({"forked": value}, kept[value % len(kept)])
            case "prune":
                head = tree.head
                prune(RetentionPolicy(count=value))
                assert tree.head == head
                tree.check()
    tree.check()
    tree.step({"still": "writes"})
    tree.check()


def test_the_newest_so_many_stay_with_the_first():
    """C4, S0-65."""
    tree = counted(50)
    keys = [checkpoint.pk for checkpoint in tree.kept()]
    tally = prune(RetentionPolicy(count=5))
    assert [checkpoint.pk for checkpoint in tree.check()] == [keys[0], *keys[-5:]]
    assert (tally.rows["checkpoints"], tally.rows["rebased"]) == (46, 1)


def test_a_delta_whose_ancestors_go_becomes_a_snapshot_behind_the_nearest_that_stays():
    """F25."""
    tree = counted(15)
    first, *_, kept = tree.kept()
    assert not kept.is_snapshot
    prune(RetentionPolicy(count=1))
    kept.refresh_from_db()
    assert (kept.is_snapshot, kept.depth, kept.parent_id, kept.dropped_before) == (
        True,
        0,
        first.pk,
        15,
    )
    tree.check()


def test_what_is_old_goes_and_what_is_young_stays():
    tree = counted(10)
    assert not prune(RetentionPolicy(days=1)).rows["checkpoints"]
    assert prune(RetentionPolicy(days=1), now=timezone.now() + 2 * DAY).rows["checkpoints"] == 10
    assert len(tree.check()) == 2, "the first and the head"


def test_for_ever_is_for_ever():
    tree = counted(10)
    assert prune(RetentionPolicy(), now=timezone.now() + 5000 * DAY).rows == {}
    assert len(tree.check()) == 12


def test_what_waits_for_an_answer_and_what_is_spared_stay():
    """Never dropped: pending input, head, first, and what the layers above refer to."""
    tree = counted(5)
    asked = tree.step({"asked": 1}, status=CheckpointStatus.PENDING_INPUT)
    spared = tree.step({"spared": 1})
    tree.step({"n": 7})
    tree.step({"n": 8})
    mine = Exists(Checkpoint.objects.filter(pk=OuterRef("pk"), digest=spared.digest))
    prune(RetentionPolicy(count=1), spared=[mine])
    assert [checkpoint.pk for checkpoint in tree.check()] == [
        min(tree.states),
        asked.pk,
        spared.pk,
        tree.head.pk,
    ]


def test_both_sides_of_a_fork_are_thinned_and_stay_apart():
    tree = counted(4)
    fork = tree.kept()[3]
    left = tree.head
    right = tree.save({"right": True}, fork)
    for n in range(3):
        right = tree.save({"n": 10 + n}, right)
    prune(RetentionPolicy(count=1))
    assert [checkpoint.pk for checkpoint in tree.check()] == [min(tree.states), right.pk]
    assert not Checkpoint.objects.filter(pk=left.pk).exists(), (
        "no newest of a live run, nothing refers to it"
    )


def test_a_damaged_checkpoint_and_what_it_builds_on_are_left_for_who_looks_into_it():
    tree = counted(10)
    head = tree.head
    damage(head, '{"set":{"n":99},"unset":[]}')
    before = [checkpoint.pk for checkpoint in tree.kept()]
    assert not prune(RetentionPolicy(count=1)).rows["checkpoints"]
    assert [checkpoint.pk for checkpoint in tree.kept()] == before
    with pytest.raises(CheckpointDamaged):
        store.load(tree.head)


def test_more_rebasing_than_one_transaction_does_is_done_in_several(monkeypatch):
    monkeypatch.setattr(keeping, "REBASED", 2)
    tree = counted(3)
    root = tree.kept()[1]
    for n in range(7):  # a fan: each kept leaf builds on what goes
        middle = tree.save({"branch": n}, root)
        tree.save({"leaf": n}, middle, status=CheckpointStatus.PENDING_INPUT)
    prune(RetentionPolicy(count=1))
    assert len(tree.check()) == 8


def test_a_checkpoint_that_many_build_on_goes_as_well(monkeypatch):
    monkeypatch.setattr(keeping, "REBASED", 2)
    tree = counted(3)
    hub = tree.head
    for n in range(7):
        tree.save({"leaf": n}, hub, status=CheckpointStatus.PENDING_INPUT)
    prune(RetentionPolicy(count=1))
    assert len(tree.check()) == 8


def test_a_reader_that_began_before_is_no_victim_of_it():
    """A head that was read as a delta is loaded after its ancestors are gone: no false alarm."""
    tree = counted(6)
    stale = tree.head
    prune(RetentionPolicy(count=1))
    assert codec.encode(store.load(stale)) == codec.encode(tree.states[stale.pk])
    assert stale.is_snapshot


def test_a_worker_goes_on_from_what_it_holds():
    """It holds the head as a delta, and its next delta builds on that; the load finds the snapshot
    that the head has become.
    """
    tree = counted(6)
    held, state = tree.head, store.load(tree.head)
    prune(RetentionPolicy(count=1))
    after = store.save(
        tree.thread.pk,
        tree.run,
        {**state, "n": 7},
        Entry(status=CheckpointStatus.ACTIVE),
        parent=held,
        before=state,
    )
    assert not after.is_snapshot
    assert store.load(Checkpoint.objects.get(pk=after.pk)) == {**state, "n": 7}


# the log


def tell(tree, count, *, run=None, kind=EventKind.LOG):
    with transaction.atomic():
        log.append(tree.thread.pk, run or tree.run, [(kind, {"message": "x"})] * count)


def seqs(tree):
    return list(
        Event.objects.filter(thread=tree.thread).order_by("seq").values_list("seq", flat=True)
    )


def test_the_logs_old_beginning_goes_and_its_last_event_stays():
    tree = Tree()
    tell(tree, 10)
    tally = prune(RetentionPolicy(days=1), now=timezone.now() + 2 * DAY)
    assert seqs(tree) == [10]
    assert Thread.objects.get(pk=tree.thread.pk).first_seq == 10
    assert (tally.rows["events"], tally.bytes["events"]) == (9, 9 * len('{"message":"x"}'))


def test_a_live_runs_log_stays_whole():
    tree, live = Tree(), uuid.uuid4()
    tell(tree, 3)
    tell(tree, 4, run=live)
    tell(tree, 2)
    prune(RetentionPolicy(days=1), now=timezone.now() + 2 * DAY, live=[live])
    assert seqs(tree) == [4, 5, 6, 7, 8, 9]


def test_a_young_event_keeps_all_after_it():
    tree = Tree()
    tell(tree, 6)
    Event.objects.exclude(seq=3).update(at=timezone.now() - 2 * DAY)
    prune(RetentionPolicy(days=1))
    assert seqs(tree) == [3, 4, 5, 6]


def test_who_asks_for_what_is_gone_is_told_so_and_then_gets_the_rest():
    """P9: never silence.

    The line stands under the last number that is gone, so that nothing is seen twice.
    """
    tree = Tree()
    tell(tree, 6)
    Event.objects.filter(seq__lt=4).update(at=timezone.now() - 2 * DAY)
    prune(RetentionPolicy(days=1))
    told = log.told_after(tree.thread.pk, 1)
    assert [(one["seq"], one["event"]) for one in told] == [
        (3, "log"),
        (4, "log"),
        (5, "log"),
        (6, "log"),
    ]
    assert told[0]["data"]["dropped_to"] == 3 and "was dropped" in told[0]["data"]["message"]
    assert [one["seq"] for one in log.told_after(tree.thread.pk, 3)] == [4, 5, 6]
    assert log.told_after(tree.thread.pk, 6) == []


def test_memos_go_when_they_are_old_and_no_run_needs_them():
    tree = Tree()
    for scope in ("old", "taken up"):
        Memo.objects.create(thread=tree.thread, scope=scope, key="k", value=[1])
    tree.step({"n": 1}, metadata={"scope": "taken up"})
    later = timezone.now() + 2 * DAY
    assert not prune(RetentionPolicy(days=1), now=later, live=[uuid.uuid4()]).rows["memos"]
    assert prune(RetentionPolicy(days=1), now=later).rows["memos"] == 1
    assert Memo.objects.get().scope == "taken up"


# blobs and chunks


def test_chunks_stay_as_long_as_a_snapshot_names_them_or_one_behind_them():
    tree = Tree()
    messages(tree, 4)
    chunks = Chunk.objects.count()
    assert chunks >= 1
    prune(RetentionPolicy(count=1))
    assert Chunk.objects.count() == chunks, "the head names the last one, and that the others"
    tree.check()


def test_chunks_that_no_checkpoint_names_go():
    tree = Tree()
    messages(tree, 4)
    tree.step({"said": []}, snapshot=True)
    bytes_before = sum(len(chunk.content) for chunk in Chunk.objects.all())
    tally = prune(RetentionPolicy(count=1))
    assert not Chunk.objects.exists()
    assert tally.bytes["chunks"] == bytes_before
    tree.check()


def chain_of(*names):
    """Chunks that nothing refers to, each before the next."""
    made = None
    for name in names:
        made = Chunk.objects.create(
            digest=codec.digest(name), previous=made, content=zlib.compress(name.encode())
        )
    return made


def test_a_chain_with_two_ends_loses_the_one_that_nothing_names(monkeypatch):
    monkeypatch.setattr(garbage, "TIPS", 1)
    trunk = chain_of("a", "b")
    ends = [
        Chunk.objects.create(digest=codec.digest(name), previous=trunk, content=b"")
        for name in ("left", "right", "middle")
    ]
    Tree().step({"digest": ends[1].digest})
    prune(RetentionPolicy())
    assert set(Chunk.objects.values_list("pk", flat=True)) == {
        codec.digest(name) for name in ("a", "b", "right")
    }


def test_long_chains_go_in_one_round(monkeypatch):
    monkeypatch.setattr(garbage, "TIPS", 1)
    chain_of(*(f"one {n}" for n in range(30)))
    chain_of(*(f"two {n}" for n in range(30)))
    assert prune(RetentionPolicy()).rows["chunks"] == 60


def test_a_blob_goes_when_nothing_names_it():
    tree = Tree()
    kept, gone = store.put_blob(b"kept"), store.put_blob(b"gone")
    tree.step({}, metadata={"git": {"bundle": gone}})
    tree.step({}, metadata={"git": {"bundle": kept}})
    prune(RetentionPolicy())
    assert Blob.objects.count() == 2
    prune(RetentionPolicy(count=1))
    assert [blob.pk for blob in Blob.objects.all()] == [kept]


def test_a_blob_that_was_put_just_now_stays_although_nothing_names_it_yet():
    """Its writer is about to. Also where the blob was there already, and old."""
    key = store.put_blob(b"shared")
    Blob.objects.update(touched_at=timezone.now() - LONG_AGO)
    Chore.objects.update(busy_until=timezone.now() - LONG_AGO)
    store.put_blob(b"shared")
    housekeeping.whole(rules(RetentionPolicy()), every=DAY, now=timezone.now())
    assert Blob.objects.get().pk == key


def test_a_blob_that_is_put_between_marking_and_removal_stays():
    """The removal looks again, in its own transaction."""
    key = store.put_blob(b"shared")
    Blob.objects.update(touched_at=timezone.now() - LONG_AGO)
    since = timezone.now()
    keys, _ = garbage.next_unmarked(Blob, "", since=since)
    assert keys == [key]
    store.put_blob(b"shared")
    with transaction.atomic():
        assert garbage.remove(Blob, keys, since=since) == (0, 0)
    assert Blob.objects.exists()


def test_a_dry_run_says_what_goes_and_drops_nothing():
    tree = counted(30)
    messages(tree, 3)
    blob = store.put_blob(b"z" * 50)
    tree.step({"said": []}, snapshot=True, metadata={"git": {"bundle": blob}})
    tree.step({"n": 1})
    tell(tree, 5)
    Memo.objects.create(thread=tree.thread, scope="s", key="k", value=[1])
    for kind in (Blob, Chunk):
        kind.objects.update(touched_at=timezone.now() - LONG_AGO)
    policy, later = rules(RetentionPolicy(count=1, days=1)), timezone.now() + 2 * DAY
    before = [(model, model.objects.count()) for model in (Checkpoint, Event, Memo, Blob, Chunk)]
    said = housekeeping.report(policy, now=later)
    assert before == [
        (model, model.objects.count()) for model in (Checkpoint, Event, Memo, Blob, Chunk)
    ]
    assert not Mark.objects.exists()
    done = housekeeping.whole(policy, every=DAY, now=later)
    for name in ("checkpoints", "events", "memos", "blobs", "chunks"):
        assert (name, said.rows[name], said.bytes[name]) == (
            name,
            done.rows[name],
            done.bytes[name],
        )
        assert done.rows[name]


# the round


def test_a_round_goes_on_where_it_stopped_and_then_rests():
    """Bounded work per sweep: each turn does a piece, by whoever comes."""
    trees = [counted(20) for _ in range(3)]
    turns = 0
    while (
        not (chore := Chore.objects.filter(pk=housekeeping.NAME).first())
        or chore.due_at <= timezone.now()
    ):
        housekeeping.tend(rules(RetentionPolicy(count=2)), seconds=0, every=DAY, now=timezone.now())
        turns += 1
        assert turns < 100
    assert turns > 6
    assert [len(tree.check()) for tree in trees] == [3, 3, 3]
    assert chore.due_at > timezone.now() + DAY / 2
    assert not Mark.objects.exists()


def test_a_round_ends_where_threads_come_as_fast_as_it_goes():
    """What came after it began is of the next: else nothing was freed while work kept coming, and
    threads that came of age behind it were never looked at.
    """
    first = [counted(6) for _ in range(2)]
    policy = rules(RetentionPolicy(count=2))
    came: list[Tree] = []
    while not came or Chore.objects.get(pk=housekeeping.NAME).due_at <= timezone.now():
        housekeeping.tend(policy, seconds=0, every=DAY, now=timezone.now())
        came.append(counted(6))
        assert len(came) < 100
    assert [len(tree.check()) for tree in first] == [3, 3]
    assert {len(tree.check()) for tree in came} == {8}
    housekeeping.tend(policy, seconds=600, every=DAY, now=timezone.now() + 2 * DAY)
    assert {len(tree.check()) for tree in came} == {3}


def test_one_process_at_a_time():
    now = timezone.now()
    held = claim("x", now=now)
    assert held is not None
    assert claim("x", now=now) is None
    later = now + dt.timedelta(minutes=2)
    other = claim("x", now=later)
    assert other is not None and other.epoch == held.epoch + 1
    with pytest.raises(Exception, match="another process is at x now"):
        held.hold()


def test_a_round_whose_claim_is_lost_drops_nothing_more(monkeypatch):
    """A process that was frozen past it."""
    tree = counted(10)
    held = claim(housekeeping.NAME, now=timezone.now())
    assert held is not None
    Chore.objects.update(epoch=99)
    held.place = {}
    housekeeping._work(
        held, rules(RetentionPolicy(count=1)), until=float("inf"), every=DAY, now=timezone.now()
    )
    assert len(tree.check()) == 12
    assert User.objects.exists()


def test_a_whole_round_is_refused_while_another_is_at_it():
    claim(housekeeping.NAME, now=timezone.now())
    with pytest.raises(housekeeping.HousekeepingBusy):
        housekeeping.whole(rules(RetentionPolicy()), every=DAY, now=timezone.now())
