"""The thread's log: the only writer of events, and the only thing that causes a hint."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, TypedDict

from checkpoints import ids
from checkpoints.events import live
from checkpoints.models import Event, EventKind, Thread
from checkpoints.models.fields import Locked
from checkpoints.state import redaction

PAGE = 500
IMPORTED_AT = "imported_at"
"""Key in the data of an event that came with a document: when.

It tells what another server is said to have seen; here it is no fact.
"""
_shown = lru_cache(maxsize=1024)(ids.show)
"""A step's events name the same two ids again and again, and writing one out takes as long as
encoding the event.
"""


Facts = Sequence[tuple[EventKind, Mapping[str, Any]]]


class Marks(TypedDict, total=False):
    imported: bool
    """There, and true, on an event that came with a document."""
    channel: str
    """`status` on a question."""


class Envelope(Marks):
    """An event as every client gets it, over every wire."""

    event: str
    data: Mapping[str, Any]
    seq: int
    run_id: str | None
    thread_id: str
    at: str


def envelope(event: Event) -> Envelope:
    data = {"unreadable": str(event.data.error)} if isinstance(event.data, Locked) else event.data
    return envelopes(
        event.thread_id, event.run_id, [(EventKind(event.kind), data)], first=event.seq, at=event.at
    )[0]


def envelopes(
    thread_id: uuid.UUID,
    run_id: uuid.UUID | None,
    facts: Sequence[tuple[EventKind, Mapping[str, Any]]],
    *,
    first: int,
    at: dt.datetime,
) -> list[Envelope]:
    """Facts that were written under the numbers from `first` on, as clients get them."""
    run, thread, when = (
        _shown("run", run_id) if run_id else None,
        _shown("thr", thread_id),
        at.isoformat(),
    )
    return [
        {
            "event": str(kind),
            "data": data,
            "seq": seq,
            "run_id": run,
            "thread_id": thread,
            "at": when,
            **_mark(kind, data),
        }
        for seq, (kind, data) in enumerate(facts, start=first)
    ]


QUESTIONS = {EventKind.AWAIT_HUMAN_INPUT, EventKind.APPROVAL_REQUESTED}


def _mark(kind: EventKind, data: Mapping[str, Any]) -> Marks:
    marks: Marks = {"channel": "status"} if kind in QUESTIONS else {}
    if IMPORTED_AT in data:
        marks["imported"] = True
    return marks


def append(
    thread_id: uuid.UUID,
    run_id: uuid.UUID | None,
    facts: Facts,
) -> list[Event]:
    """Write facts to the log under consecutive numbers and announce them once they are committed.

    Call inside a transaction.
    """
    return append_each([(thread_id, run_id, facts)])


def append_each(entries: Sequence[tuple[uuid.UUID, uuid.UUID | None, Facts]]) -> list[Event]:
    """As `append`, to several logs: thread, run, facts. Of several threads, the transaction holds
    their rows already: else two that have some in common could wait for one another.
    """
    counts: dict[uuid.UUID, int] = {}
    for thread_id, _, facts in entries:
        counts[thread_id] = counts.get(thread_id, 0) + len(facts)
    next_seq = Thread.objects.next_seqs(counts)
    written = []
    for thread_id, run_id, facts in entries:
        first = next_seq[thread_id]
        next_seq[thread_id] += len(facts)
        written.append(numbered(thread_id, run_id, facts, first=first))
    events = Event.objects.bulk_create([event for own in written for event in own])
    for own in written:
        announce(own)
    return events


def numbered(
    thread_id: uuid.UUID, run_id: uuid.UUID | None, facts: Facts, *, first: int = 1
) -> list[Event]:
    """Facts as events that are yet to be written, under the numbers from `first` on; `append` takes
    those of a thread that is there already.
    """
    return [
        Event(
            thread_id=thread_id,
            run_id=run_id,
            seq=seq,
            kind=kind,
            data=redaction.redact(dict(data)),
        )
        for seq, (kind, data) in enumerate(facts, start=first)
    ]


def announce(events: Sequence[Event]) -> None:
    """Announce events of one log, which are written, once they are committed."""
    size = sum(len(str(event.data)) for event in events)
    announced = [envelope(event) for event in events]
    live.hint_on_commit(events[0].thread_id, events[-1].seq, announced, size=size)


def after(thread_id: uuid.UUID, seq: int, *, limit: int = PAGE) -> list[Event]:
    """Up to `limit` events after number `seq`, in order."""
    return list(Event.objects.filter(thread_id=thread_id, seq__gt=seq).order_by("seq")[:limit])


def told_after(thread_id: uuid.UUID, seq: int, *, limit: int = PAGE) -> list[Envelope]:
    """`after`, as clients get it.

    Where numbers are missing, a line under the last of them says why: the log's beginning was
    dropped, or streamed text in the middle was folded into its step's result (`rules`).

    Nothing else is ever missing, and a log that has begun is never empty.
    """
    envelopes_after: list[Envelope] = []
    for event in after(thread_id, seq, limit=limit):
        if event.seq > seq + 1:
            envelopes_after.append(_missing(event, seq + 1))
        envelopes_after.append(envelope(event))
        seq = event.seq
    return envelopes_after


def _missing(event: Event, first: int) -> Envelope:
    """What stands for the numbers from `first` on that are missing before an event."""
    gone = event.seq - 1
    if Thread.objects.filter(pk=event.thread_id, first_seq__gt=first).exists():
        message = (
            f"The beginning of this log, up to number {gone}, was dropped: it is older than "
            "this log is kept."
        )
        data = {"message": message, "level": "warning", "step": "", "dropped_to": gone}
    else:
        message = (
            f"What was streamed under the numbers {first} to {gone} is kept in the result of "
            "its step."
        )
        data = {
            "message": message,
            "level": "info",
            "step": "",
            "folded_from": first,
            "folded_to": gone,
        }
    return envelopes(event.thread_id, None, [(EventKind.LOG, data)], first=gone, at=event.at)[0]
