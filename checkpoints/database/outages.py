"""Whether an error is the database's own trouble, which passes, and not a mistake in what it was
asked.

The connection is lost, the server is being restarted or full, a lock was not to be had in time:
nothing was decided about the work itself, and the same thing done later works. A missing table is
no such trouble.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from django.db import DatabaseError, InterfaceError, InternalError, OperationalError

ERRORS = (OperationalError, InterfaceError, InternalError)
"""What may be trouble; ask `is_trouble`."""
_LOCKED = {"55P03"}
_ROWS = {"55P03", "40P01", "57014"}
"""A lock that was not to be had, a deadlock, a statement that took too long."""
_FULL = {"53100"}
_ENDED = {"25P03", "25P04"}
"""Sessions that the server ended because they idled in a transaction, or took too long for one;
psycopg calls it an InternalError.
"""
_ONLY_READS = {"25006"}
"""A server that takes no writes, today: another one may by now. An InternalError, too."""
_MISSING = {"42P01", "42703"}
_LIMITS = {"54"}
"""Too large for the server, today and tomorrow."""
_PASSING = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PROTOCOL,
}


def is_trouble(error: BaseException) -> bool:
    """Whether the same thing done later may work."""
    if isinstance(error, InternalError):
        return _state(error) in _ENDED | _ONLY_READS
    if not isinstance(error, ERRORS):
        return False
    code = _sqlite(error)
    return _state(error)[:2] not in _LIMITS if code is None else code in _PASSING


def is_locked(error: BaseException) -> bool:
    """Whether a lock was not to be had in time."""
    busy = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
    return isinstance(error, OperationalError) and (
        _state(error) in _LOCKED or _sqlite(error) in busy
    )


def is_about_rows(error: BaseException) -> bool:
    """Whether others hold the rows that were wanted, while all else works."""
    return isinstance(error, OperationalError) and _state(error) in _ROWS


def is_full(error: BaseException) -> bool:
    """Whether the database's disk is full: nothing can be written, all can be read."""
    return isinstance(error, OperationalError) and (
        _state(error) in _FULL or _sqlite(error) == sqlite3.SQLITE_FULL
    )


def lacks_tables(error: BaseException) -> bool:
    """Whether a table or a column is missing: `migrate` has not run yet."""
    return isinstance(error, DatabaseError) and (
        _state(error) in _MISSING or str(error).startswith(("no such table", "no such column"))
    )


@dataclass(frozen=True)
class OutageAnswer:
    """What is told to who asked while there was trouble."""

    status: int
    code: str
    words: str
    after: int
    """Seconds, after which it may be tried again."""


def said(error: BaseException, *, changing: bool) -> OutageAnswer | None:
    """What to answer to a request that failed with this error; None where it is no trouble of the
    database's.

    Args:
        changing: whether the request was to change something. Then nobody knows whether it did: the
            connection may have been lost when the commit was sent and its answer had not come.
    """
    if not is_trouble(error):
        return None
    if is_full(error):
        message = (
            "The disk of the database is full, so nothing was written. What is there can be "
            "read; an operator has to make room."
        )
        return OutageAnswer(507, "storage_full", message, 30)
    if not changing:
        return OutageAnswer(
            503,
            "database_unavailable",
            "The database does not answer at the moment. Ask again in a few seconds.",
            5,
        )
    message = (
        "The database does not answer at the moment. Whether this was done is not known: send it "
        "again with the same Idempotency-Key, "
        "and it is done once; without a key, look first."
    )
    return OutageAnswer(503, "database_unavailable", message, 5)


def _state(error: BaseException) -> str:
    """PostgreSQL's SQLSTATE; "" where the connection broke before it said one."""
    return str(getattr(error.__cause__, "sqlstate", None) or "")


def _sqlite(error: BaseException) -> int | None:
    """SQLite's primary result code; None for other databases."""
    code = getattr(error.__cause__, "sqlite_errorcode", None)
    return None if code is None else int(code) & 0xFF
