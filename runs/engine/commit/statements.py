"""The SQL of a commit on PostgreSQL: one statement for one run, and one for several runs at once.

Both are data-modifying CTEs, made once per shape and process, whose values are text with the
column's type beside it: so the server prepares each once, whatever the values, and a row costs the
client no more than its text.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple

from django.db import connection, models

from checkpoints.database import clock
from checkpoints.models import Checkpoint, JsonTextField
from checkpoints.models.fields import SealedField
from checkpoints.state import encryption
from runs.models import Run
from runs.states import RUNNING, RunStatus

DATA = "checkpoints_event.data"
"""The sealed column of an event."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fence:
    """What must hold of the run's row for anything to be written."""

    epoch: int
    status: RunStatus = RUNNING
    unless_suspended: bool = False
    """Write nothing where a person wants the run suspended; asking so costs no statement."""
    due: bool = False
    """Write nothing before the run is due, by the database's clock."""


class Shape(NamedTuple):
    """What two writes have in common where they can be one statement."""

    fields: tuple[tuple[str, bool], ...]
    """Names of the columns that change on the run's row; each with whether its value is a time from
    the database's now.
    """
    suspendable: bool
    due: bool
    kept: bool
    """Whether there is a checkpoint."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Write:
    """What one run commits: all of it, or nothing where the fence does not hold."""

    run_id: uuid.UUID
    thread_id: uuid.UUID
    fence: Fence
    fields: Mapping[str, Any]
    facts: Sequence[tuple[str, str]]
    """Kind and canonical JSON of each event."""
    told_size: int
    """Characters of all that JSON."""
    at: dt.datetime
    checkpoint: Checkpoint | None

    @property
    def shape(self) -> Shape:
        fence = self.fence
        fields = tuple(
            [(name, isinstance(value, clock.FromNow)) for name, value in self.fields.items()]
        )
        return Shape(fields, fence.unless_suspended, fence.due, self.checkpoint is not None)

    @property
    def weight(self) -> int:
        """Characters of its larger parts."""
        return (self.checkpoint.size if self.checkpoint else 0) + self.told_size


def one(write: Write) -> int | None:
    """Commit a write; gives the last number of its events, or None where the fence does not hold.

    It locks the run's row first, then the thread's, like every other writer.
    """
    fence, facts = write.fence, [value for fact in _told(write) for value in fact]
    values: list[Any] = [*_set(write), write.run_id, fence.status, fence.epoch]
    values += [
        len(write.facts),
        *([write.checkpoint.pk] if write.checkpoint else []),
        write.thread_id,
    ]
    values += [
        *(_row(write.checkpoint) if write.checkpoint else []),
        *([write.thread_id, write.run_id, write.at, *facts] if facts else []),
    ]
    with connection.cursor() as cursor:
        texts = [None if value is None else str(value) for value in values]
        cursor.execute(_one(write.shape, len(write.facts)), texts)
        row = cursor.fetchone()
    return int(row[0]) if row else None


@cache
def _one(shape: Shape, facts: int) -> str:
    sets = ", ".join(f"{column} = {before}%s::{kind}" for column, kind, before in _changing(shape))
    begins, ends = (
        (f"UPDATE runs_run SET {sets}", "RETURNING id")  # noqa: S608  # as below
        if sets
        else ("SELECT id FROM runs_run", "FOR NO KEY UPDATE")
    )
    more = (" AND suspend_by = ''" if shape.suspendable else "") + (
        " AND due_at <= STATEMENT_TIMESTAMP()" if shape.due else ""
    )
    head = ", head_id = %s::uuid" if shape.kept else ""
    kept = events = ""
    if shape.kept:
        names, marks = (
            ", ".join(column for column, _ in _checkpoint()),
            ", ".join(f"%s::{kind}" for _, kind in _checkpoint()),
        )
        kept = (
            f", kept AS (INSERT INTO checkpoints_checkpoint ({names}) "  # noqa: S608  # as below
            f"SELECT {marks} WHERE "
            "EXISTS (SELECT 1 FROM held))"
        )
    if facts:  # as rows of VALUES: that is what the server takes in soonest
        rows = ", ".join(f"(%s::text, %s::text, {place})" for place in range(1, facts + 1))
        events = f""", told AS (
            INSERT INTO checkpoints_event (thread_id, seq, kind, run_id, data, at)
            SELECT %s::uuid, last_seq - {facts} + place, kind, %s::uuid, data, %s::timestamptz
            FROM numbered, (VALUES {rows}) AS fact (kind, data, place)
        )"""  # noqa: S608  # as below
    return f"""
        WITH held AS MATERIALIZED (
            {begins}
            WHERE id = %s::uuid AND status = %s::text AND epoch = %s::integer{more} {ends}
        ), numbered AS (
            UPDATE checkpoints_thread SET last_seq = last_seq + %s::integer{head}
            WHERE id = %s::uuid AND EXISTS (SELECT 1 FROM held) RETURNING last_seq
        ){kept}{events}
        SELECT last_seq FROM numbered"""  # noqa: S608


def several(writes: Sequence[Write]) -> dict[uuid.UUID, int]:
    """Commit writes of one shape, each of another run.

    Gives the last number of the events of each run that was written.

    A run is left out where its fence does not hold, and also where somebody else holds its row or
    its thread's at this moment. So the statement never waits for a lock while it has others, and
    cannot be part of a circle of those who wait.
    """
    columns = list(zip(*(_asked(write) for write in writes), strict=True))
    facts = [
        (write.run_id, place, *fact)
        for write in writes
        for place, fact in enumerate(_told(write), start=1)
    ]
    arrays = [
        _array(column)
        for column in [*columns, *(zip(*facts, strict=True) if facts else [(), (), (), ()])]
    ]
    with connection.cursor() as cursor:
        cursor.execute(_several(writes[0].shape), arrays)
        return dict(cursor.fetchall())


def _asked(write: Write) -> list[Any]:
    """A row of `asked`; in the order of `_several`."""
    row = [
        write.run_id,
        write.thread_id,
        write.fence.status,
        write.fence.epoch,
        write.at,
        len(write.facts),
    ]
    return [*row, *_set(write), *(_row(write.checkpoint) if write.checkpoint else [])]


@cache
def _several(shape: Shape) -> str:
    fields, kept_columns = _changing(shape), _checkpoint() if shape.kept else []
    asked = [
        ("run_id", "uuid"),
        ("thread_id", "uuid"),
        ("fence_status", "text"),
        ("fence_epoch", "integer"),
    ]
    asked += [("at", "timestamptz"), ("facts", "integer")]
    asked += [(f"run_{column}", kind) for column, kind, _ in fields] + [
        (f"kept_{column}", kind) for column, kind in kept_columns
    ]
    more = (" AND run.suspend_by = ''" if shape.suspendable else "") + (
        " AND run.due_at <= STATEMENT_TIMESTAMP()" if shape.due else ""
    )
    kept = ""
    if shape.kept:
        names, values = (
            ", ".join(column for column, _ in kept_columns),
            ", ".join(f"kept_{column}" for column, _ in kept_columns),
        )
        kept = (
            f", kept AS (INSERT INTO checkpoints_checkpoint ({names}) "  # noqa: S608  # as below
            f"SELECT {values} FROM numbered)"
        )
    arrays = ", ".join(f"%s::{kind}[]" for _, kind in asked)
    names = ", ".join(name for name, _ in asked)
    changes = ", ".join(f"{column} = {before}free.run_{column}" for column, _, before in fields)
    head = ", head_id = kept_id" if shape.kept else ""
    # every name in both statements is a column of our models
    held = (
        f"UPDATE runs_run AS run SET {changes} FROM free WHERE run.id = run_id RETURNING free.*"  # noqa: S608
        if changes
        else "SELECT * FROM free"
    )
    return f"""
        WITH asked AS MATERIALIZED (
            SELECT * FROM unnest({arrays}) AS asked ({names})
        ), free AS MATERIALIZED (
            SELECT asked.* FROM asked
            JOIN runs_run AS run ON run.id = run_id
            JOIN checkpoints_thread AS thread ON thread.id = asked.thread_id
            WHERE run.status = fence_status AND run.epoch = fence_epoch{more}
            FOR NO KEY UPDATE OF run, thread SKIP LOCKED
        ), held AS MATERIALIZED (
            {held}
        ), numbered AS (
            UPDATE checkpoints_thread AS thread SET last_seq = last_seq + facts{head}
            FROM held WHERE thread.id = thread_id RETURNING held.*, last_seq
        ){kept}, told AS (
            INSERT INTO checkpoints_event (thread_id, seq, kind, run_id, data, at)
            SELECT thread_id, last_seq - facts + place, kind, run_id, data, at
            FROM unnest(%s::uuid[], %s::integer[], %s::text[], %s::text[])
                AS fact (of_run, place, kind, data)
            JOIN numbered ON run_id = of_run
        )
        SELECT run_id, last_seq FROM numbered"""  # noqa: S608


def _changing(shape: Shape) -> list[tuple[str, str, str]]:
    """Columns of the run that change, each with the type of what is written, and with what that is
    added to.
    """
    columns = _columns(Run, [name for name, _ in shape.fields])
    by_clock = [from_now for _, from_now in shape.fields]
    return [
        (column, "interval", "STATEMENT_TIMESTAMP() + ") if from_now else (column, kind, "")
        for (column, kind), from_now in zip(columns, by_clock, strict=True)
    ]


def _columns(model: type[models.Model], names: Iterable[str]) -> list[tuple[str, str]]:
    """Columns, each with its type; text for all kinds of text, since a cast to `varchar(16)` would
    cut what is too long.
    """
    fields: list[Any] = [model._meta.get_field(name) for name in names]
    kinds = [field.db_type(connection) for field in fields]
    return [
        (field.column, "text" if kind.startswith("varchar") else kind)
        for field, kind in zip(fields, kinds, strict=True)
    ]


@cache
def _checkpoint() -> list[tuple[str, str]]:
    return _columns(Checkpoint, [field.name for field in Checkpoint._meta.concrete_fields])


def _row(checkpoint: Checkpoint) -> list[Any]:
    """The values of a checkpoint's columns."""
    read, encoded = _reading()
    values = list(read(checkpoint))
    for place, field in encoded:
        values[place] = _stored(field, values[place])
    return values


