"""State as text and as read-only values: the JSON check at write, the canonical form, digests, and
deltas. No ORM here.

**Read-only values.** A state in memory is a `State` of `FrozenDict`s and `FrozenList`s: ordinary to
read, copy, compare and dump, but a change raises TypeError. So a step is handed the very state that
the worker holds, without a copy, and cannot change it; and a value that is the same object as
before is known to be the same, without a look inside. `state` freezes, and with it checks, only
what is new. Whoever writes also passes `names`, and what is new under the name of a secret is not
kept (`redaction`); a load keeps what is stored.

**Digest** (schema_version 2). `digest_of(value)` is the sha256 of the value's canonical JSON; but
of the state itself, and of the objects right inside it, it is the sha256 of the canonical JSON of
`{key: digest_of(item)}`. So one changed key costs one key. A list's sha256 is kept open at its end,
so that an appended list costs the new items.

**Delta.** `{"set": {key: value}, "unset": [key]}`, and where there is cause also `"extend": {key:
[items]}` for lists that grew at their end and `"in": {key: delta}` for objects up to two levels
inside the state that changed in part.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import is_
from typing import Any, NoReturn, TypeVar

from checkpoints.state.redaction import BY_NAME, SecretNames, hidden

MISSING: Any = object()
"""Stands where nothing stood: None is a value."""
MAX_DEPTH = 60
LEVELS = 2
"""How deep inside a state an object may change in part: `state["agent"]["planning"]`, whose lists
grow, is as deep as steps keep things.
"""
MAX_BITS = 4096
"""Of a whole number: Python itself reads and writes no more than 4300 digits."""
SPLIT = re.compile("[\ud800-\udbff][\udc00-\udfff]")
"""Two code points that JSON reads back as one."""
UNREADABLE = re.compile("[\x00\ud800-\udfff]")
_JSON = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
_IN_ORDER = json.JSONEncoder(separators=(",", ":"), allow_nan=False, ensure_ascii=True)


class NotJson(Exception):
    """A value would not come back from JSON as it went in. The message names the key.

    `path` is the way to the value as far as it is known; who is further out puts its own part in
    front.
    """

    code = "state_not_json"

    def __init__(self, words: str, *, subject: str = "{path}") -> None:
        super().__init__(words)
        self.words, self.subject, self.path = words, subject, ""

    def __str__(self) -> str:
        return f"{self.subject.replace('{path}', self.path)} {self.words}"


def _read_only(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(
        "the state is read-only; return an update (or change a copy, as copy.deepcopy makes it)"
    )


class FrozenDict(dict[str, Any]):
    """An object of a state.

    `dict(x)`, `{**x}`, `x | y`, `x.copy()` give an ordinary dict; `copy.deepcopy(x)` also thaws
    what is inside.
    """

    __slots__ = ("height", "parts")

    height: int
    """Levels below this one: what is moved to another place is not walked again to see that it does
    not get too deep.
    """
    parts: dict[str, ListPart]
    """What is known of its keys, where somebody asked (`parts_of`)."""

    def __new__(cls, *items: Any, **keys: Any) -> Any:
        """An ordinary dict: who copies by type, as `dataclasses.asdict` does, means no frozen one.

        Those are made by `_object` only.
        """
        return dict(*items, **keys)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return dict, (dict(self),)

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _read_only


class State(FrozenDict):
    """A whole state.

    A class of its own since the digest of an object depends on whether it is the state or in it.
    """

    __slots__ = ()


class FrozenList(list[Any]):
    """A list of a state.

    `list(x)`, `[*x]`, `x + y`, slices and `x.copy()` give an ordinary list; `copy.deepcopy(x)` also
    thaws its items.

    (`heapq` and `list.append(x, …)` go past every class. What they change is not stored, and may be
    found out as damage.)
    """

    __slots__ = ("__weakref__", "height", "origin", "places", "track")

    height: int
    origin: weakref.ref[FrozenList] | None
    """The list that this one begins with, as long as somebody holds it."""
    track: Track | None
    """Where somebody asked (`track_of`)."""
    places: dict[Any, int] | None
    """Id → place, for `reducers.upsert_by_id`: handed on from a list to the one that grew from
    it.
    """

    def __new__(cls, *items: Any) -> Any:
        """An ordinary list, likewise. Frozen ones are made by `_list` only."""
        return list(*items)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return list, (list(self),)

    __setitem__ = __delitem__ = __iadd__ = __imul__ = append = clear = extend = insert = pop = (
        remove
    ) = reverse = sort = _read_only


FROZEN = (FrozenDict, FrozenList)
Kind = TypeVar("Kind", FrozenDict, State)


def _object(kind: type[Kind], items: Mapping[str, Any], height: int) -> Kind:
    made: Kind = dict.__new__(kind)
    dict.update(made, items)
    made.height, made.parts = height, {}
    return made


def _list(items: list[Any], height: int) -> FrozenList:
    made = list.__new__(FrozenList)
    # unlike `extend`, it copies pointers from a frozen list too, instead of iterating
    list.__setitem__(made, slice(None), items)
    made.height, made.origin, made.track, made.places = height, None, None, None
    return made


@dataclass(slots=True)
class Track:
    """What is known of a list that may grow: its sha256 so far, and which of its items are kept in
    chunks (`store`).
    """

    hasher: Any
    """Over `[` and the items, without the closing bracket.

    Never updated in place: a list may have several that grew from it.
    """
    size: int = 0
    """Characters of the items' text, with the commas between."""
    sealed: int = 0
    """How many items, from the first, are in chunks; `sealed_size` their characters."""
    sealed_size: int = 0
    tip: str = ""
    """The last of those chunks; `chunks` says how many there are."""
    chunks: int = 0


