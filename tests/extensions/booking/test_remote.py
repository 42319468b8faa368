"""Bookings that are posted to a ledger behind HTTP."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
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

pytestmark = pytest.mark.django_db

__all__ = ["house"]


class Ledger:
    """A server that books each key once; `answers` are what it says instead, first to last: a
    status and a body, or None for a cut line.
    """

    def __init__(self):
        self.answers: list[tuple[int, bytes] | None] = []
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.batches: dict[str, dict[str, Any]] = {}
        ledger = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                ledger.requests.append((self.path, dict(self.headers), body))
                answer = ledger.answers.pop(0) if ledger.answers else (201, b"{}")
                if answer is None:
                    # booked, but nobody heard of it
                    ledger.batches.setdefault(self.headers["Idempotency-Key"], body)
                    return
                status, content = answer
                if status < 300:
                    assert ledger.batches.setdefault(self.headers["Idempotency-Key"], body) == body
                self.send_response(status)
                self.send_header("Location", "http://127.0.0.1:1/elsewhere")
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}/v1/entries?book=main"


@pytest.fixture
def ledger(monkeypatch, house):
    found = Ledger()
    monkeypatch.setenv("WAYSTATION_LEDGER_URL", found.url)
    monkeypatch.setenv("WAYSTATION_LEDGER_TOKEN", "token-of-the-ledger")
    definitions.edit_step_template(
        "booking-post", title="Post", function="booking.post", config={"ledger": "rest"}
    )
    yield found
    found.server.shutdown()
    found.server.server_close()


def try_again(order):
    moments.let_retries_come_due()
    return drive(order)


def test_a_sure_invoice_is_posted_with_its_key_and_token_and_journaled(house, ledger):
    """S3-49: auto-post; the token is in no row and no log line."""
    order = house.book(invoices.correct())
    assert order.status == "completed"
    [(path, headers, body)] = ledger.requests
    assert path == "/v1/entries?book=main"
    assert headers["Authorization"] == "Bearer token-of-the-ledger"
    assert headers["Idempotency-Key"] == f"{order.latest_run.shown_id}/post/1"
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
    assert (first[1]["Idempotency-Key"], first[2]) == (second[1]["Idempotency-Key"], second[2])
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
    ledger.server.shutdown()
    ledger.server.server_close()
    order = house.book(invoices.correct())
    assert order.latest_run.status == PENDING
    assert house.ledger() == []
