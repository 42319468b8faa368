"""State as text: what goes in comes back, and what would not is refused by name."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections import OrderedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints.models.threads import JsonTextField, UnreadableJson
from checkpoints.state import codec
from checkpoints.state.reducers import REDUCERS, MergeFailed
from checkpoints.state.reducers import apply as merge
from tests.checkpoints.state.random_states import (
    passes,
    states,
    texts,
    values,
)


@given(values.filter(passes))
def test_a_value_that_passes_the_check_comes_back_as_it_went_in(value):
    """F14."""
    back = json.loads(codec.encode(value))
    assert back == value
    assert codec.encode(back) == codec.encode(value)


@given(states.filter(passes), states.filter(passes))
def test_a_delta_turns_one_state_into_the_other(before, after):
    """To the letter: `1`, `1.0` and `true` are equal in Python and different in a state."""
    delta = json.loads(codec.encode(codec.difference(before, after)))
    assert codec.encode(codec.apply(before, delta)) == codec.encode(after)


STORED = [
    *(
        "{}",
        "[]",
        '"a"',
        "1",
        "1.0",
        "null",
        "true",
        '{"a":1,"a":2}',
        '"\\ud800"',
        "NaN",
        "-Infinity",
    ),
    *(" {} ", "\n[1]", "{}x", "{} {}", "", "{", "nul", "\ufeff{}", "[" * 100_000),
]


@pytest.mark.parametrize("stored", STORED, ids=range(len(STORED)))
def test_stored_json_is_read_as_the_library_reads_it(stored):
    """F14: with less around it. What is none is told to be unreadable, whatever it begins with."""
    try:
        wanted = json.loads(stored)
    except (ValueError, RecursionError):
        wanted = UnreadableJson(stored)
    read = JsonTextField().read(stored)
    assert (type(read), repr(read)) == (type(wanted), repr(wanted))


lists = st.lists(values, max_size=5)
long = st.fixed_dictionaries(
    {},
    optional={
        "a": lists,
        "b": st.dictionaries(texts, values | lists, max_size=4),
        "c": values,
        "\ud800": lists,
    },
)
rules = st.dictionaries(
    st.sampled_from(["a", "b", "c", "\x00", "\ud800"]), st.sampled_from(sorted(REDUCERS))
)


def follow(state, update, how):
    """A line of states as steps make them; what does not fit is left out."""
    try:
        return merge(state, update, how)
    except (MergeFailed, codec.NotJson):
        return state


@settings(max_examples=50, deadline=None)
@given(long.filter(passes), st.lists(long.filter(passes), max_size=6), rules)
def test_deltas_of_what_steps_return_turn_each_state_into_the_next(first, updates, how):
    """Lists that grow, objects that merge, keys that come and go."""
    state = codec.state(first)
    for update in updates:
        after = follow(state, update, how)
        delta = json.loads(codec.encode(codec.difference(state, after)))
        assert codec.encode(codec.apply(json.loads(codec.encode(state)), delta)) == codec.encode(
            after
        )
        state = after


@settings(max_examples=50, deadline=None)
@given(
    long.filter(passes), st.lists(st.tuples(long.filter(passes), st.booleans()), max_size=6), rules
)
def test_a_digest_by_what_changed_is_the_digest_from_scratch(first, updates, how):
    """Whether or not it was asked for in between."""
    state = codec.state(first)
    for update, asked in updates:
        if asked:
            codec.state_digest(state)
        state = follow(state, update, how)
        state = codec.state(
            {
                **state,
                **{key: [*value, 0] for key, value in state.items() if isinstance(value, list)},
            },
            state,
        )
    scratch = codec.state(json.loads(codec.encode(state)))
    assert codec.state_digest(state) == codec.state_digest(scratch)


@settings(deadline=None)
@given(states.filter(passes), states.filter(passes))
def test_states_have_the_same_digest_only_if_they_are_the_same_to_the_letter(one, other):
    same = codec.encode(one) == codec.encode(other)
    assert (codec.state_digest(codec.state(one)) == codec.state_digest(codec.state(other))) is same


@pytest.mark.parametrize(
    "place",
    [
        lambda x: x,
        lambda x: [x],
        lambda x: {"k": x},
        lambda x: {"k": [x]},
        lambda x: {"k": {"k": x}},
    ],
)
def test_a_digest_tells_apart_what_python_calls_equal(place):
    alike = [
        1,
        1.0,
        True,
        "1",
        [1],
        [[1]],
        {"k": 1},
        None,
        0,
        0.0,
        -0.0,
        False,
        "",
        [],
        {},
        [{}],
        "[]",
    ]
    digests = {codec.state_digest(codec.state({"key": place(value)})) for value in alike}
    assert len(digests) == len(alike)


def test_the_digest_is_what_the_module_says():
    """Version 2 to the letter, since stored digests must stay true."""
    state = codec.state(
        {"list": [1, "é"], "object": {"list": [True], "deep": {"n": None}}, "n": 1.0}
    )
    inner = {"deep": codec.digest('{"n":null}'), "list": codec.digest("[true]")}
    outer = {
        "list": codec.digest('[1,"\\u00e9"]'),
        "object": codec.digest(codec.encode(inner)),
        "n": codec.digest("1.0"),
    }
    assert codec.state_digest(state) == codec.digest(codec.encode(outer))


def test_a_list_that_grew_is_told_by_its_new_items():
    """F26; the same for one that the step rebuilt, and for one right inside an object."""
    before = codec.state({"list": ["x"] * 100, "object": {"list": ["x"] * 100, "n": 1}})
    grown = merge(
        before,
        {"list": ["new"], "object": {"list": ["x"] * 100 + ["new"]}},
        {"list": "append", "object": "merge"},
    )
    assert codec.difference(before, grown) == {
        "set": {},
        "unset": [],
        "extend": {"list": ["new"]},
        "in": {"object": {"set": {}, "unset": [], "extend": {"list": ["new"]}}},
    }
    rebuilt = json.loads(codec.encode(grown))
    assert codec.difference(before, rebuilt) == codec.difference(before, grown)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([1], [1.0, 2]),
        ([[0]], [[False], 1]),
        ([1, 2], [1]),
        ([1, 2], [2, 1, 3]),
        ([], [1]),
        ([1], [1]),
        ([1], []),
    ],
)
def test_a_list_that_did_not_just_grow_is_told_exactly(before, after):
    delta = codec.difference({"key": before}, {"key": after})
    assert "extend" not in delta
    assert codec.encode(codec.apply({"key": before}, delta)) == codec.encode({"key": after})


def test_an_object_that_changed_in_part_is_told_by_that_part():
    before = {"files": {f"{number}.py": "x" * 100 for number in range(50)}}
    after = {"files": {**before["files"], "3.py": "y"} | {"new.py": 1}}
    assert codec.difference(before, after) == {
        "set": {},
        "unset": [],
        "in": {"files": {"set": {"3.py": "y", "new.py": 1}, "unset": []}},
    }
    assert codec.difference(before, {"files": {"other.py": 1}})["set"] == {"files": {"other.py": 1}}


@pytest.mark.parametrize(
    ("before", "after"),
    [(0, False), (1, 1.0), ([0], [False]), ({"cost": 0}, {"cost": 0.0}), (0.0, -0.0)],
)
def test_a_delta_tells_apart_what_python_calls_equal(before, after):
    delta = codec.difference({"key": before}, {"key": after})
    assert codec.encode(codec.apply({"key": before}, delta)) == codec.encode({"key": after})


def test_a_delta_leaves_out_what_stayed_the_same():
    """F26."""
    delta = codec.difference(
        {"long": "x" * 10_000, "gone": 1, "n": 1}, {"long": "x" * 10_000, "n": 2}
    )
    assert delta == {"set": {"n": 2}, "unset": ["gone"]}


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"handle": {"socket": object()}}, "state.handle.socket is a object"),
        ({"at": [dt.date(2026, 1, 1)]}, r"state.at\[0\] is a date"),
        ({"pair": (1, 2)}, "state.pair is a tuple"),
        ({"names": {"a"}}, "state.names is a set"),
        ({"raw": b"x"}, "state.raw is a bytes"),
        ({"ratio": math.nan}, "state.ratio is nan"),
        ({"ratio": -math.inf}, "state.ratio is -inf"),
        ({"by_id": {1: "x"}}, "state.by_id has the key 1"),
        ({"by_flag": {True: "x"}}, "state.by_flag has the key True"),
        ({"huge": 10**5000}, "state.huge is a number of more than"),
        ({"split": "\ud83d\ude00"}, "state.split holds a character in two halves"),
        ({"\ud83d\ude00": 1}, "holds a character in two halves"),
    ],
)
def test_what_json_would_change_is_refused_with_its_key(state, words):
    """F14."""
    with pytest.raises(codec.NotJson, match=words):
        codec.check(state)


def test_deep_nesting_is_refused_and_not_a_crash():
    value: list[object] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(codec.NotJson, match="nested deeper than"):
        codec.check({"deep": value})


def test_the_form_is_canonical():
    """The same state has the same digest, however it was built."""
    one = {"b": 1, "a": [{"y": None, "x": "é"}]}
    other = OrderedDict([("a", [OrderedDict([("x", "é"), ("y", None)])]), ("b", 1)])
    assert codec.encode(one) == codec.encode(other) == '{"a":[{"x":"\\u00e9","y":null}],"b":1}'
    assert codec.digest(codec.encode(one)) == codec.digest(codec.encode(other))


def test_any_text_becomes_ascii():
    assert codec.encode("\x00 \ud800 é").isascii()
