"""State as text: what goes in comes back, and what would not is refused by name."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints import codec

texts = st.text(st.characters(codec=None, exclude_categories=()), max_size=8)
"""Any code point: NUL and lone surrogates too."""
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=12)
states = st.dictionaries(st.sampled_from(["a", "b", "c", "\x00", "\ud800"]), values)


def passes(value) -> bool:
    try:
        codec.check(value)
    except codec.NotJson:
        return False
    return True


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


@pytest.mark.parametrize(("before", "after"), [(0, False), (1, 1.0), ([0], [False]), ({"cost": 0}, {"cost": 0.0}), (0.0, -0.0)])
def test_a_delta_tells_apart_what_python_calls_equal(before, after):
    delta = codec.difference({"key": before}, {"key": after})
    assert codec.encode(codec.apply({"key": before}, delta)) == codec.encode({"key": after})


def test_a_delta_leaves_out_what_stayed_the_same():
    """F26."""
    delta = codec.difference({"long": "x" * 10_000, "gone": 1, "n": 1}, {"long": "x" * 10_000, "n": 2})
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
