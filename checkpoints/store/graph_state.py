"""Reading what LangGraph's saver wrote: blobs put together and checked, and a graph's state as JSON
for people. Needs no LangGraph.

**Kinds.** A payload's kind is its serializer's (`msgpack`, `bytes`, `null`, `msgpack+aes` …), with
`z:` in front where its content is zlib-compressed. `delta` is a `msgpack` of LangGraph's
`_DeltaSnapshot` of a list, kept as the list.

**Lists.** In msgpack a list is a header and its items one after the other. So of one list that
begins with another, item for item, the bytes do too: what is written is the rest, with a reference
to the blob before. Every SUMMED_UP of them one blob sums up all since the last such, so that a load
reads few small rows and otherwise large ones (as `store` does with snapshots and chunks).
"""

from __future__ import annotations

import hashlib
import math
import struct
import uuid
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from django.db import connections

from checkpoints.models.fields import demand
from checkpoints.models.graphs import GraphBlob, GraphCheckpoint, GraphWrite
from checkpoints.state import codec, encryption

BODY = {"graph": 1}
"""Body of the Checkpoint of a graph: the state is read from the graph's tables."""
SUMMED_UP = 20
COMPRESSED = 200
"""Bytes from which on it is tried to compress."""
DELTA = 7
"""LangGraph's extension code of a `_DeltaSnapshot`."""
DEEPEST = 40
INTERRUPT = "__interrupt__"
TRIGGER = "branch:to:"
"""Channels that say which node comes next; a state for people leaves them out."""


class Damaged(ValueError):
    """Stored bytes are not what was written."""


_CONTENT: Any = GraphBlob._meta.get_field("content")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelValue:
    """A channel's value as it was serialised, and where it lies."""

    kind: str
    data: bytes
    """Of a list the items, without a header."""
    items: int | None
    """None for what is no list."""
    blob: Any = None
    depth: int = 0
    summed: Any = None
    """The nearest blob that sums up, and the bytes up to there."""
    summed_size: int = 0

    def payload(self) -> tuple[str, bytes]:
        """Kind and bytes as the serializer wrote them."""
        if self.items is None:
            return self.kind, self.data
        whole = header(self.items) + self.data
        return ("msgpack", _extension(whole)) if self.kind == "delta" else (self.kind, whole)


def value_of(kind: str, data: bytes) -> ChannelValue:
    """What a serializer made of a value, taken apart where it is a list."""
    if kind == "msgpack":
        inner = _snapshot(data)
        if (parts := _split(data if inner is None else inner)) is not None:
            return ChannelValue(
                kind="msgpack" if inner is None else "delta", data=parts[1], items=parts[0]
            )
    return ChannelValue(kind=kind, data=data, items=None)


def header(items: int) -> bytes:
    if items < 16:
        return bytes([0x90 | items])
    return struct.pack(">BH", 0xDC, items) if items < 1 << 16 else struct.pack(">BI", 0xDD, items)


def _split(data: bytes) -> tuple[int, bytes] | None:
    first = data[0] if data else 0
    if first & 0xF0 == 0x90:
        return first & 0x0F, data[1:]
    if first == 0xDC:
        return struct.unpack_from(">H", data, 1)[0], data[3:]
    if first == 0xDD:
        return struct.unpack_from(">I", data, 1)[0], data[5:]
    return None


def _snapshot(data: bytes) -> bytes | None:
    """What is in a `_DeltaSnapshot`."""
    first = data[0] if data else 0
    if 0xD4 <= first <= 0xD8 and data[1] == DELTA:
        return data[2:]
    if 0xC7 <= first <= 0xC9 and data[(place := 1 << (first - 0xC7)) + 1] == DELTA:
        return data[place + 2 :]
    return None


def _extension(payload: bytes) -> bytes:
    return struct.pack(">BIB", 0xC9, len(payload), DELTA) + payload


def pack(kind: str, data: bytes) -> tuple[str, bytes]:
    """Kind and content of a row."""
    if len(data) >= COMPRESSED and len(small := zlib.compress(data, 1)) < len(data):
        return f"z:{kind}", small
    return kind, data


