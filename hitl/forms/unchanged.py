"""What a form of something that is saved already says of it: only what a person changed there.

A form may show less than a value says (white space, an empty list, a key of its own). Hence a value
is compared with what its form gives back untouched, and stays as it is wherever the two agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.datastructures import MultiValueDict

from hitl.forms.json_schema import ABSENT, OTHER, SchemaForm
from hitl.forms.kinds import flatten, same
from hitl.forms.texts import as_sent


def sent(form: SchemaForm) -> MultiValueDict[str, str]:
    """What a browser sends of a form that nobody touched."""
    data: MultiValueDict[str, str] = MultiValueDict()
    for field in form.root.each():
        if field.kind == "rows":
            data[f"{field.name}.count"] = str(len(field.parts))
        elif field.kind in {"one", "several"}:
            chosen = [option.value for option in field.options if option.chosen]
            data.setlist(field.name, [*chosen, *[OTHER] * field.other_chosen])
            data[f"{field.name}.other"] = as_sent("text", field.value)
        elif field.kind == "check" and field.value:
            data[field.name] = "true"
        elif field.kind not in {"check", "group", "fixed"}:
            data[field.name] = as_sent(field.kind, field.value)
            if field.unit:
                data[f"{field.name}.unit"] = field.unit
    return data


def changed(schema: Mapping[str, Any], base: Any, given: Any) -> Any:
    """`base` with what a person changed in its form, whose payload is `given`.

    Args:
        schema: of an object.
    """
    first = SchemaForm(schema, initial=base)
    return _changed(schema, base, SchemaForm(schema, sent(first)).payload, given)


def _changed(schema: Any, base: Any, shown: Any, given: Any) -> Any:
    """The same of a part; ABSENT where it says nothing.

    Args:
        shown: what the form of `base` gives back untouched.
    """
    if _equal(given, shown):
        return base
    if isinstance(given, Mapping):
        known = base if isinstance(base, Mapping) else {}
        before = shown if isinstance(shown, Mapping) else {}
        parts = flatten(schema).get("properties", {})
        made = {
            name: _changed(
                parts.get(name),
                known.get(name, ABSENT),
                before.get(name, ABSENT),
                given.get(name, ABSENT),
            )
            for name in {**known, **given}
            if not _emptied(parts.get(name), before.get(name), given.get(name))
        }
        return {name: value for name, value in made.items() if value is not ABSENT}
    if isinstance(given, list) and isinstance(base, list) and isinstance(shown, list):
        return _rows(flatten(schema).get("items"), base, shown, given)
    return given


def _emptied(schema: Any, shown: Any, given: Any) -> bool:
    """Whether a person emptied what an object needs and left the rest as it was: then it is gone,
    such as a deadline without its duration.
    """
    if not isinstance(shown, Mapping) or not isinstance(given, Mapping):
        return False
    gone = {name for name in flatten(schema).get("required", []) if name not in given}
    return bool(gone & shown.keys()) and all(
        _equal(given.get(name, ABSENT), value) for name, value in shown.items() if name not in gone
    )


def _rows(items: Any, base: list[Any], shown: list[Any], given: list[Any]) -> list[Any]:
    """A list whose entries stay as they were wherever they were not changed."""
    if len(base) != len(shown):
        return given
    if len(given) == len(shown):
        return [_changed(items, *entries) for entries in zip(base, shown, given, strict=True)]
    left = list(zip(base, shown, strict=True))
    made = []
    for value in given:
        at = next((n for n, (_, before) in enumerate(left) if _equal(before, value)), None)
        made.append(value if at is None else left.pop(at)[0])
    return made


def _equal(value: Any, other: Any) -> bool:
    if value is ABSENT or other is ABSENT:
        return value is other
    return same(value, other)
