"""Books and invoices to try `smart-booking` on: all invented here, in the files that a real house
would keep.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

from runs.contrib.booking.books import ACCOUNTS, ORDERS, SUPPLIERS
from runs.contrib.einvoice import samples as samples
from runs.contrib.einvoice.model import Invoice
from runs.contrib.einvoice.writing import to_cii, to_pdf, to_ubl

BOOKS: dict[str, list[list[str]]] = {
    SUPPLIERS: [
        ["number", "name", "vat_id", "iban", "account", "cost_centre"],
        [
            "70001",
            "Papierhof Nord GmbH",
            "DE222222220",
            "DE02 1203 0000 0000 2020 51",
            "6815",
            "110",
        ],
        [
            "70002",
            "Wolkenwerk Hosting AG",
            "DE333333322",
            "DE02 5001 0517 0137 0750 30",
            "6810",
            "300",
        ],
        ["70003", "Stahlbau Huber KG", "ATU12345675", "AT61 1904 3002 3457 3201", "5400", "210"],
    ],
    ACCOUNTS: [
        ["account", "cost_centre", "title"],
        ["6815", "110", "Office supplies"],
        ["6810", "300", "Telephone and internet"],
        ["6825", "300", "Legal and consulting"],
        ["5400", "210", "Goods, workshop"],
        ["6335", "110", "Maintenance of premises"],
    ],
    ORDERS: [
        ["order", "line", "supplier", "text", "net", "account", "cost_centre", "status"],
        ["PO-4711", "10", "70001", "Copy paper", "600.00", "6815", "110", "open"],
        ["PO-4711", "20", "70001", "Toner", "300.00", "6815", "110", "open"],
        ["PO-4720", "10", "70003", "Welded frames", "2226.00", "5400", "210", "open"],
    ],
}


def _page(invoice: Invoice) -> bytes:
    lines = [
        f"Invoice {invoice.number}",
        invoice.seller.name or "",
        *(f"{one.quantity} x {one.name}: {one.net}" for one in invoice.lines),
    ]
    return to_pdf(invoice, lines=[*lines, f"Total with VAT: {invoice.gross} {invoice.currency}"])


FILES: dict[str, tuple[Callable[[], Invoice], Callable[[Invoice], bytes]]] = {
    "paper-and-toner.xml": (samples.correct, to_ubl),
    "hosting.pdf": (samples.without_order, _page),
    "steel-frames.xml": (samples.without_vat_id, to_cii),
    "wrong-total.xml": (samples.wrong_total, to_ubl),
    "plants.xml": (samples.unknown_supplier, to_cii),
    "paper-credit-note.xml": (samples.credit_note, to_ubl),
    "licence-usd.xml": (samples.foreign_currency, to_cii),
    "fifty-lines.xml": (samples.fifty_lines, to_ubl),
}
"""File → what is in it, and how it is written."""
DEMO = ("paper-and-toner.xml", "hosting.pdf", "steel-frames.xml")
"""Is booked by itself; waits for a bookkeeper; waits for the supplier."""


def make_samples(books: Path, inbox: Path) -> list[Path]:
    """Write the books into one folder and the invoices into another; files that are there stay.

    Gives the invoices' paths.
    """
    books.mkdir(parents=True, exist_ok=True)
    inbox.mkdir(parents=True, exist_ok=True)
    for name, rows in BOOKS.items():
        if not (books / name).exists():
            with (books / name).open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows(rows)
    for name, (make, write) in FILES.items():
        if not (inbox / name).exists():
            (inbox / name).write_bytes(write(make()))
    return [inbox / name for name in FILES]
