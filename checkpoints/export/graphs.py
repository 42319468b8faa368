"""The graph of an exported thread: what LangGraph's saver goes on from, as it was serialised, and
how it is read back. Needs no LangGraph.

Payloads stay bytes. Before anything is written each digest is computed again, each list is put
together from what it grew from, and each checkpoint's values are looked for. Nothing is made of
what a payload says: which types it may hold is asked by who loads it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import uuid
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from checkpoints import ids
from checkpoints.export.thread_document import (
    IMPORTED,
    Document,
    ImportRefused,
    Loaded,
    opened,
    time_of,
)
from checkpoints.models import Checkpoint, CheckpointStatus, Thread
from checkpoints.models.graphs import (
    GraphBlob,
    GraphCheckpoint,
    GraphNamespace,
    GraphThread,
    GraphWrite,
)
from checkpoints.store import graph_state
from checkpoints.store.graph_keys import checkpoint_pk

BATCH = 500
UNPACKED = 256 * 1024 * 1024
"""Bytes that a document's payloads may come to."""
SHOWN = ("status", "node_id", "next_step", "completed_nodes", "total_nodes")


def export(thread: Thread) -> Document:
    """`{"graph": …}`, or nothing where no graph has used the thread.

    Raises store.CheckpointDamaged where something cannot be read.
    """
    graph_thread = GraphThread.objects.filter(pk=thread.pk).first()
    if graph_thread is None:
        return {}
    spaces = GraphNamespace.objects.filter(thread=graph_thread).order_by("pk")
    return {"graph": {"name": graph_thread.name, "spaces": [_space(space) for space in spaces]}}


def _space(space: GraphNamespace) -> Document:
    rows = (
        GraphCheckpoint.objects.filter(namespace=space).select_related("checkpoint").order_by("key")
    )
    writes = GraphWrite.objects.filter(namespace=space).order_by(
        "checkpoint_key", "task_path", "task_id", "idx"
    )
    return {
        "name": space.name,
        "checkpoints": [_checkpoint(row) for row in rows.iterator(BATCH)],
        "blobs": _blobs(space),
        "writes": [_write(row) for row in writes.iterator(BATCH)],
    }


def _checkpoint(row: GraphCheckpoint) -> Document:
    shown = row.checkpoint
    return {
        "id": shown.shown_id,
        "key": str(row.key),
        "parent": str(row.parent) if row.parent else None,
        "run": row.run,
        **_payload(row),
        "digest": shown.digest,
        **{name: getattr(shown, name) for name in SHOWN},
        "metadata": {
            key: value for key, value in opened(shown, "metadata").items() if key != IMPORTED
        },
        "created_at": shown.created_at.isoformat(),
    }


def _write(row: GraphWrite) -> Document:
    about = {
        "checkpoint": str(row.checkpoint_key),
        "task": row.task_id,
        "idx": row.idx,
        "path": row.task_path,
        "channel": row.channel,
    }
    return {**about, **_payload(row)}


def _blobs(space: GraphNamespace) -> list[Document]:
    """Each behind what it grew from, which it names by its place."""
    rows = {row.pk: row for row in GraphBlob.objects.filter(namespace=space).order_by("pk")}
    places: dict[uuid.UUID, int] = {}
    given: list[Document] = []
    for tip in rows.values():
        line = []
        row: GraphBlob | None = tip
        while row is not None and row.pk not in places:
            line.append(row)
            row = rows[row.base_id] if row.base_id else None
        for blob in reversed(line):
            places[blob.pk] = len(given)
            base = places[blob.base_id] if blob.base_id else None
            about = {
                "channel": blob.channel,
                "version": blob.version,
                "base": base,
                "depth": blob.depth,
                "items": blob.items,
            }
            given.append({**about, **_payload(blob), "digest": bytes(blob.digest).hex()})
    return given


def _payload(row: Any) -> Document:
    return {"kind": row.kind, "content": base64.b64encode(opened(row, "content")).decode()}