def opened(content: Any) -> bytes:
    """What a row's content holds.

    Raises sealing.KeyMissing, and Damaged where it cannot be opened for another reason.
    """
    try:
        return bytes(demand(content))
    except encryption.SealBroken as error:
        raise Damaged(str(error).rstrip(".")) from error


def unpack(kind: str, content: Any) -> tuple[str, bytes]:
    """Kind and bytes of a row's content. Raises as `opened`."""
    data = opened(content)
    if not kind.startswith("z:"):
        return kind, data
    try:
        return kind[2:], zlib.decompress(data)
    except zlib.error as error:
        raise Damaged("a graph's payload cannot be unpacked") from error


def digest_of(kind: str, content: bytes) -> str:
    """Of a checkpoint: of its row as it is stored."""
    return codec.digest(kind.encode() + b":" + content)


def values(namespace: int, wanted: Mapping[str, str], *, using: str) -> dict[str, ChannelValue]:
    """The values of channels at versions; a channel whose blob is not there is left out.

    Raises as `opened`.
    """
    if not wanted:
        return {}
    marks = ", ".join(["(%s, %s)"] * len(wanted))
    sql = f"""
        WITH RECURSIVE chain (channel, id, base_id, depth, items, kind, content, digest, place) AS (
            SELECT channel, id, base_id, depth, items, kind, content, digest, 0
            FROM checkpoints_graphblob WHERE namespace_id = %s AND (channel, version) IN (VALUES
            {marks})
            UNION ALL
            SELECT chain.channel, older.id, older.base_id, older.depth, older.items, older.kind,
            older.content, older.digest, place + 1
            FROM chain JOIN checkpoints_graphblob AS older ON older.id = chain.base_id
        )
        SELECT channel, id, depth, items, kind, content, digest FROM chain ORDER BY channel, place
        DESC"""  # noqa: S608  # marks only
    rows: dict[str, list[Any]] = {}
    with connections[using].cursor() as cursor:
        cursor.execute(sql, [namespace, *(text for pair in wanted.items() for text in pair)])
        for channel, *row in cursor.fetchall():
            rows.setdefault(channel, []).append(row)
    return {channel: _joined(channel, chain) for channel, chain in rows.items()}


def _joined(channel: str, chain: list[Any]) -> ChannelValue:
    """The value of a chain of blobs, oldest first."""
    parts: list[bytes] = []
    kind, summed, size, summed_size = "", None, 0, 0
    for blob, depth, _, packed, stored, _ in chain:
        kind, data = unpack(packed, _CONTENT.from_db_value(stored, None, None))  # read past the ORM
        parts.append(data)
        size += len(data)
        if depth == 0:
            summed, summed_size = blob, size
    blob, depth, items, _, _, digest = chain[-1]
    whole = b"".join(parts)
    if hashlib.sha256(whole).digest() != bytes(digest):
        raise Damaged(f"the value of {channel} does not match its digest")
    return ChannelValue(
        kind=kind,
        data=whole,
        items=items,
        blob=blob,
        depth=depth,
        summed=summed,
        summed_size=summed_size,
    )


def state(checkpoint: Any, *, using: str = "default") -> dict[str, Any]:
    """A graph's channels at a checkpoint as JSON: what JSON cannot hold is an object that says in
    `$type` what it is.

    Raises Damaged where a stored byte was changed, sealing.KeyMissing where the key is missing.
    """
    row = GraphCheckpoint.objects.using(using).select_related("namespace").get(pk=checkpoint.pk)
    content = opened(row.content)
    if digest_of(row.kind, content) != checkpoint.digest:
        raise Damaged("the graph's checkpoint does not match its digest")
    kind, data = unpack(row.kind, content)
    if kind != "msgpack":
        return {"channels": {"$type": f"encrypted ({kind})", "bytes": len(data)}}
    found = _plain(kind, data)
    if "$type" in found:
        return {"channels": found}
    wanted = {channel: str(found["channel_versions"][channel]) for channel in found["stored"]}
    kept = values(row.namespace_id, wanted, using=using)
    if missing := wanted.keys() - kept.keys():
        raise Damaged(f"the value of {min(missing)} is not there")
    channels = {
        **found["values"],
        **{channel: _plain(*value.payload()) for channel, value in kept.items()},
    }
    shown = {
        channel: value for channel, value in channels.items() if not channel.startswith(TRIGGER)
    }
    return {**shown, **_asked(row, using)}


