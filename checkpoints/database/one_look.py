"""What is looked up once while somebody only looks: several parts of a page ask who the reader is,
and what they may see.

Only requests that change nothing keep anything, each for itself: what is decided is judged by what
the database says then.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

Found = TypeVar("Found")

_found: ContextVar[dict[Hashable, Any] | None] = ContextVar("waystation_one_look", default=None)


@contextmanager
def only(*, when: bool) -> Iterator[None]:
    """One look, `when` it is one; within anything else all is asked each time."""
    token = _found.set({} if when else None)
    try:
        yield
    finally:
        _found.reset(token)


def once(key: Hashable, find: Callable[[], Found]) -> Found:
    """What `find` gives, asked once for a key within one look."""
    found = _found.get()
    if found is None:
        return find()
    if key not in found:
        found[key] = find()
    value: Found = found[key]
    return value


def keep(key: Hashable, value: object) -> None:
    """Keep what was found on the way, for `kept`."""
    if (found := _found.get()) is not None:
        found[key] = value


def kept(key: Hashable) -> Any:
    """What was kept in this look; None where nothing was."""
    return (_found.get() or {}).get(key)
