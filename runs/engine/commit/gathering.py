"""What rules do to many questions in one transaction, gathered first and written in few statements.

While something gathers on this thread, questions that are closed and commits of their runs are
noted, and nothing is written or locked. `runs.services.together` writes all of it, or nothing.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from checkpoints.models import EventKind
from runs.engine.commit.statements import Write
from runs.models import Pause
from runs.states import PauseStatus


class Closing(NamedTuple):
    """A question that is to be closed, where its times are as they were read."""

    pause: Pause
    status: PauseStatus
    at: dt.datetime


class NotedCommit(NamedTuple):
    write: Write
    facts: Sequence[tuple[EventKind, Mapping[str, Any]]]
    """As watchers get them; `write` has them as stored."""


@dataclass
class Gathering:
    closings: list[Closing] = field(default_factory=list)
    commits: list[NotedCommit] = field(default_factory=list)
    ended_on: list[uuid.UUID] = field(default_factory=list)
    """Threads whose run ends: messages may wait there for their turn."""


_current: ContextVar[Gathering | None] = ContextVar("gathering", default=None)


def current() -> Gathering | None:
    """What gathers on this thread."""
    return _current.get()


@contextmanager
def gather() -> Iterator[Gathering]:
    token = _current.set(Gathering())
    try:
        gathered = _current.get()
        assert gathered is not None
        yield gathered
    finally:
        _current.reset(token)
