"""The structural diff: what changed, by path, aligned as a person would, and never longer than a
page can show.
"""

from __future__ import annotations

import json
import time

import pytest
from django.contrib.auth.models import User
from hypothesis import given
from hypothesis import strategies as st

from checkpoints import ids, store
from checkpoints.forensics import diff as differences
from checkpoints.forensics.diff import DifferentThreads, compare, diff
from checkpoints.models import Checkpoint, CheckpointStatus, Thread
from checkpoints.state import codec


def told(old, new):
    return [(str(change.kind), change.path) for change in compare(old, new).changes]


def test_what_was_added_removed_and_changed_is_told_by_path():
    """Issue 4, capability 2."""
    old = {
        "plan": {"rules": ["I", "F"], "scope": "src"},
        "gone": 1,
        "same": {"deep": [1, {"x": None}]},
    }
    new = {
        "plan": {"rules": ["I", "UP", "F"], "scope": "tests"},
        "came": [1],
        "same": {"deep": [1, {"x": None}]},
    }
    found = compare(old, new)
    assert told(old, new) == [
        ("added", "/came"),
        ("removed", "/gone"),
        ("added", "/plan/rules/1"),
        ("changed", "/plan/scope"),
    ]
    assert (found.added, found.removed, found.changed, found.more) == (2, 1, 1, 0)
    scope = found.changes[-1]
    assert (scope.old.text, scope.new.text) == ('"src"', '"tests"')


def test_equal_states_differ_in_nothing():
    state = {"a": [1, {"b": "c"}], "d": None}
    assert compare(state, json.loads(json.dumps(state))).total == 0


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, True), (1, 1.0), (0, False), ("1", 1), (None, ""), ([], {}), (None, False)],
)
def test_values_that_json_tells_apart_are_told_apart(one, other):
    assert told({"x": one}, {"x": other}) == [("changed", "/x")]
    assert told({"x": [one]}, {"x": [other]}) == [("changed", "/x/0")]


def test_keys_with_slashes_and_tildes_are_written_as_pointers():
    assert told({}, {"a/b~c": 1, "": 2}) == [("added", "/"), ("added", "/a~1b~0c")]


def test_an_item_put_in_front_of_a_list_changes_one_path():
    assert told({"m": ["a", "b", "c"]}, {"m": ["x", "a", "b", "c"]}) == [("added", "/m/0")]
    assert told({"m": ["a", "b", "c"]}, {"m": ["b", "c"]}) == [("removed", "/m/0")]
    assert told({"m": ["a", "b", "c"]}, {"m": ["a", "B", "c"]}) == [("changed", "/m/1")]


def test_items_with_ids_are_matched_by_them_and_tell_where_they_were():
    old = {"m": [{"id": "1", "text": "a"}, {"id": "2", "text": "b"}]}
    new = {"m": [{"id": "0", "text": "z"}, {"id": "1", "text": "A"}, {"id": "2", "text": "b"}]}
    added, changed = compare(old, new).changes
    assert (added.kind, added.path) == ("added", "/m/0")
    assert (changed.kind, changed.path, changed.was_at) == ("changed", "/m/1/text", "/m/0/text")
    [swapped] = compare(new, {"m": [new["m"][1], new["m"][0], new["m"][2]]}).changes
    assert (swapped.path, swapped.note) == ("/m", "The same items in another order.")


def test_ids_that_two_items_share_match_nothing():
    twice = {"m": [{"id": 1, "x": 1}, {"id": 1, "x": 2}]}
    assert told(twice, {"m": [{"id": 1, "x": 1}, {"id": 1, "x": 3}]}) == [("changed", "/m/1/x")]


def test_a_text_of_several_lines_is_told_as_a_unified_diff():
    [change] = compare({"draft": "one\ntwo\nthree\n"}, {"draft": "one\n2\nthree\n"}).changes
    assert list(change.lines) == ["@@ -1,3 +1,3 @@", " one", "-two", "+2", " three"]
    [change] = compare({"draft": "one\n"}, {"draft": "one\r\n"}).changes
    assert list(change.lines) == ["@@ -1 +1 @@", "-one", "+one\r"]


