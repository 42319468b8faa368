"""What every test begins and ends with, made cheap: rows of the templates, and an empty
database.
"""

from __future__ import annotations

import itertools
from copy import copy
from typing import Any

from django.core.management.color import no_style
from django.db import connections, models, transaction

from runs.definitions import shipped
from runs.models import StepTemplate, Template
from tests.worlds import steps

_emptied = itertools.count(1)
KEPT = {"django_content_type", "auth_permission", "django_migrations", "checkpoints_guard"}
"""Tables that migrations fill and no test changes; and the one that opens the ledger's doors, which
is empty at every commit.
"""

MANY = 60
_since: int | None = None
"""How many tests used the tables since they were last truncated."""
_rows: list[models.Model] = []
"""The rows that a first load wrote in this process: a hundred and eighty statements, for which two
do afterwards.
"""


def load_templates() -> None:
    """The shipped templates and those of the tests, as `shipped.load` and `steps.load` write
    them.
    """
    steps.forget()
    kinds = (StepTemplate, Template)
    if any(kind._default_manager.exists() for kind in kinds):
        shipped.load()
        steps.load()
    elif not _rows:
        shipped.load()
        steps.load()
        _rows.extend(copy(row) for kind in kinds for row in kind._default_manager.order_by("pk"))
    else:
        for kind in kinds:
            kind._default_manager.bulk_create([_new(row) for row in _rows if isinstance(row, kind)])


def _new(row: Any) -> Any:
    """The row once more, for the database to number."""
    new = copy(row)
    new._state = copy(row._state)
    new.pk, new._state.adding = None, True
    return new


def empty(aliases: Any) -> None:
    """Delete all rows but those of migrations.

    Django's flush truncates each table, which makes its files anew, and then writes content types
    and permissions again: ten times as long. What deletes leave behind goes with every fiftieth
    `truncate`.
    """
    for alias in aliases:
        connection: Any = connections[alias]
        tables = [table for table in connection.introspection.table_names() if table not in KEPT]
        if connection.vendor == "postgresql" and next(_emptied) % 50 == 0:
            truncate(connection)
        elif connection.vendor == "postgresql":
            deletes = "; ".join(f'DELETE FROM "{table}"' for table in tables)
            with transaction.atomic(using=alias), connection.cursor() as cursor:
                # without triggers, in any order
                cursor.execute(f"SET LOCAL session_replication_role = replica; {deletes}")
        else:
            connection.ops.execute_sql_flush(connection.ops.sql_flush(no_style(), tables))


def truncate_now_and_then(connection: Any, tests: int) -> None:
    """Truncate where many tests have left dead rows, or as many are to come.

    It takes as long as three tests do.
    """
    global _since
    if _since is None or _since > MANY or tests > MANY:
        truncate(connection)
        _since = 0
    _since += tests


def truncate(connection: Any) -> None:
    """Empty PostgreSQL's tables down to their files, which tests that roll back fill with dead rows
    too.
    """
    tables = ", ".join(
        f'"{table}"' for table in connection.introspection.table_names() if table not in KEPT
    )
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL session_replication_role = replica; TRUNCATE {tables}")
