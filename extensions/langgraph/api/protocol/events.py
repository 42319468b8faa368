"""Events of a thread's log, translated into events of the protocol. Only the log decides what they
are, so a reader gets the same events live and later.

Each event of the log becomes up to `MOST` events of the protocol. Their number is that of the log
times `MOST`, plus their place: the same for every reader, whatever the reader subscribes to.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from checkpoints.events.log import Envelope
from checkpoints.models import Checkpoint, CheckpointStatus, EventKind
from extensions.langgraph.api import interrupts, segments, states
from extensions.langgraph.api.protocol import children, speech
from extensions.langgraph.api.protocol.shown import MOST, NOTHING, Told, Wants, shown_key
from extensions.langgraph.api.values import values_of
from hitl.live.subscriptions import TERMINAL
from hitl.models import Decision
from runs.models import Pause, Run


def number(seq: int, place: int = MOST - 1) -> int:
    """Return the protocol's number of a place; without one, the last number of a log's event."""
    return seq * MOST + place


def told(event: Envelope, at: dt.datetime | None, wants: Wants) -> Iterator[dict[str, Any]]:
    """Yield the protocol's events for an event of the log. Call in a database thread.

    Args:
        at: when the event was written; None for a line that stands for dropped events.
    """
    at = at or dt.datetime.fromisoformat(event["at"])
    moment = int(at.timestamp() * 1000)
    for one in sorted(_told(event, wants), key=lambda one: one.place):
        if wants(one.channel, one.namespace):
            yield {
                "type": "event",
                "event_id": _id(event, one),
                "seq": number(event["seq"], one.place),
                "method": one.method,
                "params": {"namespace": one.namespace, "timestamp": moment, "data": one.data},
            }


def _id(event: Envelope, one: Told) -> str:
    """Return an event's id. Of a lifecycle event it names the run, which clients read there."""
    place = f"{event['thread_id']}-{event['seq']}-{one.place}"
    if one.channel != "lifecycle" or one.namespace or (run := _run(event)) is None:
        return place
    return f"synth:{_segment_at(run, event['seq']).wire_id}:{place}"


def _run(event: Envelope) -> Run | None:
    return Run.objects.filter(pk=shown_key(Run.PREFIX, event["run_id"])).first()


def _segment_at(run: Run, seq: int) -> segments.Segment:
    """Find the wire run to which an event of a run belongs."""
    segments_of_run = segments.of_run(run)
    begun = [segment for segment in segments_of_run if segment.first <= seq]
    return begun[-1] if begun else segments_of_run[0]


def _told(event: Envelope, wants: Wants) -> Iterator[Told]:
    kind, data = EventKind(event["event"]), event["data"]
    mark = segments.mark_of(kind, data)
    if speech.ends(kind, data) and wants("messages"):
        yield from (Told(place, "messages", "messages", one) for place, one in speech.ended(event))
    match kind:
        case EventKind.RUN_STARTED:
            yield _lifecycle(2, "started")
            yield _lifecycle(3, "running")
        case EventKind.STEP_STARTED | EventKind.STEP_COMPLETED:
            yield Told(2, "tasks", "tasks", _task(event))
        case EventKind.STREAMING_CHUNK if data.get("content") and wants("messages"):
            for place, one in speech.said(event):
                yield Told(place, "messages", "messages", one)
        case EventKind.TOOL_CALL_STARTED | EventKind.TOOL_CALL_COMPLETED if data.get("id"):
            yield Told(2, "tools", "tools", _tool(kind, data))
        case EventKind.CHECKPOINT_CREATED if data.get("status") != CheckpointStatus.COMPLETED:
            # the last checkpoint is told with the run's end, after which clients hear nothing
            yield from _checkpoint(_checkpoint_of(data), wants)
        case EventKind.PAUSE_UPDATED if data.get("what") == "voted":
            yield _lifecycle(2, "running")
            yield _lifecycle(3, "interrupted")  # others must answer too
        case EventKind.PAUSE_UPDATED:
            yield _custom(kind, data)
        case EventKind.LOG:
            yield from children.noted(event, wants)
            if not mark:
                yield _line(data)
            yield from children.nodes(event)
    match mark:
        case "asks":
            yield from _asks(data)
        case "answered":
            yield from _answered(event)
        case "ended":
            yield from _ended(event, wants)


def _lifecycle(place: int, status: str, **more: Any) -> Told:
    return Told(place, "lifecycle", "lifecycle", {"event": status, **more})


def _custom(kind: EventKind, data: Any) -> Told:
    return Told(2, f"custom:{kind}", "custom", {"name": str(kind), "payload": dict(data)})