@dataclass
class _Space:
    """A space of a document, checked, with its payloads decoded."""

    name: str
    checkpoints: Sequence[Document]
    blobs: Sequence[Document]
    writes: Sequence[Document]
    contents: dict[int, bytes] = field(default_factory=dict)
    """By the identity of the record."""


def load(document: Document, loaded: Loaded) -> None:
    """Write the graph of a document that `thread_document.read` gave, on the thread that was made
    of it. Call inside a transaction.

    Raises ImportRefused.
    """
    if "graph" not in document:
        return
    graph, thread = document["graph"], loaded.thread
    room = [UNPACKED]
    spaces = [_checked(space, room) for space in graph["spaces"]]
    if len({space.name for space in spaces}) < len(spaces):
        raise ImportRefused("duplicate_id", "graph: a space is given more than once.")
    owner = GraphThread.objects.create(
        thread=thread, owner_id=thread.owner_id, name=_name(graph["name"], document, thread)
    )
    for space in spaces:
        _write_space(space, owner, loaded, document["thread"]["id"])


def _name(given: str, document: Document, thread: Thread) -> str:
    """What the owner's graphs call the thread: as before, where that is not taken and not the
    thread's own old id.
    """
    taken = (
        given == document["thread"]["id"]
        or GraphThread.objects.filter(owner=thread.owner_id, name=given).exists()
    )
    return thread.shown_id if taken else given


def _checked(given: Document, room: list[int]) -> _Space:
    space = _Space(given["name"], given["checkpoints"], given["blobs"], given["writes"])
    for row in (*space.checkpoints, *space.blobs, *space.writes):
        space.contents[id(row)] = _bytes(row["content"])
    for row in space.checkpoints:
        if graph_state.digest_of(row["kind"], space.contents[id(row)]) != row["digest"]:
            raise ImportRefused("digest_mismatch", f"graph: {row['id']} does not match its digest.")
    _check_blobs(space, room)
    _check_once(space)
    known = {(row["channel"], row["version"]) for row in space.blobs}
    for row in space.checkpoints:
        if missing := sorted(
            _wanted(row, _unpacked(row["kind"], space.contents[id(row)], room)) - known
        ):
            raise ImportRefused(
                "blob_missing",
                f"graph: {row['id']} needs {missing[0][0][:100]}, which is not in the document.",
            )
    for row in space.writes:
        _unpacked(row["kind"], space.contents[id(row)], room)
    return space


def _check_blobs(space: _Space, room: list[int]) -> None:
    """What a list grew from stands before it, and with it comes to its digest."""
    sums: list[Any] = []
    for place, row in enumerate(space.blobs):
        base = row["base"]
        before = space.blobs[base] if base is not None and base < place else None
        if base is not None and (
            before is None
            or before["items"] is None
            or row["items"] is None
            or before["channel"] != row["channel"]
        ):
            raise ImportRefused(
                "parent_missing",
                f"graph: the value {place} of {row['channel'][:100]} grew from none that it "
                "can have.",
            )
        if row["depth"] not in {0, before["depth"] + 1 if before else 0}:
            raise ImportRefused(
                "document_invalid",
                f"graph: the value {place} of {row['channel'][:100]} is at no depth that it "
                "can have.",
            )
        sums.append(sums[base].copy() if base is not None else hashlib.sha256())
        sums[-1].update(_unpacked(row["kind"], space.contents[id(row)], room))
        if sums[-1].hexdigest() != row["digest"]:
            raise ImportRefused(
                "digest_mismatch",
                f"graph: the value {place} of {row['channel'][:100]} does not match its digest.",
            )


def _check_once(space: _Space) -> None:
    for noun, seen in (
        ("checkpoint", [row["key"] for row in space.checkpoints]),
        ("value", [(row["channel"], row["version"]) for row in space.blobs]),
        ("write", [(row["checkpoint"], row["task"], row["idx"]) for row in space.writes]),
    ):
        if len(set(seen)) < len(seen):
            raise ImportRefused("duplicate_id", f"graph: a {noun} is given more than once.")


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text.encode("ascii"), validate=True)
    except (ValueError, binascii.Error) as error:
        raise ImportRefused("document_invalid", "graph: a payload is no base64.") from error


