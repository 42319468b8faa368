"""What an event of the log becomes, and how it names things."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from checkpoints import ids

MOST = 16
ROOT: list[str] = []
"""The namespace of all that a thread's own run does."""
NOTHING = uuid.UUID(int=0)
"""An id that no row has."""


class Wants(Protocol):
    """Whether a reader follows a channel of a namespace: what nobody follows is not loaded."""

    def __call__(self, channel: str, namespace: Sequence[str] = ()) -> bool: ...


class Told(NamedTuple):
    place: int
    """Among those of one event of the log; from 0, and rising."""
    channel: str
    method: str
    data: Any
    namespace: list[str] = ROOT


def shown_key(prefix: str, shown: Any) -> uuid.UUID:
    """An id that an event names; `NOTHING` where it names none, or cannot be read any more."""
    try:
        return ids.parse(prefix, str(shown))
    except ValueError:
        return NOTHING
