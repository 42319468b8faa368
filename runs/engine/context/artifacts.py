"""Keeps what `Context.keep` is given."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.db import transaction

from checkpoints import store
from checkpoints.database import clock
from checkpoints.state import codec
from runs.models import Artifact, Run


def keep(
    run: Run, name: str, text: str, *, step: str, loop: int, require: Callable[[], None]
) -> None:
    """Keep a text with the run, in a commit of its own, unless `require` raises."""
    content = codec.readable(text).encode()
    kept = cut(content, settings.WAYSTATION_ARTIFACT_BYTES)
    with transaction.atomic(durable=True):
        values = {
            "digest": store.put_blob(kept),
            "size": len(content),
            "cut": len(kept) < len(content),
            "thread_id": run.thread_id,
            "created_at": clock.now(),
            "dropped_at": None,
        }
        Artifact.objects.update_or_create(
            run_id=run.pk, step=step, loop_num=loop, name=name[:100], defaults=values
        )
        require()


def cut(content: bytes, limit: int) -> bytes:
    """The content, or its beginning and its end with a note between them."""
    if len(content) <= limit:
        return content
    half = limit // 2
    first, last = content[:half].decode(errors="ignore"), content[-half:].decode(errors="ignore")
    return f"{first}\n\n[{len(content) - 2 * half:,} bytes are left out here]\n\n{last}".encode()
