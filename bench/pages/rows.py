"""Rows of a server in use, made by the database itself: `generate_series` writes a hundred thousand
in seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.db import connection
from django.db.models import Model
from psycopg import sql


def key(ms: str, salt: str) -> str:
    """A time-ordered key in SQL: 48 bits of milliseconds, then what a digest gives."""
    return (
        f"encode(substring(int8send({ms}) FROM 3) || '\\x70'::bytea || "
        f"substring(uuid_send(md5({salt})::uuid) FROM 8), 'hex')::uuid"
    )


def write(
    statements: Iterable[str], values: Mapping[str, Any], *, models: Iterable[type[Model]]
) -> None:
    """Run the statements on PostgreSQL. Constraints and indexes are those of the product.

    Args:
        models: whose columns have their models' defaults where a statement names none.
    """
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit TO off")
        # the rows refer to each other as they should; that is not looked up
        cursor.execute("SET session_replication_role TO replica")
        for default in _defaults(models):
            cursor.execute(default)
        for statement in statements:
            cursor.execute(statement, values)
        cursor.execute("RESET session_replication_role")
        cursor.execute("RESET synchronous_commit")
        cursor.execute("VACUUM ANALYZE")


def _defaults(models: Iterable[type[Model]]) -> Iterator[sql.Composed]:
    """Django keeps no defaults in the database."""
    for model in models:
        for field in model._meta.concrete_fields:
            value = (
                None
                if field.null or field.primary_key or field.is_relation
                else field.get_db_prep_save(field.get_default(), connection)
            )
            if value is not None:
                yield sql.SQL("ALTER TABLE {} ALTER COLUMN {} SET DEFAULT {}").format(
                    sql.Identifier(model._meta.db_table),
                    sql.Identifier(field.column),
                    sql.Literal(value),
                )
