"""What a step says while it works, as messages of the protocol: begun with the first piece, ended
with the step or its question. An agent's message has the id that it has in the state, since
clients show it once only then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from checkpoints import ids
from checkpoints.events.log import Envelope
from checkpoints.models import Event, EventKind, Thread
from hitl.live.subscriptions import TERMINAL
from runs.agents import memory
from runs.models import Run

ENDS = frozenset(
    {
        *TERMINAL,
        EventKind.STEP_STARTED,
        EventKind.STEP_COMPLETED,
        EventKind.APPROVAL_REQUESTED,
        EventKind.AWAIT_HUMAN_INPUT,
    }
)
"""Events of a run behind which it says something new."""


def ends(kind: str, data: Any) -> bool:
    """Whether a run says something new behind an event: a graph with each node that is done."""
    if kind == EventKind.LOG:
        return isinstance(data, Mapping) and "graph" in data and "node" in data
    return kind in ENDS


def said(event: Envelope) -> Iterator[tuple[int, dict[str, Any]]]:
    """The protocol's data of one piece, each with its place."""
    if next(_before(event), None) is None:
        yield 0, {"event": "message-start", "role": "ai", "id": message_id(event)}
        yield 1, {"event": "content-block-start", "index": 0, "content": _text("")}
    delta = {"type": "text-delta", "text": event["data"]["content"]}
    yield 2, {"event": "content-block-delta", "index": 0, "delta": delta}


def message_id(event: Envelope) -> str:
    """Of the message of which an event has a piece."""
    data = event["data"]
    execution = f"{event['run_id']}/{data.get('step')}/{data.get('loop_num')}"
    return memory.message_id(execution, "assistant")


def ended(event: Envelope) -> Iterator[tuple[int, dict[str, Any]]]:
    """The end of what was said before this event, if anything was."""
    pieces = list(_before(event))
    if pieces:
        content = _text("".join(reversed(pieces)))
        yield 0, {"event": "content-block-finish", "index": 0, "content": content}
        yield 1, {"event": "message-finish"}


def _text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def _before(event: Envelope) -> Iterator[str]:
    """The pieces since the run last ended to speak, newest first."""
    if event["run_id"] is None:
        return
    rows = Event.objects.filter(
        thread=ids.parse(Thread.PREFIX, event["thread_id"]),
        run_id=ids.parse(Run.PREFIX, event["run_id"]),
        seq__lt=event["seq"],
        kind__in=[*ENDS, EventKind.LOG, EventKind.STREAMING_CHUNK],
    ).order_by("-seq")
    for row in rows.iterator(chunk_size=50):
        if ends(row.kind, row.data):
            return
        if row.kind != EventKind.LOG and isinstance(row.data, Mapping) and row.data.get("content"):
            yield row.data["content"]
