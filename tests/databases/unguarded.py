"""For tests that empty a database whose ledger is append-only, or do to it what an owner of the
database could.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from checkpoints.models import append_only
from hitl.ledger import triggers


def let_flush() -> None:
    """Transactional tests empty all tables at their end: they say so first, as anybody must."""
    operations = type(connection.ops)
    flush = operations.sql_flush

    def sql_flush(self: Any, *args: Any, **kwargs: Any) -> list[str]:
        statements = [one for one in flush(self, *args, **kwargs) if "checkpoints_guard" not in one]
        # a constant
        opening = f"INSERT INTO checkpoints_guard (opens) VALUES ('{append_only.EMPTY}')"
        return [opening, *statements, "DELETE FROM checkpoints_guard"] if statements else []

    operations.sql_flush = sql_flush  # type: ignore[method-assign]  # on purpose


@pytest.fixture
def unguarded(db: None) -> Iterator[None]:
    """Without the triggers, which an owner of the database may drop."""
    append_only.remove()
    yield
    if not connection.needs_rollback:
        triggers.install()
