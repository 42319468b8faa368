"""The SQL of a commit: of a claim, of a step, and of an end.

On PostgreSQL it is one statement for one run, `ONE`, or one for several runs at once, `SEVERAL`:
data-modifying CTEs. On SQLite, which has none, it is `through_orm`. What PostgreSQL gets for a
claim, a step and an end stands in `tests/runs/engine/commit/test_sql.py`.

The values are text with the column's type beside it, and a statement is made once per shape and
process: so the server prepares each once, whatever the values, and a row costs the client no more
than its text.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple

from django.db import connection, models, transaction

from checkpoints.database import clock
from checkpoints.models import Checkpoint, Event, EventKind, JsonTextField, Thread
from checkpoints.models.fields import SealedField
from checkpoints.state import encryption
from runs.models import Run
from runs.states import RUNNING, RunStatus

DATA = "checkpoints_event.data"
"""The sealed column of an event."""

ONE = """
WITH held AS MATERIALIZED (
    -- The run's row, where the fence holds; else nothing below writes anything. It is locked first,
    -- like every other writer does, and only locked where nothing on it changes.
    UPDATE runs_run SET {changes}                                              --? changes
    SELECT id FROM runs_run                                                    --? no changes
    WHERE id = %s::uuid AND status = %s::text AND epoch = %s::integer
      AND suspend_by = ''                                                      --? unless suspended
      AND due_at <= STATEMENT_TIMESTAMP()                                      --? due
    RETURNING id                                                               --? changes
    FOR NO KEY UPDATE                                                          --? no changes
), numbered AS (
    -- The thread gives each event a number, and the checkpoint becomes its head.
    UPDATE checkpoints_thread
    SET last_seq = last_seq + %s::integer
      , head_id = %s::uuid                                                     --? checkpoint
    WHERE id = %s::uuid AND EXISTS (SELECT 1 FROM held)
    RETURNING last_seq
), kept AS (                                                                   --? checkpoint
    INSERT INTO checkpoints_checkpoint ({columns})                             --? checkpoint
    SELECT {values}                                                            --? checkpoint
    WHERE EXISTS (SELECT 1 FROM held)                                          --? checkpoint
), told AS (                                                                   --? events
    -- As rows of VALUES: that is what the server takes in soonest.
    INSERT INTO checkpoints_event (thread_id, seq, kind, run_id, data, at)     --? events
    SELECT %s::uuid, last_seq - {events} + place, kind, %s::uuid, data, %s::timestamptz --? events
    FROM numbered, (VALUES {facts}) AS fact (kind, data, place)                --? events
)
SELECT last_seq FROM numbered"""
"""Commits a write of one run; no row where the fence does not hold.

