"""What every test begins and ends with, made cheap: rows of the templates, and an empty
database.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.core.management.color import no_style
from django.db import connection, connections, models, transaction

from checkpoints.database import clock
from checkpoints.models.fields import MadeAtField
from hitl.find import fulltext
from runs.definitions import shipped
from runs.models import StepTemplate, Template
from tests.worlds import steps

KEPT = {"django_content_type", "auth_permission", "django_migrations", "checkpoints_guard"}
"""Tables that migrations fill and no test changes; and the one that opens the ledger's doors, which
is empty at every commit.
"""
LARGE = 250_000
"""Bytes of a table that is truncated with all that refer to it, not only emptied."""
WRITTEN_ARE_EMPTIED = f"""
DO $$ DECLARE one record; BEGIN
    SET LOCAL session_replication_role = replica;  -- without triggers, in any order
    FOR one IN
        SELECT oid::regclass AS name, pg_relation_size(oid) AS size FROM pg_class
        WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
            AND pg_relation_size(oid) > 0 AND relname NOT IN {tuple(sorted(KEPT))}
    LOOP
        IF one.size > {LARGE} THEN EXECUTE format('TRUNCATE %s CASCADE', one.name);
        ELSE EXECUTE format('DELETE FROM %s', one.name); END IF;
    END LOOP;
END $$"""

MADE_AT = "'when it is written'"
STANDING: dict[str, Any] = {}
"""Name of a fixture → what it gives, of rows that were committed for all tests of a file: those
that are rolled back find them again.
"""
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
    known = any(filled(kinds))
    if _written and not known:
        with connection.cursor() as cursor:
            for statement in _written:
                cursor.execute(statement.replace(MADE_AT, f"'{_now()}'"))
        return
    shipped.load()
    steps.load()
    if not known:
        _written.extend(_insert(kind) for kind in kinds)


def filled(kinds: Iterable[type[models.Model]]) -> list[bool]:
    """Which tables have rows at all, asked at once: most have none."""
    tables = [connection.ops.quote_name(model._meta.db_table) for model in kinds]
    with connection.cursor() as cursor:
        cursor.execute("SELECT " + ", ".join(f"EXISTS(SELECT 1 FROM {name})" for name in tables))
        return [bool(filled) for filled in cursor.fetchone()]


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
    """Delete all rows but those of migrations, and with them what stands for a file of tests.

    Django's flush truncates each table, which makes its files anew, and then writes content types
    and permissions again: many times as long. On PostgreSQL a table that was never written has an
    empty file; dead rows, which tests that roll back leave too, go with their table once it is
    large.
    """
    STANDING.clear()
    for alias in aliases:
        connection: Any = connections[alias]
        if connection.vendor == "postgresql":
            with transaction.atomic(using=alias), connection.cursor() as cursor:
                cursor.execute(WRITTEN_ARE_EMPTIED)
        else:
            tables = [
                table
                for table in connection.introspection.table_names()
                # its triggers empty the index of words
                if table not in KEPT and not table.startswith(fulltext.TABLE)
            ]
            connection.ops.execute_sql_flush(connection.ops.sql_flush(no_style(), tables))
