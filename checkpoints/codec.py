"""State as text: the JSON check at write, the canonical form, digests, and deltas against the parent. No ORM here."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from typing import Any

MAX_DEPTH = 60
MAX_BITS = 4096
"""Of a whole number: Python itself reads and writes no more than 4300 digits."""
SPLIT = re.compile("[\ud800-\udbff][\udc00-\udfff]")
"""Two code points that JSON reads back as one."""
UNREADABLE = re.compile("[\x00\ud800-\udfff]")


class NotJson(Exception):
    """A value would not come back from JSON as it went in. The message names the key (F14)."""

    code = "state_not_json"


def check(value: Any, path: str = "state", depth: int = 0) -> None:
    """Raise NotJson unless `value` survives a JSON round trip unchanged."""
    if depth > MAX_DEPTH:
        raise NotJson(f"{path} is nested deeper than {MAX_DEPTH} levels")
    match value:
        case None | bool():
            return
        case int():
            if value.bit_length() > MAX_BITS:
                raise NotJson(f"{path} is a number of more than {MAX_BITS} bits")
        case str():
            _check_text(value, path)
        case float():
            if not math.isfinite(value):
                raise NotJson(f"{path} is {value}, which JSON cannot hold")
        case dict():
            for key, item in value.items():
                if type(key) is not str:
                    raise NotJson(f"{path} has the key {key!r}, which is no text")
                _check_text(key, f"a key of {path}")
                check(item, f"{path}.{key}", depth + 1)
        case list():
            for index, item in enumerate(value):
                check(item, f"{path}[{index}]", depth + 1)
        case _:
            raise NotJson(f"{path} is a {type(value).__name__}, which JSON cannot hold")


def _check_text(text: str, path: str) -> None:
    if not text.isascii() and SPLIT.search(text):
        raise NotJson(f"{path} holds a character in two halves (a surrogate pair), which JSON would join")


def readable(text: str) -> str:
    """`text` with a replacement sign for what no text column takes and no client reads: NUL, and bytes that were no UTF-8."""
    return UNREADABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def holds_unreadable(value: Any) -> bool:
    """Whether a JSON value has text that `readable` would change, at any depth."""
    match value:
        case str():
            return UNREADABLE.search(value) is not None
        case dict():
            return any(holds_unreadable(part) for item in value.items() for part in item)
        case list():
            return any(holds_unreadable(item) for item in value)
    return False


def encode(value: Any) -> str:
    """Canonical JSON text: sorted keys, no spaces, ASCII only (a NUL or a lone surrogate is stored escaped, so every database takes it)."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)


def digest(text: str | bytes) -> str:
    """sha256 in hex."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """What turns `before` into `after`: `{"set": {key: value}, "unset": [key]}`, by top-level key."""
    return {
        "set": {key: value for key, value in after.items() if key not in before or not _same(before[key], value)},
        "unset": sorted(key for key in before if key not in after),
    }


def _same(one: Any, other: Any) -> bool:
    """By their text: Python takes `0`, `0.0` and `False` for equal, also deep inside."""
    return one is other or (one == other and encode(one) == encode(other))


def apply(before: Mapping[str, Any], delta: Mapping[str, Any]) -> dict[str, Any]:
    """The state after a delta made by `difference`."""
    gone = set(delta["unset"])
    return {**{key: value for key, value in before.items() if key not in gone}, **delta["set"]}
