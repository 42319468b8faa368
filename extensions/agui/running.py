"""A request of an AG-UI client: a message begins a run, `resume` answers what the run before asked;
both are followed to the next question or the end.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from extensions.agui.events import Telling, Told
from extensions.langgraph.api import keys, segments, starting, threads
from extensions.langgraph.api.calls import Call, Given, Streamed, invalid
from extensions.langgraph.api.segments import Segment
from extensions.langgraph.api.server import Route
from extensions.langgraph.api.streaming import runs as streams
from hitl.live.topics import in_database_thread
from hitl.models import LangGraphRun
from runs.security import scopes

NAMESPACE = uuid.UUID("0c8f6b5e-35a5-4a3d-9f0e-4d1c62f5a7b1")
BEGUN = "agui_run"
"""In the notes of a run: which wire run a client's own id stands for."""
LONGEST = 200
"""Characters of an id that a client makes."""


class Resume(Given):
    interruptId: str = Field(max_length=LONGEST)  # as the protocol has it
    status: Literal["resolved", "cancelled"]
    payload: Any = None
    metadata: Any = None


class RunIn(Given):
    """`RunAgentInput`."""

    threadId: str = Field(min_length=1, max_length=LONGEST)  # as above
    runId: str = Field(min_length=1, max_length=LONGEST)  # as above
    protocolVersion: str = ""  # as above
    parentRunId: str = ""  # as above
    state: Any = None
    """Clients send back what they were told: a run's state is its own."""
    messages: list[dict[str, Any]] = []
    tools: list[Any] = Field(default=[], max_length=0)
    context: list[Any] = Field(default=[], max_length=0)
    forwardedProps: dict[str, Any] = {}  # as above
    resume: list[Resume] = Field(default=[], max_length=100)


def run(call: Call) -> Streamed:
    """Begin, answer, or tell again: a run's id that came before begins nothing."""
    given = call.body(RunIn)
    wire = _wire(call, given.threadId)
    key = _key(call, wire, given)
    before = LangGraphRun.objects.filter(pk=key).first()
    if before is not None and threads.sees(call, before.thread_id):
        thread_id = before.thread_id
        segment = segments.find(thread_id, uuid.UUID(before.metadata[BEGUN]))
    else:
        body = {"assistant_id": call.names["assistant_id"], "if_not_exists": "create"}
        asked = replace(
            call,
            names={"thread_id": str(wire)},
            data={**body, **_wish(given)},
            # of two requests at once, and after a server was lost before the row below
            headers={**call.headers, keys.NAME: f"agui:{key}"},
        )
        thread, segment, _ = starting.begin(asked)
        thread_id = thread.pk
        LangGraphRun.objects.get_or_create(
            wire_id=key, defaults={"thread": thread, "metadata": {BEGUN: str(segment.wire_id)}}
        )
    telling = Telling(thread=given.threadId, run=given.runId, thread_id=thread_id)
    return Streamed(
        frames=_frames(telling, segment), may_stay=lambda: threads.sees(call, thread_id)
    )


def _key(call: Call, wire: uuid.UUID, given: RunIn) -> uuid.UUID:
    """What a request is known by when it comes again: some clients answer under the id of the run
    that asked, so an answer is known by its words too.
    """
    resume = [each.model_dump(mode="json") for each in given.resume]
    words = f" {json.dumps(resume, sort_keys=True)}" if resume else ""
    return uuid.uuid5(NAMESPACE, f"{call.by.pk} {wire} {given.runId}{words}")


def _wire(call: Call, thread: str) -> uuid.UUID:
    """The thread's id at LangGraph's door: a UUID as it is, any other text as a name of this
    person's.
    """
    try:
        return uuid.UUID(thread)
    except ValueError:
        return uuid.uuid5(NAMESPACE, f"{call.by.pk} {thread}")


def _wish(given: RunIn) -> dict[str, Any]:
    """What is wanted, as a run of LangGraph's API. Raises StreamRefused."""
    if given.resume:
        if unknown := [each for each in given.resume if not starting.is_id(each.interruptId)]:
            raise invalid(f"resume: {unknown[0].interruptId[:60]!r} is no interrupt of ours.")
        return {"command": {"resume": {each.interruptId: _answer(each) for each in given.resume}}}
    if "input" in given.forwardedProps:
        return {"input": given.forwardedProps["input"], "multitask_strategy": "reject"}
    text = starting.last_said(given.messages)
    if text is None:
        raise invalid("Send resume, forwardedProps.input, or messages with a person's text last.")
    return {"input": {"input": text}, "multitask_strategy": "reject"}


def _answer(each: Resume) -> Any:
    return False if each.status == "cancelled" else each.payload


async def _frames(telling: Telling, segment: Segment) -> AsyncGenerator[list[bytes], None]:
    yield [_written(telling.begun())]
    followed = streams.Followed(thread_id=telling.thread_id, segment=segment)

    def told(events: list[Any]) -> list[Told]:
        return [one for event in events for one in telling.told(event)]

    def ended() -> list[Told]:
        return list(telling.ended(segments.find(telling.thread_id, segment.wire_id)))

    async with aclosing(streams.events(followed)) as pages:
        async for _, events in pages:
            if page := await in_database_thread(told)(events):
                yield [_written(one) for one in page]
    yield [_written(one) for one in await in_database_thread(ended)()]


def _written(told: Told) -> bytes:
    return f"data: {json.dumps(told, default=str, separators=(',', ':'))}\n\n".encode()


ROUTES = (Route("POST", "/agui/{assistant_id}", run, scopes.ASKS),)