def _stored(field: Any, value: Any) -> Any:
    """A value as its column has it: sealed where the column is."""
    prepared = field.get_prep_value(value)
    return (
        encryption.seal_text(prepared, field.about)
        if isinstance(field, SealedField) and isinstance(prepared, str)
        else prepared
    )


def _set(write: Write) -> list[Any]:
    """The values that change on the run's row."""
    return [_changed(name, value) for name, value in write.fields.items()]


def _changed(name: str, value: Any) -> Any:
    if isinstance(value, clock.FromNow):
        return value.interval
    field = _sealed().get(name)
    return value if field is None else _stored(field, value)


def _told(write: Write) -> list[tuple[str, str]]:
    """Kind and stored text of each event."""
    return [(kind, encryption.seal_text(text, DATA)) for kind, text in write.facts]


@cache
def _sealed() -> dict[str, Any]:
    return {
        field.name: field for field in Run._meta.concrete_fields if isinstance(field, SealedField)
    }


@cache
def _reading() -> tuple[Any, list[tuple[int, Any]]]:
    """What gives all values of a checkpoint at once, and which of them are JSON yet to be written
    out.
    """
    fields = Checkpoint._meta.concrete_fields
    encoded = [
        (place, field)
        for place, field in enumerate(fields)
        if isinstance(field, JsonTextField | SealedField)
    ]
    return attrgetter(*(field.attname for field in fields)), encoded


def _array(values: Iterable[Any]) -> str:
    """An array's text. psycopg's own writing of it takes several times as long."""
    return (
        "{" + ",".join(["NULL" if value is None else _quoted(str(value)) for value in values]) + "}"
    )


def _quoted(text: str) -> str:
    if "\\" in text:
        text = text.replace("\\", "\\\\")
    return '"' + text.replace('"', '\\"') + '"' if '"' in text else f'"{text}"'
