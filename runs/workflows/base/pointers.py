"""JSON Pointers (RFC 6901): places in a JSON value."""

from __future__ import annotations

import re
from typing import Any

LONGEST = 200
_FORM = re.compile(r"(/([^~/]|~[01])*)+")


def is_pointer(text: str) -> bool:
    """Whether a text is a pointer to a part of a value; "", the whole value, is none here."""
    return len(text) <= LONGEST and _FORM.fullmatch(text) is not None


def at(value: Any, pointer: str) -> Any:
    """What a pointer leads to; None where it leads nowhere, and for ""."""
    if not pointer:
        return None
    for key in pointer.split("/")[1:]:
        key = key.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value
