"""Commit a step, on the one hot path: the run's row, its checkpoint and events in one statement,
fenced by the epoch of the claim.

This module and `statements` are the one place where the engine has SQL of its own: through the ORM
the same writes are a transaction of several statements, each a round trip to the server
(`tests/runs/engine/commit/test_cost.py` counts). SQLite has no data-modifying CTE: there they are
four statements in one transaction, which costs no round trip.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connection

from checkpoints.database import clock
from checkpoints.events import live, log
from checkpoints.models import Checkpoint
from checkpoints.state import codec, redaction
from runs.engine.commit import gathering, group, statements
from runs.engine.commit.gathering import NotedCommit
from runs.engine.commit.statements import Events, Fence, Write
from runs.models import Run
from runs.states import MOVES


def write(
    run: Run,
    fence: Fence,
    fields: Mapping[str, Any],
    facts: Events,
    checkpoint: Checkpoint | None = None,
) -> bool:
    """Write all of it and give True; or write nothing and give False where the fence does not hold.

    Args:
        fields: the new values of the run's row; a status among them must be a move from the
            fence's. Without any value the row is only locked.
        facts: the events; they get consecutive numbers and are announced after the commit.
        checkpoint: unsaved, from `store.build`; it becomes the thread's head.
    """
    changes, facts = _draft(run, fence, fields, facts, checkpoint)
    envelopes: list[log.Envelope]
    if connection.vendor != "postgresql":
        rows = statements.through_orm(changes, facts)
        if rows is None:
            return False
        envelopes = [log.envelope(row) for row in rows]
    else:
        last = statements.one(changes) if connection.in_atomic_block else group.commit(changes)
        if last is None:
            return False
        first = last - len(facts) + 1
        envelopes = log.envelopes(run.thread_id, run.pk, facts, first=first, at=changes.at)
    _announce(changes, envelopes)
    return True


def write_or_note(
    run: Run,
    fence: Fence,
    fields: Mapping[str, Any],
    facts: Events,
    checkpoint: Checkpoint | None = None,
) -> bool:
    """As `write`, for what rules and people do to a run that waits.

    While writes are gathered (`gathering`), note this one and give True: `write_gathered` later
    says whether all of them held.
    """
    gathered = gathering.current()
    if gathered is None:
        return write(run, fence, fields, facts, checkpoint)
    gathered.commits.append(NotedCommit(*_draft(run, fence, fields, facts, checkpoint)))
    return True


def _draft(
    run: Run,
    fence: Fence,
    fields: Mapping[str, Any],
    facts: Events,
    checkpoint: Checkpoint | None,
) -> tuple[Write, Events]:
    """Make the write as it is stored, and its events as watchers get them."""
    assert "status" not in fields or fields["status"] in MOVES[fence.status], fields["status"]
    at = clock.now()
    facts = [(kind, redaction.redact(data)) for kind, data in facts]
    if checkpoint is not None:
        checkpoint.created_at = at
    texts = [(str(kind), codec.encode_in_order(data)) for kind, data in facts]
    changes = Write(
        run_id=run.pk,
        thread_id=run.thread_id,
        fence=fence,
        fields=fields,
        facts=texts,
        told_size=sum([len(text) for _, text in texts]),
        at=at,
        checkpoint=checkpoint,
    )
    return changes, facts


def write_gathered(commits: Sequence[NotedCommit]) -> bool:
    """Write the noted commits, each of another run, in one statement for each shape.

    False where a fence does not hold or another session holds a row: then roll back. Call inside a
    transaction.
    """
    if connection.vendor != "postgresql":
        for noted in commits:
            rows = statements.through_orm(noted.write, noted.facts)
            if rows is None:
                return False
            _announce(noted.write, [log.envelope(row) for row in rows])
        return True
    alike: dict[statements.Shape, list[NotedCommit]] = {}
    for noted in commits:
        alike.setdefault(noted.write.shape, []).append(noted)
    for some in alike.values():
        written = statements.several([noted.write for noted in some])
        if len(written) < len(some):
            return False
        for write, facts in some:
            first = written[write.run_id] - len(facts) + 1
            _announce(
                write,
                log.envelopes(write.thread_id, write.run_id, facts, first=first, at=write.at),
            )
    return True


def _announce(write: Write, envelopes: list[log.Envelope]) -> None:
    """Send the events to those who watch the run, once the transaction commits."""
    if envelopes:
        live.hint_on_commit(write.thread_id, envelopes[-1]["seq"], envelopes, size=write.told_size)
