"""Checkpoints as rows: the default, and what the engine writes in one transaction with the run
(`checkpoints.store`, `runs.engine.commit`).

This class is the contract's door to the same rows. It needs a Thread row, which says whose the
thread is; dropping a thread's checkpoints leaves that row and its events.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from typing import Any

from django.db import transaction
from django.db.models import F, ManyToOneRel, QuerySet

from checkpoints import store
from checkpoints.contract.base import (
    PAGE,
    CheckpointDamaged,
    CheckpointStore,
    CheckpointUnknown,
    Entry,
    HeadMoved,
    Pruned,
    StillNeeded,
    StoredCheckpoint,
    entry_of_fork,
    key_after,
    nearest_kept,
    shown,
    to_drop,
)
from checkpoints.models import Checkpoint, Thread
from checkpoints.state import codec
from checkpoints.store import bodies


class DatabaseStore(CheckpointStore):
    """Durable as the database is; every write belongs to the caller's transaction where there is
    one.
    """

    durable = True
    transactional = True

    def put(
        self,
        thread_id: uuid.UUID,
        run_id: uuid.UUID,
        state: Mapping[str, Any],
        entry: Entry,
        *,
        parent: uuid.UUID | None,
        before: Mapping[str, Any] | None = None,
    ) -> StoredCheckpoint:
        above = None if parent is None else self._row(thread_id, parent)
        if above is not None and before is None:
            before = store.load(above)
        codec.check(entry.metadata, "metadata")
        row = store.build(thread_id, run_id, state, entry, parent=above, before=before)
        row.pk = key_after(parent)
        with transaction.atomic():
            self._move_head(thread_id, row, expected=parent)
            row.save(force_insert=True)
        return _kept(row)

    def _move_head(
        self, thread_id: uuid.UUID, row: Checkpoint, *, expected: uuid.UUID | None
    ) -> None:
        """First of all in the transaction: of two writers the second waits here, and then sees the
        first's head.
        """
        threads = Thread.objects.filter(pk=thread_id)
        if not threads.filter(head=expected).update(head=row):
            raise HeadMoved(_head(threads), expected)

    def _row(self, thread_id: uuid.UUID, checkpoint_id: uuid.UUID) -> Checkpoint:
        return _one(Checkpoint.objects.filter(thread=thread_id), checkpoint_id)

    def get(self, thread_id: uuid.UUID, checkpoint_id: uuid.UUID) -> StoredCheckpoint:
        return _kept(_one(self._rows(thread_id), checkpoint_id))

    def load(self, thread_id: uuid.UUID, checkpoint_id: uuid.UUID) -> dict[str, Any]:
        try:
            return store.load(self._row(thread_id, checkpoint_id))
        except CheckpointDamaged:
            # where it was pruned meanwhile, that is all there is to say
            self.get(thread_id, checkpoint_id)
            raise

    def latest(self, thread_id: uuid.UUID) -> StoredCheckpoint | None:
        thread = (
            Thread.objects.select_related("head").defer("head__body").filter(pk=thread_id).first()
        )
        return None if thread is None or thread.head is None else _kept(thread.head)

    def history(
        self, thread_id: uuid.UUID, *, before: uuid.UUID | None = None, limit: int = PAGE
    ) -> list[StoredCheckpoint]:
        rows = self._rows(thread_id)
        return [
            _kept(row) for row in (rows if before is None else rows.filter(pk__lt=before))[:limit]
        ]

    def _rows(self, thread_id: uuid.UUID) -> QuerySet[Checkpoint]:
        return Checkpoint.objects.filter(thread=thread_id).order_by("-pk").defer("body")

    def children(self, thread_id: uuid.UUID, checkpoint_id: uuid.UUID) -> list[StoredCheckpoint]:
        self.get(thread_id, checkpoint_id)
        return [
            _kept(row) for row in self._rows(thread_id).filter(parent=checkpoint_id).order_by("pk")
        ]

    def fork(
        self,
        thread_id: uuid.UUID,
        checkpoint_id: uuid.UUID,
        *,
        run_id: uuid.UUID,
        reason: str,
        state: Mapping[str, Any] | None = None,
    ) -> StoredCheckpoint:
        """As the contract says; for the head of a work order's thread use `runs.services.fork`,
        which begins a run there.
        """
        with transaction.atomic():
            threads = _locked(thread_id)
            above = self._row(thread_id, checkpoint_id)
            entry = entry_of_fork(_kept(above), reason)
            before = store.load(above)
            row = store.build(
                thread_id,
                run_id,
                before if state is None else state,
                entry,
                parent=above,
                before=before,
            )
            row.pk = key_after(checkpoint_id, _head(threads))
            row.save(force_insert=True)
            threads.update(head=row)
        return _kept(row)

    def prune(self, thread_id: uuid.UUID, *, keep: int, dry_run: bool = False) -> Pruned:
        with transaction.atomic():
            head = _head(_locked(thread_id))
            rows = list(self._rows(thread_id))
            dropped = to_drop([_kept(row) for row in rows], head, keep)
            dropped -= _stood_on(dropped)
            pruned = Pruned(
                ids=tuple(sorted(dropped)), size=sum(row.size for row in rows if row.pk in dropped)
            )
            if not dry_run:
                self._drop(rows, dropped)
        return pruned

    def _drop(self, rows: list[Checkpoint], dropped: set[uuid.UUID]) -> None:
        """Drop rows; what stays and builds on one becomes a snapshot first."""
        parents = {row.pk: row.parent_id for row in rows}
        for row in rows:
            if row.pk not in dropped and row.parent_id in dropped:
                _rebase(row, onto=nearest_kept(row.parent_id, parents, dropped))
        _delete(Checkpoint.objects.filter(pk__in=dropped))

    def delete_thread(self, thread_id: uuid.UUID) -> int:
        """The Thread row and its events stay; they are others'."""
        with transaction.atomic():
            threads, rows = _locked(thread_id), Checkpoint.objects.filter(thread=thread_id)
            keys = set(rows.values_list("pk", flat=True))
            if needed := _stood_on(keys):
                raise StillNeeded(
                    f"Runs or their questions stand on {len(needed)} of these checkpoints; "
                    "nothing was dropped."
                )
            threads.update(head=None)
            _delete(rows)
        return len(keys)