def test_a_large_value_is_told_by_its_digest():
    [change] = compare({"blob": "a"}, {"blob": "b" * 5_000}).changes
    assert change.old.whole
    assert (change.new.whole, change.new.size, len(change.new.text)) == (
        False,
        5_002,
        differences.BEGINNING,
    )
    assert change.new.digest == codec.digest(json.dumps("b" * 5_000))


def test_many_changes_are_counted_but_not_all_listed():
    found = compare({}, {str(number): number for number in range(1_000)})
    assert (found.added, len(found.changes), found.more) == (
        1_000,
        differences.MOST,
        1_000 - differences.MOST,
    )


def written(found):
    return sum(
        len(change.path)
        + sum(map(len, change.lines))
        + sum(len(value.text) for value in (change.old, change.new) if value)
        for change in found.changes
    )


def test_what_is_written_down_is_bounded_whatever_the_states_weigh():
    text = "\n".join(f"{number} {'x' * 300}" for number in range(1_900))
    old = {f"t{number}": text for number in range(40)}
    new = {f"t{number}": text[::-1] for number in range(40)}
    began = time.process_time()
    found = compare(old, new)
    assert found.changed == 40
    assert written(found) < differences.ROOM + 40 * 1_200
    assert time.process_time() - began < 20


@pytest.mark.parametrize("length", [150, 1_900, 30_000])
def test_lists_that_are_hard_to_match_take_no_time(length):
    """Matching goes by more than linear time, so it is kept to what is short."""
    began = time.process_time()
    compare(
        {"m": [number % 3 for number in range(length)]},
        {"m": [(number * 7 + 1) % 4 for number in range(length)]},
    )
    assert time.process_time() - began < 10


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab/~\n", max_size=4),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=4)
    ),
    max_leaves=12,
)
STATES = st.dictionaries(st.text("abc", max_size=2), JSON, max_size=4)


@given(STATES, STATES)
def test_nothing_is_told_exactly_where_two_states_are_equal(old, new):
    equal = json.dumps(old, sort_keys=True) == json.dumps(new, sort_keys=True)
    assert (compare(old, new).total == 0) is equal
    assert compare(old, old).total == 0


def at(state, pointer):
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        state = state[int(key)] if isinstance(state, list) else state[key]
    return state


@given(STATES, STATES)
def test_every_path_leads_to_the_value_that_is_told(old, new):
    for change in compare(old, new).changes:
        if change.new is not None and not change.lines:
            assert json.loads(change.new.text) == at(new, change.path)
        if change.old is not None and not change.lines:
            assert json.loads(change.old.text) == at(old, change.was_at or change.path)


# Of checkpoints


def put(thread, state, parent=None, **entry):
    said = store.Entry(status=CheckpointStatus.ACTIVE, **entry)
    return store.save(
        thread.pk,
        ids.new(),
        state,
        said,
        parent=parent,
        before=store.load(parent) if parent else None,
    )


@pytest.fixture
def thread(db):
    return Thread.objects.create(owner=User.objects.create_user("owner"))


@pytest.mark.django_db
def test_two_branches_are_compared_with_what_the_checkpoints_say_beside_the_state(thread):
    root = put(thread, {"x": 1})
    left = put(thread, {"x": 2}, root, node_id="plan", metadata={"git": {"commit": "a" * 40}})
    right = put(
        thread, {"x": 3, "y": 1}, root, node_id="work", metadata={"git": {"commit": "b" * 40}}
    )
    found = diff(left, right)
    assert [(change.kind, change.path) for change in found.state.changes] == [
        ("changed", "/x"),
        ("added", "/y"),
    ]
    assert ("node_id", "plan", "work") in found.fields
    assert ("commit", "a" * 40, "b" * 40) in found.fields
    assert diff(left, left).fields == []


@pytest.mark.django_db
def test_checkpoints_of_two_threads_are_not_compared(thread):
    other = Thread.objects.create(owner=thread.owner)
    with pytest.raises(DifferentThreads):
        diff(put(thread, {}), put(other, {}))


@pytest.mark.django_db
def test_a_damaged_checkpoint_is_not_compared(thread):
    one, two = put(thread, {"x": 1}), put(thread, {"x": 2})
    Checkpoint.objects.filter(pk=one.pk).update(digest="0" * 64)
    with pytest.raises(store.CheckpointDamaged):
        diff(Checkpoint.objects.get(pk=one.pk), two)