@dataclass(frozen=True, slots=True)
class ListPart:
    digest: str
    size: int
    """Characters of canonical JSON; of an object that is digested by key, about."""


def check(value: Any, path: str = "state") -> None:
    """Raise NotJson unless `value` survives a JSON round trip unchanged."""
    freeze(value, path)


def freeze(value: Any, path: str = "state") -> Any:
    """`value` as read-only values, with its keys in order, as a load would give it.

    What is frozen already is not looked at again.

    Raises NotJson, naming the key, unless it survives a JSON round trip unchanged.
    """
    try:
        return _freeze(value, 0)
    except NotJson as error:
        error.path = path + error.path
        raise
    except Exception as error:
        raise _unreadable(error, path) from error


def _unreadable(error: Exception, path: str) -> NotJson:
    """What a value of a class whose own methods raise anything comes to."""
    if isinstance(error, MemoryError):
        raise error
    refused = NotJson(f"holds a value that cannot be read: {type(error).__name__}")
    refused.path = path
    return refused


def _freeze(value: Any, depth: int, names: SecretNames | None = None) -> Any:
    if depth > MAX_DEPTH:
        raise _too_deep()
    kind = type(value)
    # the usual ones first: a load takes this way for every value
    if (kind is str and value.isascii()) or value is None or kind is bool:
        return value
    match value:
        case str():
            _check_text(value)
            return value if kind is str else str.__str__(value)
        case int():
            if value.bit_length() > MAX_BITS:
                raise NotJson(f"is a number of more than {MAX_BITS} bits")
            return int(value)
        case float():
            if not math.isfinite(value):
                raise NotJson(f"is {value}, which JSON cannot hold")
            return float(value)
        case FrozenDict() | FrozenList():
            if depth + value.height > MAX_DEPTH:
                raise _too_deep()
            return _object(FrozenDict, value, value.height) if isinstance(value, State) else value
        case dict():
            _check_keys(value)
            return _object(FrozenDict, *_items(value, None, depth, names))
        case list():
            return _freeze_list(value, depth, names)
    raise NotJson(f"is a {kind.__name__}, which JSON cannot hold")


