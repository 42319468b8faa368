"""The ledger that bookings are appended to: one CSV file, each entry at most once, whoever writes
and whenever they are killed.
"""

from __future__ import annotations

import csv
import fcntl
import io
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict

from runs.workflows import StepFailed

COLUMNS = (
    "entry", "order", "supplier", "invoice", "date", "position", "account", "cost_centre", "amount",
    "currency", "rate", "base_amount",
    "tax", "purchase_order", "order_line", "text", "document", "booked_at",
)  # fmt: skip
WAIT = 30.0
"""Seconds to wait for others that write."""
AMOUNT = re.compile(r"-?\d+(\.\d+)?")
FORMULAS = ("=", "+", "-", "@", "\t", "\r")


class LedgerEntry(TypedDict):
    """One row.

    Amounts are texts with a dot; debit is positive, credit negative, and an invoice's rows add up
    to nothing.
    """

    entry: str  # what the row is the booking of, the same at every attempt: `<invoice>/line/7`
    order: str  # the work order that booked it
    supplier: str  # number
    invoice: str  # BT-1
    date: str  # BT-2
    position: str  # line 7, allowance A1, vat S 19, payable
    account: str
    cost_centre: str
    amount: str  # in `currency`
    currency: str  # BT-5
    rate: str  # of the books' currency for one of `currency`
    base_amount: str  # in the books' currency
    tax: str  # VAT category and rate
    purchase_order: str  # BT-13
    order_line: str
    text: str
    document: str  # sha256 of the file
    booked_at: str  # ISO, UTC; the only column that another attempt may fill differently


class AlreadyBooked(Exception):
    """An entry is in the ledger with other values, or by another order. Nothing was written."""

    def __init__(self, row: Mapping[str, str]) -> None:
        super().__init__(
            f"{row.get('position')} of invoice {row.get('invoice')} is booked already, by "
            f"{row.get('order')}"
        )


def read(path: Path) -> list[dict[str, str]]:
    """The ledger's rows; none where there is no ledger yet.

    Raises StepFailed `ledger_unreadable`.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StepFailed(
            f"The ledger cannot be read: {error.strerror}.", code="ledger_unreadable"
        ) from error
    return _parsed(_whole(content))


def require_free(path: Path, entries: Sequence[LedgerEntry]) -> None:
    """Raise what `append` would raise at this moment; nothing is written."""
    _missing(read(path), entries)


def append(path: Path, entries: Sequence[LedgerEntry], *, check: Callable[[], None]) -> int:
    """Append the entries that are not there yet, in one write that is on the disk when this
    returns; how many that were.

    A line that a killed writer left half written is cut off first.

    Args:
        check: called while others write, to be told to stop.
    Raises:
        AlreadyBooked: nothing was written.
        StepFailed: `ledger_busy`, `ledger_unreadable`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path.with_name(path.name + ".lock"), check):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o660)
        with open(handle, "r+b") as file:
            content = file.read()
            whole = _whole(content)
            missing = _missing(_parsed(whole), entries)
            text = _written(missing, head=not whole)
            if text:
                file.seek(len(whole))
                file.truncate()
                file.write(text)
                file.flush()
                os.fsync(handle)
    return len(missing)


def _whole(content: bytes) -> bytes:
    """Without a last line that a killed writer left unfinished."""
    return content[: content.rfind(b"\n") + 1]


def _missing(
    rows: Sequence[Mapping[str, str]], entries: Sequence[LedgerEntry]
) -> list[LedgerEntry]:
    there = {row.get("entry"): row for row in rows}
    missing = []
    for entry in entries:
        row = there.get(entry["entry"])
        if row is None:
            missing.append(entry)
        # COLUMNS are Entry's own keys.
        elif any(
            row.get(name) != safe(str(entry[name]))  # type: ignore[literal-required]
            for name in COLUMNS
            if name != "booked_at"
        ):
            raise AlreadyBooked(row)
    return missing


def _parsed(content: bytes) -> list[dict[str, str]]:
    try:
        reader = csv.DictReader(io.StringIO(content.decode("utf-8"), newline=""), strict=True)
        rows = [dict(row) for row in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise StepFailed(
            f"The ledger is no CSV file that can be read: {error}. Nothing was booked.",
            code="ledger_unreadable",
        ) from error
    if content and list(reader.fieldnames or ()) != list(COLUMNS):
        raise StepFailed(
            "The ledger has other columns than bookings do. Nothing was booked.",
            code="ledger_unreadable",
        )
    for number, row in enumerate(rows, 2):
        if None in row or None in row.values() or not AMOUNT.fullmatch(row["amount"]):
            raise StepFailed(
                f"Row {number} of the ledger is damaged. Correct it; nothing was booked.",
                code="ledger_unreadable",
            )
    return rows


def _written(entries: Sequence[LedgerEntry], *, head: bool) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    if head and entries:
        writer.writerow(COLUMNS)
    # COLUMNS are Entry's own keys.
    writer.writerows([safe(str(entry[name])) for name in COLUMNS] for entry in entries)  # type: ignore[literal-required]
    return text.getvalue().encode()


def safe(value: str) -> str:
    """A cell that no spreadsheet takes for a formula, on one line."""
    value = " ".join(value.split())
    return f"'{value}" if value.startswith(FORMULAS) and not AMOUNT.fullmatch(value) else value


@contextmanager
def _locked(path: Path, check: Callable[[], None]) -> Iterator[None]:
    """The system frees the lock when this process ends, however it ends."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o660)
    try:
        deadline = time.monotonic() + WAIT
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                check()
            if time.monotonic() > deadline:
                raise StepFailed(
                    "The ledger was locked by others all the time. Retry.", code="ledger_busy"
                )
            time.sleep(0.02)  # nothing tells when a file's lock is free
        yield
    finally:
        os.close(handle)
