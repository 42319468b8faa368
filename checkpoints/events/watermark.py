"""How far the database had come, noted in Redis beside it: a database that is behind that was
restored, or is a standby that had not heard of everything when it was promoted.

PostgreSQL writes sequences ahead, so a standby that lacks less than 32 events is not found. Nothing
is decided by it: people are told, for they have to look at what was done outside since.
"""

from __future__ import annotations

import logging
import time
from dataclasses import asdict, dataclass

from django.core.cache import cache
from django.db import connection
from redis.exceptions import RedisError

from checkpoints.database import clock, timeline
from checkpoints.models import Event

logger = logging.getLogger(__name__)

MARK, BACK = "watermark", "watermark:went_back"
EVERY = 10.0
"""Seconds between two notes of one process."""
TOLD = 7 * 86_400
"""Seconds for which it is told that the database went back."""

_noted_at: float | None = None


@dataclass(frozen=True)
class Watermark:
    number: int
    """Of the last event that was ever written: a sequence, which no erasure takes back."""
    at: str
    """By the database's clock, when it was noted."""


def note() -> None:
    """Note how far the database is, now and then; and that it is behind what was noted."""
    global _noted_at
    if connection.vendor != "postgresql":
        return  # one process on one host: nothing beside it
    if _noted_at is not None and time.monotonic() - _noted_at < EVERY:
        return
    _noted_at = time.monotonic()
    try:
        if (before := went_back()) is not None:
            cache.set(BACK, asdict(before), timeout=TOLD)
            logger.error("the database is older than at %s: was it restored?", before.at)
        timeline.note()
        cache.set(MARK, asdict(Watermark(_newest(), clock.now().isoformat())), timeout=None)
    except (RedisError, OSError):
        logger.warning("could not note in Redis how far the database is")


def went_back() -> Watermark | None:
    """How far the database had come, where it is behind that now. Raises what a cache raises."""
    kept = cache.get(MARK)  # before the database is asked: it only grows meanwhile
    return Watermark(**kept) if kept and int(kept["number"]) > _newest() else None


def went_back_lately() -> Watermark | None:
    """The same, also where it was found by a worker before. Raises what a cache raises."""
    if connection.vendor != "postgresql":
        return None
    found = cache.get(BACK)
    return went_back() or (Watermark(**found) if found else None)


def _newest() -> int:
    with connection.cursor() as cursor:
        table = connection.ops.quote_name(Event._meta.db_table)
        cursor.execute("SELECT pg_get_serial_sequence(%s, 'id')", [table])
        (sequence,) = cursor.fetchone()
        cursor.execute(
            f"SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {sequence}"  # noqa: S608  # told by the server
        )
        return int(cursor.fetchone()[0])
