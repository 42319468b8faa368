"""State as text: the JSON check at write, the canonical form, digests, and deltas against the parent. No ORM here."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

MAX_DEPTH = 60


class NotJson(Exception):
    """A value would not come back from JSON as it went in. The message names the key (F14)."""

    code = "state_not_json"


def check(value: Any, path: str = "state", depth: int = 0) -> None:
    """Raise NotJson unless `value` survives a JSON round trip unchanged."""
    if depth > MAX_DEPTH:
        raise NotJson(f"{path} is nested deeper than {MAX_DEPTH} levels")
    match value:
        case None | bool() | int() | str():
            return
        case float():
            if not math.isfinite(value):
                raise NotJson(f"{path} is {value}, which JSON cannot hold")
        case dict():
            for key, item in value.items():
                if type(key) is not str:
                    raise NotJson(f"{path} has the key {key!r}, which is no text")
                check(item, f"{path}.{key}", depth + 1)
        case list():
            for index, item in enumerate(value):
                check(item, f"{path}[{index}]", depth + 1)
        case _:
            raise NotJson(f"{path} is a {type(value).__name__}, which JSON cannot hold")


def encode(value: Any) -> str:
    """Canonical JSON text: sorted keys, no spaces, ASCII only (a NUL or a lone surrogate is stored escaped, so every database takes it)."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)


def digest(text: str | bytes) -> str:
    """sha256 in hex."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """What turns `before` into `after`: `{"set": {key: value}, "unset": [key]}`, by top-level key."""
    return {
        "set": {key: value for key, value in after.items() if key not in before or before[key] != value or type(before[key]) is not type(value)},
        "unset": sorted(key for key in before if key not in after),
    }


def apply(before: Mapping[str, Any], delta: Mapping[str, Any]) -> dict[str, Any]:
    """The state after a delta made by `difference`."""
    gone = set(delta["unset"])
    return {**{key: value for key, value in before.items() if key not in gone}, **delta["set"]}
