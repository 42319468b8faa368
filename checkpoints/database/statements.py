"""Write rows with SQL that is made once per process, several rows in one round trip.

A row that the ORM writes takes more time in Django than in the server: Django makes its SQL anew,
and each row is a round trip. That counts where somebody waits: LangGraph for its saver, once or
twice a step, and a person for their answer. On PostgreSQL writes to different tables are one
statement that commits itself. SQLite, which has no data-modifying CTE, takes them one by one in a
transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import groupby
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections, models, transaction
from django.db.models import Expression


@dataclass(frozen=True, slots=True)
class Statement:
    table: str
    sql: str
    values: Sequence[Any]


def insert(row: models.Model, *, using: str = DEFAULT_DB_ALIAS) -> Statement:
    """Write a new row, whose key is set: what `save(force_insert=True)` does, which also sends
    signals.
    """
    return upsert([row], using=using)


def upsert(
    rows: Sequence[models.Model], *, using: str, on: Sequence[str] = (), update: Sequence[str] = ()
) -> Statement:
    """Insert rows of one table; those that conflict `on` columns stay as they are, or take the new
    values of the columns in `update`. Without such columns a conflict is an IntegrityError.
    """
    model, connection = type(rows[0]), connections[using]
    keyless = rows[0].pk is None
    values = [
        field.get_db_prep_save(field.pre_save(row, True), connection)
        for row in rows
        for field in _written(model, keyless)
    ]
    expressions = []
    for place, value in enumerate(values):
        if isinstance(value, Expression):  # `clock.FromNow`, which needs no compiler
            written: Any = getattr(value, f"as_{connection.vendor}", value.as_sql)
            expression, (values[place],) = written(None, connection)
            expressions.append((place, expression))
    sql = _upsert(model, len(rows), keyless, tuple(expressions), tuple(on), tuple(update))
    return Statement(model._meta.db_table, sql, values)


@cache
def _written(model: type[models.Model], keyless: bool) -> list[Any]:
    """List the columns of new rows: without the key where the database gives it."""
    return [field for field in model._meta.concrete_fields if not (keyless and field.primary_key)]


@lru_cache(maxsize=256)
def _upsert(
    model: type[models.Model],
    rows: int,
    keyless: bool,
    expressions: tuple[tuple[int, str], ...],
    on: tuple[str, ...],
    update: tuple[str, ...],
) -> str:
    names = [field.column for field in _written(model, keyless)]
    values = ["%s"] * (len(names) * rows)
    for place, expression in expressions:
        values[place] = expression
    marks = ", ".join(
        f"({', '.join(values[at : at + len(names)])})" for at in range(0, len(values), len(names))
    )
    then = (
        f"UPDATE SET {', '.join(f'{name} = EXCLUDED.{name}' for name in update)}"
        if update
        else "NOTHING"
    )
    conflict = f" ON CONFLICT ({', '.join(on)}) DO {then}" if on else ""
    return (
        f"INSERT INTO {model._meta.db_table} ({', '.join(names)}) "  # noqa: S608  # models' names
        f"VALUES {marks}{conflict}"
    )


def update(
    rows: Sequence[models.Model], columns: Sequence[str], *, using: str = DEFAULT_DB_ALIAS
) -> Statement:
    """Write these columns of rows of one table, each row its own values: what `bulk_update` does,
    which makes an expression of each value.
    """
    model, connection = type(rows[0]), connections[using]
    fields = _fields(model, columns)
    values = [
        field.get_db_prep_save(getattr(row, field.attname), connection)
        for row in rows
        for field in fields
    ]
    sql = _update(model, len(rows), tuple(columns), connection.vendor)
    return Statement(model._meta.db_table, sql, values)


def _fields(model: type[models.Model], columns: Sequence[str]) -> list[Any]:
    """Give the fields of a model's key and of these columns."""
    return [model._meta.pk, *map(model._meta.get_field, columns)]


@lru_cache(maxsize=256)
def _update(model: type[models.Model], rows: int, columns: tuple[str, ...], vendor: str) -> str:
    key, *fields = _fields(model, columns)
    marks = ", ".join([f"({', '.join(['%s'] * (len(fields) + 1))})"] * rows)

    def given(field: Any) -> str:  # PostgreSQL takes values without a column for text
        return (
            f"CAST(given.{field.column} AS {field.db_type(connections[DEFAULT_DB_ALIAS])})"
            if vendor == "postgresql"
            else f"given.{field.column}"
        )

    names = ", ".join(field.column for field in (key, *fields))
    changes = ", ".join(f"{field.column} = {given(field)}" for field in fields)
    return (
        f"WITH given ({names}) AS (VALUES {marks}) "  # noqa: S608  # models' names
        f"UPDATE {model._meta.db_table} SET {changes} FROM given "
        f"WHERE {model._meta.db_table}.{key.column} = {given(key)}"
    )


def write(rows: Sequence[models.Model], *, using: str = DEFAULT_DB_ALIAS) -> None:
    """Write new rows of one table or of several, all of them or none; those of one table stand side
    by side. A row may come before the row that it refers to: foreign keys are checked at the
    commit.

    As after `save`, a row knows that it is written; it does not know a key that the database gave.
    """
    execute([upsert(list(own), using=using) for _, own in groupby(rows, type)], using=using)
    for row in rows:
        row._state.adding, row._state.db = False, using


def execute(statements: Sequence[Statement], *, using: str = DEFAULT_DB_ALIAS) -> None:
    """Run all of these statements, or none."""
    connection = connections[using]
    tables = {statement.table for statement in statements}
    together = connection.vendor == "postgresql" and len(tables) == len(statements)
    if together or len(statements) == 1:
        *first, last = statements
        before = ", ".join(
            f"part{number} AS ({statement.sql})" for number, statement in enumerate(first)
        )
        sql = f"WITH {before} {last.sql}" if first else last.sql
        with connection.cursor() as cursor:
            cursor.execute(sql, [value for statement in statements for value in statement.values])
        return
    with transaction.atomic(using=using), connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement.sql, statement.values)
