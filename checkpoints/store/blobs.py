"""Blobs: large values that are kept once each, under their digest."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from django.db import DEFAULT_DB_ALIAS

from checkpoints.contract.base import CheckpointDamaged
from checkpoints.database import statements
from checkpoints.models import Blob, Checkpoint
from checkpoints.models.fields import demand
from checkpoints.state import codec, encryption
from checkpoints.store.rows import StateLocked


def blobs_of(checkpoint: Checkpoint) -> set[str]:
    """The blobs that a checkpoint's metadata names, and that must be there: the code's bundle,
    patches of reports, and pages of child runs.
    """
    metadata = checkpoint.metadata
    gathers = metadata.get("gather", {})
    named = (
        metadata.get("git", {}).get("bundle"),
        metadata.get("report", {}).get("patch"),
        (gathers.get("report") or {}).get("patch"),
        *(digest for digest, _ in gathers.get("pages", ())),
    )
    return {digest for digest in named if digest}


def put_blob(content: bytes) -> str:
    """Keep `content` once and give its digest. Call inside a transaction."""
    return put_blobs([content])[0]


def put_blobs(contents: Sequence[bytes]) -> list[str]:
    """Keep each of these once, in one statement, and give their digests in order.

    Call inside a transaction.
    """
    keys = [codec.digest(content) for content in contents]
    blobs = [
        Blob(digest=key, content=zlib.compress(content, 6), size=len(content))
        for key, content in sorted(dict(zip(keys, contents, strict=True)).items())
    ]
    # see keeping
    statements.execute(
        [statements.upsert(blobs, using=DEFAULT_DB_ALIAS, on=["digest"], update=["touched_at"])]
    )
    return keys


def get_blob(key: str) -> bytes:
    """The content kept under a digest; raises Blob.DoesNotExist, or CheckpointDamaged where the
    bytes were changed.
    """
    return content_of(Blob.objects.get(pk=key))


def content_of(blob: Blob) -> bytes:
    """What a blob's row holds; raises CheckpointDamaged where its bytes were changed."""
    key = blob.digest
    try:
        content = zlib.decompress(demand(blob.content))
    except encryption.KeyMissing as error:
        raise StateLocked(f"the blob {key[:12]}: {error}") from error
    except (zlib.error, encryption.SealBroken) as error:
        raise CheckpointDamaged(
            f"the blob {key[:12]} cannot be unpacked; its stored bytes were changed"
        ) from error
    if codec.digest(content) != key:
        raise CheckpointDamaged(f"the blob {key[:12]} does not match its digest")
    return content
