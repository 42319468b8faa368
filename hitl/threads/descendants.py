"""The threads of child runs below a thread: those that its runs started, and those that came with
it when it was imported.
"""

from __future__ import annotations

import uuid

from hitl.models import Import
from runs.models import Run


def below(thread_id: uuid.UUID) -> list[uuid.UUID]:
    """At any depth, nearest first."""
    thread_ids = level = [thread_id]
    while level:
        started = (
            Run.objects.filter(parent__thread__in=level)
            .exclude(thread__in=thread_ids)
            .values_list("thread", flat=True)
        )
        brought = (
            Import.objects.filter(within__in=level)
            .exclude(pk__in=thread_ids)
            .values_list("pk", flat=True)
        )
        level = sorted({*started, *brought})
        thread_ids = [*thread_ids, *level]
    return thread_ids[1:]
