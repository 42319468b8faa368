"""Following a wire run: its frames, or its result once it has ended."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from checkpoints import lineage
from checkpoints.events import log
from checkpoints.events.log import Envelope
from checkpoints.models import Thread
from extensions.langgraph.api import interrupts, reviewing, runs, segments, starting, threads
from extensions.langgraph.api.calls import Call, Streamed, invalid
from extensions.langgraph.api.segments import Segment
from extensions.langgraph.api.streaming.frames import (
    BEGINNING,
    INTERRUPT,
    METADATA,
    Frame,
    Place,
    Telling,
    as_json,
    place_of,
    written,
)
from extensions.langgraph.api.values import values_of
from hitl.live.hub import hub
from hitl.live.topics import in_database_thread
from hitl.threads import messages

HEARTBEAT = 8.0
"""Seconds: clients in JavaScript begin anew where nothing came for 30."""
NOW = 2**62
"""A number that no log has."""


@dataclass(frozen=True, kw_only=True)
class Followed:
    """A wire run that is followed to its end."""

    thread_id: uuid.UUID
    segment: Segment
    modes: frozenset[str] = frozenset()
    place: Place = BEGINNING


def _followed(call: Call, thread: Thread, segment: Segment, tail: str, **more: Any) -> Streamed:
    """`tail`: `/stream` or `/join`, where a client that lost us goes on."""
    followed = Followed(thread_id=thread.pk, segment=segment, **more)
    told = frames(followed) if tail == "/stream" else result(followed)
    return Streamed(
        frames=told,
        may_stay=lambda: threads.sees(call, thread.pk),
        headers=runs.places(thread, segment, tail=tail),
        is_result=tail != "/stream",
    )


def _sees_whole(call: Call, thread: Thread) -> bool:
    return reviewing.sees_whole() and threads.sees(call, thread.pk)


def _taken(call: Call, thread: Thread, segment: Segment, tail: str) -> Streamed:
    """Say that an answer was taken, to reviewers who see nothing of what follows from it."""
    is_result = tail != "/stream"
    metadata = Frame(METADATA, {"run_id": str(segment.wire_id), "attempt": 1})

    async def told() -> AsyncGenerator[list[bytes], None]:
        yield [b"{}" if is_result else written(segment.first, metadata.number, metadata)]

    return Streamed(
        frames=told(),
        may_stay=lambda: reviewing.sees(call, thread.pk),
        headers=runs.places(thread, segment),
        is_result=is_result,
    )


def begin(call: Call) -> Streamed:
    thread, segment, given = starting.begin(call)
    if not _sees_whole(call, thread):
        return _taken(call, thread, segment, "/stream")
    return _followed(call, thread, segment, "/stream", modes=given.modes)


def begin_and_wait(call: Call) -> Streamed:
    thread, segment, _ = starting.begin(call)
    if not _sees_whole(call, thread):
        return _taken(call, thread, segment, "/join")
    return _followed(call, thread, segment, "/join")


def join(call: Call) -> Streamed:
    thread, segment = runs.find(call)
    return _followed(call, thread, segment, "/join")


def rejoin(call: Call) -> Streamed:
    """A stream again, from the frame that the client has."""
    thread, segment = runs.find(call)
    if call.query.get("cancel_on_disconnect", "0").lower() in {"1", "true"}:
        raise invalid("cancel_on_disconnect: work goes on here, whoever looks.")
    modes = frozenset(filter(None, call.query.get("stream_mode", "").split(",")))
    if unknown := sorted(modes - starting.MODES):
        raise invalid(f"stream_mode: there is no {unknown[0][:60]} here.")
    place = place_of(call.headers.get("last-event-id", ""))
    if not modes:  # as clients come back that were cut off
        modes = starting.modes_of([segment.wire_id]).get(segment.wire_id, starting.VALUES)
    return _followed(call, thread, segment, "/stream", modes=modes, place=place)


async def frames(followed: Followed) -> AsyncGenerator[list[bytes], None]:
    """The frames of a segment, to its end."""
    place = followed.place
    tell = in_database_thread(_told)
    async for segment, mine in events(followed):
        page = []
        for event, each in await tell(followed, segment, mine):
            page += [
                written(event["seq"], frame.number, frame)
                for frame in each
                if not place.has(event["seq"], frame.number)
            ]
        if page:
            yield page


async def events(followed: Followed) -> AsyncGenerator[tuple[Segment, list[Envelope]], None]:
    """Pages of a segment's events, to its end."""
    segment = followed.segment
    read = in_database_thread(segments.find)
    seq = max(segment.first, followed.place.seq) - 1
    if segment.run is None:  # it waits in the line, behind what is told already
        seq = await in_database_thread(newest)(followed.thread_id) - 1
    if segment.last is not None and followed.place.seq > segment.last:
        return
    async with aclosing(hub().pages(followed.thread_id, max(seq, 0))) as pages:
        async for page in pages:
            told = [event.event for event in page]
            if segment.run is None:
                segment = await read(followed.thread_id, segment.wire_id)
                if segment.run is None:
                    if segment.is_over:
                        return
                    continue
                told = await in_database_thread(_since)(segment, page[-1].seq)
            if segment.last is None and any(is_mark(event) for event in told):
                segment = await read(followed.thread_id, segment.wire_id)
            last = NOW if segment.last is None else segment.last
            assert segment.run is not None  # looked at above
            mine = segment.run.shown_id
            kept = [
                event
                for event in told
                if event["run_id"] == mine and segment.first <= event["seq"] <= last
            ]
            if kept:
                yield segment, kept
            if page[-1].seq >= last:
                return


def newest(thread_id: uuid.UUID) -> int:
    return Thread.objects.values_list("last_seq", flat=True).get(pk=thread_id)


def _since(segment: Segment, seq: int) -> list[Envelope]:
    """The events of a segment that began while its reader waited, up to a number."""
    events = log.told_after(segment.thread_id, segment.first - 1)
    return [event for event in events if event["seq"] <= seq]


def is_mark(event: Envelope) -> bool:
    return segments.mark_of(event["event"], event["data"]) != ""


def _told(
    followed: Followed, segment: Segment, events: list[Envelope]
) -> list[tuple[Envelope, list[Frame]]]:
    assert segment.run is not None
    telling = Telling(
        thread_id=followed.thread_id,
        wire_run=segment.wire_id,
        run=segment.run,
        first=segment.first,
        modes=followed.modes,
    )
    return [(event, telling.frames(event)) for event in events]


async def result(followed: Followed) -> AsyncGenerator[list[bytes], None]:
    """What a segment came to, as JSON, once it has ended."""
    segment = followed.segment
    while not segment.is_over:
        async with aclosing(events(followed)) as told:
            async for _ in told:
                pass
        segment = await in_database_thread(segments.find)(followed.thread_id, segment.wire_id)
    yield [await in_database_thread(_result)(followed.thread_id, segment)]


def _result(thread_id: uuid.UUID, segment: Segment) -> bytes:
    if segment.status == segments.ERROR:
        words = "This message was not taken."
        if segment.run is not None:
            segment.run.refresh_from_db(fields=["error"])
            words = segment.run.error
        error = {"error": "RunFailed", "message": words}
        return as_json({"__error__": error}).encode()
    values = values_of(lineage.latest(thread_id))
    if pauses := messages.open_on(thread_id):
        values[INTERRUPT] = interrupts.of(pauses)
    return as_json(values).encode()
