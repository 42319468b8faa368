"""The database fails in the middle of a request: it is told in words, and the same key answers
truly afterwards.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, cast

import psycopg
import pytest
from django.db import OperationalError, connection
from django.db.models import F
from django.db.utils import DatabaseErrorWrapper
from django.test import Client

from checkpoints.database import outages
from hitl.http import replay
from hitl.models import IdempotencyKey
from runs.models import WorkOrder
from tests.databases.whole import file_database as file_database
from tests.doors.rest import ORDERS, problem

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("file_database")]

ORDER = {"template": "writing", "title": "Once"}


def send(client, key):
    client.raise_request_exception = False
    return client.post(ORDERS, ORDER, format="json", headers={"Idempotency-Key": key})


@contextmanager
def session_ended_at(statement):
    """The server ends this connection's session before its statement of that number, or after that
    COMMIT, whose answer never comes.
    """
    sent, backend = 0, cast(Any, connection)
    commit = backend._commit

    def end():
        with psycopg.connect(connection.connection.info.dsn) as other:
            other.execute(
                "SELECT pg_terminate_backend(%s, 5000)", [connection.connection.info.backend_pid]
            )

    def count():
        nonlocal sent
        sent += 1
        return sent == statement

    def execute(run, sql, params, many, context):
        if count():
            end()
        return run(sql, params, many, context)

    def committed_unheard():
        commit()
        if count():
            end()
            with DatabaseErrorWrapper(connection):
                raise psycopg.OperationalError("server closed the connection unexpectedly")

    with pytest.MonkeyPatch.context() as patched, connection.execute_wrapper(execute):
        patched.setattr(backend, "_commit", committed_unheard)
        yield lambda: sent
    connection.close()


@pytest.mark.one_database
def test_a_session_that_ends_at_any_statement_is_a_503_and_makes_one_order(ana, api, templates):
    """P3, F7: it was a 500 in HTML, or an order that was answered 500; its key was 409 for a
    minute, and then made a second order.
    """
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no sessions that a server ends")
    client, statement, seen = api(ana), 0, set()
    while True:
        statement, orders = statement + 1, WorkOrder.objects.count()
        with session_ended_at(statement) as sent:
            first = send(client, f"k{statement}")
        if sent() < statement:
            break
        seen.add((first.status_code, WorkOrder.objects.count() - orders))
        if first.status_code != 201:
            problem(first, 503, "database_unavailable")
            assert first["Retry-After"] == "5"
        # its request is dead: nobody waits for its answer
        IdempotencyKey.objects.update(made_at=F("made_at") - replay.ANSWERING)
        assert send(client, f"k{statement}").status_code in {200, 201}
        assert WorkOrder.objects.count() == orders + 1, statement
    assert {(503, 0), (503, 1), (201, 1)} <= seen


@contextmanager
def full():
    """SQLite's file may not grow, as on a full disk."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM")  # no room is left by what was deleted
        cursor.execute("PRAGMA page_count")
        (pages,) = cursor.fetchone()
        cursor.execute("PRAGMA max_page_count")
        (most,) = cursor.fetchone()
        cursor.execute(f"PRAGMA max_page_count = {pages}")
        try:
            yield
        finally:
            cursor.execute(f"PRAGMA max_page_count = {most}")


def test_on_a_full_disk_nothing_is_made_and_all_can_be_read(ana, api, templates):
    """The embedded default answered 500 while its disk was full."""
    if connection.vendor != "sqlite":
        pytest.skip("SQLite's own limit; no full disk of PostgreSQL is tried yet")
    client, page = api(ana), Client(raise_request_exception=False)
    page.force_login(ana)
    big = {**ORDER, "user_request": "x" * 20_000, "request": "x" * 20_000}
    with full():
        answers = [
            client.post(ORDERS, big, format="json", headers={"Idempotency-Key": "k1"})
            for _ in range(3)
        ]
        told = page.post("/work-orders/new", big)
        reads = [
            client.get(ORDERS).status_code,
            page.get("/").status_code,
            page.get("/work-orders/").status_code,
        ]
    for answer in answers:
        problem(answer, 507, "storage_full")
    assert (told.status_code, "no room left" in told.content.decode(), reads) == (
        507,
        True,
        [200] * 3,
    )
    assert (
        client.post(ORDERS, big, format="json", headers={"Idempotency-Key": "k1"}).status_code
        == 201
    )
    assert WorkOrder.objects.count() == 1


@contextmanager
def away(only):
    """The database answers none of the statements that contain this."""

    def execute(run, sql, params, many, context):
        if only in sql:
            raise OperationalError("connection is lost") from psycopg.OperationalError()
        return run(sql, params, many, context)

    with connection.execute_wrapper(execute):
        yield


@pytest.mark.parametrize("only", ["django_session", "auth_user", ""])
def test_away_in_a_middleware_is_words_on_pages_and_a_problem_on_the_api(ana, only):
    """Around a view nothing caught it: Django's own page said that something went wrong on our
    side.
    """
    page = Client(raise_request_exception=False)
    page.force_login(ana)
    with away(only):
        shown, asked, sent = (
            page.get("/"),
            page.get(ORDERS),
            page.post(ORDERS, ORDER, headers={"Idempotency-Key": "k1"}),
        )
    assert (shown.status_code, shown["Retry-After"]) == (503, "5")
    assert "The database cannot be reached just now" in shown.content.decode()
    problem(asked, 503, "database_unavailable")
    problem(sent, 503, "database_unavailable")


@pytest.mark.parametrize("only", ["runs_workorder", "auth_user_groups", "checkpoints_"])
def test_a_repeated_order_is_not_told_that_it_is_gone_while_the_database_is_troubled(
    ana, api, templates, only
):
    """59 of 180 repeated requests were told 404 of what was committed."""
    client = api(ana)
    made = send(client, "k1").json()["id"]
    with away(only):
        told = send(client, "k1")
    assert (told.status_code, told["Retry-After"]) == (503, "5")
    assert told.json()["code"] == "idempotency_answer_unavailable"
    assert send(client, "k1").json()["id"] == made


def test_a_mistake_of_ours_is_no_trouble_of_the_database_and_a_problem_document(
    ana, api, monkeypatch
):
    client = api(ana)
    client.raise_request_exception = False
    monkeypatch.setattr("runs.services.submit", lambda *_, **__: 1 / 0)
    problem(client.post(ORDERS, ORDER, format="json"), 500, "server_error")


@pytest.mark.one_database
def test_a_server_that_takes_no_writes_any_more_is_trouble_and_read_from_meanwhile(
    ana, api, templates
):
    """A primary that was told to write no more, before another one takes its place. SQLite has no
    such sessions.
    """
    client = api(ana)
    characteristics = "SET SESSION CHARACTERISTICS AS TRANSACTION READ"
    with connection.cursor() as cursor:
        cursor.execute(f"{characteristics} ONLY")
    try:
        refused, read = send(client, "k1"), client.get(ORDERS)
        with pytest.raises(outages.ERRORS) as raised:
            WorkOrder.objects.create(created_by=ana, title="Never")
        usable = connection.is_usable()
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"{characteristics} WRITE")
    problem(refused, 503, "database_unavailable")
    assert read.status_code == 200
    assert outages.is_trouble(raised.value)
    assert not usable, "so the next task looks for another server"
    assert connection.is_usable()
    assert send(client, "k1").status_code == 201
    assert WorkOrder.objects.count() == 1