def _unpacked(kind: str, content: bytes, room: list[int]) -> bytes:
    """The bytes of a payload, which all together are no more than there is `room` for."""
    data = content
    if kind.startswith("z:"):
        unpacking = zlib.decompressobj()
        try:
            data = unpacking.decompress(content, room[0] + 1)
        except zlib.error as error:
            raise ImportRefused(
                "document_invalid", "graph: a payload cannot be unpacked."
            ) from error
    room[0] -= len(data)
    if room[0] < 0:
        raise ImportRefused(
            "document_too_large", f"graph: its payloads come to more than {UNPACKED} bytes."
        )
    return data


def _wanted(row: Document, data: bytes) -> set[tuple[str, str]]:
    """The values that a checkpoint is put together from, as far as that can be read here."""
    try:
        skeleton = graph_state.skeleton(row["kind"].removeprefix("z:"), data)
        return (
            {(name, str(skeleton["channel_versions"][name])) for name in skeleton["stored"]}
            if skeleton
            else set()
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ImportRefused(
            "document_invalid", f"graph: {row['id']} is no checkpoint of a graph."
        ) from error


def _write_space(space: _Space, owner: GraphThread, loaded: Loaded, thread_id: str) -> None:
    namespace = GraphNamespace.objects.create(thread=owner, name=space.name)
    keys: list[uuid.UUID] = [ids.new() for _ in space.blobs]
    blobs = [
        GraphBlob(
            id=keys[place],
            namespace=namespace,
            base_id=keys[row["base"]] if row["base"] is not None else None,
            content=space.contents[id(row)],
            digest=bytes.fromhex(row["digest"]),
            **{name: row[name] for name in ("channel", "version", "depth", "items", "kind")},
        )
        for place, row in enumerate(space.blobs)
    ]
    GraphBlob.objects.bulk_create(blobs, batch_size=BATCH)
    _write_checkpoints(space, namespace, loaded, thread_id)
    writes = [
        GraphWrite(
            namespace=namespace,
            checkpoint_key=uuid.UUID(row["checkpoint"]),
            task_id=row["task"],
            task_path=row["path"],
            content=space.contents[id(row)],
            **{name: row[name] for name in ("idx", "channel", "kind")},
        )
        for row in space.writes
    ]
    GraphWrite.objects.bulk_create(writes, batch_size=BATCH)


def _write_checkpoints(
    space: _Space, namespace: GraphNamespace, loaded: Loaded, thread_id: str
) -> None:
    known = {row["key"] for row in space.checkpoints}
    shown, graphs, times = [], [], []
    for row in space.checkpoints:
        content = space.contents[id(row)]
        key, parent = uuid.UUID(row["key"]), uuid.UUID(row["parent"]) if row["parent"] else None
        checkpoint = Checkpoint(
            id=checkpoint_pk(namespace.pk, key),
            thread=loaded.thread,
            run_id=loaded.thread.pk,
            parent_id=checkpoint_pk(namespace.pk, parent)
            if parent and row["parent"] in known
            else None,
            is_snapshot=True,
            depth=0,
            body=graph_state.BODY,
            schema_version=2,
            size=len(content),
            digest=row["digest"],
            metadata={
                **loaded.translated(row["metadata"]),
                IMPORTED: {"id": row["id"], "thread_id": thread_id},
            },
            **{**{name: row[name] for name in SHOWN}, "status": CheckpointStatus(row["status"])},
        )
        shown.append(checkpoint)
        times.append(time_of(row["created_at"]))
        graphs.append(
            GraphCheckpoint(
                checkpoint=checkpoint,
                namespace=namespace,
                key=key,
                parent=parent,
                run=row["run"],
                kind=row["kind"],
                content=content,
            )
        )
    Checkpoint.objects.bulk_create(shown, batch_size=BATCH)
    for checkpoint, at in zip(shown, times, strict=True):
        checkpoint.created_at = at
    Checkpoint.objects.bulk_update(shown, ["created_at"], batch_size=BATCH)
    GraphCheckpoint.objects.bulk_create(graphs, batch_size=BATCH)
