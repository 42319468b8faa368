"""Following a thread over all its runs, whoever began them: each run's frames, under the ids that
its own stream has for them, and behind its last one that it is done.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from checkpoints import ids
from checkpoints.events.log import Envelope
from checkpoints.models import Checkpoint, EventKind
from extensions.langgraph.api import segments, starting, states, threads
from extensions.langgraph.api.calls import Call, Streamed, invalid
from extensions.langgraph.api.segments import Segment
from extensions.langgraph.api.streaming.frames import (
    ERROR,
    METADATA,
    Frame,
    Place,
    Telling,
    place_of,
    written,
)
from extensions.langgraph.api.streaming.runs import is_mark, newest
from hitl.live.hub import hub
from hitl.live.topics import in_database_thread
from runs.models import Run
from runs.threads import edits

RUN_MODES, LIFECYCLE, STATE_UPDATE = "run_modes", "lifecycle", "state_update"
USUAL = frozenset({"values", "updates", "messages-tuple", "custom"})
"""What `run_modes` tells of a run, beside the modes that it was begun with."""
STATE, DONE = 98, 99
"""Places among the frames of one event, behind those of its run: whatever a reader follows."""


@dataclass(kw_only=True)
class ThreadTelling:
    """What one reader of a thread follows, and what it knows of the thread's runs."""

    thread_id: uuid.UUID
    modes: frozenset[str]
    place: Place
    _known: dict[str | None, list[Segment]] = field(default_factory=dict)
    """The segments of each run, as they stood at its last mark."""

    _begun: dict[uuid.UUID, frozenset[str]] = field(default_factory=dict)
    """The modes that a segment was begun with, where a client named some."""

    def run_modes(self, segment: Segment) -> frozenset[str]:
        named = self.modes & starting.MODES
        if RUN_MODES in self.modes:
            named |= USUAL | self._begun.get(segment.wire_id, USUAL)
        return named

    def page(self, events: list[Envelope]) -> list[bytes]:
        """The frames of some events that the reader has not. In a database thread."""
        for run in {event["run_id"] for event in events if is_mark(event)}:
            self._known.pop(run, None)
        return [
            written(event["seq"], number, frame)
            for event in events
            for number, frame in self._frames(event)
            if self._wants(frame) and not self.place.has(event["seq"], number)
        ]

    def _wants(self, frame: Frame) -> bool:
        if frame.mode == METADATA:
            return self.modes != {STATE_UPDATE}
        return frame.mode != ERROR or bool(self.modes - {LIFECYCLE, STATE_UPDATE})

    def _frames(self, event: Envelope) -> Iterator[tuple[int, Frame]]:
        segment = self._segment(event)
        if segment is None or segment.run is None:  # between a question and its answer
            return
        telling = Telling(
            thread_id=self.thread_id,
            wire_run=segment.wire_id,
            run=segment.run,
            first=segment.first,
            modes=self.run_modes(segment),
        )
        is_edit = edits.is_edit(segment.run)
        if not is_edit:
            yield from ((frame.number, frame) for frame in telling.frames(event))
        if STATE_UPDATE in self.modes and (state := self._state(event)) is not None:
            yield STATE, Frame(STATE_UPDATE, state)
        if event["seq"] == segment.last and not is_edit:
            yield DONE, Frame(METADATA, {"status": "run_done", "run_id": str(segment.wire_id)})

    def _segment(self, event: Envelope) -> Segment | None:
        """The segment in which an event lies."""
        shown = event["run_id"]
        if shown is None:
            return None
        if shown not in self._known:
            run = Run.objects.filter(pk=ids.parse(Run.PREFIX, shown)).first()
            self._known[shown] = segments.of_run(run) if run is not None else []
            self._begun |= starting.modes_of([one.wire_id for one in self._known[shown]])
        for segment in self._known[shown]:
            if segment.first <= event["seq"] and event["seq"] <= (segment.last or event["seq"]):
                return segment
        return None

    def _state(self, event: Envelope) -> dict[str, Any] | None:
        """The state that an event made, unless it was dropped since."""
        if event["event"] != EventKind.CHECKPOINT_CREATED:
            return None
        key = ids.parse(Checkpoint.PREFIX, event["data"]["checkpoint_id"])
        checkpoint = Checkpoint.objects.filter(pk=key).first()
        if checkpoint is None:
            return None
        (state,) = states.shown(self.thread_id, [checkpoint], newest=None)
        return {"thread_id": state["checkpoint"]["thread_id"], "state": state}


def join(call: Call) -> Streamed:
    """The route: from now on, or behind the frame that the client has; `-` is the beginning."""
    thread = threads.find(call)
    modes = frozenset(filter(None, call.query.get("stream_mode", RUN_MODES).split(",")))
    if unknown := sorted(modes - starting.MODES - {RUN_MODES, LIFECYCLE, STATE_UPDATE}):
        raise invalid(f"stream_mode: there is no {unknown[0][:60]} here.")
    last = call.headers.get("last-event-id", "")
    place = place_of(last) if last else Place(seq=newest(thread.pk), frame=DONE)
    telling = ThreadTelling(thread_id=thread.pk, modes=modes or frozenset({RUN_MODES}), place=place)
    return Streamed(frames=_frames(telling), may_stay=lambda: threads.sees(call, thread.pk))


async def _frames(telling: ThreadTelling) -> AsyncGenerator[list[bytes], None]:
    tell = in_database_thread(telling.page)
    seq = max(telling.place.seq - 1, 0)
    async with aclosing(hub().pages(telling.thread_id, seq)) as pages:
        async for page in pages:
            if frames := await tell([event.event for event in page]):
                yield frames
