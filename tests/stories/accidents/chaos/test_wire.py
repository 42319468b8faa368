"""The proxies of `make chaos` do what is said of them: else a fault that breaks nothing would prove
nothing.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from bench.chaos.wire import Trap, When, Wire
from tests.servers.private import Redis
from tests.servers.redis_proxy import RedisProxy
from tests.servers.stack import until


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

    serving = threading.Thread(target=serve, daemon=True)
    serving.start()
    yield server.getsockname()[1]
    server.shutdown(socket.SHUT_RDWR)
    serving.join(10)
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
        with (
            socket.create_connection(("127.0.0.1", link.port), timeout=0.2) as later,
            pytest.raises(TimeoutError),
        ):
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
    return link, lambda: psycopg.connect(
        link.url, prepare_threshold=1, autocommit=True, connect_timeout=10
    )


@pytest.mark.parametrize(
    ("when", "done"), [(When.BEFORE, False), (When.AFTER, True), (When.ANSWERED, True)]
)
def test_a_commit_can_be_cut_before_while_and_after_the_server_does_it(linked, when, done):
    link, connect = linked
    table = f"chaos_wire_{when.name.lower()}"
    with connect() as session:
        session.execute(f"CREATE TABLE {table} (x int)")
    trap = Trap(
        lambda now, before: now == "COMMIT" and any(table in one for one in before),
        when,
        lambda link, flow: flow.cut(),
    )
    try:
        link.lay(trap)
        session = connect()
        with pytest.raises(psycopg.OperationalError), session.transaction():
            for number in (1, 2, 3):
                # prepared from the second time on
                session.execute(f"INSERT INTO {table} VALUES (%s)", [number])
        assert trap.sprung.wait(10)
        with connect() as session:
            if done:
                until(
                    lambda: session.execute(f"SELECT count(*) FROM {table}").fetchone() == (3,),
                    what="the commit",
                )
            else:
                assert session.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    finally:
        link.lay(None)
        with connect() as session:
            session.execute(f"DROP TABLE {table}")


def test_a_host_that_fell_silent_in_a_statement_holds_its_rows_and_says_the_rest_when_it_comes_back(
    linked,
):
    link, connect = linked
    answers = []
    with connect() as watcher:
        lay = Trap(
            lambda now, before: "chaos_silent" in now,
            When.BEFORE,
            lambda link, flow: link.silence_here(),
        )

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


@pytest.fixture
def proxy(tmp_path):
    # which is not started: whoever comes meets a Redis that is away
    made = RedisProxy(Redis(tmp_path))
    made.start()
    yield made
    made.stop()


def test_a_client_that_comes_while_redis_is_killed_is_refused_and_its_socket_closed(
    proxy, monkeypatch
):
    """The proxy was told to listen no more between the two, and forgot whom it had just let in: a
    warning in whatever test came next.
    """
    asked = threading.Event()

    def killed(place):
        proxy._close_listener()
        asked.set()
        raise ConnectionRefusedError

    with socket.socket() as client:
        with monkeypatch.context() as patch:
            patch.setattr("tests.servers.redis_proxy.socket.create_connection", killed)
            client.connect(("127.0.0.1", proxy.port))
            assert asked.wait(10)
            proxy.stop()
        with suppress(ConnectionResetError):
            assert client.recv(1) == b""
    # pytest fails this test where a socket is found that nobody closed


def test_a_proxy_that_is_stopped_has_no_socket_left(proxy, echo):
    proxy.redis.port = echo
    command = b"*1\r\n$4\r\nPING\r\n"
    with socket.create_connection(("127.0.0.1", proxy.port)) as client:
        assert said(client, command) == command
        proxy.stop()
        with suppress(ConnectionResetError):
            assert client.recv(1) == b""
    assert not any(thread.is_alive() for thread in (*proxy._listening, *proxy._carrying))


def test_a_link_whose_client_has_gone_before_the_server_was_reached_closes_both(
    wire, echo, monkeypatch
):
    """The connection to the server stayed open, with nobody left to close it."""
    link, made = wire.link("echo", echo), []
    usual = wire.loop.create_connection

    async def slow(*arguments):
        (flow,) = link.flows
        flow.client.abort()
        made.append(await usual(*arguments))
        return made[0]

    monkeypatch.setattr(wire.loop, "create_connection", slow)
    with socket.create_connection(("127.0.0.1", link.port)) as client, suppress(ConnectionError):
        assert client.recv(1) == b""
    until(
        lambda: made and made[0][0].is_closing(), what="the server's side to be closed", seconds=10
    )
    assert not link.flows
