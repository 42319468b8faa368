"""The registry of tables: of every table that holds something of a thread its app says how the rows
are exported, kept and erased.

Erasure, retention and the exports go by it, so no layer has to know the tables of another by name.
A table that refers to a thread and is not here is found by `unknown`, which a test asks: it fails
there, and no erasure fails for it. Which columns are sealed says their class (`SealedField`), which
`security.key_rotation` goes by.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db import DEFAULT_DB_ALIAS, models
from django.db.models import Exists, QuerySet

from checkpoints.models import Thread
from checkpoints.retention import garbage
from checkpoints.retention.rules import Aging, Droppable
from checkpoints.state.encryption import KeyMissing, SealBroken

Rows = QuerySet[Any]


def delete(rows: Rows, erasure: Any) -> None:
    """Delete rows at once; the database's keys are checked at the commit, when all are gone."""
    rows._raw_delete(using=DEFAULT_DB_ALIAS)


@dataclass(frozen=True, kw_only=True)
class Ages:
    """How rows that name a blob each let it go when they are old."""

    droppable: Droppable
    drop: Callable[[Rows], None]
    """Let go of what some rows name. Called inside a transaction."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """What an app says of one of its tables, whose rows belong to threads."""

    model: type[models.Model]
    kind: str
    """What reports call its rows, such as `queued_turns`."""
    of: Callable[[Sequence[uuid.UUID]], Rows]
    """The rows of some threads."""

    section: str = ""
    """Exported: the section of a thread's document in which its rows are."""
    unexported: str = ""
    """Why its rows are in none."""

    references: Callable[[Any], Iterable[str]] | None = None
    """Kept: the digests of the blobs that a row needs, which retention does not free."""
    referring: Callable[[Rows], Rows] = lambda rows: rows
    """Those among some rows that may need one, with the columns that say so."""
    spares: Sequence[Exists] = ()
    """Kept: checkpoints of which one of these is true are never dropped."""
    ages: Ages | None = None
    """How its rows age; without it they stay as long as their thread, but for what
    `retention.rules` drops of the memory's own.
    """

    erase: Callable[[Rows, Any], None] = delete
    """Erased: takes the rows away. Called inside a transaction, with the record of the erasure."""
    prepare: Callable[[Rows], None] = lambda rows: None
    """Called in the same transaction before any table's rows go."""
    folders: Callable[[Rows], Iterable[Path]] = lambda rows: ()
    """Folders that go with the rows, once the transaction has committed."""
    named: bool = False
    """Whether programs know its rows by their ids: answers that name one are erased too."""
    weighed: str = ""
    """The column whose size a report of what would go counts."""

    def __post_init__(self) -> None:
        if bool(self.section) == bool(self.unexported):
            raise ValueError(f"{self.kind}: say either where it is exported, or why it is not")

    def source(self, cursor: str, limit: int) -> tuple[set[str], str]:
        """Give what the next rows refer to, as a `garbage.Source`."""
        assert self.references is not None
        rows = self.referring(self.model._default_manager.order_by("pk"))
        return garbage.page(rows.filter(pk__gt=cursor) if cursor else rows, limit, self.references)


_TABLES: list[Table] = []
_STAYING: dict[type[models.Model], str] = {}


def register(tables: Sequence[Table], *, above: Sequence[Table] = ()) -> None:
    """Make an app's tables known, in the order in which their rows are erased: what is found by way
    of other rows goes before those.

    Args:
        above: the tables of the layer below, which must be known before; their rows go later.
    """
    assert all(table in _TABLES for table in above), "the layer below registers its tables first"
    taken = {table.kind for table in _TABLES} & {table.kind for table in tables}
    if taken:
        raise ValueError(f"two tables are called {', '.join(sorted(taken))}")
    _TABLES[:0] = tables


def stays(model: type[models.Model], why: str) -> None:
    """Say why the rows of a table that names threads stay when these are erased."""
    _STAYING[model] = why


def registered() -> list[Table]:
    """All tables, in the order in which their rows are erased."""
    return list(_TABLES)


def sources() -> dict[str, garbage.Source]:
    """Give whatever refers to blobs beside checkpoints, by the kinds of the rows."""
    return {table.kind: table.source for table in _TABLES if table.references is not None}


def spared() -> list[Exists]:
    """Give the conditions under which a checkpoint is never dropped."""
    return [condition for table in _TABLES for condition in table.spares]


def aging() -> list[Aging]:
    """Give the tables whose rows age."""
    return [_aging(table, table.ages) for table in _TABLES if table.ages is not None]


def _aging(table: Table, ages: Ages) -> Aging:
    return Aging(
        kind=table.kind,
        source=table.source,
        of=lambda thread_id: table.referring(table.of([thread_id])),
        droppable=ages.droppable,
        drop=ages.drop,
    )


def referred(threads: Sequence[uuid.UUID]) -> set[str]:
    """Give the digests of what threads may refer to: their checkpoints, and all other rows."""
    digests = {digest for thread_id in threads for digest in _by_checkpoints(thread_id)}
    for table in _TABLES:
        if table.references is None:
            continue
        for row in table.referring(table.of(threads)).iterator(garbage.PAGE):
            try:
                digests.update(filter(None, table.references(row)))
            # what it names goes with the next round of retention
            except (KeyMissing, SealBroken):
                continue
    return digests


def _by_checkpoints(thread_id: uuid.UUID) -> Iterable[str]:
    cursor = ""
    while True:
        digests, cursor = garbage.checkpoints(cursor, garbage.PAGE, thread_id=thread_id)
        yield from digests
        if not cursor:
            return


NAMES_A_THREAD = re.compile(r"(\w+_)?(thread|run|pause|checkpoint|order)(_id|_key)?")
"""Names of plain columns that hold the key of a thread, or of something that belongs to one."""


def unknown(candidates: Collection[type[models.Model]]) -> list[str]:
    """Name those among some tables that refer to a thread, directly or by way of others, and of
    which no app has said what becomes of their rows.
    """
    reached: set[Any] = {Thread}
    while more := {model for model in candidates if model not in reached and _to(model, reached)}:
        reached |= more
    known = {table.model for table in _TABLES} | _STAYING.keys()
    return sorted(model._meta.label for model in reached & set(candidates) if model not in known)


def _to(model: type[models.Model], reached: Collection[Any]) -> bool:
    return any(
        field.related_model in reached
        if field.is_relation
        else NAMES_A_THREAD.fullmatch(field.name)
        for field in model._meta.concrete_fields
    )
