"""Migrate tables that grow with work, while processes of the old version write them.

On PostgreSQL these operations hold no lock that writers wait for; SQLite has one writer anyway. A
migration with one of them says `atomic = False` and has nothing else in it: where it ends half-way,
the next try removes what the first one left.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.contrib.postgres.operations import AddIndexConcurrently, NotInTransactionMixin
from django.db.migrations.operations import AddConstraint, AddIndex


class AddIndexBeside(AddIndexConcurrently):
    """An index that is built while rows are written."""

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        states = (app_label, schema_editor, from_state, to_state)
        if schema_editor.connection.vendor != "postgresql":
            return AddIndex.database_forwards(self, *states)
        self._ensure_not_in_transaction(schema_editor)
        with _patient(schema_editor, self.index.name):
            super().database_forwards(*states)

    def database_backwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        states = (app_label, schema_editor, from_state, to_state)
        if schema_editor.connection.vendor != "postgresql":
            return AddIndex.database_backwards(self, *states)
        with _patient(schema_editor):
            super().database_backwards(*states)


UNFINISHED = """
    SELECT 1 FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
    WHERE relname = %s AND NOT indisvalid AND pg_table_is_visible(pg_class.oid)"""


@contextmanager
def _patient(schema_editor: Any, unfinished: str = "") -> Iterator[None]:
    """Lift the limit on waiting: such an index waits for others, and nobody waits for it.

    What an earlier try left of the index `unfinished` is removed first.
    """
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SHOW lock_timeout")
        (before,) = cursor.fetchone()
        cursor.execute("SET lock_timeout = 0")
        try:
            cursor.execute(UNFINISHED, [unfinished])
            if cursor.fetchone():
                name = schema_editor.quote_name(unfinished)
                schema_editor.execute(f"DROP INDEX CONCURRENTLY {name}", params=None)
            yield
        finally:
            cursor.execute("SELECT set_config('lock_timeout', %s, false)", [before])


class _ConstraintBeside(NotInTransactionMixin, AddConstraint):
    """On SQLite as Django adds it; on PostgreSQL beside writers."""

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        model = to_state.apps.get_model(app_label, self.model_name)
        if not self.allow_migrate_model(schema_editor.connection.alias, model):
            return
        if schema_editor.connection.vendor != "postgresql":
            return super().database_forwards(app_label, schema_editor, from_state, to_state)
        self._ensure_not_in_transaction(schema_editor)
        self._add(schema_editor, model, str(self.constraint.create_sql(model, schema_editor)))

    def _add(self, schema_editor: Any, model: Any, statement: str) -> None:
        raise NotImplementedError


class AddUniqueBeside(_ConstraintBeside):
    """A unique rule with a condition, which is an index: it is built while rows are written."""

    def _add(self, schema_editor: Any, model: Any, statement: str) -> None:
        head, index, rest = statement.partition("CREATE UNIQUE INDEX ")
        if head or not index:
            raise TypeError(f"{self.constraint.name} has no condition, so it is no index alone.")
        with _patient(schema_editor, self.constraint.name):
            schema_editor.execute(f"{index}CONCURRENTLY {rest}", params=None)


class AddCheckBeside(_ConstraintBeside):
    """A check that holds for new rows at once, while old rows are checked beside other writers.

    Processes of the old version must keep to the check already: nobody tells them what they may no
    longer write.
    """

    def _add(self, schema_editor: Any, model: Any, statement: str) -> None:
        table = schema_editor.quote_name(model._meta.db_table)
        name = schema_editor.quote_name(self.constraint.name)
        for text in (
            f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {name}",
            f"{statement} NOT VALID",
            f"ALTER TABLE {table} VALIDATE CONSTRAINT {name}",
        ):
            schema_editor.execute(text, params=None)
