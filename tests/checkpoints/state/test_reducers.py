"""How updates join the state."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints.state.reducers import REDUCERS, MergeFailed, apply

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
STATES = st.dictionaries(st.sampled_from("abcd"), JSON, max_size=4)
RULES = st.dictionaries(st.sampled_from("abcd"), st.sampled_from(sorted(REDUCERS)), max_size=4)


@pytest.mark.parametrize(
    ("rule", "old", "new", "merged"),
    [
        ("replace", [1], [2], [2]),
        ("append", None, 1, [1]),
        ("append", [1], [2, 3], [1, 2, 3]),
        ("merge", {"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}, {"a": {"b": 3, "c": 2}}),
        ("add", None, 2, 2),
        ("add", 2, 0.5, 2.5),
        (
            "upsert_by_id",
            [{"id": 1, "text": "a"}, {"id": 2}],
            {"id": 1, "text": "b"},
            [{"id": 1, "text": "b"}, {"id": 2}],
        ),
        ("upsert_by_id", None, [{"id": 1}, {"id": 2}], [{"id": 1}, {"id": 2}]),
    ],
)
def test_each_rule_merges_as_it_says(rule, old, new, merged):
    """S1-3, S1-13, S1-26, C10."""
    before = {} if old is None else {"key": old}
    assert apply(before, {"key": new}, {"key": rule})["key"] == merged


@pytest.mark.parametrize(
    ("rule", "old", "new"),
    [
        ("append", 1, 2),
        ("add", "a", 1),
        ("add", 1, True),
        ("merge", {}, 1),
        ("upsert_by_id", [], 1),
    ],
)
def test_a_value_that_does_not_fit_names_its_key(rule, old, new):
    with pytest.raises(MergeFailed, match=r"state\.key"):
        apply({"key": old}, {"key": new}, {"key": rule})


def test_an_ephemeral_key_is_gone_after_the_next_step():
    rules = {"draft": "ephemeral"}
    first = apply({}, {"draft": 1}, rules)
    assert first == {"draft": 1}
    assert apply(first, {"kept": 2}, rules) == {"kept": 2}


@given(STATES, STATES, RULES)
def test_nothing_that_was_there_is_changed_in_place_and_the_result_is_json(state, update, rules):
    before = copy.deepcopy((state, update))
    merged: dict[str, Any] = {}
    with suppress(MergeFailed):
        merged = apply(state, update, rules)
    assert (state, update) == before
    assert json.loads(json.dumps(merged)) == merged


@given(STATES, STATES, STATES)
def test_without_rules_the_last_writer_of_a_key_wins(state, first, second):
    assert apply(apply(state, first, {}), second, {}) == {**state, **first, **second}


def test_messages_keep_their_places_however_they_come():
    """The places that a list hands on to the next one are true for both."""
    rules = {"m": "upsert_by_id"}
    first = apply({}, {"m": [{"id": 1}, {"id": 2}]}, rules)
    second = apply(first, {"m": [{"id": 3}, {"id": 3, "text": "a"}]}, rules)
    other = apply(first, {"m": [{"id": 4}, {"id": 3}]}, rules)
    assert apply(second, {"m": {"id": 3, "text": "b"}}, rules)["m"] == [
        {"id": 1},
        {"id": 2},
        {"id": 3, "text": "b"},
    ]
    assert apply(other, {"m": {"id": 3, "text": "c"}}, rules)["m"] == [
        {"id": 1},
        {"id": 2},
        {"id": 4},
        {"id": 3, "text": "c"},
    ]
    assert apply(first, {"m": {"id": 3}}, rules)["m"] == [{"id": 1}, {"id": 2}, {"id": 3}]


@pytest.mark.parametrize("old", [[{}], [1], [{"id": []}]])
def test_messages_that_are_none_name_the_key(old):
    with pytest.raises(MergeFailed, match=r"state\.key"):
        apply({"key": old}, {"key": {"id": 1}}, {"key": "upsert_by_id"})


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 6), max_size=4), max_size=8))
def test_messages_by_id_are_as_a_plain_fold_has_them(batches):
    state: dict[str, Any] = {"m": []}
    plain: dict[int, Any] = {}
    for number, batch in enumerate(batches):
        items = [{"id": key, "n": number} for key in batch]
        state = apply(state, {"m": items}, {"m": "upsert_by_id"})
        plain |= {item["id"]: item for item in items}
    assert state["m"] == list(plain.values())
