"""What is looked up once while somebody only looks: several parts of a page ask who the reader is,
and what they may see.

Each request for itself, and what may change only for those that change nothing: what is decided is
judged by what the database says then.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

Found = TypeVar("Found")


class _Request(NamedTuple):
    looks: bool
    found: dict[Hashable, Any]


_request: ContextVar[_Request | None] = ContextVar("waystation_one_look", default=None)


@contextmanager
def only(*, when: bool) -> Iterator[None]:
    """One request, which only looks `when` it does; within any other all is asked each time."""
    token = _request.set(_Request(when, {}))
    try:
        yield
    finally:
        _request.reset(token)


def is_one() -> bool:
    """Whether somebody only looks."""
    request = _request.get()
    return request is not None and request.looks


def once(key: Hashable, find: Callable[[], Found]) -> Found:
    """What `find` gives, asked once for a key where somebody only looks."""
    request = _request.get()
    if request is None or not request.looks:
        return find()
    if key not in request.found:
        request.found[key] = find()
    value: Found = request.found[key]
    return value


def keep(key: Hashable, value: object) -> None:
    """Keep what was found on the way, for `kept`; also where somebody acts, so of those only what
    stays as it is.
    """
    if (request := _request.get()) is not None:
        request.found[key] = value


def kept(key: Hashable) -> Any:
    """What was kept in this request; None where nothing was."""
    request = _request.get()
    return None if request is None else request.found.get(key)
