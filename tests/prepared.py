"""Databases for stories. Making tables takes ten seconds of a processor, so they are made once per run of the tests, and copied."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import psycopg

ROOT = Path(__file__).resolve().parent.parent
PASSWORD = "a long password of the tests"
PEOPLE = f"""
from django.contrib.auth.models import Group, User
team = Group.objects.create(name="platform")
for name in ("ana", "ben"):
    User.objects.create_user(name, password={PASSWORD!r}, first_name=name.capitalize()).groups.add(team)
User.objects.create_user("zoe", password={PASSWORD!r})
User.objects.create_superuser("olga", password={PASSWORD!r})
"""
MAKE = """
from django.core.management import call_command
call_command("migrate", verbosity=0)
"""
TEMPLATES = "call_command('load_templates')\n"
LOCK = 7_206
"""Of PostgreSQL: whoever makes the database that others are copies of."""


def postgresql(name: str) -> str:
    """A database of that name with tables, the shipped templates and people, on the tests' server; gives its URL."""
    server = os.environ["DATABASE_URL"]
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        if connection.execute("SELECT 1 FROM pg_database WHERE datname = 'prepared'").fetchone() is None:
            connection.execute("DROP DATABASE IF EXISTS unfinished")
            connection.execute("CREATE DATABASE unfinished")
            _make(_at(server, "unfinished"), MAKE + TEMPLATES + PEOPLE)
            connection.execute("ALTER DATABASE unfinished RENAME TO prepared")
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')  # of an earlier run on the same server
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE prepared')
    return _at(server, name)


def _at(server: str, name: str) -> str:
    return server.replace("/postgres?", f"/{name}?")


def sqlite(folder: Path) -> None:
    """Put an embedded database with tables and no rows into a data folder."""
    data = Path(os.environ["WAYSTATION_DATA"])
    data.mkdir(parents=True, exist_ok=True)
    made = data / "prepared.sqlite3"
    with (data / "prepared.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            unfinished = data / "unfinished.sqlite3"
            unfinished.unlink(missing_ok=True)
            _make(f"sqlite:///{unfinished}", MAKE)
            unfinished.rename(made)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(made, folder / "waystation.sqlite3")


def _make(url: str, code: str) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("WAYSTATION_", "TEST_", "DJANGO_"))}
    given = {**environment, "DATABASE_URL": url, "WAYSTATION_DATA": os.environ["WAYSTATION_DATA"]}
    subprocess.run([sys.executable, "manage.py", "shell", "-c", code], cwd=ROOT, env=given, check=True, stdout=subprocess.DEVNULL)
