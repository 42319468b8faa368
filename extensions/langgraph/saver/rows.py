"""A saver's rows: one put, one look-up, one page.

Called by the saver's worker only, so nothing here is locked.

What is remembered (places, lists, the latest checkpoint of each graph) only saves queries and
bytes: `forget` may come at any time.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db import connections, transaction
from django.db.models import Q, QuerySet
from langgraph.checkpoint.base import WRITES_IDX_MAP
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT

from checkpoints.database.statements import Statement, upsert
from checkpoints.models import Checkpoint, CheckpointStatus, Thread
from checkpoints.models.graphs import (
    GraphBlob,
    GraphCheckpoint,
    GraphNamespace,
    GraphThread,
    GraphWrite,
)
from checkpoints.state import codec, encryption
from checkpoints.store import CheckpointDamaged, StateLocked, graph_state
from checkpoints.store.graph_keys import checkpoint_pk
from checkpoints.store.graph_state import ChannelValue
from extensions.langgraph.saver.blobs import Blobs, dump

REMEMBERED = 1000
"""Places, and latest checkpoints."""
ENDS = {INTERRUPT: CheckpointStatus.PENDING_INPUT, ERROR: CheckpointStatus.FAILED}
"""What a write to such a channel makes of its checkpoint."""
BODY = codec.Text(codec.encode(graph_state.BODY))
SHOWN = ("parent_id", "status", "node_id", "next_step", "digest", "size", "metadata")
Written = tuple[str, int, str, str, bytes]
"""Task, place, channel, kind, bytes."""


@dataclass(frozen=True, slots=True)
class Owner:
    user: Any
    team: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointAddress:
    owner: Owner
    thread: str
    namespace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """A checkpoint to write."""

    at: CheckpointAddress
    key: uuid.UUID
    parent: uuid.UUID | None
    skeleton: tuple[str, bytes]
    metadata: codec.Text
    run: str
    step: int
    values: Mapping[str, tuple[str, ChannelValue]]
    """Channel → version, value: those that are new."""
    same: Mapping[str, tuple[str, Any]]
    """Those that an earlier checkpoint has written, not serialised: they are looked for only where
    nothing is known of the parent.
    """
    seen: Mapping[str, Any]
    next_nodes: str
    ended: bool
    serde: SerializerProtocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCheckpoint:
    """A checkpoint as it was read; payloads are not decoded yet."""

    thread: str
    namespace: str
    key: uuid.UUID
    parent: uuid.UUID | None
    skeleton: dict[str, Any]
    metadata: dict[str, Any]
    values: dict[str, tuple[str, bytes]]
    writes: list[tuple[str, str, str, bytes]]
    """Task, channel, kind, bytes."""


@dataclass(frozen=True, slots=True)
class Where:
    namespace: int
    thread: uuid.UUID


@dataclass
class GraphRows:
    using: str
    blobs: Blobs = field(default_factory=Blobs)
    places: OrderedDict[Any, Where] = field(default_factory=OrderedDict)
    latest: OrderedDict[int, tuple[uuid.UUID, Mapping[str, Any]]] = field(
        default_factory=OrderedDict
    )
    """Namespace → the checkpoint written or read last, and what its nodes had seen."""
    early: OrderedDict[tuple[int, uuid.UUID], CheckpointStatus] = field(default_factory=OrderedDict)
    """What questions and errors make of checkpoints that may not be written yet."""

    def forget(self) -> None:
        self.blobs.clear()
        self.places.clear()
        self.latest.clear()
        self.early.clear()

    def where(self, at: CheckpointAddress) -> Where | None:
        """The namespace's rows, if there are any."""
        place = (at.owner.user.pk, at.thread, at.namespace)
        if place not in self.places:
            row = GraphNamespace.objects.using(self.using).filter(
                thread__owner=at.owner.user.pk, thread__name=at.thread, name=at.namespace
            )
            if (keys := row.values_list("pk", "thread").first()) is None:
                return None
            _keep(self.places, place, Where(*keys))
        return self.places[place]

    def make(self, at: CheckpointAddress) -> Where:
        """The namespace's rows, made where there are none.

        A race is lost with an IntegrityError, and the job is done again.
        """
        where = self.where(at)
        if where is None:
            with transaction.atomic(using=self.using):
                where = self._make(at)
            _keep(self.places, (at.owner.user.pk, at.thread, at.namespace), where)
        return where

    def _make(self, at: CheckpointAddress) -> Where:
        threads = GraphThread.objects.using(self.using)
        thread = threads.filter(owner=at.owner.user.pk, name=at.thread).first()
        if thread is None:
            row = Thread.objects.using(self.using).create(
                owner_id=at.owner.user.pk,
                team_id=getattr(at.owner.team, "pk", None),
                title=codec.readable(at.thread)[:200],
            )
            thread = threads.create(thread_id=row.pk, owner_id=at.owner.user.pk, name=at.thread)
        namespace = GraphNamespace.objects.using(self.using).create(
            thread=thread, name=at.namespace
        )
        return Where(namespace.pk, thread.pk)

    def put(self, put: Put) -> list[Statement]:
        where = self.make(put.at)
        values = {**put.values, **self._missing(where.namespace, put)}
        new = [
            self.blobs.row((where.namespace, channel), version, value, put.serde)
            for channel, (version, value) in values.items()
        ]
        kind, content = graph_state.pack(*put.skeleton)
        row = self._checkpoint(put, where)
        row.digest = graph_state.digest_of(kind, content)
        row.size = len(content) + sum(len(blob.content) for blob in new)
        graph = GraphCheckpoint(
            checkpoint_id=row.pk,
            namespace_id=where.namespace,
            key=put.key,
            parent=put.parent,
            run=put.run,
            kind=kind,
            content=content,
        )
        _keep(self.latest, where.namespace, (put.key, put.seen))
        blobs = (
            [upsert(new, using=self.using, on=["namespace_id", "channel", "version"])]
            if new
            else []
        )
        return [
            *blobs,
            upsert([row], using=self.using, on=["id"], update=SHOWN),
            upsert(
                [graph],
                using=self.using,
                on=["checkpoint_id"],
                update=["parent", "run", "kind", "content"],
            ),
        ]

    def _missing(self, namespace: int, put: Put) -> dict[str, tuple[str, ChannelValue]]:
        """Values that should be there and are not: somebody has deleted the checkpoint that wrote
        them.
        """
        if not put.same or self.latest.get(namespace, (None, {}))[0] == put.parent:
            return {}
        versions = {channel: version for channel, (version, _) in put.same.items()}
        rows = GraphBlob.objects.using(self.using).filter(
            namespace=namespace, channel__in=versions, version__in=set(versions.values())
        )
        there = set(rows.values_list("channel", "version"))
        return {
            channel: (version, dump(put.serde, value))
            for channel, (version, value) in put.same.items()
            if (channel, version) not in there
        }

    def _checkpoint(self, put: Put, where: Where) -> Checkpoint:
        """The row that pages and API show: what of it LangGraph does not say is read off the
        channels as far as they tell.
        """
        step = max(put.step, 0)
        ended = CheckpointStatus.COMPLETED if put.ended else CheckpointStatus.ACTIVE
        return Checkpoint(
            id=checkpoint_pk(where.namespace, put.key),
            thread_id=where.thread,
            run_id=_run_id(put.run, where.thread),
            parent_id=self._parent(where.namespace, put.parent),
            status=self.early.get((where.namespace, put.key), ended),
            node_id=self._nodes(where.namespace, put),
            next_step=put.next_nodes[:100],
            completed_nodes=step,
            total_nodes=step,
            is_snapshot=True,
            depth=0,
            body=BODY,
            schema_version=2,
            metadata=put.metadata,
        )

    def _parent(self, namespace: int, key: uuid.UUID | None) -> uuid.UUID | None:
        """The parent's row, which LangGraph may have named without ever writing it."""
        if key is None:
            return None
        pk = checkpoint_pk(namespace, key)
        known = self.latest.get(namespace, (None, {}))[0] == key
        return pk if known or Checkpoint.objects.using(self.using).filter(pk=pk).exists() else None

    def _nodes(self, namespace: int, put: Put) -> str:
        """The nodes that ran: those that have seen more than at the parent."""
        key, seen = self.latest.get(namespace, (None, {}))
        if key is None or key != put.parent:
            return ""
        ran = [
            node
            for node, versions in put.seen.items()
            if versions and versions != seen.get(node) and not node.startswith("__")
        ]
        return ", ".join(sorted(ran))[:100]

    def put_writes(
        self, at: CheckpointAddress, key: uuid.UUID, writes: Sequence[Written], task_path: str
    ) -> list[Statement]:
        """Errors, interrupts and answers replace what the task wrote of the kind before; anything
        else stays as it was first written.
        """
        where = self.make(at)
        rows = {}
        for task, idx, channel, kind, data in writes:
            packed, content = graph_state.pack(kind, data)
            rows[idx] = GraphWrite(
                namespace_id=where.namespace,
                checkpoint_key=key,
                task_id=task,
                idx=idx,
                task_path=task_path,
                channel=channel,
                kind=packed,
                content=content,
            )
        special = all(write[2] in WRITES_IDX_MAP for write in writes)
        on = ["namespace_id", "checkpoint_key", "task_id", "idx"]
        saved = upsert(
            list(rows.values()),
            using=self.using,
            on=on,
            update=["channel", "kind", "content"] if special else [],
        )
        return [
            saved,
            *(
                self._mark(where.namespace, key, ENDS[write[2]])
                for write in writes
                if write[2] in ENDS
            ),
        ]

    def _mark(self, namespace: int, key: uuid.UUID, status: CheckpointStatus) -> Statement:
        """A question or an error may come before its checkpoint does: then it is remembered for
        that.
        """
        pk = Checkpoint._meta.pk.get_db_prep_value(
            checkpoint_pk(namespace, key), connections[self.using]
        )
        _keep(self.early, (namespace, key), status)
        return Statement(
            "checkpoints_checkpoint",
            "UPDATE checkpoints_checkpoint SET status = %s WHERE id = %s",
            [str(status), pk],
        )

    def get(
        self,
        at: CheckpointAddress,
        key: uuid.UUID | None,
        loads: Callable[[tuple[str, bytes]], Any],
    ) -> ReadCheckpoint | None:
        """One checkpoint, or the latest."""
        if (where := self.where(at)) is None:
            return None
        rows = self._whole().filter(namespace=where.namespace)
        row = rows.filter(key=key).first() if key else rows.order_by("-key").first()
        if row is None:
            return None
        checkpoint = next(self._found([row], loads))
        # the graph changes its own in place
        seen = {
            node: dict(versions) for node, versions in checkpoint.skeleton["versions_seen"].items()
        }
        _keep(self.latest, where.namespace, (row.key, seen))
        return checkpoint

    def _whole(self) -> QuerySet[GraphCheckpoint]:
        related = GraphCheckpoint.objects.using(self.using).select_related(
            "namespace__thread", "checkpoint"
        )
        return related.only(
            "key",
            "parent",
            "kind",
            "content",
            "namespace__name",
            "namespace__thread__name",
            "checkpoint__metadata",
            "checkpoint__digest",
        )

    def select(
        self, owner: Owner, *, thread: str | None, namespace: str | None, keys: Q
    ) -> QuerySet[GraphCheckpoint]:
        """Checkpoints newest first."""
        rows = self._whole().filter(keys, namespace__thread__owner=owner.user.pk)
        if thread is not None:
            rows = rows.filter(namespace__thread__name=thread)
        if namespace is not None:
            rows = rows.filter(namespace__name=namespace)
        return rows.order_by("-key", "-pk")

    def found(
        self, rows: Sequence[GraphCheckpoint], loads: Callable[[tuple[str, bytes]], Any]
    ) -> list[ReadCheckpoint]:
        return list(self._found(rows, loads))

    def _found(
        self, rows: Sequence[GraphCheckpoint], loads: Callable[[tuple[str, bytes]], Any]
    ) -> Iterator[ReadCheckpoint]:
        writes = self._writes(rows)
        for row in rows:
            with readable(row.checkpoint.shown_id):
                skeleton = self.skeleton(row, loads)
                values = self._values(row, skeleton)
            yield ReadCheckpoint(
                thread=row.namespace.thread.name,
                namespace=row.namespace.name,
                key=row.key,
                parent=row.parent,
                skeleton=skeleton,
                metadata=row.checkpoint.metadata,
                values=values,
                writes=writes.get((row.namespace_id, row.key), []),
            )

    def skeleton(
        self, row: GraphCheckpoint, loads: Callable[[tuple[str, bytes]], Any]
    ) -> dict[str, Any]:
        content = graph_state.opened(row.content)
        if graph_state.digest_of(row.kind, content) != row.checkpoint.digest:
            raise graph_state.Damaged("its digest does not match")
        whole: dict[str, Any] = loads(graph_state.unpack(row.kind, content))
        return whole

    def _values(
        self, row: GraphCheckpoint, skeleton: Mapping[str, Any]
    ) -> dict[str, tuple[str, bytes]]:
        """Of every channel with a version that is kept: also a delta channel's snapshot that an
        earlier step wrote, so that nobody walks back to it. Those of the checkpoint itself have to
        be there.
        """
        versions = {
            channel: str(version)
            for channel, version in skeleton["channel_versions"].items()
            if channel not in skeleton["values"]
        }
        kept = graph_state.values(row.namespace_id, versions, using=self.using)
        if missing := set(skeleton["stored"]) - kept.keys():
            raise graph_state.Damaged(f"the value of {min(missing)} is not there")
        for channel, value in kept.items():
            self.blobs.remember((row.namespace_id, channel), value)
        return {channel: value.payload() for channel, value in kept.items()}

    def _writes(
        self, rows: Sequence[GraphCheckpoint]
    ) -> dict[tuple[int, uuid.UUID], list[tuple[str, str, str, bytes]]]:
        """By checkpoint, in the order in which live execution applies them."""
        wanted: dict[int, list[uuid.UUID]] = {}
        for row in rows:
            wanted.setdefault(row.namespace_id, []).append(row.key)
        writes: dict[tuple[int, uuid.UUID], list[tuple[str, str, str, bytes]]] = {}
        for namespace, keys in wanted.items():
            for write in self.writes(namespace, keys):
                with readable(f"what {write.task_id} wrote"):
                    payload = graph_state.unpack(write.kind, write.content)
                writes.setdefault((namespace, write.checkpoint_key), []).append(
                    (write.task_id, write.channel, *payload)
                )
        return writes

    def writes(
        self, namespace: int, keys: Sequence[uuid.UUID], channels: Sequence[str] = ()
    ) -> list[GraphWrite]:
        """Sorted here: a database may have an order of its own for text."""
        rows = GraphWrite.objects.using(self.using).filter(
            namespace=namespace, checkpoint_key__in=keys
        )
        if channels:
            rows = rows.filter(channel__in=channels)
        return sorted(rows, key=lambda write: (write.task_path, write.task_id, write.idx))


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Raise CheckpointDamaged or StateLocked, which name what cannot be read."""
    try:
        yield
    except graph_state.Damaged as error:
        raise CheckpointDamaged(f"{what}: {error}. Nothing was resumed from it.") from error
    except encryption.KeyMissing as error:
        raise StateLocked(f"{what}: {error}") from error


def _keep(memory: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    memory[key] = value
    memory.move_to_end(key)
    if len(memory) > REMEMBERED:
        memory.popitem(last=False)


def _run_id(run: str, thread: uuid.UUID) -> uuid.UUID:
    """Waystation's column takes UUIDs only; a checkpoint without a run stands under its thread's
    id.
    """
    if not run:
        return thread
    try:
        return uuid.UUID(run)
    except ValueError:
        return uuid.uuid5(thread, run)