def _locked(thread_id: uuid.UUID) -> QuerySet[Thread]:
    """The thread, whose other writers wait until the end of this transaction."""
    threads = Thread.objects.filter(pk=thread_id)
    threads.update(last_seq=F("last_seq"))
    return threads


def _one(rows: QuerySet[Checkpoint], checkpoint_id: uuid.UUID) -> Checkpoint:
    row = rows.filter(pk=checkpoint_id).first()
    if row is None:
        raise CheckpointUnknown(f"There is no {shown(checkpoint_id)} in this thread.")
    return row


def _head(threads: QuerySet[Thread]) -> uuid.UUID | None:
    return threads.values_list("head", flat=True).first()


def _kept(row: Checkpoint) -> StoredCheckpoint:
    return StoredCheckpoint(
        id=row.pk,
        thread_id=row.thread_id,
        run_id=row.run_id,
        parent_id=row.parent_id,
        entry=store.entry_of(row),
        digest=row.digest,
        size=row.size,
        created_at=row.created_at,
    )


def _rebase(row: Checkpoint, *, onto: uuid.UUID | None) -> None:
    """Make a delta a snapshot of the same state, and link it to an ancestor that stays.

    Its digest stays too.
    """
    whole = Checkpoint.objects.get(pk=row.pk)
    state = store.load(whole)
    fresh = store.build(
        row.thread_id, row.run_id, state, _kept(row).entry, parent=None, before=None
    )
    bodies.drop_on_commit([whole.body])
    Checkpoint.objects.filter(pk=row.pk).update(
        parent=onto,
        body=fresh.body,
        is_snapshot=True,
        depth=0,
        size=fresh.size,
        schema_version=fresh.schema_version,
        digest=fresh.digest,
    )


def _stood_on(keys: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Those of these checkpoints that rows of other tables point to: runs and their questions,
    which this app does not know.
    """
    parents: set[uuid.UUID] = set()
    for relation in Checkpoint._meta.get_fields(include_hidden=True):
        other = relation.related_model
        if (
            isinstance(relation, ManyToOneRel)
            and isinstance(other, type)
            and other not in {Checkpoint, Thread}
        ):
            name = relation.field.name
            parents |= set(
                other._default_manager.filter(**{f"{name}__in": keys}).values_list(name, flat=True)
            )
    return parents


def _delete(rows: QuerySet[Checkpoint]) -> None:
    """At once: Django's own delete looks at each row's children and refuses where they go along."""
    bodies.drop_on_commit(rows.values_list("body", flat=True))
    rows._raw_delete(rows.db)
