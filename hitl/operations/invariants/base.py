"""What an invariant is, and what looking at one gives."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

Broken = QuerySet[Any] | Iterator[Any]


@dataclass(frozen=True)
class Invariant:
    """A sentence that is true of every row, and how to find the rows of which it is not."""

    code: str
    promise: str
    """Its number in the list of promises (README)."""
    sentence: str
    broken: Callable[[dt.datetime], Broken]
    """The rows that break it. What should have happened before the given time is late."""
    deep: bool = False
    """Reads and computes over whole tables in Python."""


registered: list[Invariant] = []
Query = Callable[[dt.datetime], Broken]


def invariant(promise: str, sentence: str, *, deep: bool = False) -> Callable[[Query], Query]:
    """Register the decorated function as what finds the rows that break an invariant, which has
    the function's name as its code; the rest is as for `Invariant`.
    """

    def register(broken: Query) -> Query:
        registered.append(Invariant(broken.__name__, promise, sentence, broken, deep))
        return broken

    return register


@dataclass(frozen=True)
class InvariantResult:
    invariant: Invariant
    count: int
    ids: tuple[str, ...]
    """Shown ids of what breaks it, up to SHOWN; or one text, that rows it reads are damaged."""
