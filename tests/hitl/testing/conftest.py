"""The kit's tables on PostgreSQL, which are those of all tests; on SQLite the kit makes its own."""

from __future__ import annotations

import os

import pytest

from hitl.testing import databases
from tests.databases import copies


@pytest.fixture(autouse=True, scope="session")
def tables_of_postgresql() -> None:
    if os.environ.get("DATABASE_URL", "").startswith("postgresql"):
        copies.postgresql_like(databases.tables_name(), copies.postgresql_tables())