def _too_deep() -> NotJson:
    return NotJson(f"is nested deeper than {MAX_DEPTH} levels")


def _check_text(text: str, subject: str = "{path}") -> None:
    if SPLIT.search(text):
        raise NotJson(
            "holds a character in two halves (a surrogate pair), which JSON would join",
            subject=subject,
        )


def _check_keys(value: Mapping[Any, Any]) -> None:
    for key in value:
        if type(key) is not str:
            raise NotJson(f"has the key {key!r}, which is no text")
        if not key.isascii():
            _check_text(key, "a key of {path}")


def _items(
    value: Mapping[str, Any], before: FrozenDict | None, depth: int, names: SecretNames | None
) -> tuple[dict[str, Any], int]:
    """The frozen items of an object at that depth, in order, and its height.

    `before` is what stood in its place.
    """
    items: dict[str, Any] = {}
    height, key = 0, ""
    known: Mapping[str, Any] = before or {}
    below = None if names is None else names.below
    try:
        for key in sorted(value):
            item, old = value[key], known.get(key, MISSING)
            if item is not old:
                inner = below
                if names is not None:
                    item = hidden(item) if names[key] else item
                    inner = (
                        names.by_name
                        if depth == 0 and key in BY_NAME and isinstance(item, dict)
                        else below
                    )
                item = (
                    _freeze(item, depth + 1, inner)
                    if before is None
                    else _follow(item, old, depth + 1, inner)
                )
            items[key] = item
            if height == 0 or type(item) in FROZEN:
                height = max(height, _height(item) + 1)
    except NotJson as error:
        error.path = f".{key}{error.path}"
        raise
    return items, height


def _freeze_list(
    value: Sequence[Any], depth: int, names: SecretNames | None = None, *, first: int = 0
) -> FrozenList:
    """`first` is the place of its first item in the list that a person knows."""
    items: list[Any] = []
    height = 0
    try:
        for item in value:
            items.append(frozen := _freeze(item, depth + 1, names))
            if height == 0 or type(frozen) in FROZEN:
                height = max(height, _height(frozen) + 1)
    except NotJson as error:
        error.path = f"[{first + len(items)}]{error.path}"
        raise
    return _list(items, height)


def _height(value: Any) -> int:
    return value.height if type(value) in FROZEN else 0


def state(
    value: Mapping[str, Any], before: State | None = None, names: SecretNames | None = None
) -> State:
    """A whole state, frozen and checked; what it shares with the state `before` costs nothing.

    `names`: where it is to be written, the names under which nothing new is kept.
    Raises NotJson, naming the key.
    """
    if type(value) is State:
        return value
    try:
        return (
            _object_after(value, before, 0, State, names)
            if before is not None
            else _whole(value, names)
        )
    except NotJson as error:
        error.path = f"state{error.path}"
        raise
    except Exception as error:
        raise _unreadable(error, "state") from error


def _whole(value: Mapping[str, Any], names: SecretNames | None) -> State:
    _check_keys(value)
    return _object(State, *_items(value, None, 0, names))


def _object_after(
    value: Mapping[str, Any], before: Kind, depth: int, kind: type[Kind], names: SecretNames | None
) -> Kind:
    """An object that stands where `before` stood: it takes over what is known of the keys that
    stayed.
    """
    _check_keys({key: None for key in value if key not in before})
    frozen = _object(kind, *_items(value, before, depth, names))
    frozen.parts = {
        key: part
        for key, part in before.parts.items()
        if key in frozen and frozen[key] is before[key]
    }
    return frozen


