"""End a body at work in the main thread of its process: a signal's handler throws an exception into
it, which wakes it from a sleep or a socket as well.

The exception never comes while the engine works for the body, such as recording an effect that has
happened, but right after that.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class BodyEnds(BaseException):
    """Thrown into a body that is to end. No `except Exception` catches it; each `finally` runs."""


_armed = False
"""Whether a body is at work that nothing was thrown into yet."""
_shields = 0
_wanted = False
_main = threading.main_thread()


def begin() -> None:
    """Note that a body begins in this thread, the main one."""
    global _armed, _shields, _wanted
    _armed, _shields, _wanted = True, 0, False


def end() -> bool:
    """Note that the body is over; say whether it was to end."""
    global _armed
    _armed = False
    return _wanted


def want() -> None:
    """Throw into the body, once. A signal's handler calls this."""
    global _wanted
    if not _armed:
        return
    _wanted = True
    if not _shields:
        _throw()


def _throw() -> None:
    global _armed
    _armed = False
    raise BodyEnds


@contextmanager
def shielded() -> Iterator[None]:
    """Throw nothing while the engine works for the body, but at the end of that work."""
    global _shields
    if not _armed or threading.current_thread() is not _main:
        yield
        return
    _shields += 1
    try:
        yield
    finally:
        _shields -= 1
        if _wanted and _armed and not _shields:
            _throw()


@contextmanager
def exposed() -> Iterator[None]:
    """Let a throw in again, within `shielded`: the code called in here is the body's own."""
    global _shields
    if not _shields or threading.current_thread() is not _main:
        yield
        return
    before, _shields = _shields, 0
    try:
        if _wanted and _armed:
            _throw()
        yield
    finally:
        _shields = before
