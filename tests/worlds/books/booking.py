"""Invoices and books for the tests of `smart-booking`, and a hand that makes orders of them."""

from __future__ import annotations

import base64
import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User

from checkpoints import store
from extensions.booking.samples import make_samples
from extensions.einvoice.model import Invoice
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs.models import Pause, WorkOrder
from tests.conftest import drive, fresh, pause_of
from tests.worlds.books.writer import to_ubl


def sent(
    invoice: Invoice | bytes, name: str = "invoice.xml", write: Callable[[Invoice], bytes] = to_ubl
) -> dict[str, Any]:
    """A work order's input that holds the invoice."""
    content = invoice if isinstance(invoice, bytes) else write(invoice)
    return {"invoice": {"name": name, "content": base64.b64encode(content).decode()}}


class House:
    """Books in a folder, and orders on them."""

    def __init__(self, make_order: Callable[..., WorkOrder], folder: Path, by: User) -> None:
        self.make_order, self.folder, self.by = make_order, folder, by
        self.books = folder / "shared" / "booking"
        self.entered: set[str] = set()
        """Orders that the ledger had entries of, also where a test took it away since."""
        make_samples(self.books, folder / "inbox")

    def book(self, invoice: Invoice | bytes, **options: Any) -> WorkOrder:
        """Make an order of an invoice and let a worker take it as far as it goes."""
        return self._driven(self.make_order("smart-booking", input=sent(invoice, **options)))

    def answer(
        self, order: WorkOrder, payload: dict[str, Any] | None = None, action: str = ""
    ) -> WorkOrder:
        """With `action` "" the answer that brings what is asked for."""
        usual = next(iter(pause_of(order).answers))
        services.decide(
            pause_of(order).pk, Answer(action or usual, Via.PAGE, payload=payload), by=self.by
        )
        return self._driven(order)

    def _driven(self, order: WorkOrder) -> WorkOrder:
        order = drive(order)
        self.entered |= {row.get("order", "") for row in self.ledger()}
        return order

    def ledger(self) -> list[dict[str, str]]:
        path = self.books / "ledger.csv"
        if not path.exists():
            return []
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))


def state_of(order: WorkOrder) -> dict[str, Any]:
    head = fresh(order).thread.head
    assert head is not None
    return store.load(head)


def asked(order: WorkOrder) -> tuple[str, list[str]]:
    """The reason of the open question, and the fields that it asks for."""
    pause: Pause = pause_of(order)
    return pause.phase, sorted(pause.required_inputs["properties"])