def skeleton(kind: str, data: bytes) -> dict[str, Any]:
    """What a checkpoint's payload says of its channels, as JSON; empty where it cannot be read
    here.
    """
    value = _plain(kind, data) if kind == "msgpack" else {"$type": kind}
    return {} if "$type" in value else value


def latest(thread_id: uuid.UUID) -> Any:
    """The newest checkpoint of a thread's graph, not of its sub-graphs; None where no graph has
    run.
    """
    row = GraphCheckpoint.objects.filter(
        namespace__thread=thread_id, namespace__name=""
    ).select_related("checkpoint")
    checkpoint = row.order_by("-key").first()
    return checkpoint.checkpoint if checkpoint else None


def _asked(row: GraphCheckpoint, using: str) -> dict[str, Any]:
    """The questions that tasks asked at a checkpoint."""
    writes = GraphWrite.objects.using(using).filter(
        namespace=row.namespace_id, checkpoint_key=row.key, channel=INTERRUPT
    )
    asked = [
        _plain(*unpack(write.kind, write.content))
        for write in writes.order_by("task_path", "task_id")
    ]
    return (
        {
            INTERRUPT: [
                item for each in asked for item in (each if isinstance(each, list) else [each])
            ]
        }
        if asked
        else {}
    )


def _plain(kind: str, data: bytes) -> Any:
    if kind == "null":
        return None
    if kind != "msgpack":
        return {
            "$type": kind if kind in {"bytes", "bytearray"} else f"encrypted ({kind})",
            "bytes": len(data),
        }
    try:
        import ormsgpack
    except ImportError:
        return {
            "$type": "msgpack; install extensions/langgraph/requirements.txt to see it",
            "bytes": len(data),
        }

    def named(code: int, payload: bytes) -> Any:
        inner = ormsgpack.unpackb(payload, ext_hook=named, option=ormsgpack.OPT_NON_STR_KEYS)
        return Extension(code, inner)

    return _json(ormsgpack.unpackb(data, ext_hook=named, option=ormsgpack.OPT_NON_STR_KEYS), 0)


@dataclass(frozen=True, slots=True)
class Extension:
    """An object as msgpack describes it: nothing is made of it."""

    code: int
    inner: Any

    def __hash__(self) -> int:
        return hash(repr(self))


def _json(value: Any, depth: int) -> Any:
    match value:
        case _ if depth > DEEPEST:
            return {"$type": type(value).__name__, "nested": "too deep to be shown"}
        case None | bool() | int():
            return value
        case str():
            return codec.readable(value)
        case float():
            return value if math.isfinite(value) else {"$type": "float", "value": repr(value)}
        case bytes():
            return {"$type": "bytes", "bytes": len(value)}
        case Extension():
            return _described(value, depth)
        case Mapping():
            return {
                codec.readable(str(_key(key))): _json(item, depth + 1)
                for key, item in value.items()
            }
        case list() | tuple():
            return [_json(item, depth + 1) for item in value]
    return {"$type": type(value).__name__}


def _key(key: Any) -> Any:
    return (
        key.inner[2]
        if isinstance(key, Extension) and isinstance(key.inner, list) and len(key.inner) > 2
        else key
    )


def _described(value: Extension, depth: int) -> Any:
    if value.code == DELTA:
        return _json(value.inner, depth)
    match value.inner:
        case [str() as module, str() as name, inner, *_]:
            return {"$type": f"{module}.{name}", "value": _json(inner, depth + 1)}
        case [str() as kind, list() as shape, *_]:
            return {"$type": f"numpy.ndarray of {kind}", "shape": shape}
    return {"$type": f"extension {value.code}"}


def triggers(channels: Mapping[str, Any]) -> Iterator[str]:
    """The nodes that come next, as far as a graph's channels tell."""
    yield from sorted(
        channel.removeprefix(TRIGGER) for channel in channels if channel.startswith(TRIGGER)
    )
    for sent in cast("list[Any]", channels.get("__pregel_tasks") or []):
        yield str(getattr(sent, "node", "?"))
    if "__start__" in channels:
        yield "__start__"
