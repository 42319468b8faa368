"""Writing and reading checkpoints: a snapshot now and then, deltas against the parent in between,
large values in blobs.

What keeps both a step's bytes and a load flat as history grows:

- A checkpoint is the delta against its parent: what the step set, and of lists that grew only the
  new items.
- After SNAPSHOT_EVERY deltas, or sooner where together they weigh more than the state, comes a
  snapshot. So a load reads one snapshot and few deltas, in one query, however long the history.
- A snapshot does not write out a long list. What the list has got since the last snapshot becomes a
  `Chunk`, written once, which names the chunk before it; the snapshot names the last one. So a
  list's item is written twice in all, once in its delta and once (compressed) in its chunk, and a
  load gets all chunks in one query more. A list that is changed elsewhere than at its end begins
  anew.

A load costs what the state weighs: its digest is recomputed in full. Chunks are written before the
checkpoint, in their own commit where no transaction is open; one that nothing points to does no
harm.

The two queries are SQL of our own since the ORM knows no recursion; both databases take the same
words.
"""

from __future__ import annotations

import dataclasses
import json
import re
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from django.db import connection, transaction

from checkpoints.contract import base
from checkpoints.contract.base import CheckpointDamaged, Entry, StoreUnavailable
from checkpoints.models import Checkpoint, Chunk, JsonTextField, Thread
from checkpoints.models.fields import demand
from checkpoints.state import codec, encryption, redaction, reducers
from checkpoints.store import bodies, graph_state, upgrades
from checkpoints.store.upgrades import SCHEMA_VERSION

