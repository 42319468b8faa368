"""`manage.py doctor` where the address of the database names a primary and its standbys."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

import psycopg
import pytest
from django.core.cache import cache
from django.db import OperationalError, connection
from django.db.utils import ConnectionHandler

from checkpoints.database import addresses, timeline
from hitl.operations.doctor import standbys
from tests.servers.private import PostgreSQL
from tests.servers.stack import until

pytestmark = [pytest.mark.one_database, pytest.mark.django_db]

Pair = Callable[[str], PostgreSQL]


@contextmanager
def running() -> Iterator[Pair]:
    """Gives servers by their names; the second is a standby of the first."""
    servers: dict[str, PostgreSQL] = {}
    with ExitStack() as stack:
        # not in pytest's folder, which is closed for PostgreSQL's own user
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="waystation-")))
        folder.chmod(0o755)
        for name in ("one", "two"):
            server = servers[name] = PostgreSQL(folder / name)
            if name == "one":
                server.create()
            else:
                server.copy(servers["one"])
            server.start()
            stack.callback(server.kill)
        yield servers.__getitem__


def findings(*folders: Path) -> list[tuple[str, str]]:
    url = f"postgresql://waystation:hush@/postgres?host={','.join(map(str, folders))}"
    with patch.dict(connection.settings_dict, addresses.database(url, pool=0)):
        return [(finding.level.value, finding.words) for finding in standbys.standbys()]


def say(server: PostgreSQL, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(server.url, autocommit=True) as session:
        result = session.execute(statement)
        return result.fetchall() if result.description else []


def test_an_old_primary_that_came_back_is_named_and_refused_before_anything_is_lost_to_it():
    """A host that restarts by itself after its standby was promoted takes writes again."""
    with running() as server:
        one, two = server("one"), server("two")
        here, there = str(one.folder), str(two.folder)
        assert findings(one.folder, two.folder) == [
            (
                "warning",
                f"{here} waits for no standby: when it is lost, decisions that were acknowledged "
                "just before are lost with it.",
            )
        ]
        say(one, "ALTER SYSTEM SET synchronous_standby_names = '*'")
        say(one, "SELECT pg_reload_conf()")
        until(
            lambda: say(one, "SHOW synchronous_standby_names") == [("*",)], what="its own settings"
        )
        assert findings(one.folder, two.folder) == [
            ("fine", f"{here} takes writes, {there} follows.")
        ]
        # two names of one server are no two servers
        assert [level for level, _ in findings(one.folder, one.folder)] == ["warning"]

        one.kill()
        say(two, "SELECT pg_promote(true, 30)")
        assert [words.partition(" of ")[0] for _, words in findings(one.folder, two.folder)] == [
            here,
            f"{there} takes writes, and nobody follows it.",
        ]
        one.start()
        ((level, words),) = findings(one.folder, two.folder)
        assert level == "wrong"
        assert words.startswith(f"{here} and {there} both take writes: {there} was promoted last")

        timeline.forget()
        assert has(one.folder), "a process that knows nothing else"
        assert has(two.folder)
        assert not has(one.folder), "it was spoken with before, and is behind now"
        assert not has(one.folder, pool=1)
        assert has(two.folder, pool=1)
        with patch.dict(connection.settings_dict, {"HOST": "one,two"}):
            timeline.note()
        timeline.forget()
        assert not has(one.folder, two.folder), "a process that begins is told by Redis"
        timeline.forget()
        cache.delete(timeline.MARK)
        assert has(one.folder, two.folder)
        timeline.forget()


def has(*folders: Path, pool: int = 0) -> bool:
    """Whether a new connection is taken, and can be written to."""
    url = f"postgresql://waystation@/postgres?host={','.join(map(str, folders))}"
    hosts = ConnectionHandler({"default": addresses.database(url, pool=pool)})
    try:
        with hosts["default"].cursor() as cursor:
            cursor.execute("SELECT 1")
        return hosts["default"].is_usable()
    except OperationalError as error:
        return "is an old primary" not in str(error)
    finally:
        hosts["default"].close()
        if pool:
            hosts["default"].close_pool()  # type: ignore[attr-defined]  # PostgreSQL's alone


def test_an_address_of_one_server_is_not_looked_at():
    assert findings(Path("/nowhere")) == []
