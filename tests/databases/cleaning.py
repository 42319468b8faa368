"""What every test begins and ends with, made cheap: rows of the templates, and an empty
database.
"""

from __future__ import annotations

import itertools
from typing import Any

from django.core.management.color import no_style
from django.db import connection, connections, models, transaction

from checkpoints.database import clock
from checkpoints.models.fields import MadeAtField
from hitl.find import fulltext
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
MADE_AT = "'when it is written'"
_written: list[str] = []
"""What a first load wrote in this process, with a hundred and eighty statements, as two that write
it again.
"""


def load_templates() -> None:
    """The shipped templates and those of the tests, as `shipped.load` and `steps.load` write
    them.
    """
    steps.forget()
    kinds = (StepTemplate, Template)
    known = any(kind._default_manager.exists() for kind in kinds)
    if _written and not known:
        with connection.cursor() as cursor:
            for statement in _written:
                cursor.execute(statement.replace(MADE_AT, f"'{_now()}'"))
        return
    shipped.load()
    steps.load()
    if not known:
        _written.extend(_insert(kind) for kind in kinds)


def _insert(kind: type[models.Model]) -> str:
    """A statement that writes the rows of a model once more, for the database to number.

    Its values stand in it as words, and MADE_AT for the moment: Django takes as long to put them
    there as a small test does.
    """
    fields = [field for field in kind._meta.concrete_fields if not field.primary_key]
    names = ", ".join(f'"{field.column}"' for field in fields)
    table = kind._meta.db_table
    literal = "quote_nullable" if connection.vendor == "postgresql" else "quote"
    row = " || ', ' || ".join(
        "'" + MADE_AT.replace("'", "''") + "'"
        if isinstance(field, MadeAtField)
        else f'{literal}("{field.column}")'
        for field in fields
    )
    with connection.cursor() as cursor:
        cursor.execute(f'SELECT {row} FROM "{table}" ORDER BY "{kind._meta.pk.column}"')
        rows = ", ".join(f"({words})" for (words,) in cursor.fetchall())
    return f'INSERT INTO "{table}" ({names}) VALUES {rows}'


def _now() -> str:
    return str(connection.ops.adapt_datetimefield_value(clock.now()))


def empty(aliases: Any) -> None:
    """Delete all rows but those of migrations.

    Django's flush truncates each table, which makes its files anew, and then writes content types
    and permissions again: ten times as long. What deletes leave behind goes with every fiftieth
    `truncate`.
    """
    for alias in aliases:
        connection: Any = connections[alias]
        tables = [table for table in connection.introspection.table_names() if table not in KEPT]
        if connection.vendor == "sqlite":  # its triggers empty the index of words
            tables = [table for table in tables if not table.startswith(fulltext.TABLE)]
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
