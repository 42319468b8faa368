"""Dropping and copying.

What a checkpoint that stays is read from stays too: its blobs, and what its delta channels are
rebuilt from.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import ProtectedError, RestrictedError

from checkpoints import ids
from checkpoints.models import Checkpoint, Thread
from checkpoints.models.graphs import (
    GraphBlob,
    GraphCheckpoint,
    GraphNamespace,
    GraphThread,
    GraphWrite,
)
from checkpoints.store.graph_keys import checkpoint_pk
from checkpoints.store.graph_state import TRIGGER
from extensions.langgraph.saver.history import Loads
from extensions.langgraph.saver.rows import CheckpointAddress, GraphRows, Owner

BATCH = 500
Version = tuple[str, str]
"""A channel and its version."""


@dataclass(frozen=True, slots=True)
class KeptCheckpoint:
    """What has to be known of a checkpoint to see what it needs."""

    key: uuid.UUID
    parent: uuid.UUID | None
    run: str
    root: str
    """The root graph's checkpoint that a sub-graph's call began at."""
    blobs: frozenset[Version]
    rebuilt: frozenset[str]
    """Channels that have a version but no value here: delta channels, and some that come and go by
    themselves.
    """
    has: frozenset[str]


def delete_thread(rows: GraphRows, at: CheckpointAddress) -> None:
    """Everything of a thread, and the thread itself unless something else than graphs has used
    it.
    """
    thread = (
        GraphThread.objects.using(rows.using).filter(owner=at.owner.user.pk, name=at.thread).first()
    )
    rows.forget()
    if thread is None:
        return
    for namespace in thread.namespaces.values_list("pk", flat=True):
        _drop_namespace(rows, namespace)
    shown = Thread.objects.using(rows.using).get(pk=thread.pk)
    thread.delete()
    try:
        shown.delete()
    except (ProtectedError, RestrictedError):
        return


def prune(rows: GraphRows, at: CheckpointAddress, loads: Loads) -> None:
    """Keep the latest checkpoint of each namespace.

    A sub-graph's call goes with the root checkpoint it began at, once that one goes.
    """
    spaces = dict(_namespaces(rows, at).values_list("name", "pk"))
    whole = {name: _kept(rows, pk, loads) for name, pk in spaces.items()}
    left = {
        name: _closure(checkpoints, {max(checkpoints)})
        for name, checkpoints in whole.items()
        if checkpoints
    }
    gone = {str(key) for key in whole.get("", {}).keys() - left.get("", set())}
    for name, keys in left.items():
        if ":" in name and whole[name][max(keys)].root in gone:
            _drop_namespace(rows, spaces[name])
        else:
            _drop(rows, spaces[name], whole[name], keys)
    rows.forget()


def delete_for_runs(rows: GraphRows, owner: Owner, run_ids: Sequence[str], loads: Loads) -> None:
    of_runs = GraphCheckpoint.objects.using(rows.using).filter(
        run__in=[run for run in run_ids if run]
    )
    for namespace in (
        of_runs.filter(namespace__thread__owner=owner.user.pk)
        .values_list("namespace", flat=True)
        .distinct()
    ):
        whole = _kept(rows, namespace, loads)
        stay = {key for key, checkpoint in whole.items() if checkpoint.run not in run_ids}
        _drop(rows, namespace, whole, _closure(whole, stay))
    rows.forget()


def copy_thread(rows: GraphRows, source: CheckpointAddress, target: CheckpointAddress) -> None:
    """All namespaces under the same checkpoint ids; what the target has already stays as it is."""
    for name, namespace in _namespaces(rows, source).values_list("name", "pk"):
        where = rows.make(
            CheckpointAddress(owner=target.owner, thread=target.thread, namespace=name)
        )
        if where.namespace != namespace:
            _copy_blobs(rows, namespace, where.namespace)
            _copy_checkpoints(rows, namespace, where.namespace, where.thread)
            _copy_writes(rows, namespace, where.namespace)
    rows.forget()


def _namespaces(rows: GraphRows, at: CheckpointAddress) -> Any:
    return GraphNamespace.objects.using(rows.using).filter(
        thread__owner=at.owner.user.pk, thread__name=at.thread
    )


def _kept(rows: GraphRows, namespace: int, loads: Loads) -> dict[uuid.UUID, KeptCheckpoint]:
    kept = {}
    for row in rows._whole().filter(namespace=namespace).iterator(BATCH):
        skeleton = rows.skeleton(row, loads)
        versions, stored = skeleton["channel_versions"], skeleton["stored"]
        has = frozenset([*skeleton["values"], *stored])
        kept[row.key] = KeptCheckpoint(
            key=row.key,
            parent=row.parent,
            run=row.run,
            root=str((row.checkpoint.metadata.get("parents") or {}).get("", "")),
            blobs=frozenset((channel, str(versions[channel])) for channel in stored),
            rebuilt=frozenset(
                name
                for name in versions
                if name not in has and not name.startswith((TRIGGER, "__"))
            ),
            has=has,
        )
    return kept


def _closure(
    whole: Mapping[uuid.UUID, KeptCheckpoint], stay: Collection[uuid.UUID]
) -> set[uuid.UUID]:
    """What must stay for `stay` to be read: ancestors back to the nearest one that holds a value,
    for each channel that has none.
    """
    needed = set(stay)
    for key in stay:
        missing, above = set(whole[key].rebuilt), _parent(whole, key)
        while missing and above is not None:
            needed.add(above.key)
            missing -= above.has
            above = _parent(whole, above.key)
    return needed


def _parent(whole: Mapping[uuid.UUID, KeptCheckpoint], key: uuid.UUID) -> KeptCheckpoint | None:
    parent = whole[key].parent
    return whole.get(parent) if parent is not None else None


def _drop(
    rows: GraphRows,
    namespace: int,
    whole: Mapping[uuid.UUID, KeptCheckpoint],
    keep: Collection[uuid.UUID],
) -> None:
    """All checkpoints of a namespace but `keep`, with their writes, and the blobs that nothing
    needs any more.
    """
    gone = [key for key in whole if key not in keep]
    if not gone:
        return
    using = rows.using
    orphans = [key for key in keep if whole[key].parent not in keep]
    for batch in _batches(orphans):
        GraphCheckpoint.objects.using(using).filter(namespace=namespace, key__in=batch).update(
            parent=None
        )
        Checkpoint.objects.using(using).filter(
            pk__in=[checkpoint_pk(namespace, key) for key in batch]
        ).update(parent=None)
    for batch in _batches(gone):
        GraphWrite.objects.using(using).filter(
            namespace=namespace, checkpoint_key__in=batch
        ).delete()
    _delete_checkpoints(using, [checkpoint_pk(namespace, key) for key in gone])
    freed, needed = ({blob for key in keys for blob in whole[key].blobs} for keys in (gone, keep))
    _collect(using, namespace, freed, needed)


def _delete_checkpoints(using: str, keys: Sequence[uuid.UUID]) -> None:
    """Foreign keys are looked at when the transaction commits, so parents and children may go in
    any order.
    """
    for batch in _batches(keys):
        GraphCheckpoint.objects.using(using).filter(pk__in=batch).delete()
        Checkpoint.objects.using(using).filter(pk__in=batch)._raw_delete(using)


def _collect(using: str, namespace: int, freed: set[Version], needed: set[Version]) -> None:
    """Delete the blobs that dropped checkpoints were read from and no other is: what was written
    meanwhile is not looked at.

    A blob that a list has grown from meanwhile is held by its foreign key; then all of this is done
    again.
    """
    bases, versions = {}, {}
    blobs = GraphBlob.objects.using(using).filter(namespace=namespace)
    for pk, channel, version, base in blobs.values_list(
        "pk", "channel", "version", "base_id"
    ).iterator(BATCH):
        bases[pk], versions[channel, version] = base, pk
    stay = _chains(bases, [versions[item] for item in needed if item in versions])
    gone = _chains(bases, [versions[item] for item in freed if item in versions]) - stay
    for batch in _batches(gone):
        blobs.filter(pk__in=batch).delete()


def _chains(
    bases: Mapping[uuid.UUID, uuid.UUID | None], tips: Iterable[uuid.UUID]
) -> set[uuid.UUID]:
    """Blobs with all that they build on."""
    chains: set[uuid.UUID] = set()
    for pk in tips:
        step: uuid.UUID | None = pk
        while step is not None and step not in chains:
            chains.add(step)
            step = bases.get(step)
    return chains


def _drop_namespace(rows: GraphRows, namespace: int) -> None:
    using = rows.using
    keys = list(
        GraphCheckpoint.objects.using(using)
        .filter(namespace=namespace)
        .values_list("pk", flat=True)
    )
    GraphWrite.objects.using(using).filter(namespace=namespace).delete()
    _delete_checkpoints(using, keys)
    GraphBlob.objects.using(using).filter(namespace=namespace).delete()
    GraphNamespace.objects.using(using).filter(pk=namespace).delete()


def _copy_blobs(rows: GraphRows, source: int, target: int) -> None:
    there = (
        GraphBlob.objects.using(rows.using)
        .filter(namespace=target)
        .values_list("channel", "version", "pk")
    )
    known = {(channel, version): pk for channel, version, pk in there}
    blobs = GraphBlob.objects.using(rows.using).filter(namespace=source)
    new = {
        pk: known.get((channel, version)) or ids.new()
        for channel, version, pk in blobs.values_list("channel", "version", "pk")
    }
    copies: list[Any] = []
    for blob in blobs.iterator(BATCH):
        if (blob.channel, blob.version) not in known:
            blob.pk, blob.namespace_id, blob.base_id = (
                new[blob.pk],
                target,
                new[blob.base_id] if blob.base_id else None,
            )
            copies = _flush(rows.using, [*copies, blob])
    _flush(rows.using, copies, last=True)


def _copy_checkpoints(rows: GraphRows, source: int, target: int, thread: uuid.UUID) -> None:
    shown, graphs = [], []
    for graph in (
        GraphCheckpoint.objects.using(rows.using)
        .filter(namespace=source)
        .select_related("checkpoint")
        .iterator(BATCH)
    ):
        row, pk = graph.checkpoint, checkpoint_pk(target, graph.key)
        has_parent = row.parent_id is not None and graph.parent is not None
        row.pk, row.thread_id = pk, thread
        row.parent_id = checkpoint_pk(target, graph.parent) if has_parent and graph.parent else None
        graph.checkpoint_id, graph.namespace_id = pk, target
        shown.append(row)
        graphs.append(graph)
        if len(shown) >= BATCH:
            shown, graphs = (
                _flush(rows.using, shown, last=True),
                _flush(rows.using, graphs, last=True),
            )
    _flush(rows.using, shown, last=True)
    _flush(rows.using, graphs, last=True)


def _copy_writes(rows: GraphRows, source: int, target: int) -> None:
    copies: list[Any] = []
    for write in GraphWrite.objects.using(rows.using).filter(namespace=source).iterator(BATCH):
        write.namespace_id = target
        copies = _flush(rows.using, [*copies, write])
    _flush(rows.using, copies, last=True)


def _flush(using: str, copies: list[Any], *, last: bool = False) -> list[Any]:
    """Write what has gathered, once it is enough."""
    if copies and (last or len(copies) >= BATCH):
        type(copies[0])._default_manager.using(using).bulk_create(copies, ignore_conflicts=True)
        return []
    return copies


def _batches(keys: Iterable[Any]) -> Iterable[list[Any]]:
    whole = list(keys)
    return (whole[start : start + BATCH] for start in range(0, len(whole), BATCH))
