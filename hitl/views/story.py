"""The story of a thread: its timeline, its log, and the output of the step at work."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from checkpoints.models import Event, EventKind
from hitl.rendering import paging
from hitl.rendering.paging import ListAddress, ListPage

TIMELINE = 100


LOG = 200


BY_SEQ = paging.ListOrder(key="seq", newest=True)


OUTPUT = 500
"""Chunks of output that a page begins with."""


LISTS = ("events", "log", "runs", "said", "artifacts")
"""Names that an address gives to places in the lists of a page."""


def story_of(thread_id: uuid.UUID, here: ListAddress) -> dict[str, Any]:
    """What has happened on a thread: of the timeline, newest first, and of the log, oldest first,
    the pages that an address asks for.
    """
    events = Event.objects.filter(thread=thread_id)
    shown_events = events.exclude(kind__in=[EventKind.STREAMING_CHUNK, EventKind.LOG])
    timeline = paging.in_order(
        shown_events, BY_SEQ, here, "events", size=TIMELINE, anchor="timeline-title"
    )
    log = paging.in_order(
        events.filter(kind=EventKind.LOG), BY_SEQ, here, "log", size=LOG, anchor="log-title"
    )
    return {
        "output": output_of(thread_id),
        "timeline": timeline,
        "log": replace(log, rows=log.rows[::-1]),
    }


def newest_lines(thread_id: uuid.UUID, log: ListPage[Event]) -> list[Event]:
    """The newest lines of a thread's log, oldest first, whichever page of it is looked at."""
    if not log.first:
        return log.rows
    return list(BY_SEQ(Event.objects.filter(thread=thread_id, kind=EventKind.LOG))[:LOG])[::-1]


TOOLS = (EventKind.TOOL_CALL_STARTED, EventKind.TOOL_CALL_COMPLETED)
"""What a step tells while it works, as it does with lines of the log."""


def output_of(thread_id: uuid.UUID) -> str:
    """The end of what the step at work on a thread has said so far (S0-3); "" where none works."""
    events = Event.objects.filter(thread=thread_id).exclude(
        kind__in=[EventKind.STREAMING_CHUNK, EventKind.LOG, *TOOLS]
    )
    last = events.order_by("-seq").first()
    if last is None or last.kind != EventKind.STEP_STARTED:
        return ""
    chunks = Event.objects.filter(
        thread=thread_id, seq__gt=last.seq, kind=EventKind.STREAMING_CHUNK
    ).order_by("-seq")[:OUTPUT]
    return "".join(
        str(event.data.get("content", ""))
        for event in reversed(chunks)
        if isinstance(event.data, Mapping)
    )
