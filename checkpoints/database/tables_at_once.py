"""Migrations that make many tables."""

from __future__ import annotations

from copy import copy
from itertools import groupby
from typing import Any

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState


class Migration(migrations.Migration):
    """Makes tables that follow one another by the models of all of them.

    Django makes all related models anew for each table: nine tenths of a first start's migrations.
    """

    def apply(
        self, project_state: Any, schema_editor: BaseDatabaseSchemaEditor, collect_sql: bool = False
    ) -> Any:
        """As Django's. What `sqlmigrate` shows is told operation by operation."""
        if collect_sql:
            return super().apply(project_state, schema_editor, collect_sql)
        grouped: Any = copy(self)
        grouped.operations = [
            operation
            for tables, some in groupby(
                self.operations, lambda one: isinstance(one, migrations.CreateModel)
            )
            for operation in ([_Tables([*some])] if tables else some)
        ]
        return super(Migration, grouped).apply(project_state, schema_editor)


class _Tables(Operation):
    def __init__(self, tables: list[Operation]) -> None:
        self.tables = tables

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        state.__dict__.pop("apps", None)  # the models; made once they are asked for
        for table in self.tables:
            table.state_forwards(app_label, state)

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        for table in self.tables:
            table.database_forwards(app_label, schema_editor, from_state, to_state)
