"""Which checkpoint came from which, which events belong to it, and its state as a tree: bounded,
and the same on both databases.
"""

from __future__ import annotations

import datetime as dt

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from checkpoints import ids, lineage, store
from checkpoints.events import log
from checkpoints.forensics import state_tree, steps
from checkpoints.models import Checkpoint, CheckpointStatus, EventKind, Thread

pytestmark = pytest.mark.django_db


@pytest.fixture
def thread():
    return Thread.objects.create(owner=User.objects.create_user("owner"))


def put(thread, parent=None, run=None, node="work", state=None):
    """A checkpoint and the event that announces it, as the engine writes them."""
    run = run or (parent.run_id if parent else ids.new())
    entry = store.Entry(status=CheckpointStatus.ACTIVE, node_id=node)
    made = store.save(
        thread.pk,
        run,
        state or {},
        entry,
        parent=parent,
        before=store.load(parent) if parent else None,
    )
    log.append(
        thread.pk,
        run,
        [(EventKind.CHECKPOINT_CREATED, {"checkpoint_id": made.shown_id, "node_id": node})],
    )
    return made


def line(thread, count, parent=None):
    made: list[Checkpoint] = []
    for _ in range(count):
        made.append(put(thread, made[-1] if made else parent))
    return made


def shape(thread, **window):
    thread.refresh_from_db()
    tree = lineage.branches(thread, **window)
    return [
        (branch.number, branch.level, len(branch.nodes), branch.start, branch.is_current)
        for branch in tree.branches
    ]


def test_a_thread_that_has_not_run_has_no_latest_and_no_history(thread):
    """S1-17."""
    assert lineage.latest(thread.pk) is None
    assert lineage.latest(ids.new()) is None
    assert lineage.history(thread.pk) == []
    assert shape(thread) == []


def test_the_latest_is_the_head_also_where_a_fork_was_made(thread):
    """S1-15, S1-30: by key, however many there are."""
    first, *_ = line(thread, 5)
    fork = put(thread, first, run=ids.new())
    with CaptureQueriesContext(connection) as captured:
        assert lineage.latest(thread.pk) == fork
    assert len(captured) == 1


def test_the_history_comes_in_pages_by_key_without_bodies(thread):
    """S1-29."""
    made = line(thread, 7)
    newest = lineage.history(thread.pk, limit=3)
    assert newest == made[:-4:-1]
    assert "body" in newest[0].get_deferred_fields()
    assert lineage.history(thread.pk, before=newest[-1].pk, limit=3) == made[3:0:-1]
    assert lineage.history(thread.pk, before=made[0].pk) == []


def test_a_chain_is_one_branch_whatever_others_there_are(thread):
    made = line(thread, 4)
    fork = line(thread, 2, parent=made[1])
    assert lineage.chain(fork[-1].pk) == [fork[1], fork[0], made[1], made[0]]
    assert lineage.chain(made[-1].pk) == made[::-1]
    assert lineage.chain(made[-1].pk, limit=2) == [made[3], made[2]]
    assert lineage.chain(ids.new()) == []


def test_branches_tell_where_each_left_and_which_is_current(thread):
    """S0-80: the old branch stays, and both are shown."""
    made = line(thread, 5)
    left = line(thread, 2, parent=made[1])
    deeper = line(thread, 3, parent=left[0])
    assert shape(thread) == [
        (1, 0, 5, None, False),
        (2, 1, 2, made[1].pk, False),
        (3, 2, 3, left[0].pk, True),
    ]
    assert thread.head_id == deeper[-1].pk
    numbers = lineage.branches(thread).numbers()
    assert (numbers[made[0].pk], numbers[left[0].pk], numbers[deeper[0].pk]) == (1, 2, 3)


def test_two_branches_that_grow_in_turns_are_two_branches(thread):
    root = put(thread)
    left, right = put(thread, root), put(thread, root)
    for _ in range(3):
        left, right = put(thread, left), put(thread, right)
    assert [(count, level) for _, level, count, _, _ in shape(thread)] == [(5, 0), (4, 1)]


def test_branches_are_made_out_in_one_query_within_a_window(thread):
    made = line(thread, 10)
    fork = line(thread, 3, parent=made[0])
    with CaptureQueriesContext(connection) as captured:
        tree = lineage.branches(Thread.objects.get(pk=thread.pk), window=6)
    assert len(captured) == 2  # the thread's own row, and the window
    assert [(len(branch.nodes), branch.start) for branch in tree.branches] == [
        (3, made[6].pk),
        (3, made[0].pk),
    ]
    assert tree.older == made[7].pk
    older = lineage.branches(thread, before=tree.older, window=50)
    assert [len(branch.nodes) for branch in older.branches] == [7]
    assert older.older is None
    assert fork[-1].pk not in older.numbers()


