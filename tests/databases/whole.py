"""For tests that look at the whole database, or at it from several threads."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from django.db.models import Model

from runs.engine.context import streaming
from tests.databases.cleaning import filled

APART = {"hitl.ApiToken": {"last_used_at"}, "auth.User": {"last_login"}}
"""Fields that a refused request may touch: it may have logged in, or shown its token.

Reading touches nothing: see tests/matrix.
"""


@pytest.fixture
def file_database(transactional_db: None, tmp_path: Path) -> Iterator[None]:
    """On SQLite, a database in a file as in production: the tests' own lies in memory, where two
    connections cannot wait for each other.
    """
    if connection.vendor != "sqlite":
        yield
        return
    connection.ensure_connection()
    memory, name = connection.connection, connection.settings_dict["NAME"]
    copy = sqlite3.connect(tmp_path / "waystation.sqlite3")
    memory.backup(copy)
    copy.close()
    connection.connection = None
    connection.settings_dict["NAME"] = str(tmp_path / "waystation.sqlite3")
    let_writer_go()
    yield
    let_writer_go()
    connection.close()
    connection.settings_dict["NAME"] = name
    connection.connection = memory


def let_writer_go() -> None:
    """Wait until the thread that writes what steps say has given its connection back, which it
    keeps for a while after the last word.
    """
    if not streaming._writers:
        return
    gone = threading.Event()

    def write(text: str) -> None:
        connection.close()
        gone.set()

    streaming.Chunks(write).add("-")
    assert gone.wait(10)


def at_once(*jobs: Callable[[], Any]) -> list[Any]:
    """Run jobs at the same moment, each in a thread with a connection of its own; give what they
    return or raise.
    """
    start = threading.Barrier(len(jobs))

    def run(job: Callable[[], Any]) -> Any:
        try:
            start.wait(10)
            return job()
        except Exception as error:  # noqa: BLE001  # the test looks at what each job ended with
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(run, jobs))


def rows() -> dict[str, list[Any]]:
    """Every row of every table as the database has it, to compare before and after."""
    models = apps.get_models()
    found: dict[str, list[Any]] = {}
    for model, some in zip(models, filled(models), strict=True):
        found[model._meta.label] = _rows(model) if some else []
    return found


def _rows(model: type[Model]) -> list[Any]:
    quoted: Any = connection.ops.quote_name
    columns = ", ".join(
        quoted(field.column)
        for field in model._meta.concrete_fields
        if field.name not in APART.get(model._meta.label, set())
    )
    key = quoted(model._meta.pk.column)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {columns} FROM {quoted(model._meta.db_table)} ORDER BY {key}")
        return list(cursor.fetchall())
