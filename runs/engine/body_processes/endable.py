"""A body at work in the main thread of its process can be ended: an exception is thrown into it
from a signal, which wakes it from a sleep or a socket as well.

Never within what the engine does for it, such as recording an effect that has happened: then right
behind that.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class BodyEnds(BaseException):
    """Thrown into a body that is to end: past its `except Exception`. Its `finally` runs."""


_armed = False
"""Whether a body is at work."""
_shields = 0
_wanted = False
_main = threading.main_thread()


def begin() -> None:
    """A body begins in this thread, the main one."""
    global _armed, _shields, _wanted
    _armed, _shields, _wanted = True, 0, False


def end() -> bool:
    """The body is over; whether it was to end."""
    global _armed
    _armed = False
    return _wanted


def want() -> None:
    """Throw into the body, once: called in a signal's handler."""
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
    """The engine works for the body: nothing is thrown in here, but at its end."""
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
    """Within `shielded`: what is called in here is the body's own."""
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
