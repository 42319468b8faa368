"""`manage.py start`: any number of processes at once, on a database that may not be there yet."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from hitl.operations import starting
from tests.databases import copies
from tests.servers.private import free_port
from tests.servers.stack import Stack, until

pytestmark = [pytest.mark.stack]

OLDER = "DROP TABLE django_session; DELETE FROM django_migrations WHERE app = 'sessions';"
MIGRATES = "Migrating the database."
HOLDS = """
import time
from hitl.operations import starting
with starting.alone(print, seconds=5):
    print("has it", flush=True)
    time.sleep(60)  # until it is killed
"""


@pytest.fixture(params=["postgresql", "sqlite"])
def empty(request, tmp_path) -> Iterator[Stack]:
    """A stack whose database has no table yet; the embedded one lacks those of one app alone."""
    if request.param == "sqlite":
        copies.sqlite(tmp_path / "data")
        with closing(sqlite3.connect(tmp_path / "data" / "waystation.sqlite3")) as database:
            database.executescript(OLDER)
        yield (stack := Stack(tmp_path, {"WAYSTATION_COMMIT": "abc1234"}))
        stack.stop()
        return
    server = os.environ["DATABASE_URL"]
    name = f"empty_{os.environ.get('PYTEST_XDIST_WORKER', 'gw0')}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        connection.execute(f'CREATE DATABASE "{name}"')
    path, _, options = server.partition("?")
    url = f"{path.rpartition('/')[0]}/{name}?{options}"
    static = tmp_path / "static"  # as an image brings them along
    static.mkdir()
    (static / "staticfiles.json").write_text("{}")
    (static / starting.COLLECTED).write_text("0.1.0 abc1234")
    more = {"DATABASE_URL": url, "STATIC_ROOT": str(static), "WAYSTATION_COMMIT": "abc1234"}
    yield (stack := Stack(tmp_path, more))
    stack.stop()


def test_of_hosts_that_start_at_once_on_a_database_that_lacks_tables_one_migrates_and_none_fails(
    empty,
):
    """A container's entrypoint runs as often as there are containers; one that dies in the middle
    of its migrations stops no deploy for ever.
    """
    holder = empty.start("holder", "manage.py", "shell", "-v", "0", "-c", HOLDS)
    until(lambda: "has it" in (empty.folder / "holder.log").read_text(), what="the first")
    names = ["host1", "host2"]
    hosts = [empty.start(name, "manage.py", "start", "prepare") for name in names]
    hurried = empty.start("hurried", "manage.py", "start", "prepare", "--migrating", "0.1")

    def logs() -> list[str]:
        return [(empty.folder / f"{name}.log").read_text() for name in names]

    until(lambda: all("Waiting: another process migrates" in log for log in logs()), what="all")
    assert hurried.wait(60) == 1
    told = (empty.folder / "hurried.log").read_text()
    assert "Another process has been migrating" in told and "Traceback" not in told
    empty.kill(holder)
    assert [host.wait(120) for host in hosts] == [0, 0], logs()
    assert sum(log.count(MIGRATES) for log in logs()) == 1, logs()
    collected = sum(log.count("Collecting static files.") for log in logs())
    assert collected == ("DATABASE_URL" not in empty.environment), logs()
    assert "Traceback" not in "".join(logs())
    assert not empty.manage("start", "prepare")  # nothing is left to do
    if collected:
        _others_may_read(empty.folder / "data" / "static")
        _starts_web(empty)


def _others_may_read(static: Path) -> None:
    """The user of an image, or of a web server in front, is another one than collected them."""
    files = [path for path in static.rglob("*") if path.is_file()]
    assert any(path.suffix == ".gz" for path in files)
    kept = [path.name for path in files if not path.stat().st_mode & 0o004]
    assert kept == [f"{starting.COLLECTED}.lock"]


def _starts_web(stack: Stack) -> None:
    """`docker stop` and systemd signal one process, which has to be the server itself."""
    port = str(stack.port)
    web = stack.start("web", "manage.py", "start", "web", "--host", "127.0.0.1", "--port", port)
    stack.wait_for_web()
    arguments = Path(f"/proc/{web.pid}/cmdline").read_bytes().decode().split("\0")
    assert "project.asgi:application" in arguments and "start" not in arguments
    page = stack.call("GET", "/login")[1]
    assert "css/app." in page and "css/app.css" not in page  # names with their digest
    assert "Waystation 0.1.0" not in page  # which version it is, only people are told
    os.kill(web.pid, signal.SIGTERM)
    web.wait(20)


@pytest.mark.parametrize("empty", ["postgresql"], indirect=True)
def test_a_database_that_cannot_hold_every_text_is_refused_before_it_is_changed(empty):
    """A server that was set up in the locale C makes databases without an encoding."""
    name = psycopg.conninfo.conninfo_to_dict(empty.environment["DATABASE_URL"])["dbname"]
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
        ascii_only = "ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0"
        connection.execute(f'CREATE DATABASE "{name}" {ascii_only}')
    refused = empty.start("refused", "manage.py", "start", "prepare")
    assert refused.wait(60) == 1
    told = (empty.folder / "refused.log").read_text()
    assert "encoding is SQL_ASCII" in told and "Traceback" not in told and MIGRATES not in told


def test_a_database_that_is_away_is_waited_for_and_said_in_words(tmp_path):
    """Compose and systemd start a database and its clients together."""
    url = f"postgresql://waystation:hunter2@127.0.0.1:{free_port()}/waystation"
    stack = Stack(tmp_path, {"DATABASE_URL": url})
    began = time.monotonic()
    waiting = stack.start("waiting", "manage.py", "start", "prepare", "--wait", "1")
    assert waiting.wait(60) == 1 and time.monotonic() - began < 60
    told = (tmp_path / "waiting.log").read_text()
    assert "Waiting for the database: " in told
    assert "did not answer within 1 s" in told
    assert "hunter2" not in told and "Traceback" not in told
