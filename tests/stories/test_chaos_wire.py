"""The proxies of `make chaos` do what is said of them: else a fault that breaks nothing would prove nothing."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from bench.chaos.wire import Trap, When, Wire
from tests.stack import until


@pytest.fixture
def wire():
    made = Wire()
    yield made
    made.stop()


@pytest.fixture
def echo():
    """The port of a server that says everything again."""
    server = socket.create_server(("127.0.0.1", 0))

    def answer(connection):
        with connection, suppress(ConnectionError):
            while data := connection.recv(100):
                connection.sendall(data)

    def serve():
        while True:
            try:
                threading.Thread(target=answer, args=server.accept()[:1], daemon=True).start()
            except OSError:
                return

    threading.Thread(target=serve, daemon=True).start()
    yield server.getsockname()[1]
    server.shutdown(socket.SHUT_RDWR)
    server.close()


def said(connection, text):
    connection.sendall(text)
    return connection.recv(100)


def test_a_silent_link_passes_nothing_on_and_keeps_its_sockets_open_until_it_is_healed(wire, echo):
    link = wire.link("echo", echo)
    with socket.create_connection(("127.0.0.1", link.port)) as before:
        assert said(before, b"one") == b"one"
        link.silence()
        before.sendall(b"two")
        before.settimeout(0.2)
        with socket.create_connection(("127.0.0.1", link.port), timeout=0.2) as later, pytest.raises(TimeoutError):
            said(later, b"x")
        with pytest.raises(TimeoutError):
            before.recv(100)
        link.heal()
        before.settimeout(10)
        assert before.recv(100) == b"two"
        link.cut()
        with suppress(ConnectionError):
            assert before.recv(100) == b""


@pytest.fixture
def linked(wire):
    """A link to the tests' PostgreSQL, and how to connect over it."""
    if "TEST_POSTGRESQL" not in os.environ:
        pytest.skip("there is no PostgreSQL in this round")
    with psycopg.connect(os.environ["DATABASE_URL"]) as session:
        (folder,) = session.execute("SHOW unix_socket_directories").fetchone() or ("",)
    link = wire.link("database", Path(folder) / ".s.PGSQL.5432", postgresql=True)
    return link, lambda: psycopg.connect(link.url, prepare_threshold=1, autocommit=True, connect_timeout=10)


@pytest.mark.parametrize(("when", "done"), [(When.BEFORE, False), (When.AFTER, True), (When.ANSWERED, True)])
def test_a_commit_can_be_cut_before_while_and_after_the_server_does_it(linked, when, done):
    link, connect = linked
    table = f"chaos_wire_{when.name.lower()}"
    with connect() as session:
        session.execute(f"CREATE TABLE {table} (x int)")
    trap = Trap(lambda now, before: now == "COMMIT" and any(table in one for one in before), when, lambda link, flow: flow.cut())
    try:
        link.lay(trap)
        session = connect()
        with pytest.raises(psycopg.OperationalError), session.transaction():
            for number in (1, 2, 3):
                session.execute(f"INSERT INTO {table} VALUES (%s)", [number])  # prepared from the second time on
        assert trap.sprung.wait(10)
        with connect() as session:
            if done:
                until(lambda: session.execute(f"SELECT count(*) FROM {table}").fetchone() == (3,), what="the commit")
            else:
                assert session.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    finally:
        link.lay(None)
        with connect() as session:
            session.execute(f"DROP TABLE {table}")


def test_a_host_that_fell_silent_in_a_statement_holds_its_rows_and_says_the_rest_when_it_comes_back(linked):
    link, connect = linked
    answers = []
    with connect() as watcher:
        lay = Trap(lambda now, before: "chaos_silent" in now, When.BEFORE, lambda link, flow: link.silence_here())

        def host():
            with connect() as session:
                answers.append(session.execute("SELECT 'chaos_silent'").fetchone())

        watcher.execute("SELECT 1")
        link.lay(lay)
        thread = threading.Thread(target=host)
        thread.start()
        assert lay.sprung.wait(10)
        assert answers == []
        link.heal()
        thread.join(10)
        assert answers == [("chaos_silent",)]
        assert watcher.execute("SELECT 2").fetchone() == (2,)