A line that ends in `--?` is there where the write has what the mark names. `{changes}` are columns
of the run's row; `{columns}` and `{values}` the checkpoint's, from its model's fields.
"""

SEVERAL = """
WITH asked AS MATERIALIZED (
    -- A row for each write.
    SELECT * FROM unnest({arrays}) AS asked ({names})
), free AS MATERIALIZED (
    -- Those whose fence holds, and whose rows nobody holds at this moment: it waits for no lock.
    SELECT asked.* FROM asked
    JOIN runs_run AS run ON run.id = run_id
    JOIN checkpoints_thread AS thread ON thread.id = asked.thread_id
    WHERE run.status = fence_status AND run.epoch = fence_epoch
      AND run.suspend_by = ''                                                  --? unless suspended
      AND run.due_at <= STATEMENT_TIMESTAMP()                                  --? due
    FOR NO KEY UPDATE OF run, thread SKIP LOCKED
), held AS MATERIALIZED (
    -- The rows of their runs.
    UPDATE runs_run AS run SET {changes}                                       --? changes
    FROM free WHERE run.id = run_id RETURNING free.*                           --? changes
    SELECT * FROM free                                                         --? no changes
), numbered AS (
    -- Each thread gives its events their numbers, and the checkpoint becomes its head.
    UPDATE checkpoints_thread AS thread
    SET last_seq = last_seq + facts
      , head_id = kept_id                                                      --? checkpoint
    FROM held WHERE thread.id = thread_id
    RETURNING held.*, last_seq
), kept AS (                                                                   --? checkpoint
    INSERT INTO checkpoints_checkpoint ({columns})                             --? checkpoint
    SELECT {values} FROM numbered                                              --? checkpoint
), told AS (
    INSERT INTO checkpoints_event (thread_id, seq, kind, run_id, data, at)
    SELECT thread_id, last_seq - facts + place, kind, run_id, data, at
    FROM unnest(%s::uuid[], %s::integer[], %s::text[], %s::text[])
        AS fact (of_run, place, kind, data)
    JOIN numbered ON run_id = of_run
)
SELECT run_id, last_seq FROM numbered"""
"""Commits writes of one shape, each of another run; a row for each that was written. Its marks are
those of `ONE`.
"""

Events = Sequence[tuple[EventKind, Mapping[str, Any]]]


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
    """Commit a write; gives its events' last number, or None where the fence does not hold."""
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
    return _filled(
        ONE,
        shape,
        has_events=facts > 0,
        changes=", ".join(f"{column} = {now}%s::{kind}" for column, kind, now in _changing(shape)),
        columns=", ".join(column for column, _ in _checkpoint()),
        values=", ".join(f"%s::{kind}" for _, kind in _checkpoint()),
        events=str(facts),
        facts=", ".join(f"(%s::text, %s::text, {place})" for place in range(1, facts + 1)),
    )


def _filled(text: str, shape: Shape, *, has_events: bool, **names: str) -> str:
    """The statement of a shape: the lines of a text that it has, with the names of columns."""
    has = {
        "": True,
        "changes": bool(shape.fields),
        "no changes": not shape.fields,
        "unless suspended": shape.suspendable,
        "due": shape.due,
        "checkpoint": shape.kept,
        "events": has_events,
    }
    lines = [line.partition("--? ") for line in text.splitlines()]
    kept = [line.rstrip() for line, _, mark in lines if has[mark]]
    return "\n".join(line for line in kept if line and not line.lstrip().startswith("--")).format(
        **names
    )


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
    fields, kept = _changing(shape), _checkpoint() if shape.kept else []
    asked = [
        ("run_id", "uuid"),
        ("thread_id", "uuid"),
        ("fence_status", "text"),
        ("fence_epoch", "integer"),
        ("at", "timestamptz"),
        ("facts", "integer"),
        *((f"run_{column}", kind) for column, kind, _ in fields),
        *((f"kept_{column}", kind) for column, kind in kept),
    ]
    return _filled(
        SEVERAL,
        shape,
        has_events=True,
        arrays=", ".join(f"%s::{kind}[]" for _, kind in asked),
        names=", ".join(name for name, _ in asked),
        changes=", ".join(f"{column} = {now}free.run_{column}" for column, _, now in fields),
        columns=", ".join(column for column, _ in kept),
        values=", ".join(f"kept_{column}" for column, _ in kept),
    )


@transaction.atomic
def through_orm(write: Write, facts: Events) -> list[Event] | None:
    """Commit a write on SQLite, where the same statements cost no round trip.

    Gives the rows of the facts, with the times that they got; None where the fence does not hold.
    """
    fence = write.fence
    more: dict[str, Any] = {
        **({"suspend_by": ""} if fence.unless_suspended else {}),
        **({"due_at__lte": clock.FromNow()} if fence.due else {}),
    }
    if not Run.objects.filter(
        pk=write.run_id, status=fence.status, epoch=fence.epoch, **more
    ).update(**{"epoch": fence.epoch, **write.fields}):
        return None
    first = Thread.objects.next_seq(write.thread_id, len(facts))
    if write.checkpoint is not None:
        write.checkpoint.save(force_insert=True)
        Thread.objects.filter(pk=write.thread_id).update(head=write.checkpoint)
    same: dict[str, Any] = {"thread_id": write.thread_id, "run_id": write.run_id}
    return Event.objects.bulk_create(
        Event(seq=seq, kind=kind, data=data, **same)
        for seq, (kind, data) in enumerate(facts, start=first)
    )


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
