"""Read-only states: a step can read all of it, copy all of it, and change nothing of it."""

from __future__ import annotations

import copy
import dataclasses
import gc
import json
import operator
import pickle
import weakref
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from checkpoints.state import codec, reducers
from checkpoints.state.codec import FrozenDict, FrozenList, State
from tests.checkpoints.state.random_states import passes, states, values


def make() -> State:
    return codec.state(
        {"messages": [{"id": 1, "tags": ["a"]}, 2], "plan": {"files": {"a.py": [1]}}, "n": 1}
    )


CHANGES = {
    "set a key": lambda state: operator.setitem(state, "n", 2),
    "delete a key": lambda state: operator.delitem(state, "n"),
    "pop": lambda state: state.pop("n"),
    "popitem": lambda state: state.popitem(),
    "clear": lambda state: state.clear(),
    "update": lambda state: state.update(n=2),
    "setdefault": lambda state: state.setdefault("new", 1),
    "or": lambda state: operator.ior(state, {"n": 2}),
    "deep key": lambda state: operator.setitem(state["plan"]["files"], "b.py", []),
    "deep list": lambda state: state["plan"]["files"]["a.py"].append(2),
    "append": lambda state: state["messages"].append(3),
    "extend": lambda state: state["messages"].extend([3]),
    "insert": lambda state: state["messages"].insert(0, 3),
    "remove": lambda state: state["messages"].remove(2),
    "pop an item": lambda state: state["messages"].pop(),
    "clear a list": lambda state: state["messages"].clear(),
    "sort": lambda state: state["messages"].sort(key=str),
    "reverse": lambda state: state["messages"].reverse(),
    "set an item": lambda state: operator.setitem(state["messages"], 0, 3),
    "set a slice": lambda state: operator.setitem(state["messages"], slice(0, 2), []),
    "delete an item": lambda state: operator.delitem(state["messages"], 0),
    "add": lambda state: operator.iadd(state["messages"], [3]),
    "times": lambda state: operator.imul(state["messages"], 2),
    "an item's key": lambda state: operator.setitem(state["messages"][0], "id", 2),
    "an item's list": lambda state: state["messages"][0]["tags"].append("b"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_is_refused_with_words_that_help(change):
    state = make()
    with pytest.raises(TypeError, match="the state is read-only; return an update"):
        change(state)
    assert state == make()


@pytest.mark.parametrize(
    "copied",
    [
        dict,
        copy.copy,
        copy.deepcopy,
        lambda x: {**x},
        lambda x: x | {},
        lambda x: x.copy(),
        lambda x: pickle.loads(pickle.dumps(x)),
    ],
)
def test_a_copy_of_an_object_is_ordinary(copied):
    assert type(copied(make())) is dict
    assert copied(make()) == make()


@pytest.mark.parametrize(
    "copied",
    [
        list,
        copy.copy,
        copy.deepcopy,
        sorted,
        lambda x: [*x],
        lambda x: x[:],
        lambda x: operator.add(x, []),
        lambda x: x.copy(),
        lambda x: x * 1,
    ],
)
def test_a_copy_of_a_list_is_ordinary(copied):
    value = codec.state({"list": [1, 2]})["list"]
    assert type(copied(value)) is list
    assert copied(value) == [1, 2]


@settings(deadline=None)
@given(states.filter(passes))
def test_a_deep_copy_is_ordinary_all_the_way_down(value):
    def ordinary(part):
        inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        return not isinstance(part, FrozenDict | FrozenList) and all(map(ordinary, inner))

    thawed = copy.deepcopy(codec.state(value))
    assert ordinary(thawed)
    assert codec.encode(thawed) == codec.encode(value)


@settings(deadline=None)
@given(states.filter(passes))
def test_a_state_reads_and_dumps_as_what_it_was_made_of(value):
    state = codec.state(value)
    assert state == value
    assert codec.encode(state) == codec.encode(value)
    assert json.dumps(state, sort_keys=True) == json.dumps(value, sort_keys=True)
    assert json.dumps(state, sort_keys=True, indent=1) == json.dumps(
        value, sort_keys=True, indent=1
    )


@settings(deadline=None)
@given(states.filter(passes))
def test_its_keys_are_in_the_order_in_which_a_load_gives_them(value):
    """A step that walks over an object does the same on another worker."""
    assert json.dumps(codec.state(value)) == json.dumps(json.loads(codec.encode(value)))


def test_what_copies_by_type_gets_an_ordinary_copy():
    """Steps keep parts of a state in dataclasses, and ask for them back."""

    @dataclasses.dataclass
    class Holder:
        messages: list[Any]
        plan: dict[str, Any]

    state = make()
    copied = dataclasses.asdict(Holder(messages=state["messages"], plan=state["plan"]))
    assert copied == {"messages": state["messages"], "plan": state["plan"]}
    assert type(copied["messages"]) is list
    assert type(copied["plan"]["files"]) is dict


class Odd:
    """Compares as an array does: with anything, and to no truth."""

    def __eq__(self, other: object) -> Any:
        return self

    def __bool__(self) -> bool:
        raise ValueError("the truth value of an array is ambiguous")

    __hash__ = None  # type: ignore[assignment]  # what cannot be hashed is the point


@pytest.mark.parametrize(
    "place",
    [
        lambda odd: {"list": [odd]},
        lambda odd: {"list": [1, odd]},
        lambda odd: {"plan": {"n": odd}},
        lambda odd: {"n": odd},
    ],
)
def test_what_does_not_even_compare_is_refused_by_name(place):
    """F14: the worker that holds the state before it must not stumble."""
    state = codec.state({"list": [1], "plan": {"n": 1}, "n": 1})
    with pytest.raises(codec.NotJson, match=r"state\.\S+ is a Odd"):
        reducers.apply(state, place(Odd()), {})


def test_what_a_schema_says_of_it_stays_true():
    schema = {
        "type": "object",
        "properties": {"messages": {"type": "array"}, "plan": {"type": "object"}},
    }
    assert Draft202012Validator(schema).is_valid(make())


def test_a_state_does_not_change_with_what_it_was_made_of():
    made_of: dict[str, Any] = {"list": [1], "object": {"key": [1]}}
    state = codec.state(made_of)
    made_of["list"].append(2)
    made_of["object"]["key"].append(2)
    assert state == {"list": [1], "object": {"key": [1]}}


def test_what_stayed_is_the_same_object_and_what_grew_knows_it():
    """What the costs rest on."""
    before = codec.state({"list": [{"a": 1}], "object": {"kept": [1], "other": 1}, "text": "x"})
    after = codec.state(
        {
            "list": [*before["list"], {"b": 2}],
            "object": {**before["object"], "other": 2},
            "text": "x",
        },
        before,
    )
    assert after["list"][0] is before["list"][0]
    assert after["list"].origin() is before["list"]
    assert after["object"]["kept"] is before["object"]["kept"]


def test_a_list_is_not_kept_alive_by_the_one_that_grew_from_it():
    state = codec.state({"list": [1]})
    grown = reducers.apply(state, {"list": 2}, {"list": "append"})
    del state
    assert grown["list"].origin() is None


def test_a_frozen_part_that_moves_too_deep_is_refused():
    """It is not walked again, so its height must be known."""
    state = codec.state({"deep": []})
    with pytest.raises(codec.NotJson, match="nested deeper than 60 levels"):
        for _ in range(100):
            state = codec.state({"deep": [state["deep"]]}, state)
    codec.encode(state)


@settings(deadline=None)
@example({"": None}, 59)
@given(values, st.integers(0, 70))
def test_depth_is_judged_alike_in_one_go_and_step_by_step(value, levels):
    whole = value
    for _ in range(levels):
        whole = [whole]
    assert passes({"deep": whole}) == passes_step_by_step(value, levels)


def passes_step_by_step(value, levels):
    try:
        state = codec.state({"deep": value})
        for _ in range(levels):
            state = codec.state({"deep": [state["deep"]]}, state)
    except codec.NotJson:
        return False
    return True


def test_a_state_within_a_state_is_digested_as_what_it_is():
    """The digest of an object depends on where it stands, so what is known of it must not
    travel.
    """
    state = codec.state({"object": {"inner": {"n": 1}}})
    codec.state_digest(state)
    both = codec.state(
        {
            "copy": state,
            "object": state["object"],
            "moved": state["object"]["inner"],
            "list": [state, state["object"]],
        },
        state,
    )
    assert codec.state_digest(both) == codec.state_digest(
        codec.state(json.loads(codec.encode(both)))
    )


def test_values_that_only_look_like_json_become_json():
    class Name(str):
        pass

    state = codec.state({"text": Name("x"), "dict": copy.copy(make()), "n": True})
    assert type(state["text"]) is str
    assert state["n"] is True


def test_the_check_names_the_place_in_a_list_that_grows():
    """F14: the place in the list as it would be."""
    state = codec.state({"messages": [1, 2]})
    with pytest.raises(codec.NotJson, match=r"^state\.messages\[3\]\.socket is a object, which"):
        reducers.apply(state, {"messages": [3, {"socket": object()}]}, {"messages": "append"})
    with pytest.raises(
        codec.NotJson, match=r"^a key of state\.messages\[2\] holds a character in two halves"
    ):
        reducers.apply(state, {"messages": {"\ud83d\ude00": 1}}, {"messages": "append"})


def test_only_what_is_new_is_checked(monkeypatch):
    state = codec.state(
        {"messages": ["old"] * 1000, "object": {"old": ["old"] * 1000}, "old": "old"}
    )
    seen: list[Any] = []
    freeze = codec._freeze

    def watched(value, depth, names=None):
        seen.append(value)
        return freeze(value, depth, names)

    monkeypatch.setattr(codec, "_freeze", watched)
    reducers.apply(
        state,
        {"messages": ["new"], "object": {"new": 1}, "other": 2},
        {"messages": "append", "object": "merge"},
    )
    assert "old" not in seen
    assert len(seen) < 10


def test_a_list_is_freed_without_the_garbage_collector():
    """Values are made from the inside out, so none is part of a cycle."""
    state = codec.state({"list": [{"n": number} for number in range(1_000)]})
    known = weakref.ref(state["list"])
    gc.disable()
    try:
        del state
        assert known() is None
    finally:
        gc.enable()


def test_of_an_ordinary_dict_comes_an_ordinary_dict():
    after = reducers.apply({"n": 1}, {"list": [1]}, {})
    after["more"] = 2
    assert after == {"n": 1, "list": [1], "more": 2}