def _follow(value: Any, old: Any, depth: int, names: SecretNames | None) -> Any:
    """A value that stands where the frozen value `old` stood: the same object if it is the same,
    and grown from it if it grew.

    A value that was not checked yet is looked at by identity only: it may be anything, and
    comparing may do anything.
    """
    if isinstance(value, FROZEN):
        return _freeze(value, depth, names)
    if depth == 1 and isinstance(old, FrozenDict) and isinstance(value, dict):
        return _object_after(value, old, depth, FrozenDict, names)
    if not isinstance(old, FrozenList) or not isinstance(value, list):
        return _freeze(value, depth, names)
    if 0 < len(old) <= len(value) and all(map(is_, old, value)):
        return _freeze(grow(old, value[len(old) :], names), depth)
    frozen = _freeze(value, depth, names)
    return grow(old, frozen[len(old) :]) if _begins_with(frozen, old) else frozen


def _begins_with(value: FrozenList, old: FrozenList) -> bool:
    """Whether a list is another one with items behind it, to the letter.

    One that begins otherwise is found out at C speed.
    """
    return (
        0 < len(old) <= len(value)
        and value[: len(old)] == old
        and (all(map(is_, old, value)) or all(map(_same, old, value)))
    )


def grow(old: FrozenList, items: Sequence[Any], names: SecretNames | None = None) -> FrozenList:
    """A list with items behind it; costs the new items, and a copy of pointers.

    Raises NotJson, naming the new item's place.

    `names` as for `state`.
    """
    if not items:
        return old
    new = _freeze_list(items, 0, names, first=len(old))
    grown = _list(old, max(old.height, new.height))
    list.extend(grown, new)
    grown.origin = weakref.ref(old)
    if old.track is not None:
        grown.track = _longer(old.track, encode(new)[1:-1])
    return grown


def readable(text: str) -> str:
    """`text` with a replacement sign for what no text column takes and no client reads: NUL, and
    bytes that were no UTF-8.
    """
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
    """Canonical JSON text: sorted keys, no spaces, ASCII only (a NUL or a lone surrogate is stored
    escaped, so every database takes it).
    """
    return _JSON.encode(value)


def encode_in_order(value: Any) -> str:
    """As `encode`, with keys as they came: for what people are shown, such as the answers to a
    question. Digests are of canonical text.
    """
    return _IN_ORDER.encode(value)


class Text(str):
    """JSON text: a column of JSON takes it as it is instead of encoding it again."""

    __slots__ = ()


