"""What a wire run told, as AG-UI's events: opened with RUN_STARTED, closed with RUN_FINISHED or
RUN_ERROR. Whatever is begun is ended before, since clients refuse a stream in which it is not.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from checkpoints import lineage
from checkpoints.events.log import Envelope
from checkpoints.models import Checkpoint, EventKind
from extensions.langgraph.api import interrupts, segments
from extensions.langgraph.api.protocol import speech
from extensions.langgraph.api.protocol.shown import shown_key
from extensions.langgraph.api.segments import Segment
from extensions.langgraph.api.values import values_of
from hitl.threads import messages
from runs.models import Pause
from runs.workflows.wait_for_input import ANSWER

VERSION = "1.0"
ROLES = {"user": "user", "human": "user", "assistant": "assistant", "ai": "assistant"}
"""Role or type of a message of a state → its role at AG-UI; of tools there are results instead."""
Told = dict[str, Any]


@dataclass
class Telling:
    """One stream, from the beginning of a wire run. In database threads, one after the other."""

    thread: str
    """The id that the client gave, as"""
    run: str
    """that of the run."""
    thread_id: uuid.UUID
    steps: list[str] = field(default_factory=list)
    """Begun and not ended."""
    message: str = ""
    """That is being said; "" for none."""
    asked: list[uuid.UUID] = field(default_factory=list)

    def begun(self) -> Told:
        about = {"threadId": self.thread, "runId": self.run}
        return {"type": "RUN_STARTED", **about, "protocolVersion": VERSION}

    def told(self, event: Envelope) -> Iterator[Told]:
        """What an event of the log becomes."""
        at = int(dt.datetime.fromisoformat(event["at"]).timestamp() * 1000)
        for one in self._told(event):
            yield {**one, "timestamp": at}

    def _told(self, event: Envelope) -> Iterator[Told]:
        kind, data = EventKind(event["event"]), event["data"]
        if kind in speech.ENDS:
            yield from self._fall_silent()
        mark = segments.mark_of(kind, data)
        if mark == "asks":
            self.asked.append(shown_key(Pause.PREFIX, data.get("pause_id")))
        match kind:
            case EventKind.STEP_STARTED if data["step"] not in self.steps:
                self.steps.append(data["step"])
                yield {"type": "STEP_STARTED", "stepName": data["step"]}
            case EventKind.STEP_COMPLETED if data["step"] in self.steps:
                self.steps.remove(data["step"])
                yield {"type": "STEP_FINISHED", "stepName": data["step"]}
            case EventKind.STREAMING_CHUNK if data.get("content"):
                if not self.message:
                    self.message = speech.message_id(event)
                    about = {"messageId": self.message, "role": "assistant"}
                    yield {"type": "TEXT_MESSAGE_START", **about}
                said = {"messageId": self.message, "delta": data["content"]}
                yield {"type": "TEXT_MESSAGE_CONTENT", **said}
            case EventKind.TOOL_CALL_STARTED if data.get("id"):
                call = {"toolCallId": data["id"]}
                yield {"type": "TOOL_CALL_START", **call, "toolCallName": data.get("tool", "")}
                yield {"type": "TOOL_CALL_ARGS", **call, "delta": _text(data.get("arguments"))}
                yield {"type": "TOOL_CALL_END", **call}
            case EventKind.TOOL_CALL_COMPLETED if data.get("id"):
                answer = {"messageId": f"{data['id']}-result", "toolCallId": data["id"]}
                yield {
                    "type": "TOOL_CALL_RESULT", **answer,
                    "role": "tool", "content": _text(data.get("result")),
                }  # fmt: skip
            case EventKind.CHECKPOINT_CREATED:
                key = shown_key(Checkpoint.PREFIX, data.get("checkpoint_id"))
                checkpoint = Checkpoint.objects.filter(pk=key).first()
                if checkpoint is not None:  # else it was dropped since: what follows tells all
                    yield {
                        "type": "STATE_SNAPSHOT",
                        "snapshot": values_of(checkpoint, for_chat=False),
                    }
            case EventKind.LOG if not mark:
                yield {"type": "CUSTOM", "name": f"waystation.{kind}", "value": dict(data)}

    def ended(self, segment: Segment) -> Iterator[Told]:
        """The end of the stream, by how the wire run ended."""
        yield from self._fall_silent()
        for step in reversed(self.steps):
            yield {"type": "STEP_FINISHED", "stepName": step}
        if segment.status == segments.ERROR:
            if segment.run is not None:
                segment.run.refresh_from_db(fields=["error"])
            words = segment.run.error if segment.run else "This message was not taken."
            yield {"type": "RUN_ERROR", "message": words or "The run failed.", "code": "run_failed"}
            return
        said = values_of(lineage.latest(self.thread_id), for_chat=False).get("messages")
        if isinstance(said, list) and said:
            yield {"type": "MESSAGES_SNAPSHOT", "messages": list(self._messages(said))}
        about = {"threadId": self.thread, "runId": self.run}
        yield {"type": "RUN_FINISHED", **about, "outcome": self._outcome(segment)}

    def _outcome(self, segment: Segment) -> Told:
        if segment.status == segments.INTERRUPTED:
            return {"type": "cancelled"}
        asked = list(Pause.objects.shown().filter(pk__in=self.asked).order_by("pk"))
        # an answer that others must give as well asks nothing new
        asked = asked or messages.open_on(self.thread_id)
        if not asked:
            return {"type": "success"}
        return {"type": "interrupt", "interrupts": [interrupt(pause) for pause in asked]}

    def _fall_silent(self) -> Iterator[Told]:
        if self.message:
            yield {"type": "TEXT_MESSAGE_END", "messageId": self.message}
            self.message = ""

    def _messages(self, said: list[Any]) -> Iterator[Told]:
        for number, message in enumerate(said):
            if not isinstance(message, Mapping):
                continue
            role = ROLES.get(str(message.get("role") or message.get("type")))
            content = message.get("content")
            if role is not None and isinstance(content, str):
                key = str(message.get("id") or f"{self.thread}-{number}")
                yield {"id": key, "role": role, "content": content}


def interrupt(pause: Pause) -> Told:
    """A question as an interrupt; `metadata.value` has it as LangGraph's clients see it."""
    asks = pause.required_inputs or ANSWER in pause.answers
    reason = "tool_call" if pause.calls else "input" if asks else "approval"
    shown: Told = {
        "id": interrupts.id_of(pause),
        "reason": reason,
        "message": "\n\n".join(filter(None, [pause.question, pause.content])),
        "responseSchema": interrupts.schema_of(pause),
        "metadata": {"value": interrupts.value_of(pause), "revision": pause.revision},
    }
    if len(pause.calls) == 1:
        shown["toolCallId"] = pause.calls[0]["id"]
    if pause.deadline_at is not None:
        shown["expiresAt"] = pause.deadline_at.isoformat()
    return shown


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
