"""What becomes of the memory's own rows: how they are exported, kept and erased."""

from __future__ import annotations

from checkpoints import registry
from checkpoints.models import Checkpoint, Event, Memo, RestingThread, Thread
from checkpoints.models.graphs import (
    GraphBlob,
    GraphCheckpoint,
    GraphNamespace,
    GraphThread,
    GraphWrite,
)
from checkpoints.registry import Rows, Table
from checkpoints.store import bodies


def _drop_bodies(rows: Rows) -> None:
    bodies.drop_on_commit(rows.values_list("body", flat=True).iterator())


TABLES = (
    Table(
        model=Event,
        kind="events",
        of=lambda threads: Event.objects.filter(thread__in=threads),
        section="events",
        weighed="data",
    ),
    Table(
        model=Memo,
        kind="memos",
        of=lambda threads: Memo.objects.filter(thread__in=threads),
        section="memos",
        weighed="value",
    ),
    Table(
        model=GraphWrite,
        kind="graph_writes",
        of=lambda threads: GraphWrite.objects.filter(namespace__thread__in=threads),
        section="graph",
    ),
    Table(
        model=GraphCheckpoint,
        kind="graph_checkpoints",
        of=lambda threads: GraphCheckpoint.objects.filter(namespace__thread__in=threads),
        section="graph",
    ),
    Table(
        model=GraphBlob,
        kind="graph_blobs",
        of=lambda threads: GraphBlob.objects.filter(namespace__thread__in=threads),
        section="graph",
    ),
    Table(
        model=GraphNamespace,
        kind="graph_namespaces",
        of=lambda threads: GraphNamespace.objects.filter(thread__in=threads),
        section="graph",
    ),
    Table(
        model=GraphThread,
        kind="graph_threads",
        of=lambda threads: GraphThread.objects.filter(pk__in=threads),
        section="graph",
    ),
    Table(
        model=Checkpoint,
        kind="checkpoints",
        of=lambda threads: Checkpoint.objects.filter(thread__in=threads),
        section="checkpoints",
        prepare=_drop_bodies,
        weighed="body",
    ),
    Table(
        model=RestingThread,
        kind="resting_threads",
        of=lambda threads: RestingThread.objects.filter(thread__in=threads),
        unexported="When keeping looks again is found out by each server.",
    ),
    Table(
        model=Thread,
        kind="threads",
        of=lambda threads: Thread.objects.filter(pk__in=threads),
        section="thread",
        named=True,
    ),
)
registry.register(TABLES)
