"""A primary that comes back after its standby was promoted takes writes again, and whatever is
written there is lost. Each connection asks once which server it has: one whose timeline is behind
the newest that is known (it grows with each promotion) is refused.

Each process knows the newest that it had itself. Where the address of the database names several
servers, the newest of all is noted in Redis for processes that begin, for MEMORY seconds: whoever
puts back an old copy of a server's files on purpose starts all processes anew, and waits so long or
drops that key.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any
from weakref import WeakSet

import psycopg
from django.core.cache import cache
from django.db import connection
from redis.exceptions import RedisError

logger = logging.getLogger(__name__)

ASKED = (
    "SELECT system_identifier::text, ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))"
    "::bit(32)::int FROM pg_control_system() WHERE NOT pg_is_in_recovery()"
)
"""Which cluster, and its timeline: the beginning of a WAL file's name. Nothing of a standby."""
MARK = "timeline"
"""The cache's key: cluster → newest timeline."""
MEMORY = 3600
"""Seconds."""

_newest: dict[str, int] = {}
_looked_at: WeakSet[Any] = WeakSet()
_was_told = False


class OldPrimary(psycopg.OperationalError):
    """The server at the other end is behind another one, which was promoted in its place."""


def look(session: Any, *, several: bool) -> None:
    """Ask a connection of psycopg's, once, whose it is; raises OldPrimary."""
    if session in _looked_at:
        return
    found = _asked(session)
    if found is not None:
        cluster, timeline = found
        if several:
            _be_told()
        if timeline < (newest := _newest.get(cluster, 0)):
            where = f"{session.info.host}:{session.info.port}"
            message = (
                f"{where} is an old primary: it is on timeline {timeline}, and its standby was "
                f"promoted to {newest}. Nothing is written to it. Stop it (manage.py doctor)."
            )
            logger.critical(message)
            raise OldPrimary(message)
        _newest[cluster] = timeline
    _looked_at.add(session)


def _asked(session: Any) -> Any:
    was, session.autocommit = session.autocommit, True
    try:
        return session.execute(ASKED).fetchone()
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedFunction):
        return None  # a service that does not let us ask: then there is nothing to compare
    finally:
        session.autocommit = was


def _be_told() -> None:
    """What other processes know, once."""
    global _was_told
    if not _was_told:
        _was_told = True
        with suppress(RedisError, OSError):
            _take(cache.get(MARK) or {})


def _take(told: dict[str, int]) -> None:
    for cluster, timeline in told.items():
        _newest[cluster] = max(timeline, _newest.get(cluster, 0))


def note() -> None:
    """Note in Redis what is known here, where several servers are named. Raises what a cache
    raises.
    """
    if "," in str(connection.settings_dict["HOST"]):
        _take(cache.get(MARK) or {})
        cache.set(MARK, _newest, timeout=MEMORY)


def forget() -> None:
    """Know nothing, as a process that begins."""
    global _was_told
    _was_told = False
    _newest.clear()
    _looked_at.clear()
