"""Reading what a service sends: nothing raises, whatever stands where something was expected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkpoints.state import codec

LONGEST = 20_000
"""Characters of a text."""


def at(value: Any, *keys: str) -> Mapping[str, Any]:
    """The object at a place; an empty one where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def text(value: Any, *keys: str, most: int = LONGEST) -> str:
    """The text at a place, which the database can keep; "" where there is none."""
    found = at(value, *keys[:-1]).get(keys[-1])
    return codec.readable(found)[:most] if isinstance(found, str) else ""