def test_an_outline_names_ends_and_forks_and_passes_over_the_rest(thread):
    made = line(thread, 30)
    put(thread, made[15])
    [root, _] = lineage.branches(Thread.objects.get(pk=thread.pk)).branches
    items = steps.outline(root)
    assert [item.passed for item in items if item.node is None] == [12, 11]
    assert [item.node.id for item in items if item.forks] == [made[15].pk]


# The events of a step


def test_the_events_of_a_step_are_found_in_three_queries_however_long_the_log(thread):
    made = line(thread, 3)
    log.append(
        thread.pk,
        made[0].run_id,
        [(EventKind.LOG, {"message": str(number)}) for number in range(1_000)],
    )
    made += line(thread, 3, parent=made[-1])
    counts = set()
    for one in made:
        with CaptureQueriesContext(connection) as captured:
            assert one.shown_id in {
                event.data.get("checkpoint_id") for event in steps.events_of(one)
            }
        counts.add(len(captured))
    assert counts == {3}
    assert len(steps.events_of(made[3])) <= steps.STEP_EVENTS + 20


def test_a_checkpoint_whose_events_were_pruned_or_never_written_has_none(thread):
    made = line(thread, 3)
    thread.events.filter(seq=2).delete()
    assert steps.events_of(made[1]) == []
    assert [event.seq for event in steps.events_of(made[2])] == [3]
    silent = store.save(
        thread.pk,
        ids.new(),
        {},
        store.Entry(status=CheckpointStatus.ACTIVE),
        parent=made[2],
        before=None,
    )
    assert steps.events_of(silent) == []


# The tree


def html(state, **asked):
    return state_tree.show(state, **asked).html


def test_a_state_is_a_tree_of_native_details_with_all_text_escaped():
    """F15; no JavaScript."""
    drawn = html({"plan": {"rules": ["<b>", True, 1.5, None]}, "<i>": {}, "odd": "a\ud800\x00"})
    assert "<details><summary><b>plan</b> <small>1 key</small></summary>" in drawn
    assert "&lt;b&gt;" in drawn and "&lt;i&gt;" in drawn
    assert "<b></b>" not in drawn and "<i>" not in drawn
    drawn.encode()  # what UTF-8 cannot hold has become an escape


def test_a_search_shows_only_what_holds_the_words_and_marks_them():
    state = {
        "plan": {"rules": ["F401", "I001"], "scope": "src"},
        "other": {"F401": {"deep": 1}},
        "none": "x",
    }
    found = state_tree.show(state, find="f401")
    assert found.hits == 2
    assert "<mark>F401</mark>" in found.html
    assert "I001" not in found.html and "none" not in found.html
    assert "deep" in found.html  # below a key that was found, all of it
    assert "<details open>" in found.html
    assert state_tree.show(state, find="nowhere").hits == 0


def test_a_long_list_is_shown_in_parts_that_are_a_click_away():
    state = {"messages": [{"n": number} for number in range(10_000)]}
    whole = html(state)
    assert len(whole) < 200_000
    assert 'href="?at=%2Fmessages&amp;start=100#state">9900 more' in whole
    part = html(state, at="/messages", start=100)
    assert "<b>100</b>" in part and "<b>99</b>" not in part
    assert "<b>n</b>" in html(state, at="/messages/9999")


def test_a_wide_and_deep_state_never_makes_more_than_a_page():
    state = {str(a): {str(b): {str(c): c for c in range(90)} for b in range(90)} for a in range(90)}
    assert html(state).count("<li>") <= 2 * state_tree.NODES


@pytest.mark.parametrize(
    "at", ["/nowhere", "/plan/9", "/plan/x", "nonsense", "/plan/-1", "/plan/\u0661", "/x/~2"]
)
def test_a_path_that_leads_nowhere_is_told(at):
    assert state_tree.show({"plan": [1]}, at=at).missing is (at != "nonsense")


def test_a_long_text_keeps_its_beginning_and_its_end():
    """S0-66."""
    drawn = html({"text": "a" * 5_000 + "b" * 5_000 + "c" * 5_000})
    assert "a\n...[truncated]...\nc" in drawn
    assert "b" * 100 not in drawn


def test_keys_have_a_lowest_one_for_every_moment():
    now, second = timezone.now(), dt.timedelta(seconds=5)
    assert ids.floor(now - second) < ids.new() < ids.floor(now + second)
