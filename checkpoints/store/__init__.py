"""Writing and reading checkpoints as rows: snapshots and deltas, large values in blobs, states in
the row or in a backend.
"""

from checkpoints.contract.base import CheckpointDamaged, Entry, StoreUnavailable
from checkpoints.store.blobs import blobs_of, content_of, get_blob, put_blob, put_blobs
from checkpoints.store.rows import (
    DIGEST,
    ITEMS,
    MISSHAPEN,
    REWRITTEN,
    SNAPSHOT_EVERY,
    StateLocked,
    build,
    entry_of,
    insert,
    load,
    references,
    rewrite,
    save,
    unreadable,
)

__all__ = [
    "DIGEST",
    "ITEMS",
    "MISSHAPEN",
    "REWRITTEN",
    "SNAPSHOT_EVERY",
    "CheckpointDamaged",
    "Entry",
    "StateLocked",
    "StoreUnavailable",
    "blobs_of",
    "build",
    "content_of",
    "entry_of",
    "get_blob",
    "insert",
    "load",
    "put_blob",
    "put_blobs",
    "references",
    "rewrite",
    "save",
    "unreadable",
]
