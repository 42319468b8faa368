"""Documents of threads for tests: what two of them have in common apart from ids, and how one is
changed and signed again.
"""

from __future__ import annotations

import copy
import json
import re
from typing import Any

from checkpoints.export import thread_document
from checkpoints.state import codec

IDS = re.compile(r"\b(?:thr|run|ckpt|pse|dec|art)_[0-9a-hjkmnp-tv-z]{26}\b")
OF_THE_SERVER = ("exported_at", "digest")


def alike(document: dict[str, Any]) -> Any:
    """A document with ids numbered in the order they come, and without what each server says for
    itself.
    """
    plain = copy.deepcopy(json.loads(codec.encode(document)))
    for name in OF_THE_SERVER:
        del plain[name]
    for name in ("owner", "team", "created_at"):
        del plain["thread"][name]
    plain["thread"].pop("imported", None)
    for section in ("checkpoints", "events", "memos", "runs", "pauses", "decisions"):
        for row in plain[section]:
            row.pop("imported", None)
    for row in plain["checkpoints"]:  # what a step or an approval could rely on is not kept
        row["metadata"] = {
            name: value for name, value in row["metadata"].items() if name in thread_document.KEPT
        }
    seen: dict[str, str] = {}
    text = IDS.sub(
        lambda found: seen.setdefault(found[0], f"{found[0].split('_')[0]}#{len(seen)}"),
        codec.encode(plain),
    )
    return json.loads(text)


def signed(document: dict[str, Any]) -> bytes:
    """As bytes, with the digest that its content has now: as somebody would who knows the
    format.
    """
    document["digest"] = thread_document.digest(document)
    return codec.encode(document).encode()


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every single value."""
    if not isinstance(value, dict | list):
        return [path]
    inner: list[tuple[Any, Any]] = list(
        value.items() if isinstance(value, dict) else enumerate(value)
    )
    return [place for key, item in inner for place in places(item, (*path, key))] or [path]


def changed(document: dict[str, Any], path: tuple[Any, ...]) -> dict[str, Any]:
    """A copy in which one value is another."""
    copied: dict[str, Any] = json.loads(codec.encode(document))
    holder = copied
    for key in path[:-1]:
        holder = holder[key]
    old = holder[path[-1]]
    holder[path[-1]] = (
        f"{old}x" if isinstance(old, str) else (not old if isinstance(old, bool) else [old])
    )
    return copied
