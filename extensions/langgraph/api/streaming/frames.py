"""Events of a thread's log as frames of the runs API: a function of the log, so that what is told
live is what is told again, under the same ids: `<number of the event>-<number of the mode>`. An id
means one frame, whichever modes a reader asked for.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rest_framework.utils.encoders import JSONEncoder

from checkpoints import ids
from checkpoints.events.log import Envelope
from checkpoints.models import Checkpoint, CheckpointStatus, EventKind
from extensions.langgraph.api import interrupts, segments, states
from extensions.langgraph.api.values import values_of
from hitl.live.pump import StreamRefused
from hitl.threads import messages
from runs.models import Pause, Run

INTERRUPT = "__interrupt__"
CUSTOM = frozenset(
    {EventKind.LOG, EventKind.TOOL_CALL_STARTED, EventKind.TOOL_CALL_COMPLETED}
)  # fmt: skip
ENDS = {
    EventKind.RUN_FAILED: "RunFailed",
    EventKind.RUN_EXPIRED: "RunExpired",
}


METADATA, ERROR = "metadata", "error"
ORDER = (
    METADATA, "tasks", "events", "messages-tuple", "custom", "updates", "values", "checkpoints",
    "debug", ERROR,
)  # fmt: skip
"""In which the frames of one event are told: the place of a frame's mode is its number."""


class Frame(NamedTuple):
    mode: str
    data: Any

    @property
    def name(self) -> str:
        return self.mode.removesuffix("-tuple")

    @property
    def number(self) -> int:
        return ORDER.index(self.mode)


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a reader has come to: the number of an event, and which of its frames it has."""

    seq: int
    frame: int

    @classmethod
    def of(cls, text: str) -> Place:
        """From `Last-Event-ID`; `-1`, or nothing, is the beginning. Raises ValueError."""
        if text in {"", "-1", "-"}:
            return BEGINNING
        seq, _, frame = text.partition("-")
        if not (seq.isascii() and seq.isdecimal() and frame.isascii() and frame.isdecimal()):
            raise ValueError(f"{text[:40]!r} is no id of an event here")
        return cls(seq=int(seq[:18]), frame=int(frame[:9]))

    def has(self, seq: int, frame: int) -> bool:
        return (seq, frame) <= (self.seq, self.frame)


BEGINNING = Place(seq=0, frame=-1)


def place_of(text: str) -> Place:
    """As `Place.of`; raises StreamRefused."""
    try:
        return Place.of(text)
    except ValueError as error:
        raise StreamRefused(400, "cursor_invalid", f"{error}.") from error


@dataclass(frozen=True, kw_only=True)
class Telling:
    """What one reader follows, and in which words."""

    thread_id: uuid.UUID
    wire_run: uuid.UUID
    run: Run
    first: int
    """The number with which the segment begins."""
    modes: frozenset[str]

    def frames(self, event: Envelope) -> list[Frame]:
        """The frames of an event of this segment. In a database thread."""
        told = list(self._frames(event))
        if event["seq"] == self.first:
            return [Frame(METADATA, {"run_id": str(self.wire_run), "attempt": 1}), *told]
        return told

    def _frames(self, event: Envelope) -> Iterator[Frame]:
        kind, data = EventKind(event["event"]), event["data"]
        match kind:
            case EventKind.CHECKPOINT_CREATED:
                key = ids.parse(Checkpoint.PREFIX, data["checkpoint_id"])
                checkpoint = Checkpoint.objects.filter(pk=key).first()
                if checkpoint is not None:  # else it was dropped since: what follows tells all
                    yield from self._checkpoint(checkpoint)
            case EventKind.STEP_STARTED:
                yield from self._only("tasks", {"name": data["step"], **_task(event)})
                about = {"langgraph_node": data["step"], "langgraph_step": event["seq"]}
                yield from self._only(
                    "events",
                    {"event": "on_chain_start", "name": data["step"], "metadata": about},
                )
            case EventKind.STREAMING_CHUNK if data.get("content"):
                yield from self._only("messages-tuple", [_chunk(event), _about(event)])
                yield from self._only("custom", {"kind": str(kind), **data})
            case EventKind.LOG if segments.mark_of(kind, data) == "asks":
                yield from self._asks(
                    messages.open_on(self.thread_id), Checkpoint.objects.filter(
                        thread=self.thread_id, run_id=self.run.pk
                    ).last(),
                )  # fmt: skip
            case _ if kind in CUSTOM:
                yield from self._only("custom", {"kind": str(kind), **data})
            case EventKind.RUN_FAILED | EventKind.RUN_EXPIRED:
                words = str(data.get("error") or data.get("message") or "")
                yield Frame(ERROR, {"error": ENDS[kind], "message": words})

    def _only(self, mode: str, data: Any) -> Iterator[Frame]:
        if mode in self.modes:
            yield Frame(mode, data)

    def _checkpoint(self, checkpoint: Checkpoint) -> Iterator[Frame]:
        if checkpoint.status == CheckpointStatus.PENDING_INPUT:
            pauses = Pause.objects.shown().filter(checkpoint=checkpoint)
            yield from self._asks(list(pauses), checkpoint)
        elif {"updates", "values"} & self.modes:
            values = values_of(checkpoint)
            if checkpoint.node_id and "updates" in self.modes:
                before = values_of(checkpoint.parent)
                delta = {key: one for key, one in values.items() if before.get(key) != one}
                yield Frame("updates", {checkpoint.node_id: delta})
            yield from self._only("values", values)
        if {"checkpoints", "debug"} & self.modes:
            (state,) = states.shown(self.thread_id, [checkpoint], newest=None)
            yield from self._only("checkpoints", state)
            yield from self._only("debug", {"type": "checkpoint", "payload": state})

    def _asks(self, pauses: Sequence[Pause], checkpoint: Checkpoint | None) -> Iterator[Frame]:
        asked = interrupts.of(pauses)
        yield from self._only("updates", {INTERRUPT: asked})
        yield from self._only("values", {**values_of(checkpoint), INTERRUPT: asked})


def _task(event: Envelope) -> dict[str, Any]:
    return {"id": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{event['thread_id']} {event['seq']}"))}


def _chunk(event: Envelope) -> dict[str, Any]:
    """A piece of what a step says; those of one execution have the same id."""
    data: Mapping[str, Any] = event["data"]
    spoken = f"{event['run_id']} {data.get('step')} {data.get('loop_num')}"
    return {
        "id": str(uuid.uuid5(uuid.NAMESPACE_OID, spoken)),
        "type": "AIMessageChunk",
        "content": data["content"],
        "tool_calls": [],
        "tool_call_chunks": [],
    }


def _about(event: Envelope) -> dict[str, Any]:
    return {"langgraph_node": event["data"].get("step", "")}


def written(seq: int, frame: int, told: Frame) -> bytes:
    """A frame as server-sent events have it."""
    return f"id: {seq}-{frame}\nevent: {told.name}\ndata: {as_json(told.data)}\n\n".encode()


def as_json(data: Any) -> str:
    return json.dumps(data, cls=JSONEncoder, separators=(",", ":"))
