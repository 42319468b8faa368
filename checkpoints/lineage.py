"""Which checkpoint came from which: a thread's latest, its history in pages, the chain behind a
checkpoint, and the branches.

Every read is bounded, however long the history: a page is a range of the index
`checkpoint_by_thread`, a chain goes up by primary keys, and branches are made out among the newest
`WINDOW` checkpoints before a given one.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from django.db import connection
from django.db.models import QuerySet

from checkpoints.models import Checkpoint, CheckpointStatus, Thread

PAGE = 50
WINDOW = 1_000
CHAIN = 1_000


def latest(thread_id: uuid.UUID) -> Checkpoint | None:
    """The checkpoint that a run of the thread would go on from: two reads by primary key. None for
    a new thread.
    """
    head = Thread.objects.filter(pk=thread_id).values("head")[:1]
    return Checkpoint.objects.filter(pk__in=head).first()


def history(
    thread_id: uuid.UUID, *, before: uuid.UUID | None = None, limit: int = PAGE
) -> list[Checkpoint]:
    """Up to `limit` checkpoints of a thread that are older than `before`, newest first; their
    bodies are not read.
    """
    rows = Checkpoint.objects.filter(thread=thread_id).defer("body")
    if before is not None:
        rows = rows.filter(pk__lt=before)
    return list(rows.order_by("-pk")[:limit])


def chain(checkpoint_id: uuid.UUID, *, limit: int = PAGE) -> list[Checkpoint]:
    """A checkpoint and those it came from, newest first: one branch, whatever other branches the
    thread has. Bodies are not read.
    """
    keys = _chain_keys(checkpoint_id, min(limit, CHAIN))
    found: QuerySet[Checkpoint] = Checkpoint.objects.defer("body")
    rows = found.in_bulk(keys)
    return [rows[key] for key in keys]


def _chain_keys(checkpoint_id: uuid.UUID, limit: int) -> list[uuid.UUID]:
    sql = """
        WITH RECURSIVE chain (id, parent_id, place) AS (
            SELECT id, parent_id, 1 FROM checkpoints_checkpoint WHERE id = %s
            UNION ALL
            SELECT older.id, older.parent_id, place + 1
            FROM chain JOIN checkpoints_checkpoint AS older ON older.id = chain.parent_id WHERE
            place < %s
        )
        SELECT id FROM chain ORDER BY place"""
    key = Checkpoint._meta.pk.get_db_prep_value(checkpoint_id, connection)
    with connection.cursor() as cursor:
        cursor.execute(sql, [key, limit])
        return [_uuid(key) for (key,) in cursor.fetchall()]


@dataclass(frozen=True, slots=True)
class ChainLink:
    """A checkpoint as far as it says what came of the one before."""

    id: uuid.UUID
    run_id: uuid.UUID
    digest: str
    schema_version: int
    dropped_before: int


def between(checkpoint_id: uuid.UUID, ancestor_id: uuid.UUID) -> list[ChainLink] | None:
    """The chain from a checkpoint back to one that it came from, both with it, newest first; None
    where it did not come from that.
    """
    sql = """
        WITH RECURSIVE chain (id, parent_id, run_id, digest, schema_version, dropped_before, place)
        AS (
            SELECT id, parent_id, run_id, digest, schema_version, dropped_before, 1 FROM
            checkpoints_checkpoint WHERE id = %s
            UNION ALL
            SELECT older.id, older.parent_id, older.run_id, older.digest, older.schema_version,
            older.dropped_before, place + 1
            FROM chain JOIN checkpoints_checkpoint AS older ON older.id = chain.parent_id WHERE
            chain.id <> %s
        )
        SELECT id, run_id, digest, schema_version, dropped_before FROM chain ORDER BY place"""
    keys = [
        Checkpoint._meta.pk.get_db_prep_value(key, connection)
        for key in (checkpoint_id, ancestor_id)
    ]
    with connection.cursor() as cursor:
        cursor.execute(sql, keys)
        links = [ChainLink(_uuid(key), _uuid(run), *rest) for key, run, *rest in cursor.fetchall()]
    return links if links and links[-1].id == ancestor_id else None


def _uuid(value: uuid.UUID | str) -> uuid.UUID:
    return value if isinstance(value, uuid.UUID) else uuid.UUID(value)


@dataclass(frozen=True, slots=True)
class Node:
    """A checkpoint as the tree shows it."""

    id: uuid.UUID
    parent_id: uuid.UUID | None
    run_id: uuid.UUID
    status: str
    node_id: str
    next_step: str
    loop_num: int
    created_at: dt.datetime
    ended: str = ""
    """How it ended, where that is not its status: `Checkpoint.standing`."""

    @property
    def standing(self) -> str:
        return self.ended or self.status


@dataclass(slots=True)
class Branch:
    """A line of checkpoints, each from the one before.

    The first to go on from a checkpoint is of its branch; others begin their own.
    """

    number: int
    """From 1, oldest first."""
    nodes: list[Node]
    """Oldest first."""
    start: uuid.UUID | None
    """The checkpoint that the first one came from: of another branch, or older than the window.

    None for a thread's first.
    """
    on: Branch | None = None
    """The branch that it left."""
    is_current: bool = False
    """A run would go on from its tip: the thread's head."""
    forks: list[Branch] = field(default_factory=list)

    @property
    def first(self) -> Node:
        return self.nodes[0]

    @property
    def tip(self) -> Node:
        return self.nodes[-1]

    @property
    def level(self) -> int:
        return 0 if self.on is None else self.on.level + 1