def _line(data: Any) -> Told:
    """Tell a line of the log, on the channel of the `name` that a step or graph gave it."""
    line = data.get("custom", data)
    name = line.get("name") if isinstance(line, Mapping) else None
    if not isinstance(name, str) or not name:
        return _custom(EventKind.LOG, data)
    # some clients look for the fields here, others in the payload
    shown = {**line, "name": name, "payload": dict(line)}
    return Told(2, f"custom:{name}", "custom", shown)


def _task(event: Envelope) -> dict[str, Any]:
    step = event["data"].get("step", "")
    task = {
        "id": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{event['run_id']} {step}")),
        "name": step,
        "interrupts": [],
    }
    if event["event"] == EventKind.STEP_COMPLETED:
        return {**task, "error": None, "result": {}}
    return {**task, "triggers": [], "input": None}


def _tool(kind: EventKind, data: Any) -> dict[str, Any]:
    call = {"tool_call_id": data["id"]}
    if kind == EventKind.TOOL_CALL_STARTED:
        named = {"tool_name": data.get("tool", ""), "input": data.get("arguments")}
        return {"event": "tool-started", **call, **named}
    if data.get("status") == "failed":
        return {"event": "tool-error", **call, "message": str(data.get("result", ""))}
    output = {"type": "tool", "content": data.get("result"), "status": "success", **call}
    return {"event": "tool-finished", **call, "output": output}


def _checkpoint_of(data: Any) -> Checkpoint | None:
    """Find a checkpoint; None where it was dropped since, as later values tell all of it."""
    key = shown_key(Checkpoint.PREFIX, data.get("checkpoint_id"))
    return Checkpoint.objects.select_related("parent").filter(pk=key).first()


def _checkpoint(checkpoint: Checkpoint | None, wants: Wants) -> Iterator[Told]:
    if checkpoint is None:
        return
    if wants("checkpoints"):
        (state,) = states.shown(checkpoint.thread_id, [checkpoint], newest=None)
        parent = state["parent_checkpoint_id"]
        envelope = {
            "id": str(checkpoint.pk),
            **({"parent_id": parent} if parent else {}),
            "step": state["metadata"]["step"],
            "source": state["metadata"]["source"],
        }
        yield Told(2, "checkpoints", "checkpoints", envelope)
    if checkpoint.node_id and wants("updates"):
        values, before = values_of(checkpoint), values_of(checkpoint.parent)
        delta = {key: value for key, value in values.items() if before.get(key) != value}
        yield Told(3, "updates", "updates", {"node": checkpoint.node_id, "values": delta})
    if wants("values"):
        yield Told(4, "values", "values", values_of(checkpoint))
    yield from children.begun(checkpoint)


def _asks(data: Any) -> Iterator[Told]:
    key = shown_key(Pause.PREFIX, data.get("pause_id"))
    pause = Pause.objects.shown().filter(pk=key).first()
    if pause is not None:
        shown = interrupts.shown(pause)
        question = {
            "interrupt_id": shown["id"],
            "payload": shown["value"],
            "value": shown["value"],  # the Python package looks for the payload under this name
            "response_schema": shown["response_schema"],
        }
        yield Told(2, "input", "input.requested", question)
    yield _lifecycle(3, "interrupted")


def _answered(event: Envelope) -> Iterator[Told]:
    key = shown_key(Decision.PREFIX, event["data"].get("decision_id"))
    pause = Pause.objects.filter(decisions=key).first()
    if pause is not None:
        answered = {"interrupt_ids": [interrupts.id_of(pause)]}
        yield Told(2, "input", "input.answered", answered)
    yield _lifecycle(3, "running")
    run = _run(event)
    if run is not None and _segment_at(run, event["seq"]).last == event["seq"]:
        yield _lifecycle(4, "interrupted")  # others are still asked


def _ended(event: Envelope, wants: Wants) -> Iterator[Told]:
    run, kind, data = _run(event), event["event"], event["data"]
    if kind == EventKind.RUN_COMPLETED:
        ends = Checkpoint.objects.select_related("parent").filter(
            run_id=run.pk if run else NOTHING, status=CheckpointStatus.COMPLETED
        )
        yield from _checkpoint(ends.order_by("pk").last(), wants)
        yield _lifecycle(5, "completed")
        return
    words = str(data.get("error") or data.get("message") or "")
    if kind == EventKind.RUN_CANCELLED:
        # not "interrupted": clients take that for a question, and some would wait for ever
        words = words or f"The run was cancelled by {data.get('by') or 'somebody'}."
    yield _lifecycle(5, "failed", error=words)


assert set(TERMINAL) <= speech.ENDS
