"""A database that was made before each app's migrations became one, which they did three times.

Before the first time, its tables look like today's, but what stands in them may have a shape that
this version no longer reads. So it is refused as a whole, before anything in it is changed: threads
come over as documents that the older version exports.

Before the other times, it has the same tables once all migrations of then have run, and is taken as
it is. One where some of them have not is refused as well: the last commit that has them all brings
it there.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from django.core.management.base import CommandError
from django.db import DEFAULT_DB_ALIAS, Error, connections
from django.db.migrations.recorder import MigrationRecorder

OLDER = {
    ("checkpoints", "0002_chunks"),
    ("runs", "0002_child_runs"),
    ("hitl", "0002_erasure"),
}
"""Migrations that every such database has had, and no other one ever will."""
LAST_COMMIT = "ef88073"
"""The newest commit that works with such a database."""
LAST = {
    "checkpoints": "0004_memo_unapproved",
    "runs": "0009_metadata_of_schedules",
    "hitl": "0007_saved_configurations",
}
"""App → its last migration before they became `0001_tables`, which writes down that it stands for
it.
"""
LAST_OF_MANY = "c27d14e8"
"""The commit with all of these."""

REFUSAL = f"""\
This database was made by an older version of Waystation (commit {LAST_COMMIT} or before), which \
this version cannot go on with. Nothing was changed in it: the older version still works with it.

To take its threads along:
1. With the older version, write each thread as a document:
       manage.py export_thread thr_… --output thr_….json
2. With this version and a new database (another WAYSTATION_DATA or DATABASE_URL):
       manage.py migrate
       manage.py createsuperuser
       manage.py import_thread thr_….json --owner NAME

docs/how-to/upgrade.md has the commands for all threads and people at once."""

HALF_WAY = f"""\
This database has not yet had all migrations of commit {LAST_OF_MANY}, which this version has as \
one. Nothing was changed in it. Check that commit out beside this one, and run with it and the \
same settings:
       manage.py migrate
Then start this version: nothing else is to be done. docs/how-to/upgrade.md has the commands."""


def refusal(alias: str = DEFAULT_DB_ALIAS) -> str:
    """Tell why this version cannot use the database, and what to do; "" where it can.

    A database that is away or empty is not refused. It is read in a thread of its own, so that no
    connection stays open and an event loop may run.
    """
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(_refusal, alias).result()


def _refusal(alias: str) -> str:
    connection = connections[alias]
    try:
        applied = MigrationRecorder(connection).applied_migrations().keys()
        if not OLDER.isdisjoint(applied):
            return REFUSAL
        begun = {app for app, _ in applied if app in LAST}
        return HALF_WAY if any((app, LAST[app]) not in applied for app in begun) else ""
    except Error:
        return ""  # who needs the database next says what is wrong with it
    finally:
        with suppress(Error):
            connection.close()


def refuse(*, using: str = DEFAULT_DB_ALIAS, **_: Any) -> None:
    """Stop `migrate` before it changes such a database."""
    if message := refusal(using):
        raise CommandError(message)
