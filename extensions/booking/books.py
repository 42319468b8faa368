"""The books that `smart-booking` works with: CSV files in the shared folder, kept by people or
exported by another system.

`suppliers.csv`: number, name, vat_id, iban (several with `;`), account, cost_centre ·
`accounts.csv`: account, cost_centre, title · `purchase_orders.csv`: order, line, supplier, text,
net, account, cost_centre, status (`open` or anything else), one row for each line.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from runs.workflows import StepFailed

MAX_BYTES = 50_000_000
"""Of one file."""
SUPPLIERS, ACCOUNTS, ORDERS, LEDGER = (
    "suppliers.csv",
    "accounts.csv",
    "purchase_orders.csv",
    "ledger.csv",
)


@dataclass(frozen=True, kw_only=True)
class Supplier:
    number: str
    name: str
    vat_id: str = ""
    iban: str = ""
    account: str = ""
    cost_centre: str = ""

    @property
    def accounts(self) -> list[str]:
        """The supplier's IBANs, of which there may be several."""
        return accounts_in(self.iban)


def accounts_in(text: str) -> list[str]:
    """Split a cell into its IBANs, with `;` between them."""
    return [account.strip() for account in text.split(";") if account.strip()]


@dataclass(frozen=True, kw_only=True)
class Account:
    account: str
    cost_centre: str
    title: str

    @property
    def key(self) -> str:
        return f"{self.account}/{self.cost_centre}"


@dataclass(frozen=True, kw_only=True)
class OrderLine:
    order: str
    line: str
    supplier: str
    text: str
    net: Decimal
    account: str
    cost_centre: str
    status: str


@dataclass(frozen=True, kw_only=True)
class Books:
    suppliers: tuple[Supplier, ...]
    accounts: tuple[Account, ...]
    orders: tuple[OrderLine, ...]

    def supplier(self, number: str) -> Supplier | None:
        return next((supplier for supplier in self.suppliers if supplier.number == number), None)

    def account(self, key: str) -> Account | None:
        return next((account for account in self.accounts if account.key == key), None)


def folder_of(shared: Path, config: Mapping[str, Any]) -> Path:
    """Return the folder of the books: `books` of the step's configuration, in the shared folder.

    Raises StepFailed `books_outside`.
    """
    folder = (shared / str(config.get("books", "booking"))).resolve()
    if not folder.is_relative_to(shared.resolve()):
        raise StepFailed(
            "The books are configured outside the shared folder. Name a folder inside it.",
            code="books_outside",
        )
    return folder


def read_books(folder: Path) -> Books:
    """Read all master data.

    Raises StepFailed: `books_missing`, `books_unreadable`, with the file and what to change.
    """
    accounts = tuple(Account(**row) for row in _rows(folder / ACCOUNTS, Account))
    if not accounts:
        raise StepFailed(
            f"{ACCOUNTS} has no account to book to. Fill it and retry.", code="books_unreadable"
        )
    return Books(
        suppliers=tuple(Supplier(**row) for row in _rows(folder / SUPPLIERS, Supplier)),
        accounts=accounts,
        orders=tuple(
            OrderLine(**{**row, "net": _amount(folder / ORDERS, row["net"])})
            for row in _rows(folder / ORDERS, OrderLine)
        ),
    )


def _rows(path: Path, kind: type[Any]) -> list[dict[str, Any]]:
    """Read the rows with the columns that `kind` has; other programs may use more columns."""
    names = list(kind.__dataclass_fields__)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        text = content.decode("utf-8-sig")
        rows = (
            list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
            if len(content) <= MAX_BYTES
            else None
        )
    except FileNotFoundError as error:
        raise StepFailed(
            f"{path.name} is not in the folder of the books ({path.parent}). Put it there "
            "and retry.",
            code="books_missing",
        ) from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise StepFailed(
            f"{path.name} cannot be read: {error}. Correct it and retry.", code="books_unreadable"
        ) from error
    if rows is None:
        raise StepFailed(f"{path.name} has more than {MAX_BYTES:,} bytes.", code="books_unreadable")
    if missing := [name for name in names if rows and name not in rows[0]]:
        raise StepFailed(
            f"{path.name} has no column {missing[0]!r}. Correct it and retry.",
            code="books_unreadable",
        )
    return [{name: (row[name] or "").strip() for name in names} for row in rows]


def _amount(path: Path, text: str) -> Decimal:
    try:
        amount = Decimal(text)
    except InvalidOperation as error:
        raise StepFailed(
            f"{path.name}: {text[:40]!r} is no amount; write it as 1234.50. Correct it and retry.",
            code="books_unreadable",
        ) from error
    if not amount.is_finite():
        raise StepFailed(f"{path.name}: {text[:40]!r} is no amount.", code="books_unreadable")
    return amount
