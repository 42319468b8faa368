"""Gives steps the bytes of the files that people handed in."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from checkpoints import store
from checkpoints.models import Blob
from runs.models import Artifact, Run
from runs.workflows.attachments import File, bytes_of
from runs.workflows.base import StepFailed

FAMILY = 1_000
"""Threads of one family that are looked at."""


def content_of(run: Run, file: File | Mapping[str, Any]) -> bytes:
    """Read a file that came with this run, or with one of its family: a digest that a state merely
    names is no permission. Raises StepFailed.
    """
    if isinstance(file, Mapping) and "content" in file:
        return bytes_of(file)
    name = file.name if isinstance(file, File) else str(file.get("name", ""))
    digest = file.sha256 if isinstance(file, File) else str(file.get("sha256", ""))
    rows = Artifact.objects.exclude(media="").filter(digest=digest, dropped_at=None)
    if not rows.filter(thread=run.thread_id).exists() and not (
        rows.filter(thread__in=_family(run)).exists()
    ):
        raise StepFailed(
            f"There is no file {name[:100] or '(without a name)'} with this run: it was not "
            "handed in here, or it is older than what is kept.",
            code="file_missing",
        )
    try:
        return store.get_blob(digest)
    except Blob.DoesNotExist as error:
        raise StepFailed(
            f"The file {name[:100]} is not there any more.", code="file_missing"
        ) from error


def _family(run: Run) -> set[uuid.UUID]:
    """The threads of the runs above and below this one, and of those that they were forked from."""
    found: set[uuid.UUID] = set()
    level = {run.thread_id}
    while level and len(found) < FAMILY:
        found |= level
        runs = Run.objects.filter(thread__in=level)
        children = Run.objects.filter(parent__thread__in=level)
        level = {
            thread
            for rows in (
                runs.values_list("parent__thread", flat=True),
                runs.values_list("forked_from__thread", flat=True),
                children.values_list("thread", flat=True),
            )
            for thread in rows[:FAMILY]
            if thread is not None and thread not in found
        }
    return found
