"""JSON Pointers (RFC 6901): places in a JSON value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import reduce
from typing import Any, Final

LONGEST = 200


class _Nothing:
    """Where a value holds nothing, not even None."""


NOTHING: Final = _Nothing()
_FORM = re.compile(r"(/([^~/]|~[01])*)+")


def is_pointer(text: str) -> bool:
    """Whether a text is a pointer to a part of a value; "", the whole value, is none here."""
    return len(text) <= LONGEST and _FORM.fullmatch(text) is not None


def names(pointer: str) -> list[str]:
    """The names of a pointer, from the outermost on."""
    return [name.replace("~1", "/").replace("~0", "~") for name in pointer.split("/")[1:]]


def inner(value: Any, name: str) -> Any:
    """What an object or a list has of a name; NOTHING where there is none."""
    if isinstance(value, Mapping):
        return value.get(name, NOTHING)
    is_place = name.isascii() and name.isdecimal() and len(name) < 9
    if isinstance(value, list | tuple) and is_place and int(name) < len(value):
        return value[int(name)]
    return NOTHING


def find(value: Any, pointer: str) -> Any:
    """What a pointer leads to, the whole value for ""; NOTHING where it leads nowhere."""
    return reduce(inner, names(pointer), value)


def at(value: Any, pointer: str) -> Any:
    """What a pointer leads to; None where it leads nowhere, and for ""."""
    found = find(value, pointer) if pointer else None
    return None if found is NOTHING else found
