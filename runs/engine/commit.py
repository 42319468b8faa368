"""The one hot path: a step's commit. Run row, checkpoint and events in one statement, fenced by the epoch of the claim.

This is the one place with SQL of our own: through the ORM the same writes are a transaction of several statements, each a round trip
to the server (`tests/runs/test_cost.py` counts). SQLite has no data-modifying CTE; there they are four statements in one transaction, which
costs no round trip.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection, connections, models, transaction
from django.utils import timezone

from checkpoints import codec, live, log, redaction, sealing
from checkpoints.models import Checkpoint, Event, EventKind, Thread
from runs.models import Run
from runs.states import MOVES, RUNNING, RunStatus

DATA = "checkpoints_event.data"
"""The sealed column that is written by SQL of our own."""
Facts = Sequence[tuple[EventKind, Mapping[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class Fence:
    """What must hold of the run's row for anything to be written."""

    epoch: int
    status: RunStatus = RUNNING
    unless_suspended: bool = False
    """Write nothing where a person wants the run suspended; asking so costs no statement."""
    due: dt.datetime | None = None
    """Write nothing before the run is due."""


def write(run: Run, fence: Fence, fields: Mapping[str, Any], facts: Facts, checkpoint: Checkpoint | None = None) -> bool:
    """Write all of it, or nothing and False where the fence does not hold.

    Args:
        fields: what changes on the run's row, at least one column; a status among them must be a move from the fence's.
        facts: the events; they get consecutive numbers and are announced after the commit.
        checkpoint: unsaved, from `store.build`; it becomes the thread's head.
    """
    assert "status" not in fields or fields["status"] in MOVES[fence.status], fields["status"]
    at = timezone.now()
    facts = [(kind, redaction.redact(data)) for kind, data in facts]
    insert = _one_statement if connection.vendor == "postgresql" else _one_transaction
    last = insert(run, fence, fields, facts, at, checkpoint)
    if last is None:
        return False
    if facts:
        told = log.envelopes(run.thread_id, run.pk, facts, first=last - len(facts) + 1, at=at)
        live.hint_on_commit(run.thread_id, last, [dict(one) for one in told])
    return True


def _one_statement(
    run: Run, fence: Fence, fields: Mapping[str, Any], facts: Facts, at: dt.datetime, checkpoint: Checkpoint | None
) -> int | None:
    """One data-modifying CTE. It locks the run's row first, then the thread's, like every other writer."""
    sets, set_values = _columns(Run, fields)
    kept, head, kept_values = _checkpoint_part(checkpoint)
    told, told_values = _events_part(run, facts, at)
    more = (" AND suspend_by = ''" if fence.unless_suspended else "") + (" AND due_at <= %s" if fence.due else "")
    sql = f"""
        WITH held AS (
            UPDATE runs_run SET {", ".join(f"{name} = %s" for name in sets)}
            WHERE id = %s AND status = %s AND epoch = %s{more} RETURNING id
        ), numbered AS (
            UPDATE checkpoints_thread SET last_seq = last_seq + %s{head}
            WHERE id = %s AND EXISTS (SELECT 1 FROM held) RETURNING last_seq
        ){kept}{told}
        SELECT last_seq FROM numbered"""  # noqa: S608  # every name in it is a column of our models
    thread_part: list[Any] = [len(facts), *([checkpoint.pk] if checkpoint else []), run.thread_id]
    fenced: list[Any] = [run.pk, str(fence.status), fence.epoch, *([fence.due] if fence.due else [])]
    with connection.cursor() as cursor:
        cursor.execute(sql, [*set_values, *fenced, *thread_part, *kept_values, *told_values])
        row = cursor.fetchone()
    return int(row[0]) if row else None


def _checkpoint_part(checkpoint: Checkpoint | None) -> tuple[str, str, list[Any]]:
    """The insert of a checkpoint, what makes it the head, and its values."""
    if checkpoint is None:
        return "", "", []
    fields: Sequence[Any] = checkpoint._meta.concrete_fields
    database = connections[DEFAULT_DB_ALIAS]  # itself: Django's `connection` is a proxy that looks it up once per column
    values = [field.get_db_prep_save(field.pre_save(checkpoint, True), database) for field in fields]
    names, marks = ", ".join(field.column for field in fields), ", ".join(["%s"] * len(fields))
    kept = f", kept AS (INSERT INTO checkpoints_checkpoint ({names}) SELECT {marks} WHERE EXISTS (SELECT 1 FROM held))"  # noqa: S608
    return kept, ", head_id = %s", values


def _events_part(run: Run, facts: Facts, at: dt.datetime) -> tuple[str, list[Any]]:
    """The insert of the events, and its values. As rows of VALUES: psycopg dumps a text array several times as slowly."""
    if not facts:
        return "", []
    rows = ", ".join(f"(%s, %s, {place})" for place in range(1, len(facts) + 1))
    told = f""", told AS (
            INSERT INTO checkpoints_event (thread_id, seq, kind, run_id, data, at)
            SELECT %s, last_seq - {len(facts)} + place, kind, %s, data, %s FROM numbered, (VALUES {rows}) AS fact (kind, data, place)
        )"""  # noqa: S608
    return told, [
        run.thread_id,
        run.pk,
        at,
        *(value for kind, data in facts for value in (str(kind), sealing.seal_text(codec.encode(data), DATA))),
    ]


@transaction.atomic
def _one_transaction(
    run: Run, fence: Fence, fields: Mapping[str, Any], facts: Facts, at: dt.datetime, checkpoint: Checkpoint | None
) -> int | None:
    more: dict[str, Any] = {**({"suspend_by": ""} if fence.unless_suspended else {}), **({"due_at__lte": fence.due} if fence.due else {})}
    if not Run.objects.filter(pk=run.pk, status=fence.status, epoch=fence.epoch, **more).update(**fields):
        return None
    first = Thread.objects.next_seq(run.thread_id, len(facts))
    if checkpoint is not None:
        checkpoint.save(force_insert=True)
        Thread.objects.filter(pk=run.thread_id).update(head=checkpoint)
    same: dict[str, Any] = {"thread_id": run.thread_id, "run_id": run.pk, "at": at}
    Event.objects.bulk_create(Event(seq=seq, kind=kind, data=data, **same) for seq, (kind, data) in enumerate(facts, start=first))
    return first + len(facts) - 1


def _columns(model: type[models.Model], fields: Mapping[str, Any]) -> tuple[list[str], list[Any]]:
    """Column names and database values of an update."""
    found: list[tuple[Any, Any]] = [(model._meta.get_field(name), value) for name, value in fields.items()]
    return [field.column for field, _ in found], [field.get_db_prep_save(value, connection) for field, value in found]
