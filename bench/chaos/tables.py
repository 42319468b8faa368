"""A private PostgreSQL whose database has the product's tables: a copy of those that the tests
keep, since the migrations take nine seconds of a processor.
"""

from __future__ import annotations

from pathlib import Path

import psycopg

from tests.databases import copies, kept
from tests.servers.private import PostgreSQL


def create(server: PostgreSQL, folder: Path) -> None:
    """Make the server's files, in a folder whose `kept` is free, and start it."""
    (taken := folder / "kept").mkdir()
    server.create(kept.put(taken))
    server.start()
    with psycopg.connect(server.url.replace("/postgres?", "/template1?"), autocommit=True) as base:
        base.execute("ALTER DATABASE postgres RENAME TO without_tables")
        base.execute(f"ALTER DATABASE {copies.EMPTY} RENAME TO postgres")