def digest(text: str | bytes) -> str:
    """sha256 in hex."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


def _longer(track: Track, text: str) -> Track:
    """After items with that text, which is their JSON without the brackets."""
    if not text:
        return track
    added = f",{text}" if track.size else text
    hasher = track.hasher.copy()
    hasher.update(added.encode())
    return replace(track, hasher=hasher, size=track.size + len(added))


def track_of(value: FrozenList) -> Track:
    """What is known of a list; at the first time that costs the whole list."""
    if value.track is None:
        value.track = _longer(Track(hashlib.sha256(b"[")), encode(value)[1:-1])
    return value.track


def seal(value: FrozenList, tip: str) -> Track:
    """What is to be known of a list once all of it is in chunks, the last of them `tip`."""
    track = track_of(value)
    return replace(
        track, sealed=len(value), sealed_size=track.size, tip=tip, chunks=track.chunks + 1
    )


def sealed(text: str, *, tip: str, chunks: int) -> FrozenList:
    """The list whose chunks hold that text.

    Its sha256 is taken from the text: nothing is encoded anew.
    """
    value = _freeze_list(json.loads(f"[{text}]"), 0)
    track = _longer(Track(hashlib.sha256(b"[")), text)
    value.track = replace(track, sealed=len(value), sealed_size=track.size, tip=tip, chunks=chunks)
    return value


def parts_of(value: FrozenDict) -> dict[str, ListPart]:
    """Digest and size of every key: of a state, or of an object right inside one.

    Costs the keys that are new.
    """
    if len(value.parts) < len(value):
        for key, item in value.items():
            if key not in value.parts:
                value.parts[key] = _part(item, by_key=type(value) is State)
    return value.parts


def _part(value: Any, *, by_key: bool) -> ListPart:
    if isinstance(value, FrozenList):
        track = track_of(value)
        closed = track.hasher.copy()
        closed.update(b"]")
        return ListPart(closed.hexdigest(), track.size + 2)
    if by_key and isinstance(value, FrozenDict):
        return ListPart(
            _digest_by_key(value),
            2 + sum(len(key) + 4 + part.size for key, part in parts_of(value).items()),
        )
    text = encode(value)
    return ListPart(digest(text), len(text))


def _digest_by_key(value: FrozenDict) -> str:
    return digest(encode({key: part.digest for key, part in parts_of(value).items()}))


def state_digest(value: State) -> str:
    """The digest of a whole state, as schema_version 2 has it; costs what is new since the state
    that it followed.
    """
    return _digest_by_key(value)


def size(value: State) -> int:
    """About how many characters the canonical JSON of a whole state has; costs its keys, where its
    digest was asked.
    """
    return 2 + sum(len(key) + 4 + part.size for key, part in parts_of(value).items())


def weight(value: State) -> int:
    """About how many characters of a state are in no chunk: what a snapshot of it costs."""
    total = 0
    for key, part in parts_of(value).items():
        item = value[key]
        total += (
            len(key)
            + 4
            + part.size
            - (track_of(item).sealed_size if isinstance(item, FrozenList) else 0)
        )
    return total


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """What turns the state `before` into the state `after` (see above: a delta)."""
    was = state(before)
    return _difference(was, state(after, was), levels=LEVELS)


def _difference(was: FrozenDict, now: FrozenDict, *, levels: int) -> dict[str, Any]:
    changed: dict[str, Any] = {}
    grown: dict[str, list[Any]] = {}
    inner: dict[str, dict[str, Any]] = {}
    for key, value in now.items():
        old = was.get(key)
        if key not in was or _same(old, value):
            changed |= {} if key in was else {key: value}
        elif (items := _growth(old, value)) is not None:
            grown[key] = items
        elif levels and (delta := _partly(old, value, levels=levels - 1)) is not None:
            inner[key] = delta
        else:
            changed[key] = value
    gone = sorted(key for key in was if key not in now)
    return {
        "set": changed,
        "unset": gone,
        **({"extend": grown} if grown else {}),
        **({"in": inner} if inner else {}),
    }


def _same(one: Any, other: Any) -> bool:
    """By their text: Python takes `0`, `0.0` and `False` for equal, also deep inside."""
    return one is other or (one == other and encode(one) == encode(other))


def _growth(old: Any, value: Any) -> list[Any] | None:
    """The items that a list got at its end, if that is all that happened to it."""
    if not isinstance(old, FrozenList) or not isinstance(value, FrozenList):
        return None
    known = old and value.origin is not None and value.origin() is old
    return value[len(old) :] if known or _begins_with(value, old) else None


def _partly(old: Any, value: Any, *, levels: int) -> dict[str, Any] | None:
    """The delta of an object some of whose keys stayed."""
    if not isinstance(old, FrozenDict) or not isinstance(value, FrozenDict):
        return None
    delta = _difference(old, value, levels=levels)
    return delta if len(delta["set"]) < len(value) else None


def apply(before: Mapping[str, Any], delta: Mapping[str, Any]) -> State:
    """The state after a delta made by `difference`."""
    was = state(before)
    return state(_applied(was, delta), was)


def _applied(was: FrozenDict, delta: Mapping[str, Any]) -> dict[str, Any]:
    gone = set(delta["unset"])
    now = {**{key: value for key, value in was.items() if key not in gone}, **delta["set"]}
    for key, items in delta.get("extend", {}).items():
        now[key] = grow(now[key], items)
    for key, inner in delta.get("in", {}).items():
        now[key] = _applied(now[key], inner)
    return now
