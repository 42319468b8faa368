"""Databases with tables.

Making tables takes seven seconds of a processor, so they are made once per run of the tests, and
copied.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg

from tests.programs.begun import Begun

ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "a long password of the tests"
TOKENS = {name: f"wst_{name}-of-the-tests" for name in ("ana", "ben", "zoe", "olga")}
"""What people's programs log in with; a command that makes one takes longer than most of what is
done with it.
"""
NARROW = {
    ("ana", "ask"): "wst_ana-asks-in-the-tests",
    ("ana", "read"): "wst_ana-reads-in-the-tests",
    ("ben", "answer"): "wst_ben-answers-in-the-tests",
}
"""Of a person, and of one scope alone."""
PEOPLE = f"""
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.auth.models import Group, User
from hitl.models import ApiToken
team = Group.objects.create(name="platform")
password = PBKDF2PasswordHasher().encode({PASSWORD!r}, "salt", iterations=1)
for name in ("ana", "ben"):
    User.objects.create(username=name, password=password, first_name=name.capitalize()).groups.add(team)
User.objects.create(username="zoe", password=password)
User.objects.create(username="olga", password=password, is_staff=True, is_superuser=True)
for name, secret in {TOKENS!r}.items():
    ApiToken.objects.create(user=User.objects.get(username=name), name="tests", digest=ApiToken.digest_of(secret))
"""
NARROWED = f"""
for (name, scope), secret in {NARROW!r}.items():
    ApiToken.objects.create(user=User.objects.get(username=name), name=scope, scope=scope, digest=ApiToken.digest_of(secret))
"""
SLOWLY = "from tests.servers import slow_steps\nslow_steps.load()\n"
TABLES = "from django.core.management import call_command\ncall_command('migrate', verbosity=0)\n"
TEMPLATES = "from django.core.management import call_command\ncall_command('load_templates')\n"
EMPTY, PEOPLED, SLOW = "with_tables", "with_people", "with_slow_steps"
"""Databases on the tests' server that others are copies of."""
LOCK = 7_206
"""Of PostgreSQL: whoever makes the database that others are copies of."""


def postgresql(name: str, *, slow: bool = False) -> str:
    """A database of that name with tables, the shipped templates and people, on the tests' server;
    gives its URL. `slow`: with the templates of `tests.servers.slow_steps`, too.
    """
    server = os.environ["DATABASE_URL"]
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        _made_once(connection, EMPTY, TABLES, template="template1")
        _made_once(connection, PEOPLED, TEMPLATES + PEOPLE + NARROWED, template=EMPTY)
        if slow:
            _made_once(connection, SLOW, SLOWLY, template=PEOPLED)
        # of an earlier run on the same server
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE {SLOW if slow else PEOPLED}')
    return _at(server, name)


def postgresql_tables() -> str:
    """The name of a database with tables and no rows, on the tests' server, to make others
    after.
    """
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        _made_once(connection, EMPTY, TABLES, template="template1")
    return EMPTY


def _made_once(connection: psycopg.Connection[Any], name: str, code: str, *, template: str) -> None:
    if (
        connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone()
        is None
    ):
        connection.execute("DROP DATABASE IF EXISTS unfinished")
        connection.execute(f"CREATE DATABASE unfinished TEMPLATE {template}")
        _make(_at(os.environ["DATABASE_URL"], "unfinished"), code)
        connection.execute(f"ALTER DATABASE unfinished RENAME TO {name}")


def _at(server: str, name: str) -> str:
    return server.replace("/postgres?", f"/{name}?")


def sqlite(folder: Path) -> None:
    """Put an embedded database with tables and the shipped templates into a data folder."""
    folder.mkdir(parents=True, exist_ok=True)
    made = _file_made_once("with_templates", TEMPLATES, like=sqlite_tables())
    shutil.copyfile(made, folder / "waystation.sqlite3")


def sqlite_tables() -> Path:
    """An embedded database with tables and no rows, to copy."""
    return _file_made_once("prepared", TABLES)


def _file_made_once(name: str, code: str, *, like: Path | None = None) -> Path:
    data = Path(os.environ["WAYSTATION_DATA"])
    data.mkdir(parents=True, exist_ok=True)
    made = data / f"{name}.sqlite3"
    with (data / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            unfinished = data / f"unfinished_{name}.sqlite3"
            unfinished.unlink(missing_ok=True)
            if like is not None:
                shutil.copyfile(like, unfinished)
            _make(f"sqlite:///{unfinished}", code)
            unfinished.rename(made)
    return made


def postgresql_like(name: str, other: str) -> None:
    """A database of that name with what is in another one, where there is none of that name."""
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name])
        if known.fetchone() is None:
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE {other}')


def tables_of_kit() -> None:
    """What `hitl.testing` keeps in the folder for temporary files, for the next process."""
    from hitl.testing.engine import Engine  # sets Django up, which other processes here do not

    Engine.on_sqlite().close()


def _make(url: str, code: str) -> None:
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("WAYSTATION_", "TEST_", "DJANGO_"))
    }
    given = {**environment, "DATABASE_URL": url, "WAYSTATION_DATA": os.environ["WAYSTATION_DATA"]}
    if code == SLOWLY:
        given["DJANGO_SETTINGS_MODULE"] = "tests.servers.slow_settings"
    words = ["manage.py", "shell", "-c", code]
    if code == TABLES:  # which nobody else is in a hurry for
        subprocess.run(
            [sys.executable, *words], cwd=ROOT, env=given, check=True, stdout=subprocess.DEVNULL
        )
    else:
        done = Begun(*words, environment=given).ended()
        assert done.returncode == 0, done.stderr
