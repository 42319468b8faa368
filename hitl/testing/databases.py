"""Databases of the kit: each a copy of one with tables, which is made once and kept for the next
process of the same code.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
import uuid
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import django
from django.apps import apps
from django.db.utils import ConnectionHandler

from checkpoints.database import addresses

MakeTables = Callable[[dict[str, Any]], None]
KIT = "hitl.testing.backends"
KEPT = 8
"""Files with tables that are kept on a machine, each of other code."""


class Database(Protocol):
    """A database that nobody else uses."""

    vendor: str
    settings: dict[str, Any]
    """As Django's DATABASES has one."""

    def copy(self) -> Database:
        """Give another database with the same rows. Nobody may be in this one."""

    def drop(self) -> None: ...


class Sqlite:
    """A file; `of` is one that nobody has open, of which it is a copy."""

    vendor = "sqlite"

    def __init__(self, make_tables: MakeTables | None, *, of: Path | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="waystation-testing-"))
        self.path = self.folder / "waystation.sqlite3"
        if of is not None:
            shutil.copyfile(of, self.path)
        elif make_tables is not None:
            _copy_tables(make_tables, self.path)
        self.settings = _settings(f"sqlite:///{self.path}", "sqlite")
        self._finalizer = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def copy(self) -> Sqlite:
        return Sqlite(None, of=self.path)

    def drop(self) -> None:
        self._finalizer()


class Postgresql:
    """A database on a server, made from a template there."""

    vendor = "postgresql"

    def __init__(self, url: str, make_tables: MakeTables | None, *, of: str = "") -> None:
        self.server = _settings(url, "postgresql")
        name = f"waystation_testing_{uuid.uuid4().hex[:12]}"
        self.settings = {**self.server, "NAME": name}
        self._url = url
        if not of:
            of = tables_name()
            with self._administering() as run:
                run("SELECT pg_advisory_lock(7206)")
                if not run("SELECT 1 FROM pg_database WHERE datname = %s", of):
                    run(f'DROP DATABASE IF EXISTS "{of}_new" WITH (FORCE)')
                    run(f'CREATE DATABASE "{of}_new"')
                    assert make_tables is not None
                    make_tables({**self.server, "NAME": f"{of}_new"})
                    run(f'ALTER DATABASE "{of}_new" RENAME TO "{of}"')
        with self._administering() as run:
            run(f'CREATE DATABASE "{name}" TEMPLATE "{of}"')

    @contextlib.contextmanager
    def _administering(self) -> Iterator[Callable[..., Any]]:
        handler: Any = ConnectionHandler({"default": {**self.server}})
        connection = handler["default"]

        def run(sql: str, *values: Any) -> Any:
            with connection.cursor() as cursor:
                cursor.execute(sql, values)
                return cursor.fetchall() if cursor.description else None

        try:
            yield run
        finally:
            connection.close()

    def copy(self) -> Postgresql:
        return Postgresql(self._url, None, of=self.settings["NAME"])

    def drop(self) -> None:
        with self._administering() as run:
            run(f'DROP DATABASE IF EXISTS "{self.settings["NAME"]}" WITH (FORCE)')


def tables_name() -> str:
    """Give the name of the database on a server that the kit's others are copies of."""
    return f"waystation_tables_{_digest()[:16]}"


def _settings(url: str, vendor: str) -> dict[str, Any]:
    raw = {**addresses.database(url, pool=0), "ENGINE": f"{KIT}.{vendor}"}
    if vendor == "sqlite":  # what a lost machine may cost is no matter of a test
        options = raw["OPTIONS"]
        options["init_command"] = f"{options.get('init_command', '')};PRAGMA synchronous=OFF"
    full: dict[str, Any] = ConnectionHandler({"default": raw}).settings["default"]
    return full


def _copy_tables(make_tables: MakeTables, path: Path) -> None:
    """Copy the SQLite file with the tables of this code, made where there is none."""
    folder = Path(tempfile.gettempdir()) / f"waystation-tables-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to somebody else. Remove it, or set TMPDIR.")
    made = folder / f"{_digest()[:16]}.sqlite3"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            for old in sorted(folder.glob("*.sqlite3"), key=lambda file: file.stat().st_mtime)[
                :-KEPT
            ]:
                old.unlink()
            unfinished = folder / "unfinished.sqlite3"
            unfinished.unlink(missing_ok=True)
            make_tables(_settings(f"sqlite:///{unfinished}", "sqlite"))
            unfinished.rename(made)
        shutil.copyfile(made, path)


def _digest() -> str:
    """The digest of what tables are made from: models and migrations of all apps, and the kit."""
    digest = hashlib.sha256(django.__version__.encode())
    digest.update(Path(__file__).with_name("engine.py").read_bytes())
    for app in sorted(apps.get_app_configs(), key=lambda app: app.label):
        folder = Path(app.path)
        for path in sorted(
            [
                *folder.glob("migrations/*.py"),
                *folder.glob("models.py"),
                *folder.glob("models/**/*.py"),
            ]
        ):
            digest.update(f"{app.label}/{path.relative_to(folder)}".encode() + path.read_bytes())
    return digest.hexdigest()
