"""The blobs that a put has to write: of a list that grew, what is new."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import replace
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol

from checkpoints import ids
from checkpoints.models.graphs import GraphBlob
from checkpoints.store import graph_state
from checkpoints.store.graph_state import ChannelValue
from extensions.langgraph.saver.serializer import StrictSerializer

ROOM = 64 * 1024 * 1024
"""Bytes of values that are remembered."""
SMALL = 256
"""A list of fewer bytes is written whole."""
Place = tuple[int, str]
"""Namespace and channel."""


class Blobs:
    """Remembers the latest value of each list that was written or read, to see whether the next one
    begins with it.

    Only what is committed may be remembered for long: after a rollback `clear` is called.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[Place, tuple[ChannelValue, Any]] = OrderedDict()
        self._size = 0

    def clear(self) -> None:
        self._known.clear()
        self._size = 0

    def remember(self, place: Place, value: ChannelValue, hasher: Any = None) -> None:
        if value.items is None or len(value.data) > ROOM // 4:
            return
        self._drop(place)
        self._known[place] = (value, hasher or hashlib.sha256(value.data))
        self._size += len(value.data)
        while self._size > ROOM:
            self._drop(next(iter(self._known)))

    def _drop(self, place: Place) -> None:
        if (old := self._known.pop(place, None)) is not None:
            self._size -= len(old[0].data)

    def row(
        self, place: Place, version: str, value: ChannelValue, serde: SerializerProtocol
    ) -> GraphBlob:
        """The unsaved blob of a value; raises PayloadRefused for a type in it that is not allowed.

        It is remembered.
        """
        namespace, channel = place
        before, hasher = self._known.get(place, (None, None))
        grown = before is not None and _grew(before, value)
        new = value.data[len(before.data) :] if grown and before is not None else value.data
        _check(serde, value, new, before.items if grown and before is not None else 0)
        hasher = hasher.copy() if grown and hasher is not None else hashlib.sha256()
        hasher.update(new)
        blob = ids.new()
        base, depth, start = None, 0, 0
        if grown and before is not None:
            due = before.depth + 1 >= graph_state.SUMMED_UP
            base, depth = (before.summed, 0) if due else (before.blob, before.depth + 1)
            start = before.summed_size if due else len(before.data)
        kind, content = graph_state.pack(value.kind, value.data[start:])
        summed, summed_size = (
            (blob, len(value.data))
            if depth == 0 or before is None
            else (before.summed, before.summed_size)
        )
        self.remember(
            place,
            replace(value, blob=blob, depth=depth, summed=summed, summed_size=summed_size),
            hasher,
        )
        return GraphBlob(
            id=blob,
            namespace_id=namespace,
            channel=channel,
            version=version,
            base_id=base,
            depth=depth,
            items=value.items,
            kind=kind,
            content=content,
            digest=hasher.digest(),
        )


def _grew(before: ChannelValue, value: ChannelValue) -> bool:
    return (
        value.items is not None
        and len(value.data) >= SMALL
        and before.kind == value.kind
        and len(before.data) <= len(value.data)
        and value.data.startswith(before.data)
    )


def dump(serde: SerializerProtocol, value: Any) -> ChannelValue:
    """A value as `row` wants it. Its types are looked at there, where it is known what is new."""
    return graph_state.value_of(
        *(serde.dump(value) if isinstance(serde, StrictSerializer) else serde.dumps_typed(value))
    )


def _check(serde: SerializerProtocol, value: ChannelValue, new: bytes, known: int | None) -> None:
    if isinstance(serde, StrictSerializer) and value.kind in {"msgpack", "delta"}:
        serde.check(
            new if value.items is None else graph_state.header(value.items - (known or 0)) + new
        )
