"""Search: lists find what they should by words, and nothing that is out of sight."""

from __future__ import annotations

import re

import pytest
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from checkpoints.models import Thread
from checkpoints.state import encryption
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.find import fulltext
from hitl.models import Decision, Via
from hitl.threads import erasure
from runs.models import Pause, WorkOrder
from tests.conftest import drive, pause_of
from tests.databases.encryption_keys import keys
from tests.worlds.ruled_order import browser

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def indexed() -> int:
    table = fulltext.TABLE if connection.vendor == "postgresql" else f"{fulltext.TABLE}_key"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {table}")  # a constant
        (count,) = cursor.fetchone()
    return int(count)


def found(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200, response.content[:800]
    return str(response.content.decode())


def unmarked(shown: str) -> str:
    """A page without the marks of what was searched for."""
    return re.sub(r"</?mark>", "", shown)


def test_words_are_found_in_every_list_and_by_nobody_who_may_not_see_them(
    make_order, api, ana, ben, zoe
):
    """Before, there was no search anywhere."""
    order = drive(make_order(title="Zürich ledgers", request="Mend the CRANKSHAFT-table, please."))
    other = drive(make_order(title="Something else"))
    pause = pause_of(order)
    thread = Thread.objects.create(owner=ana, title="Chatter about crankshafts")
    for user, sees in ((ana, True), (ben, True), (zoe, False)):
        page, rest = browser(user), api(user)
        for words in ("zürich", "crank", "LEDGERS table", "crankshaft zür", order.shown_id):
            if not words.startswith("wo_"):
                text = found(page, f"/work-orders/?q={words}")
                assert (order.shown_id in text) is sees, (user, words)
                assert other.shown_id not in text
            text = found(page, f"/?q={words}")
            assert (f'data-row="{pause.shown_id}"' in text) is sees, (user, words)
            rows = rest.get("/api/v1/work-orders", {"q": words}).json()["results"]
            assert [row["id"] for row in rows] == ([order.shown_id] if sees else [])
            rows = rest.get("/api/v1/pauses", {"q": words, "open": 1}).json()["results"]
            assert [row["id"] for row in rows] == ([pause.shown_id] if sees else [])
    assert thread.shown_id in found(browser(ana), "/threads/?q=chat")
    assert thread.shown_id not in found(browser(zoe), "/threads/?q=chat")
    assert thread.shown_id not in found(browser(ben), "/threads/?q=chat")  # Ana's alone
    for nothing in ("crankshafts zebra", "zzz", "wo_" + "0" * 26, "run_x", "%", "' OR 1=1 --"):
        rows = api(ana).get("/api/v1/pauses", {"q": nothing, "open": 1}).json()["results"]
        assert len(rows) == (2 if not fulltext.words_of(nothing) else 0), nothing


def test_nothing_that_is_searched_for_is_an_error(page, make_order, subtests):
    drive(make_order(title="Plain"))
    for odd in [
        "a" * 200,
        "１２３ ٣",
        "\ud800",
        '"*" NEAR( AND',
        "a b c d e f g h",
        "é'",
        "^x:y",
    ]:
        with subtests.test(ascii(odd)[:60]):
            response = page.get("/work-orders/", {"q": odd.encode("utf-8", "replace").decode()})
            assert response.status_code == 200
    assert page.get("/work-orders/", {"q": "\x00"}).status_code == 422  # which no text holds


def test_answers_are_found_by_what_was_said_and_by_their_question(make_order, api, ana, ben, zoe):
    order = drive(make_order(title="Quarterly figures"))
    pause = pause_of(order)
    given = services.decide(pause.pk, Answer("cancel", Via.PAGE, feedback="too wobbly"), by=ben)
    assert isinstance(given, Decision)
    for words in ("wobbly", "quarterly", "figures wobb"):
        for user, sees in ((ana, True), (ben, True), (zoe, False)):
            shown = unmarked(found(browser(user), f"/decisions/?q={words}"))
            assert ("wobbly</q>" in shown) is sees
            rows = api(user).get("/api/v1/decisions", {"q": words}).json()["results"]
            assert [row["id"] for row in rows] == ([given.shown_id] if sees else [])
    page = browser(ana)
    assert "wobbly</q>" in unmarked(found(page, "/?q=wobbly"))
    assert "wobbly</q>" in found(page, "/decisions/?status=cancel&person=ben&since=1h")
    for none in ("status=approve", "person=ana", "person=me", "until=2020-01-01", "status=expired"):
        assert "wobbly</q>" not in found(page, f"/decisions/?{none}")
    Pause.objects.filter(pk=pause.pk).update(question="Renamed entirely")
    assert "wobbly</q>" in found(page, "/decisions/?q=renamed")


def test_an_erasure_takes_its_words_out_of_the_index(make_order, api, ana, ben):
    """P11: what is erased is found no more, by anybody, in any list."""
    order = drive(make_order(title="Secretive marmalade"))
    before = indexed()
    services.decide(pause_of(order).pk, Answer("cancel", Via.PAGE, feedback="no marmalade"), by=ben)
    assert indexed() > 0
    erasure.erase(order.thread_id, by="ana", reason="asked for it")
    ana.is_superuser = True
    ana.save()
    for route in ("work-orders", "pauses", "threads", "decisions"):
        rows = api(ana).get(f"/api/v1/{route}", {"q": "marmalade"}).json()["results"]
        assert rows == [], route
    with connection.cursor() as cursor:
        having = fulltext.having("marmalade")
        cursor.execute(having.sql, having.params)
        assert cursor.fetchall() == []
    # the decision keeps its place in the ledger, and has no words
    assert indexed() < before


def test_what_is_sealed_at_rest_is_in_no_index(make_order, api, ana):
    """The words of a sealed column are not to be read without its key."""
    with keys(encryption.new_key()):
        order = drive(make_order(title="Open title", request="a hidden porcupine"))
        for words, sees in (("open", True), ("porcupine", False), ("wse1", False)):
            rows = api(ana).get("/api/v1/work-orders", {"q": words}).json()["results"]
            assert bool(rows) is sees, words
        WorkOrder.objects.filter(pk=order.pk).update(title="Another")
        rows = api(ana).get("/api/v1/work-orders", {"q": "another"}).json()["results"]
        assert [row["id"] for row in rows] == [order.shown_id]


def test_the_index_is_made_anew_from_what_is_there(make_order, api, ana):
    """SQLite loses triggers where a migration makes a table anew; rows come meanwhile."""
    fulltext._drop(fulltext._there())
    try:
        order = make_order(title="Unnoticed giraffe")
        assert api(ana).get("/api/v1/work-orders", {"q": "giraffe"}).json()["results"] == []
    finally:
        fulltext.install()
    rows = api(ana).get("/api/v1/work-orders", {"q": "giraffe"}).json()["results"]
    assert [row["id"] for row in rows] == [order.shown_id]
    fulltext.install()  # again: nothing to do


def test_a_step_writes_no_word(make_order):
    """The hot path of a step pays nothing: the index changes where something is made or asked."""
    order = make_order(title="Steady")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'search%'"
            if connection.vendor == "postgresql"
            else "SELECT count(*) FROM sqlite_master WHERE type='trigger' AND name LIKE 'search%'"
        )
        assert cursor.fetchone()[0] >= len(fulltext.SOURCES)
    version = words_version()
    with transaction.atomic():
        Thread.objects.filter(pk=order.thread_id).update(last_seq=900)
        order.latest_run.__class__.objects.filter(pk=order.latest_run_id).update(
            due_at=timezone.now()
        )
    assert words_version() == version
    Thread.objects.filter(pk=order.thread_id).update(title="now it has")
    assert words_version() != version


def words_version() -> str:
    """Changes with every write to the index."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(
                f"SELECT string_agg(xmin::text || ctid::text, ',') FROM {fulltext.TABLE}"
            )
        else:
            cursor.execute(f"SELECT group_concat(hex(block), ',') FROM {fulltext.TABLE}_data")
        return str(cursor.fetchone()[0])
