"""Keys: UUIDv7 in the database, `<prefix>_<26 signs>` wherever a person or a program sees one.

The text form is Crockford's base 32 in lower case, so that ids sort by time as text too.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
import uuid

import uuid6

from checkpoints.database import clock

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
LENGTH = 26
CLOCK = 80
"""The bits of a UUIDv7 below its milliseconds."""
MILLISECOND = dt.timedelta(milliseconds=1)
STEADY = 1_000
"""Milliseconds by which a key may come before the last one of its process and still be put after
it. More is a clock that was set.
"""
_guard, _newest = threading.Lock(), 0
_VALUES = {sign: value for value, sign in enumerate(ALPHABET)}
_PAIRS = [one + other for one in ALPHABET for other in ALPHABET]
_SHIFTS = range(5 * LENGTH - 10, -1, -10)


def new() -> uuid.UUID:
    """A fresh time-ordered key, by the database's clock: a thread's newer run has the higher key,
    whichever hosts began the two.

    Of the library's key only the random part is taken: it never goes back behind its last key, so
    after this host's clock was set back by an hour its keys would be of an hour ahead all that
    time.
    """
    global _newest
    at = time.time_ns() // 1_000_000 + clock.offset() // MILLISECOND
    with _guard:
        # keys of one process ascend within one millisecond too
        _newest = at = _newest + 1 if 0 <= _newest - at < STEADY else at
    return uuid.UUID(int=at << CLOCK | uuid6.uuid7().int & (1 << CLOCK) - 1)


def floor(at: dt.datetime) -> uuid.UUID:
    """The lowest key that may be made at a time or later: older rows have lower ones, as far as the
    hosts agree on the database's clock.
    """
    return uuid.UUID(int=max(0, int(at.timestamp() * 1000)) << CLOCK)


def made_at(key: uuid.UUID) -> dt.datetime:
    """When a key was made, as `floor` goes by it."""
    return dt.datetime.fromtimestamp((key.int >> CLOCK) / 1000, tz=dt.UTC)


def show(prefix: str, key: uuid.UUID) -> str:
    """`show("wo", key)` is `wo_01k…`."""
    number = key.int
    # two signs at a time: each step shows a few
    return f"{prefix}_{''.join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])}"


def pattern(prefix: str) -> str:
    """A regular expression of the texts that `parse` takes."""
    return f"^{prefix}_[0-7][{ALPHABET}]{{{LENGTH - 1}}}$"


def parse(prefix: str, text: str) -> uuid.UUID:
    """The key that `show` wrote; ValueError for anything else."""
    head, _, signs = text.partition("_")
    if head != prefix or len(signs) != LENGTH or not set(signs) <= _VALUES.keys():
        raise ValueError(f"{text[:60]!r} is no {prefix}_ id")
    number = 0
    for sign in signs:
        number = number * 32 + _VALUES[sign]
    if number >> 128:
        raise ValueError(f"{text[:60]!r} is no {prefix}_ id")
    return uuid.UUID(int=number)


class HasShownId:
    """A row with a shown id. Subclasses set `PREFIX`."""

    PREFIX = ""
    pk: uuid.UUID

    @property
    def shown_id(self) -> str:
        return show(self.PREFIX, self.pk)
