"""LangGraph's ids and ours."""

from __future__ import annotations

import hashlib
import uuid

GREGORIAN = 0x01B21DD213814000
"""Hundreds of nanoseconds between the epoch of UUIDv6 and that of Unix."""


def key_of(text: str) -> uuid.UUID | None:
    """A checkpoint_id; None for one that LangGraph cannot have made, which names no row."""
    try:
        key = uuid.UUID(text)
    except (ValueError, AttributeError, TypeError):
        return None
    return key if str(key) == text else None


def checkpoint_pk(namespace: int, key: uuid.UUID) -> uuid.UUID:
    """The id of a graph's checkpoint among all checkpoints: a UUIDv7 of the same time, the same
    whenever it is asked for.

    So a checkpoint that is written again is the same row, a copy in another thread is another one,
    and a parent needs no look-up.
    """
    ticks = (key.int >> 80) << 12 | (key.int >> 64 & 0xFFF)
    if key.version == 6:
        ticks = max(ticks - GREGORIAN, 0)
    milliseconds, rest = divmod(ticks, 10_000)
    # 60 bits
    mark = int.from_bytes(hashlib.sha256(f"{namespace}:{key}".encode()).digest()[:8]) >> 4
    return uuid.UUID(
        int=(milliseconds & (1 << 48) - 1) << 80
        | 7 << 76
        | (rest >> 2) << 64
        | 2 << 62
        | (rest & 3) << 60
        | mark
    )