SNAPSHOT_EVERY = 20
"""A load reads at most one snapshot and this many deltas."""
MANY = 64 * 1024
"""Bytes of deltas that a load reads without regret, however small the state is."""
CHUNK = 8 * 1024
"""Bytes that a list must have got since its last chunk before a snapshot makes another."""
ITEMS = "checkpoints_chunk.content"
"""The sealed column of chunks, which is read by SQL of our own."""
MISSHAPEN = (*base.MISSHAPEN, zlib.error, encryption.SealBroken, upgrades.UnknownVersion)
"""What reading a body of another shape than we write raises."""
DIGEST = re.compile("(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
REWRITTEN = ("parent_id", "body", "size", "is_snapshot", "depth", "dropped_before")
"""Columns that `rules` may change."""


class StateLocked(CheckpointDamaged):
    """What was stored is encrypted with a key that this server does not have: nothing is resumed
    from it until it has.
    """

    code = "encryption_key_missing"


def save(
    thread_id: uuid.UUID,
    run_id: uuid.UUID,
    state: Mapping[str, Any],
    entry: Entry,
    *,
    parent: Checkpoint | None,
    before: Mapping[str, Any] | None,
    most: int = 0,
) -> Checkpoint:
    """Write a checkpoint and make it the thread's head.

    Call inside a transaction. Arguments and errors as for `build`.
    """
    checkpoint = build(thread_id, run_id, state, entry, parent=parent, before=before, most=most)
    insert(checkpoint)
    return checkpoint


def entry_of(checkpoint: Checkpoint) -> Entry:
    """What a written checkpoint records beside its state; the next one may begin from it."""
    return Entry(
        **{field.name: getattr(checkpoint, field.name) for field in dataclasses.fields(Entry)}
    )


def insert(checkpoint: Checkpoint) -> None:
    """Write what `build` made, and make it the thread's head. Call inside a transaction."""
    checkpoint.save(force_insert=True)
    Thread.objects.filter(pk=checkpoint.thread_id).update(head=checkpoint)


def build(
    thread_id: uuid.UUID,
    run_id: uuid.UUID,
    state: Mapping[str, Any],
    entry: Entry,
    *,
    parent: Checkpoint | None,
    before: Mapping[str, Any] | None,
    most: int = 0,
) -> Checkpoint:
    """An unsaved checkpoint: the delta against the parent where that is smaller, else a snapshot,
    which may write chunks of long lists.

    `before` is the parent's state where the caller has it in hand; without it a snapshot is
    written. With both states as `load` and `reducers.apply` give them (`codec.State`), it costs
    what is new. Raises codec.NotJson, naming the key, for a state that JSON cannot hold, and
    reducers.StateTooLarge for one of more than `most` bytes, where that is not 0, that is larger
    than `before`.
    """
    was = None if before is None else codec.state(before)
    now = codec.state(state, was, redaction.names())
    digest = codec.state_digest(now)
    if most:
        _check_size(now, was, most)
    delta = _delta(now, was, parent)
    body, chunked = _snapshot(now) if delta is None else (delta, 0)
    depth = 0 if parent is None or delta is None else parent.depth + 1
    checkpoint = _row(
        thread_id=thread_id,
        run_id=run_id,
        # not the object: it would keep its own parent, and so the whole history
        parent_id=None if parent is None else parent.pk,
        status=entry.status,
        node_id=entry.node_id,
        next_step=entry.next_step,
        loop_num=entry.loop_num,
        completed_nodes=entry.completed_nodes,
        total_nodes=entry.total_nodes,
        is_snapshot=depth == 0,
        depth=depth,
        body=body,
        schema_version=SCHEMA_VERSION,
        digest=digest,
        size=len(body),
        metadata=dict(entry.metadata),
    )
    checkpoint.chunked = chunked
    checkpoint.behind = 0 if parent is None or delta is None else parent.behind + len(delta)
    checkpoint.body = bodies.keep(thread_id, checkpoint.pk, body)
    return checkpoint


def _row(**values: Any) -> Checkpoint:
    """A checkpoint of these columns; Django takes values by their place in half the time."""
    columns: Any = [values[name] if name in values else default() for name, default in _columns()]
    return Checkpoint(*columns)


@cache
def _columns() -> list[tuple[str, Callable[[], Any]]]:
    return [(field.attname, field.get_default) for field in Checkpoint._meta.concrete_fields]


def _check_size(now: codec.State, was: codec.State | None, most: int) -> None:
    size = codec.size(now)
    if size > most and (was is None or size > codec.size(was)):
        key, part = max(codec.parts_of(now).items(), key=lambda item: item[1].size)
        raise reducers.StateTooLarge(size, most, key, part.size)


def _delta(
    now: codec.State, was: codec.State | None, parent: Checkpoint | None
) -> codec.Text | None:
    """The delta to write, or None where a snapshot is due or smaller."""
    if parent is None or was is None or parent.depth >= SNAPSHOT_EVERY:
        return None
    delta = codec.Text(codec.encode(codec.difference(was, now)))
    whole = codec.weight(now)
    return None if len(delta) >= whole or parent.behind + len(delta) > max(MANY, whole) else delta


def _snapshot(state: codec.State) -> tuple[codec.Text, int]:
    """The body of a snapshot; its new chunks are written here, and their bytes given too."""
    body: dict[str, Any] = {
        key: dict(value) if isinstance(value, codec.FrozenDict) else value
        for key, value in state.items()
    }
    long: list[list[Any]] = []
    chunks: list[Chunk] = []
    known: list[tuple[codec.FrozenList, codec.Track]] = []
    for path, value in _lists(state):
        track = codec.track_of(value)
        if track.size - track.sealed_size > CHUNK:
            chunks.append(_chunk(value[track.sealed :], previous=track.tip))
            track = codec.seal(value, chunks[-1].digest)
            known.append((value, track))
        if track.tip:
            long.append([path, track.tip, track.chunks])
            _holder(body, path)[path[-1]] = value[track.sealed :]
    if chunks:
        # in one order everywhere: two writers never wait in a circle
        chunks.sort(key=lambda chunk: chunk.digest)
        # two lists may be the same; PostgreSQL takes a row once
        once = {chunk.digest: chunk for chunk in chunks}.values()
        Chunk.objects.bulk_create(
            once, update_conflicts=True, unique_fields=["digest"], update_fields=["touched_at"]
        )
        transaction.on_commit(lambda: _remember(known))
    text = codec.Text(codec.encode({"state": body, "long": long} if long else {"state": body}))
    return text, sum(len(chunk.content) for chunk in chunks)


def _lists(state: codec.State) -> Iterator[tuple[list[str], codec.FrozenList]]:
    """The lists that may be kept in chunks, with their paths: those of the state itself and of the
    objects right inside it.
    """
    for key, value in state.items():
        if isinstance(value, codec.FrozenList):
            yield [key], value
        elif isinstance(value, codec.FrozenDict):
            yield from (
                ([key, name], item)
                for name, item in value.items()
                if isinstance(item, codec.FrozenList)
            )


def _holder(body: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    holder = body
    for key in path[:-1]:
        holder = holder[key]
    return holder


def _chunk(items: Sequence[Any], *, previous: str) -> Chunk:
    text = codec.encode(items)[1:-1]
    digest = codec.digest(f"{previous}:{text}")
    return Chunk(
        digest=digest, previous_id=previous or None, content=zlib.compress(text.encode(), 1)
    )


def _remember(known: Sequence[tuple[codec.FrozenList, codec.Track]]) -> None:
    """The chunks are committed: later snapshots may refer to them."""
    for value, track in known:
        value.track = track


def unreadable(what: str, error: Exception) -> CheckpointDamaged:
    """What is raised where a stored value could not be opened (`fields.Locked`)."""
    return (StateLocked if isinstance(error, encryption.KeyMissing) else CheckpointDamaged)(
        f"{what}: {error}"
    )


def rewrite(checkpoint: Checkpoint, state: codec.State) -> None:
    """Make an unsaved snapshot of a checkpoint's row, of the same state under the same digest; new
    chunks are written here.

    Raises CheckpointDamaged where that is not what would be loaded. Call inside a transaction. For
    `rules` only.
    """
    body = _snapshot(state)[0]
    checkpoint.body, checkpoint.size, checkpoint.is_snapshot, checkpoint.depth = (
        body,
        len(body),
        True,
        0,
    )
    _checked(checkpoint)


def references(checkpoint: Checkpoint) -> set[str]:
    """The digests of all blobs and chunks that a checkpoint may refer to: whatever in it looks like
    one, so that none is missed.

    Of a list's chunks it is the last; that one names the others. Raises StateLocked: what cannot be
    read may refer to anything.
    """
    try:
        metadata, body = demand(checkpoint.metadata), demand(checkpoint.body)
    except encryption.KeyMissing as error:
        raise StateLocked(f"{checkpoint.shown_id}: {error}") from error
    except encryption.SealBroken:
        return set()
    text = str(JsonTextField().get_prep_value(body))
    try:
        [text] = bodies.fetch([text])
    except StoreUnavailable:
        raise
    except encryption.KeyMissing as error:
        raise StateLocked(f"{checkpoint.shown_id}: {error}") from error
    except (CheckpointDamaged, encryption.SealBroken):
        pass  # it is gone, and so is what it referred to
    return set(DIGEST.findall(codec.encode(metadata))) | set(DIGEST.findall(text))


def load(checkpoint: Checkpoint, *, before: codec.State | None = None) -> dict[str, Any]:
    """The whole state at a checkpoint, read-only (a `codec.State`); raises CheckpointDamaged where
    it does not match its digest.

    `before` is its parent's state as this function gave it: then only the delta is read.
    """
    if checkpoint.schema_version > SCHEMA_VERSION:
        raise CheckpointDamaged(
            f"{checkpoint.shown_id} was written by a newer version of Waystation. "
            "Nothing was resumed from it."
        )
    try:
        return _checked(checkpoint, before)
    except CheckpointDamaged:
        if not _rewritten(checkpoint):
            raise
    return _checked(checkpoint)


def _rewritten(checkpoint: Checkpoint) -> bool:
    """Whether `rules` has rewritten the row since it was read; then it is read anew."""
    now = Checkpoint.objects.filter(pk=checkpoint.pk).first()
    was = (checkpoint.is_snapshot, checkpoint.parent_id)
    if now is None or (now.is_snapshot, now.parent_id) == was:
        return False
    for name in REWRITTEN:
        setattr(checkpoint, name, getattr(now, name))
    return True


def _checked(checkpoint: Checkpoint, before: codec.State | None = None) -> codec.State:
    try:
        if checkpoint.body == graph_state.BODY:
            return codec.state(graph_state.state(checkpoint))
        if before is not None and not checkpoint.is_snapshot:
            delta = _own(checkpoint)
            if bodies.elsewhere(delta):
                delta, _ = _fetched(delta, [])
            state = codec.apply(
                before, upgrades.current(checkpoint.schema_version, delta, is_snapshot=False)
            )
        else:
            state, checkpoint.behind = _unfold(checkpoint)
        intact = upgrades.digest(checkpoint.schema_version, state) == checkpoint.digest
    except encryption.KeyMissing as error:
        raise StateLocked(f"{checkpoint.shown_id}: {error}") from error
    except MISSHAPEN:
        intact = False
    if not intact:
        raise CheckpointDamaged(
            f"{checkpoint.shown_id} does not match its digest; its stored bytes were "
            "changed. Nothing was resumed from it."
        )
    return state


def _own(checkpoint: Checkpoint) -> Any:
    """The body as the row has it, or where it is."""
    return (
        json.loads(checkpoint.body)
        if isinstance(checkpoint.body, codec.Text)
        else demand(checkpoint.body)
    )


def _unfold(checkpoint: Checkpoint) -> tuple[codec.State, int]:
    """The state, and the bytes of the deltas that led to it."""
    body, older = _own(checkpoint), [] if checkpoint.is_snapshot else _lineage(checkpoint)
    while bodies.elsewhere(body) or any(bodies.elsewhere(text) for _, _, text in older):
        try:
            body, older = _fetched(body, older)
        except CheckpointDamaged:
            # a prune may have rewritten one that it builds on
            named, older = older, [] if checkpoint.is_snapshot else _lineage(checkpoint)
            if older == named:
                raise
    body = upgrades.current(checkpoint.schema_version, body, is_snapshot=checkpoint.is_snapshot)
    if checkpoint.is_snapshot:
        return _whole(body), 0
    *between, (_, version, whole) = older
    state = _whole(upgrades.current(version, json.loads(whole), is_snapshot=True))
    for _, version, text in reversed(between):
        state = codec.apply(state, upgrades.current(version, json.loads(text), is_snapshot=False))
    return codec.apply(state, body), checkpoint.size + sum(len(text) for _, _, text in between)


def _fetched(
    body: Any, older: list[tuple[bool, int, str]]
) -> tuple[Any, list[tuple[bool, int, str]]]:
    """The same with the bodies that a backend keeps."""
    text, *texts = bodies.fetch([codec.encode(body), *(text for _, _, text in older)])
    return json.loads(text), [
        (is_snapshot, version, text)
        for (is_snapshot, version, _), text in zip(older, texts, strict=True)
    ]


def _lineage(checkpoint: Checkpoint) -> list[tuple[bool, int, str]]:
    """`is_snapshot`, `schema_version` and `body` of the checkpoints that this one builds on: from
    its parent to the nearest snapshot.
    """
    sql = """
        WITH RECURSIVE lineage (parent_id, is_snapshot, schema_version, body, place) AS (
            SELECT parent_id, is_snapshot, schema_version, body, 1 FROM checkpoints_checkpoint WHERE
            id = %s
            UNION ALL
            SELECT older.parent_id, older.is_snapshot, older.schema_version, older.body, place + 1
            FROM lineage JOIN checkpoints_checkpoint AS older ON older.id = lineage.parent_id
            WHERE NOT lineage.is_snapshot AND place < %s
        )
        SELECT is_snapshot, schema_version, body FROM lineage ORDER BY place"""
    key = Checkpoint._meta.pk.get_db_prep_value(checkpoint.parent_id, connection)
    with connection.cursor() as cursor:
        cursor.execute(sql, [key, checkpoint.depth])
        rows = cursor.fetchall()
    return [
        (bool(is_snapshot), version, encryption.opened_text(body, bodies.SEALED))
        for is_snapshot, version, body in rows
    ]


def _whole(body: Any) -> codec.State:
    """The state that a snapshot holds."""
    state = body["state"]
    if long := body.get("long"):
        texts = _chunks({tip: count for _, tip, count in long})
        for path, tip, count in long:
            holder = _holder(state, path)
            holder[path[-1]] = codec.grow(
                codec.sealed(texts[tip], tip=tip, chunks=count), holder[path[-1]]
            )
    return codec.state(state)


def _chunks(counts: Mapping[str, int]) -> dict[str, str]:
    """Last chunk → the text of its list, for as many chunks as a list has."""
    sql = f"""
        WITH RECURSIVE chain (tip, previous_id, content, place) AS (
            SELECT digest, previous_id, content, 1 FROM checkpoints_chunk WHERE digest IN
            ({", ".join(["%s"] * len(counts))})
            UNION ALL
            SELECT tip, older.previous_id, older.content, place + 1
            FROM chain JOIN checkpoints_chunk AS older ON older.digest = chain.previous_id
            WHERE place < %s
        )
        SELECT tip, place, content FROM chain ORDER BY place DESC"""  # noqa: S608  # marks only
    texts: dict[str, list[str]] = {tip: [] for tip in counts}
    with connection.cursor() as cursor:
        cursor.execute(sql, [*counts, max(counts.values())])
        for tip, place, content in cursor.fetchall():
            if place <= counts[tip]:
                texts[tip].append(
                    zlib.decompress(encryption.opened(bytes(content), ITEMS)).decode()
                )
    return {tip: ",".join(chunk) for tip, chunk in texts.items()}
