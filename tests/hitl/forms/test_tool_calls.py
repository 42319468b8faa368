"""The arguments of a tool call as a form's fields: whatever is typed is in what comes of it, or
there is no field to type it in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hitl.forms.tool_calls import CallsForm
from tests.hitl.forms.controls import query

NAMES = st.sampled_from(["a", "b", "0", "x/y", "~", ""])
VALUES = st.recursive(
    st.sampled_from([None, True, 0, 5, 1.5, "", "five"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, min_size=1, max_size=3)
    ),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(NAMES, VALUES, max_size=3)
TYPED = st.sampled_from(["", " ", "7", "null", "seven", '{"a": [1]}', "[]"])


def places(value: Any, pointer: str = "") -> Iterator[str]:
    """JSON pointers of all that is there."""
    yield pointer
    if isinstance(value, dict):
        for name, inner in value.items():
            escaped = name.replace("~", "~0").replace("/", "~1")
            yield from places(inner, f"{pointer}/{escaped}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from places(inner, f"{pointer}/{number}")


def at(value: Any, pointer: str) -> Any:
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        value = value.get(name, KeyError) if isinstance(value, dict) else value[int(name)]
    return value


def made(arguments: Any, editable: list[str], typed: list[str]) -> tuple[CallsForm, Any]:
    """The form once this was typed into its fields, and the arguments that come of it."""
    call = {"id": "c", "tool": "pay", "arguments": arguments, "editable": editable}
    fields = [(f"call.0.edit.{number}", text) for number, text in enumerate(typed)]
    form = CallsForm([call], query([("call.0.decision", "edit"), *fields]))
    return form, form.payload["calls"]["c"]["arguments"]


@given(ARGUMENTS, st.data())
def test_what_is_typed_of_an_argument_is_what_comes_of_it_and_nothing_else_is(arguments, data):
    """Before: an entry of a list that was emptied stayed as it was, and so was approved as it was;
    what was typed where nothing can stand was gone.
    """
    there = list(places(arguments))
    pointer = data.draw(st.sampled_from([*there, f"{there[-1]}/new", "/no/where", "/a/9"]))
    typed = data.draw(TYPED)
    form, edited = made(arguments, [pointer], [typed])
    [row] = form.rows
    if not row.parts:
        assert pointer not in there and edited == arguments
        assert [choice for choice, _ in row.choices] == ["approve", "reject"]
        return
    [part] = row.parts
    if not part.changed:
        assert edited == arguments
        return
    if part.plain:
        meant: Any = typed
    elif typed.strip():
        meant = "seven" if typed == "seven" else json.loads(typed)
    elif pointer == "":
        meant = {}
    else:
        in_object = isinstance(at(arguments, pointer.rpartition("/")[0]), dict)
        meant = KeyError if in_object else None
    assert at(edited, pointer) == meant
    inside = (pointer, f"{pointer}/")
    for place in there:
        if place != pointer and not place.startswith(inside) and not pointer.startswith(place):
            assert at(edited, place) == at(arguments, place)


@given(ARGUMENTS, st.data())
def test_fields_of_which_one_is_within_another_break_nothing(arguments, data):
    pointers = data.draw(st.lists(st.sampled_from([*places(arguments), "/a/b"]), max_size=3))
    made(arguments, pointers, [data.draw(TYPED) for _ in pointers])
