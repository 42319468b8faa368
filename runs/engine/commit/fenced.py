"""The one hot path: a step's commit.

Run row, checkpoint and events in one statement, fenced by the epoch of the claim.

This and `statements` are the one place with SQL of our own: through the ORM the same writes are a
transaction of several statements, each a round trip to the server
(`tests/runs/engine/commit/test_cost.py` counts). SQLite has no data-modifying CTE; there they are
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
    """Write all of it, or nothing and False where the fence does not hold.

    Args:
        fields: what changes on the run's row; a status among them must be a move from the fence's.
            Without any the row is locked meanwhile.
        facts: the events; they get consecutive numbers and are announced after the commit.
        checkpoint: unsaved, from `store.build`; it becomes the thread's head.
    """
    changes, facts = _drafted(run, fence, fields, facts, checkpoint)
    told: list[log.Envelope]
    if connection.vendor != "postgresql":
        rows = statements.through_orm(changes, facts)
        if rows is None:
            return False
        told = [log.envelope(row) for row in rows]
    else:
        last = statements.one(changes) if connection.in_atomic_block else group.commit(changes)
        if last is None:
            return False
        first = last - len(facts) + 1
        told = log.envelopes(run.thread_id, run.pk, facts, first=first, at=changes.at)
    _announce(changes, told)
    return True


def write_or_note(
    run: Run,
    fence: Fence,
    fields: Mapping[str, Any],
    facts: Events,
    checkpoint: Checkpoint | None = None,
) -> bool:
    """As `write`, of what rules and people do to a run that waits.

    While something gathers, note it and say True: `write_gathered` then says for all of them.
    """
    gathered = gathering.current()
    if gathered is None:
        return write(run, fence, fields, facts, checkpoint)
    gathered.commits.append(NotedCommit(*_drafted(run, fence, fields, facts, checkpoint)))
    return True


def _drafted(
    run: Run,
    fence: Fence,
    fields: Mapping[str, Any],
    facts: Events,
    checkpoint: Checkpoint | None,
) -> tuple[Write, Events]:
    """A write as it is stored, and its events as watchers get them."""
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
    """Write what was noted, each of another run, in one statement for each shape.

    False where a fence does not hold or a row is held by somebody: then roll back. Call inside a
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


def _announce(write: Write, told: list[log.Envelope]) -> None:
    """Tell those who watch, once the transaction commits."""
    if told:
        live.hint_on_commit(write.thread_id, told[-1]["seq"], told, size=write.told_size)
