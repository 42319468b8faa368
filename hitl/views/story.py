"""The story of a thread: its timeline, its log, and the output of the step at work."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.db.models import QuerySet

from checkpoints.models import Event, EventKind
from checkpoints.store.prepared_queries import Prepared
from hitl.rendering import paging
from hitl.rendering.paging import ListAddress, ListPage
from hitl.views.threads.timeline import TimelineRows, log_lines

TIMELINE = 100


LOG = 200


BY_SEQ = paging.ListOrder(key="seq", newest=True)


NEW = 50
"""Events since the version of a page that it is told one by one."""


OUTPUT = 500
"""Chunks of output that a page begins with."""


LISTS = ("events", "log", "runs", "said", "artifacts", "children", "child")
"""Names that an address gives to places in the lists of a page."""


_shown_events = Prepared(
    lambda key: BY_SEQ(_events_shown(Event.objects.filter(thread=key)))[: TIMELINE + 1], uuid.UUID
)
_lines = Prepared(
    lambda key: BY_SEQ(Event.objects.filter(thread=key, kind=EventKind.LOG))[: LOG + 1], uuid.UUID
)
"""The newest of a thread: what pages begin with, and nearly all are asked for."""


def _events_shown(events: QuerySet[Event]) -> QuerySet[Event]:
    return events.exclude(kind__in=[EventKind.STREAMING_CHUNK, EventKind.LOG])


def story_of(
    thread_id: uuid.UUID, here: ListAddress, *, of_order: bool, gathering: str = ""
) -> dict[str, Any]:
    """What has happened on a thread: of the timeline, newest first, and of the log, oldest first,
    the pages that an address asks for.

    `of_order` and `gathering` are as for `TimelineRows`.
    """
    timeline, log = _timeline_of(thread_id, here), _log_of(thread_id, here)
    rows = TimelineRows(of_order=of_order, gathering=gathering)
    return {
        "output": output_of(thread_id, None if timeline.first else timeline.rows),
        "timeline": timeline,
        "timeline_rows": lambda: rows.html(timeline.rows),
        "log": log,
        "log_lines": lambda: log_lines(log.rows),
    }


def _timeline_of(thread_id: uuid.UUID, here: ListAddress) -> ListPage[Event]:
    events = _events_shown(Event.objects.filter(thread=thread_id))
    return _page(thread_id, _shown_events, events, here, "events", TIMELINE, "timeline-title")


def _log_of(thread_id: uuid.UUID, here: ListAddress) -> ListPage[Event]:
    lines = Event.objects.filter(thread=thread_id, kind=EventKind.LOG)
    log = _page(thread_id, _lines, lines, here, "log", LOG, "log-title")
    return replace(log, rows=log.rows[::-1])


def since(thread_id: uuid.UUID, seq: int) -> list[Event]:
    """The events of a thread after one, newest first, but what steps say while they work: one more
    than `NEW` says that there are more.
    """
    return _since.get(thread_id, seq)


_since = Prepared(
    lambda key, seq: BY_SEQ(
        Event.objects.filter(thread=key, seq__gt=seq).exclude(kind=EventKind.STREAMING_CHUNK)
    )[: NEW + 1],
    uuid.UUID,
    int,
)


def _page(
    thread_id: uuid.UUID,
    newest: Prepared[Event],
    events: QuerySet[Event],
    here: ListAddress,
    name: str,
    size: int,
    anchor: str,
) -> ListPage[Event]:
    def read(after: str, limit: int) -> list[Event]:
        if not after:
            return newest.get(thread_id)
        return list(BY_SEQ(events, BY_SEQ.read(after))[:limit])

    return paging.paged(here, name, read, lambda event: str(event.seq), size=size, anchor=anchor)


def newest_lines(thread_id: uuid.UUID, log: ListPage[Event]) -> list[Event]:
    """The newest lines of a thread's log, oldest first, whichever page of it is looked at."""
    if not log.first:
        return log.rows
    return _lines.get(thread_id)[:LOG][::-1]


TOOLS = (EventKind.TOOL_CALL_STARTED, EventKind.TOOL_CALL_COMPLETED)
"""What a step tells while it works, as it does with lines of the log."""


def output_of(thread_id: uuid.UUID, newest: Sequence[Event] | None = None) -> str:
    """The end of what the step at work on a thread has said so far; "" where none works.

    Args:
        newest: its newest events as the timeline shows them, where they were read.
    """
    last = next((event for event in newest or [] if event.kind not in TOOLS), None)
    last = last or next(iter(_last_event.get(thread_id)), None)
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


_last_event = Prepared(
    lambda key: (
        Event.objects.filter(thread=key)
        .exclude(kind__in=[EventKind.STREAMING_CHUNK, EventKind.LOG, *TOOLS])
        .order_by("-seq")[:1]
    ),
    uuid.UUID,
)
