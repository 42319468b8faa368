"""Keeps what `Context.keep` and `Context.artifact` are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import BigIntegerField, Case, Q, Sum, Value, When
from django.db.models.functions import Least

from checkpoints import store
from checkpoints.database import clock
from checkpoints.state import codec
from checkpoints.text import media
from runs.models import Artifact, Run
from runs.models.artifacts import MADE
from runs.workflows.base import StepFailed, files


def keep(
    run: Run,
    name: str,
    text: str,
    whole: int = 0,
    *,
    step: str,
    loop: int,
    require: Callable[[], None],
) -> None:
    """Keep a text with the run, in a commit of its own, unless `require` raises.

    `whole`: bytes of the text before its middle was left out, where it was. Raises StepFailed where
    the run would keep more than it may.
    """
    content = codec.readable(text).encode()
    kept = cut(content, settings.WAYSTATION_ARTIFACT_BYTES)
    size = max(whole, len(content))
    at: dict[str, Any] = {"run_id": run.pk, "step": step, "loop_num": loop, "name": name[:100]}
    at["media"] = ""
    with transaction.atomic(durable=True):
        _check(run, len(kept), at)
        values = {
            "digest": store.put_blob(kept),
            "size": size,
            "cut": len(kept) < size,
            "thread_id": run.thread_id,
            "created_at": clock.now(),
            "dropped_at": None,
        }
        Artifact.objects.update_or_create(**at, defaults=values)
        require()


def keep_file(
    run: Run,
    name: str,
    content: bytes,
    *,
    step: str,
    loop: int,
    require: Callable[[], None],
) -> dict[str, Any]:
    """Keep a file with the run as `keep` keeps a text; gives what a state holds of it. Raises
    StepFailed.
    """
    made = files.told(name, content)
    at: dict[str, Any] = {"run_id": run.pk, "step": step, "loop_num": loop, "name": MADE + name}
    with transaction.atomic(durable=True):
        _check(run, len(content), at)
        values = {
            "digest": store.put_blob(content),
            "media": media.of(content),
            "filename": name,
            "size": len(content),
            "thread_id": run.thread_id,
            "created_at": clock.now(),
            "dropped_at": None,
        }
        Artifact.objects.update_or_create(**at, defaults=values)
        require()
    return made


def _check(run: Run, more: int, at: Mapping[str, Any]) -> None:
    """Raise StepFailed where the run's artifacts would be too large with so many bytes more, which
    take the place of the artifact `at`.
    """
    most = settings.WAYSTATION_ARTIFACTS_BYTES
    if not most:
        return
    of_a_text = Least("size", Value(settings.WAYSTATION_ARTIFACT_BYTES, BigIntegerField()))
    kept = Case(When(media="", then=of_a_text), default="size")
    by_steps = Q(media="") | Q(name__startswith=MADE)
    others = Artifact.objects.filter(by_steps, run=run, dropped_at=None).exclude(**at)
    size = (others.aggregate(size=Sum(kept))["size"] or 0) + more
    if size > most:
        raise StepFailed(
            f"The artifacts of this run would come to {size:,} bytes; it may keep {most:,} "
            "(WAYSTATION_ARTIFACTS_BYTES). Those that it kept before stay, and so does the state "
            "before this step. Keep less, or ask an operator to raise the bound; a retry begins to "
            "count anew.",
            code="artifacts_too_large",
        )


def cut(content: bytes, limit: int) -> bytes:
    """The content, or its beginning and its end with a note between them."""
    if len(content) <= limit:
        return content
    half = limit // 2
    first, last = content[:half].decode(errors="ignore"), content[-half:].decode(errors="ignore")
    return f"{first}\n\n[{len(content) - 2 * half:,} bytes are left out here]\n\n{last}".encode()
