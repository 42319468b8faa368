"""How an update joins the state: one merge for step results, people's answers and new input
alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from checkpoints.state import codec, redaction

Reducer = Callable[[Any, Any], Any]
"""(value so far or None, new value) → value."""

EPHEMERAL = "ephemeral"
"""Reducer of keys that live for one step only: the next step sees them, the checkpoint after it
does not hold them.
"""


class MergeFailed(Exception):
    """A value does not fit its key's reducer.

    The message names the key and both types; nothing was merged.
    """

    code = "merge_failed"


class StateTooLarge(MergeFailed):
    """With what was to be merged, the state would be larger than it may be; nothing was
    written.
    """

    code = "state_too_large"

    def __init__(self, size: int, most: int, key: str, part: int) -> None:
        super().__init__(
            f"The state would come to {size:,} bytes, of which {part:,} stand under {key!r}; it "
            f"may have {most:,} (WAYSTATION_STATE_BYTES). Nothing of this was recorded, and the "
            "state before is kept. Keep less in the state: what is large belongs into an artifact, "
            "a file or a table of its own, and the state names it."
        )


def replace(old: Any, new: Any) -> Any:
    """The new value; what every key without a rule gets."""
    return new


def append(old: Any, new: Any) -> Any:
    """A list grows by a list, or by one item."""
    return _grown(_list(old), new if isinstance(new, list) else [new])


def merge(old: Any, new: Any) -> Any:
    """Objects merge key by key, the new value winning; nested objects likewise."""
    merged = dict(_object(old))
    for key, value in _object(new).items():
        merged[key] = (
            merge(merged[key], value)
            if isinstance(merged.get(key), dict) and isinstance(value, dict)
            else value
        )
    return merged


def add(old: Any, new: Any) -> Any:
    """Numbers add up."""
    for value in (old, new):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise TypeError(f"add takes numbers, not {type(value).__name__}")
    return (old or 0) + (new or 0)


def upsert_by_id(old: Any, new: Any) -> Any:
    """A list of objects with an `id` (messages): a known id is replaced where it stands, others are
    appended in order.
    """
    items = _list(old)
    places = _places(items)
    replaced: dict[int, Any] = {}
    added: list[Any] = []
    for item in new if isinstance(new, list) else [new]:
        place = places.setdefault(_id(item), len(items) + len(added))
        if place < len(items):
            replaced[place] = item
        elif place < len(items) + len(added):
            added[place - len(items)] = item
        else:
            added.append(item)
    if replaced:
        return [*(replaced.get(place, item) for place, item in enumerate(items)), *added]
    grown = _grown(items, added)
    if isinstance(grown, codec.FrozenList):
        grown.places = places
    return grown


def _places(items: list[Any]) -> dict[Any, int]:
    """Where each id stands.

    The list that is about to grow hands its own on: they are looked through once, not at every
    step.
    """
    if isinstance(items, codec.FrozenList) and items.places is not None:
        places, items.places = items.places, None
        return places
    return {_id(item): place for place, item in enumerate(items)}


def _id(item: Any) -> Any:
    if not isinstance(item, dict) or "id" not in item:
        raise TypeError("upsert_by_id takes objects that have an id")
    return item["id"]


REDUCERS: Mapping[str, Reducer] = {
    "replace": replace,
    "append": append,
    "merge": merge,
    "add": add,
    "upsert_by_id": upsert_by_id,
    EPHEMERAL: replace,
}


def apply(
    state: Mapping[str, Any], update: Mapping[str, Any], rules: Mapping[str, str]
) -> dict[str, Any]:
    """The state after an update.

    Ephemeral keys of the old state are gone unless the update sets them anew.

    Of a state as `store.load` gives it (a `codec.State`) comes another one, read-only, and it costs
    what is new: whatever stays is the same object, and a list that grows is not looked through. Of
    an ordinary dict comes an ordinary dict.

    Args:
        rules: key → name in REDUCERS; keys without a rule are replaced.
    Raises:
        MergeFailed: naming the key.
        codec.NotJson: naming the key.
    """
    names = redaction.names()
    before = codec.state(state, names=names)
    merged = {key: value for key, value in before.items() if rules.get(key) != EPHEMERAL}
    for key, value in update.items():
        try:  # what stands under the name of a secret is a marker, which nothing can be appended to
            rule = "replace" if type(key) is str and names[key] else rules.get(key, "replace")
            merged[key] = REDUCERS[rule](before.get(key), value)
        except TypeError as error:
            raise MergeFailed(f"state.{key} ({rules[key]}): {error}") from error
        except codec.NotJson as error:
            error.path = f"state.{key}{error.path}"
            raise
        except Exception as error:  # a value of a class whose own methods raise anything
            raise MergeFailed(f"state.{key} cannot be read: {type(error).__name__}") from error
    after = codec.state(merged, before, names)
    return after if isinstance(state, codec.State) else dict(after)


def _grown(items: list[Any], added: list[Any]) -> list[Any]:
    return (
        codec.grow(items, added, redaction.names())
        if isinstance(items, codec.FrozenList)
        else [*items, *added]
    )


def since(
    before: Mapping[str, Any], after: Mapping[str, Any], rules: Mapping[str, str]
) -> dict[str, Any]:
    """The update that brought `before` to `after`: `apply(before, since(before, after, rules),
    rules) == after`, ephemeral keys apart.

    So what one branch did can join another one that went on from the same state. A key that is gone
    in `after` stays. Raises MergeFailed where a list that is only ever appended to does not begin
    as it did.
    """
    changed = {
        key: value
        for key, value in after.items()  # one that both share need not be looked through
        if key not in before or (before[key] is not value and before[key] != value)
    }
    return {
        key: _since(key, before.get(key), value, rules.get(key, "replace"))
        for key, value in changed.items()
        if rules.get(key) != EPHEMERAL
    }


def _since(key: str, old: Any, new: Any, rule: str) -> Any:
    if rule == "append" and isinstance(new, list) and isinstance(old, list):
        if new[: len(old)] != old:
            raise MergeFailed(
                f"state.{key} (append): what stood in it was changed, so it cannot be joined"
            )
        return new[len(old) :]
    if rule == "add" and old is not None:
        return new - old
    return new


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise TypeError(f"the value so far is {type(value).__name__}, not a list")
    return value


def _object(value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise TypeError(f"an object is needed, not {type(value).__name__}")
    return value
