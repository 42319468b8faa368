"""Writing and reading checkpoints: a full snapshot now and then, deltas against the parent in between, large values in blobs."""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from checkpoints import codec
from checkpoints.models import Blob, Checkpoint, CheckpointStatus, Thread

SNAPSHOT_EVERY = 20
"""A load reads at most one snapshot and this many deltas."""


class CheckpointDamaged(Exception):
    """A checkpoint's content does not match its digest: nothing is resumed from it."""

    code = "checkpoint_damaged"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What a checkpoint records beside the state."""

    status: CheckpointStatus
    node_id: str = ""
    next_step: str = ""
    loop_num: int = 1
    completed_nodes: int = 0
    total_nodes: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)


def save(
    thread_id: uuid.UUID,
    run_id: uuid.UUID,
    state: dict[str, Any],
    entry: Entry,
    *,
    parent: Checkpoint | None,
    before: dict[str, Any] | None,
) -> Checkpoint:
    """Write a checkpoint and make it the thread's head. Call inside a transaction. Arguments and errors as for `build`."""
    checkpoint = build(thread_id, run_id, state, entry, parent=parent, before=before)
    insert(checkpoint)
    return checkpoint


def insert(checkpoint: Checkpoint) -> None:
    """Write what `build` made, and make it the thread's head. Call inside a transaction."""
    checkpoint.save(force_insert=True)
    Thread.objects.filter(pk=checkpoint.thread_id).update(head=checkpoint)


def build(
    thread_id: uuid.UUID,
    run_id: uuid.UUID,
    state: dict[str, Any],
    entry: Entry,
    *,
    parent: Checkpoint | None,
    before: dict[str, Any] | None,
) -> Checkpoint:
    """An unsaved checkpoint: the delta against the parent where that is smaller, else the whole state.

    `before` is the parent's state where the caller has it in hand; without it a full snapshot is written.
    Raises codec.NotJson, naming the key, for a state that JSON cannot hold.
    """
    codec.check(state)
    whole = codec.encode(state)
    body: dict[str, Any] = state
    depth = 0
    if parent is not None and before is not None and parent.depth < SNAPSHOT_EVERY:
        delta = codec.difference(before, state)
        if len(codec.encode(delta)) < len(whole):
            body, depth = delta, parent.depth + 1
    return Checkpoint(
        thread_id=thread_id,
        run_id=run_id,
        parent=parent,
        status=entry.status,
        node_id=entry.node_id,
        next_step=entry.next_step,
        loop_num=entry.loop_num,
        completed_nodes=entry.completed_nodes,
        total_nodes=entry.total_nodes,
        is_snapshot=depth == 0,
        depth=depth,
        body=body,
        digest=codec.digest(whole),
        size=len(codec.encode(body)),
        metadata=dict(entry.metadata),
    )


def load(checkpoint: Checkpoint) -> dict[str, Any]:
    """The whole state at a checkpoint; raises CheckpointDamaged where it does not match its digest."""
    deltas = []
    at: Checkpoint = checkpoint
    while not at.is_snapshot:
        deltas.append(at.body)
        assert at.parent is not None  # checkpoint_delta_has_parent
        at = at.parent
    try:
        state: dict[str, Any] = at.body
        for delta in reversed(deltas):
            state = codec.apply(state, delta)
        intact = codec.digest(codec.encode(state)) == checkpoint.digest
    except (TypeError, KeyError, AttributeError):  # a body of another shape than we write
        intact = False
    if not intact:
        raise CheckpointDamaged(
            f"{checkpoint.shown_id} does not match its digest; its stored bytes were changed. Nothing was resumed from it."
        )
    return state


def put_blob(content: bytes) -> str:
    """Keep `content` once and give its digest. Call inside a transaction."""
    key = codec.digest(content)
    Blob.objects.bulk_create([Blob(digest=key, content=zlib.compress(content, 6), size=len(content))], ignore_conflicts=True)
    return key


def get_blob(key: str) -> bytes:
    """The content kept under a digest; raises Blob.DoesNotExist, or CheckpointDamaged where the bytes were changed."""
    stored = bytes(Blob.objects.get(pk=key).content)
    try:
        content = zlib.decompress(stored)
    except zlib.error as error:
        raise CheckpointDamaged(f"the blob {key[:12]} cannot be unpacked; its stored bytes were changed") from error
    if codec.digest(content) != key:
        raise CheckpointDamaged(f"the blob {key[:12]} does not match its digest")
    return content
