"""Bring every sealed value to the newest key: in batches, each in its own short transaction, so it
may be stopped and begun again.

What is plain is encrypted, what another key sealed is sealed anew; with `plain` as the newest key
all is opened. Content and digests stay: this is the one place that rewrites rows of Checkpoint,
Event and Decision, and it changes only how their bytes lie there. A value that somebody changes
meanwhile is left alone: it was written with that process' newest key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from django.apps import apps
from django.db import connection, models, transaction

from checkpoints.models import append_only
from checkpoints.models.fields import SealedBinaryField, SealedField
from checkpoints.state import encryption

BATCH = 200
"""Rows per transaction."""


@dataclass
class ColumnReport:
    """What was done, or would be, in one column."""

    column: str
    keys: Counter[str] = field(default_factory=Counter)
    """Values by the id of the key they were under, `plain` for none."""
    unreadable: list[str] = field(default_factory=list)
    """Primary keys, as text, of values that could not be opened; they are left as they are."""

    @property
    def count(self) -> int:
        return sum(self.keys.values())


def columns() -> list[SealedField]:
    """Every sealed column."""
    fields = [
        field
        for model in apps.get_models()
        for field in model._meta.concrete_fields
        if isinstance(field, SealedField)
    ]
    return sorted(fields, key=lambda field: field.about)


def rotate(*, dry_run: bool, batch: int = BATCH) -> Iterator[ColumnReport]:
    """Go through the columns, and give each as it is done.

    Raises nothing for values that cannot be opened: it lists them.
    """
    for column in columns():
        report, after = ColumnReport(column.about), None
        while rows := _stale(column, after, batch):
            after = rows[-1][0]
            with (
                transaction.atomic(),
                nullcontext() if dry_run else append_only.open_exemption(append_only.RESEAL),
            ):
                _take(column, rows, report, dry_run=dry_run)
        yield report


def _stale(column: SealedField, after: Any, batch: int) -> list[tuple[Any, Any]]:
    """Primary keys and stored values of the next rows that are not under the newest key.

    Raw, since reading through the field opens.
    """
    keys, marks = _key(column.model)
    current, binary = (
        encryption.current_header(always=column.always),
        isinstance(column, SealedBinaryField),
    )
    mark = encryption.MARK if current is None else current
    part = f"substr({_name(column.column)}, 1, {len(mark)})"
    wants = f"{part} {'=' if current is None else '<>'} %s"  # nothing has no key, and needs none
    sql = f"""
        SELECT {_name(column.column)}, {keys} FROM {_name(column.model._meta.db_table)}
        WHERE {wants} AND {_name(column.column)} <>
        %s{f" AND ({keys}) > ({marks})" if after is not None else ""}
        ORDER BY {keys} LIMIT {batch}"""  # noqa: S608  # every name in it is one of our models'
    values: list[Any] = [mark.encode(), b""] if binary else [mark, ""]
    with connection.cursor() as cursor:
        cursor.execute(sql, [*values, *(after if after is not None else [])])
        return [(pk, bytes(stored) if binary else stored) for stored, *pk in cursor.fetchall()]


def _take(
    column: SealedField, rows: Sequence[tuple[Any, Any]], found: ColumnReport, *, dry_run: bool
) -> None:
    """Rewrite one batch.

    Each value goes only over the one that was read. Call inside a transaction.
    """
    model: type[models.Model] = column.model
    keys, marks = _key(model)
    table, name = _name(model._meta.db_table), _name(column.column)
    # as above
    sql = f"UPDATE {table} SET {name} = %s WHERE ({keys}) = ({marks}) AND {name} = %s"  # noqa: S608
    for pk, stored in rows:
        try:
            fresh = _resealed(column, stored)
        except (encryption.KeyMissing, encryption.SealBroken):
            found.unreadable.append(" ".join(map(str, pk)))
            continue
        if fresh == stored:  # plain text that only looks sealed
            continue
        found.keys[encryption.key_of(stored)] += 1
        if not dry_run:
            with connection.cursor() as cursor:
                cursor.execute(sql, [fresh, *pk, stored])


def _key(model: type[models.Model]) -> tuple[str, str]:
    """The columns of a primary key, and as many placeholders."""
    key: Any = model._meta.pk
    parts: list[Any] = list(key.fields) if isinstance(key, models.CompositePrimaryKey) else [key]
    names = [_name(part.column) for part in parts]
    return ", ".join(names), ", ".join(["%s"] * len(names))


def _resealed(column: SealedField, stored: Any) -> Any:
    if isinstance(stored, bytes):
        return encryption.seal(
            encryption.opened(stored, column.about), column.about, always=column.always
        )
    return encryption.seal_text(encryption.opened_text(stored, column.about), column.about)


def _name(name: str | None) -> str:
    assert name is not None  # only fields without a column have none
    return connection.ops.quote_name(name)
