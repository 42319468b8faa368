"""A database from before each app's migrations became one: it is refused before anything in it is
changed, in words that say what to do.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from django.core.checks import run_checks
from django.core.management import CommandError, call_command
from django.core.management.base import SystemCheckError
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from checkpoints import checks
from checkpoints.database.older_database import HALF_WAY, LAST, REFUSAL, refusal
from tests.databases import copies
from tests.programs.begun import Begun, plain


@pytest.fixture
def older(transactional_db: None) -> Iterator[None]:
    recorder = MigrationRecorder(connection)
    recorder.record_applied("hitl", "0002_erasure")
    yield
    recorder.record_unapplied("hitl", "0002_erasure")


def test_every_way_to_begin_with_an_older_database_is_refused(older: None) -> None:
    """Its rows say that `0001_initial` has been applied, so the tables passed for today's ones and
    servers went to work on shapes that they no longer read.
    """
    with pytest.raises(CommandError) as refused:
        call_command("migrate", verbosity=0)
    assert str(refused.value) == REFUSAL
    assert [one.msg for one in run_checks() if one.id == "checkpoints.E010"] == [REFUSAL]
    with pytest.raises(SystemExit, match="made by an older version"):
        checks.at_start(reach=False)  # of servers and workers


def test_a_database_half_way_to_the_last_of_many_migrations_is_refused(transactional_db):
    """Django would say that a migration's parent is missing, and not what to do."""
    recorder = MigrationRecorder(connection)
    recorder.record_unapplied("runs", LAST["runs"])  # the one has written down all that it is
    try:
        with pytest.raises(SystemCheckError, match="has not yet had all migrations"):
            call_command("migrate", verbosity=0, skip_checks=False)
        assert [one.msg for one in run_checks() if one.id == "checkpoints.E010"] == [HALF_WAY]
        with pytest.raises(SystemExit, match="has not yet had all migrations"):
            checks.at_start(reach=False)
    finally:
        recorder.record_applied("runs", LAST["runs"])
    assert refusal() == ""


def test_one_migration_stands_for_all_that_there_were():
    """So a database that had them all is taken as it is."""
    loader = MigrationLoader(None)
    for app, last in LAST.items():
        replaces = loader.disk_migrations[app, "0001_tables"].replaces
        assert replaces[0] == (app, "0001_initial") and replaces[-1] == (app, last)


def test_todays_database_is_not_refused(db: None) -> None:
    assert "checkpoints.E010" not in [one.id for one in run_checks()]
    checks.at_start(reach=False)


def tell(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / "waystation.sqlite3")) as database:
        return list(database.iterdump())


@pytest.mark.one_database
def test_an_older_data_folder_is_left_as_it_is(tmp_path: Path) -> None:
    copies.sqlite(tmp_path)
    with closing(sqlite3.connect(tmp_path / "waystation.sqlite3")) as database, database:
        database.execute(
            "INSERT INTO django_migrations (app, name, applied) "
            "VALUES ('checkpoints', '0002_chunks', '2026-11-22')"
        )
    before = tell(tmp_path)
    environment = {**plain(), "WAYSTATION_DATA": str(tmp_path)}
    program = ("manage.py", "standalone", "--demo", "--port", "1")
    answer = Begun(*program, environment=environment).ended()
    assert answer.returncode == 1
    for words in (
        "Nothing was changed in it",
        "manage.py export_thread",
        "manage.py import_thread",
    ):
        assert words in answer.stderr
    assert tell(tmp_path) == before
