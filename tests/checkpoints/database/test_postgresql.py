"""The pool of a web server, after its database was restarted."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier

import pytest
from django.db import connection
from django.db.utils import ConnectionHandler

from checkpoints.database import addresses

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]
SIZE = 8


@contextmanager
def kept():
    """A host's connections to the tests' database, all of them in its pool."""
    settings = {
        **addresses.database(os.environ["DATABASE_URL"], pool=SIZE),
        "NAME": connection.settings_dict["NAME"],
    }
    settings["OPTIONS"]["pool"]["timeout"] = 5
    hosts = ConnectionHandler({"default": settings})
    together = Barrier(SIZE)

    def use(_: int) -> int:
        try:
            with hosts["default"].cursor() as cursor:
                together.wait(20)
                cursor.execute("SELECT pg_backend_pid()")
                return int(cursor.fetchone()[0])
        finally:
            hosts["default"].close()

    try:
        with ThreadPoolExecutor(SIZE) as pool:
            pids = list(pool.map(use, range(SIZE)))
        assert len(set(pids)) == SIZE
        yield hosts, pids
    finally:
        hosts["default"].close_pool()  # type: ignore[attr-defined]


def restart(pids):
    """What a restart does to connections, without one of the server that other tests use."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pid, 10000) FROM unnest(%s) AS pid", [pids])


def asked(hosts) -> int:
    try:
        with hosts["default"].cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            return int(cursor.fetchone()[0])
    finally:
        hosts["default"].close()


def test_the_first_to_ask_after_a_restart_is_answered_however_many_connections_were_kept():
    """P3: it was told 503 after ten seconds, long after the server was back."""
    with kept() as (hosts, pids):
        restart(pids)
        assert asked(hosts) not in pids


def test_all_who_ask_at_once_after_a_restart_are_answered():
    with kept() as (hosts, pids):
        restart(pids)
        with ThreadPoolExecutor(SIZE) as pool:
            found = list(pool.map(lambda _: asked(hosts), range(3 * SIZE)))
        assert not set(found) & set(pids)


def test_one_that_was_ended_alone_costs_nobody_an_answer():
    with kept() as (hosts, pids):
        restart(pids[:1])
        assert pids[0] not in {asked(hosts) for _ in range(2 * SIZE)}
