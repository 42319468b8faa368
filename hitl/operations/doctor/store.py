"""The database and its pooler, clocks, disks."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from redis.exceptions import RedisError

from checkpoints.contract.base import StoreUnavailable
from checkpoints.database import clock, outages
from checkpoints.events import watermark
from checkpoints.store import beside
from hitl.operations import health
from hitl.operations.doctor.finding import Finding, fine, warning, wrong
from runs.models import HostClock

OLDEST = 13
"""Of PostgreSQL: what Django 5.2 needs (13 has ended; 14 is the oldest that is still mended)."""
NAMED = 3
"""Checkpoints that are named of many."""
FULL = 0.8
"""Of PostgreSQL's connections in use."""
LITTLE, NOTHING = 1_000_000_000, 100_000_000
"""Free bytes."""
RESTORED = "docs/how-to/backup.md, “After a restore”"
DEPLOY = "docs/how-to/deploy.md"


def database() -> Iterator[Finding]:
    try:
        connection.ensure_connection()
        lacking = health.missing_migrations()
    except (DatabaseError, InterfaceError) as error:
        if outages.lacks_tables(error):
            yield wrong("database", "It has no tables.", "Run `manage.py migrate`.")
            return
        yield wrong(
            "database",
            "It cannot be reached, or does not let us in.",
            "See whether the server of DATABASE_URL runs, and whether name and password are right.",
        )
        return
    if lacking:
        yield wrong(
            "database",
            f"{len(lacking)} migrations are missing, first {lacking[0]}.",
            "Run `manage.py migrate`.",
        )
    if connection.vendor == "postgresql":
        yield from _server()
    elif getattr(settings, "REDIS_URL", ""):
        yield warning(
            "database",
            "SQLite takes one writer at a time, on one host, and several processes are set up.",
            "Set DATABASE_URL to a PostgreSQL server.",
        )
    else:
        yield fine("database", "SQLite, for one process.")


def _server() -> Iterator[Finding]:
    version = connection.cursor().connection.info.server_version // 10_000
    if version < OLDEST:
        yield wrong("database", f"PostgreSQL {version} is too old.", f"Use {OLDEST + 1} or newer.")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*), current_setting('max_connections')::int FROM pg_stat_activity"
        )
        used, most = cursor.fetchone()
    if used > most * FULL:
        yield warning(
            "database",
            f"{used} of PostgreSQL's {most} connections are in use; at the end nobody gets one.",
            "Raise max_connections, or lower DATABASE_POOL and the workers' --concurrency.",
        )
    else:
        yield fine("database", f"PostgreSQL {version}, {used} of {most} connections in use.")


def pooler() -> Iterator[Finding]:
    """Statements that are prepared on one session are unknown to the next that a pooler gives."""
    if connection.vendor != "postgresql" or not (between := _stands_between()):
        return
    options: dict[str, Any] = connection.settings_dict["OPTIONS"]
    if options.get("prepare_threshold") is not None:
        yield wrong(
            "pooler",
            "A pooler stands before PostgreSQL, and statements are prepared: where it works by "
            "transaction, they fail now and then, and settings of a session leak to others.",
            "Add ?prepare_threshold=none to DATABASE_URL, or let the pooler work by session.",
        )
        return
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('lock_timeout'), current_setting('statement_timeout')"
        )
        lacking = [
            name
            for name, value in zip(
                ("lock_timeout", "statement_timeout"), cursor.fetchone(), strict=True
            )
            if value == "0"
        ]
    if lacking:
        yield warning(
            "pooler",
            f"Behind a pooler {' and '.join(lacking)} cannot be set by us, and the role has none: "
            "one held row makes others wait for ever.",
            f"ALTER ROLE … SET {lacking[0]} = '10s'; see {DEPLOY}.",
        )
    else:
        yield fine("pooler", f"A pooler is there ({between}), and nothing is prepared.")


def _stands_between() -> str:
    """How we know that a pooler answers for the server; "" where none does.

    The server's own number of a session is told twice: when it begins, and by a function. A pooler
    answers the first by itself.
    """
    connection.ensure_connection()
    told = connection.connection.info.backend_pid
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (real,) = cursor.fetchone()
    return "" if told == real else "it begins sessions by itself"


def clocks() -> Iterator[Finding]:
    now, off = clock.now(), clock.ahead()
    mend = "Set the clock by NTP (timedatectl set-ntp true)."
    if off:
        yield warning("clock", clock.words(off), mend)
    others = list(HostClock.objects.now(now=now).order_by("host")[:20])
    for host in others:
        yield warning(
            "clock", f"The clock of {host.host} is {host.off_by} of the database's.", mend
        )
    if not off and not others:
        yield fine("clock", "This host and those of workers agree with the database.")


def went_back() -> Iterator[Finding]:
    """The database is not older than what Redis has seen of it."""
    try:
        found = watermark.went_back_lately()
    except (RedisError, OSError):
        return  # which another finding says
    if found is not None:
        yield warning(
            "time",
            f"The database is older than it was: at {found.at[:19]} UTC it held more than it does "
            "or did later. It was restored, or a standby was promoted that lacked the rest.",
            f"What was answered and done in between is not known here; see {RESTORED}.",
        )


def states() -> Iterator[Finding]:
    """Rows and the store of states beside the database are of one moment."""
    try:
        apart = beside.compare()
    except StoreUnavailable as error:
        yield wrong("states", str(error), "See whether what CHECKPOINTS_URL names can be reached.")
        return
    if apart is None:
        return
    if apart.missing:
        yield wrong(
            "states",
            f"{len(apart.missing)} of the newest {beside.NEWEST} checkpoints have no state in the "
            f"store beside the database: {', '.join(apart.missing[:NAMED])}.",
            "Restore that store to the same moment or a later one; `manage.py verify_checkpoints` "
            "names all.",
        )
    if apart.unknown:
        yield warning(
            "states",
            f"The store beside the database has {len(apart.unknown)} states of checkpoints that "
            f"are not known here, the newest {', '.join(apart.unknown[:NAMED])}: crashes leave "
            "some, and a database that was restored does not know those written since.",
            "`manage.py drop_stray_bodies` drops them.",
        )
    if not apart.missing and not apart.unknown:
        yield fine("states", "The store beside the database holds what the rows name.")


def disk() -> Iterator[Finding]:
    folder = Path(settings.WAYSTATION_DATA)
    if not folder.exists():
        return
    usage = shutil.disk_usage(folder)
    told = f"{usage.free / 1e9:.1f} GB of {usage.total / 1e9:.1f} GB are free in {folder}."
    mend = "Make room, or name another folder with WAYSTATION_DATA."
    if usage.free < NOTHING:
        yield wrong("disk", told, mend)
    elif usage.free < LITTLE:
        yield warning("disk", told, mend)
    else:
        yield fine("disk", told)
