"""Bookings that are posted to a ledger behind HTTP."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from extensions.booking import ledger as booking_ledger
from runs import definitions
from runs import services as runs
from runs.models import Run
from runs.states import COMPLETED, PENDING
from tests.conftest import drive
from tests.extensions.booking.houses import house
from tests.killed import moments
from tests.worlds.books import invoices
from tests.worlds.mailing import Receiver
from tests.worlds.mailing import receiver as receiver

pytestmark = pytest.mark.django_db

__all__ = ["house"]


class Ledger:
    """A system that books each key once; `answers` are what it says instead, first to last: a
    status and a body, or None for a cut line.
    """

    def __init__(self, receiver: Receiver) -> None:
        self.answers: list[tuple[int, bytes] | None] = []
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.batches: dict[str, dict[str, Any]] = {}
        self.url, self.got = receiver.url, receiver.got
        receiver.answer = self.answer

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        headers, content = self.got[-1]
        key, body = headers["idempotency-key"], json.loads(content)
        self.requests.append((handler.path, headers, body))
        said = self.answers.pop(0) if self.answers else (201, b"{}")
        if said is None:
            self.batches.setdefault(key, body)  # booked, but nobody heard of it
            return
        if said[0] < 300:
            assert self.batches.setdefault(key, body) == body
        handler.send_response(said[0])
        handler.send_header("Location", "http://127.0.0.1:1/elsewhere")
        handler.end_headers()
        handler.wfile.write(said[1])


@pytest.fixture
def ledger(monkeypatch, receiver, house):
    monkeypatch.setenv("WAYSTATION_LEDGER_URL", receiver.url)
    monkeypatch.setenv("WAYSTATION_LEDGER_TOKEN", "token-of-the-ledger")
    definitions.edit_step_template(
        "booking-post", title="Post", function="booking.post", config={"ledger": "rest"}
    )
    return Ledger(receiver)


def try_again(order):
    moments.let_retries_come_due()
    return drive(order)


def test_a_sure_invoice_is_posted_with_its_key_and_token_and_journaled(house, ledger):
    """S3-49: auto-post; the token is in no row and no log line."""
    order = house.book(invoices.correct())
    assert order.status == "completed"
    [(path, headers, body)] = ledger.requests
    assert ledger.url.endswith(path) and "?" in path
    assert headers["authorization"] == "Bearer token-of-the-ledger"
    assert headers["idempotency-key"] == f"{order.latest_run.shown_id}/post/1"
    assert [entry["entry"] for entry in body["entries"]] == [row["entry"] for row in house.ledger()]


@pytest.mark.parametrize("trouble", [(503, b"down"), (429, b""), None], ids=["503", "429", "cut"])
def test_a_ledger_in_trouble_gets_the_same_batch_again(house, ledger, trouble):
    """P4: whether it had booked before the line was cut nobody knows; the key makes the second
    attempt harmless.
    """
    ledger.answers = [trouble]
    order = house.book(invoices.correct())
    assert (order.latest_run.status, order.latest_run.attempts, house.ledger()) == (PENDING, 1, [])
    order = try_again(order)
    assert order.status == "completed"
    first, second = ledger.requests
    assert (first[1]["idempotency-key"], first[2]) == (second[1]["idempotency-key"], second[2])
    assert len(ledger.batches) == 1


def test_a_death_between_the_post_and_the_journal_posts_the_same_again(house, ledger, monkeypatch):
    def dies(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(booking_ledger, "append", dies)
        with pytest.raises(KeyboardInterrupt):
            house.book(invoices.correct())
    moments.work_off()
    assert Run.objects.get().status == COMPLETED
    assert (len(ledger.requests), len(ledger.batches), len(house.ledger())) == (2, 1, 4)


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (
            (409, b'{"order": "wo_other", "position": "line 1", "invoice": "7"}'),
            "already_booked",
            "line 1 of invoice 7 is booked already, by wo_other",
        ),
        ((409, b"[1]"), "already_booked", "by another order"),
        (
            (422, b'{"detail": "The period is closed."}'),
            "ledger_refused",
            "422. The period is closed.",
        ),
        ((302, b""), "ledger_refused", "302"),
    ],
)
def test_a_ledger_that_refuses_fails_the_order_in_words_and_nothing_is_journaled(
    house, ledger, ana, answer, code, words
):
    ledger.answers = [answer]
    order = house.book(invoices.correct())
    assert (order.status, order.latest_run.failure_code) == ("failed", code)
    assert words in order.latest_run.error
    assert house.ledger() == []
    runs.retry(order.pk, by=ana)
    assert drive(order).status == "completed"


@pytest.mark.parametrize("url", ["", "file:///etc/passwd", "ledger.example"])
def test_without_an_address_nothing_is_sent(house, ledger, monkeypatch, url):
    monkeypatch.setenv("WAYSTATION_LEDGER_URL", url)
    order = house.book(invoices.correct())
    assert (order.latest_run.failure_code, ledger.requests) == ("ledger_unknown", [])


def test_a_ledger_that_is_not_there_is_tried_again(house, ledger, monkeypatch):
    monkeypatch.setenv("WAYSTATION_LEDGER_URL", "http://127.0.0.1:1/entries")
    order = house.book(invoices.correct())
    assert order.latest_run.status == PENDING
    assert house.ledger() == []
