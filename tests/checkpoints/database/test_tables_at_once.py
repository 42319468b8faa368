"""Tables that are made by the models of all of them are the same tables."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection, migrations
from django.db.migrations.loader import MigrationLoader


@pytest.mark.django_db
@pytest.mark.one_database
@pytest.mark.parametrize("app", ["checkpoints", "runs", "hitl"])
def test_a_first_start_makes_the_tables_that_django_makes_one_by_one(app):
    loader = MigrationLoader(connection)
    first = loader.disk_migrations[app, "0001_tables"]

    def statements(apply: Any) -> list[str]:
        state = loader.project_state((app, "0001_tables"), at_end=False)
        with connection.schema_editor(collect_sql=True, atomic=False) as editor:
            apply(first, state, editor)
            editor.deferred_sql, rest = [], [*editor.deferred_sql]
        return [*editor.collected_sql, *map(str, rest)]

    at_once = statements(type(first).apply)
    assert at_once == statements(migrations.Migration.apply)
    assert sum(words.startswith("CREATE TABLE") for words in at_once) > 3
