"""Know the run, thread and request of the work at hand: log lines and reports of errors name them.

They are in a context variable, which follows the work and not the process: a worker with threads
has many runs at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Subject:
    run_id: str = ""
    """The id as people see it, `run_…`; "" where the work is about no run. So are the other ids."""
    thread_id: str = ""
    request_id: str = ""
    """The value of `X-Trace-Id` where a response is about no run."""
    scrub: Callable[[Any], Any] | None = None
    """Takes the secrets that the run was given out of a text."""


NOTHING = Subject()
_subject: ContextVar[Subject] = ContextVar("waystation_subject", default=NOTHING)


def now() -> Subject:
    return _subject.get()


@contextmanager
def work(**more: Any) -> Iterator[None]:
    """Name these while the work inside goes on, besides what is known already."""
    token = _subject.set(replace(_subject.get(), **more))
    try:
        yield
    finally:
        _subject.reset(token)


def ids() -> dict[str, str]:
    """Give the ids that are known, by name."""
    subject = _subject.get()
    known = {name: getattr(subject, name) for name in ("run_id", "thread_id", "request_id")}
    return {name: value for name, value in known.items() if value}


def scrubbed(text: str) -> str:
    """Take the secrets that the run at hand was given out of a text."""
    scrub = _subject.get().scrub
    return text if scrub is None else str(scrub(text))