@dataclass(frozen=True, slots=True)
class Tree:
    branches: Sequence[Branch]
    """Each followed by those that left it."""
    older: uuid.UUID | None
    """The oldest checkpoint of the window, where there are older ones."""

    def numbers(self) -> dict[uuid.UUID, int]:
        """Checkpoint → the number of its branch."""
        return {node.id: branch.number for branch in self.branches for node in branch.nodes}


def branches(thread: Thread, *, before: uuid.UUID | None = None, window: int = WINDOW) -> Tree:
    """The branches among the newest `window` checkpoints of a thread that are older than `before`:
    one query without bodies, and one more where some failed.
    """
    found = Checkpoint.objects.filter(thread=thread.pk)
    if before is not None:
        found = found.filter(pk__lt=before)
    columns = (
        "id",
        "parent_id",
        "run_id",
        "status",
        "node_id",
        "next_step",
        "loop_num",
        "created_at",
    )
    rows = [Node(*row) for row in found.order_by("-pk").values_list(*columns)[: window + 1]]
    older = rows[window - 1].id if len(rows) > window else None
    nodes = _standing(rows[:window])
    return Tree(_in_order(_grown(reversed(nodes), thread.head_id)), older)


def _standing(nodes: Sequence[Node]) -> list[Node]:
    """The nodes, with what a failed one says of its end."""
    failed = [node.id for node in nodes if node.status == CheckpointStatus.FAILED]
    said = Checkpoint.objects.only("status", "metadata").in_bulk(failed) if failed else {}
    return [
        replace(node, ended=said[node.id].standing) if node.id in said else node for node in nodes
    ]


def _grown(nodes: Iterable[Node], head: uuid.UUID | None) -> list[Branch]:
    """The branches in the order in which they began."""
    made: list[Branch] = []
    tips: dict[uuid.UUID, Branch] = {}
    home: dict[uuid.UUID, Branch] = {}
    for node in nodes:
        branch = tips.pop(node.parent_id, None) if node.parent_id else None
        if branch is None:
            on = home.get(node.parent_id) if node.parent_id else None
            branch = Branch(number=len(made) + 1, nodes=[], start=node.parent_id, on=on)
            made.append(branch)
            if on is not None:
                on.forks.append(branch)
        branch.nodes.append(node)
        tips[node.id] = home[node.id] = branch
    if head in tips:
        tips[head].is_current = True
    return made


def _in_order(made: Sequence[Branch]) -> list[Branch]:
    ordered: list[Branch] = []
    waiting = [branch for branch in reversed(made) if branch.on is None]
    while waiting:
        branch = waiting.pop()
        ordered.append(branch)
        waiting += reversed(branch.forks)
    return ordered
