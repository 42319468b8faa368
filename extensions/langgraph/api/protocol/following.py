"""Following a thread's events: which channels, from which number on."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from typing import Any

from pydantic import Field

from checkpoints.events.log import Envelope
from checkpoints.models import Event
from extensions.langgraph.api import threads
from extensions.langgraph.api.calls import Call, Given, Streamed, invalid
from extensions.langgraph.api.protocol import events
from extensions.langgraph.api.protocol.shown import MOST
from extensions.langgraph.api.streaming.frames import as_json
from hitl.live.hub import hub
from hitl.live.pump import StreamRefused
from hitl.live.topics import in_database_thread

CHANNELS = frozenset(
    {
        *("values", "updates", "messages", "tools", "lifecycle", "input"),
        *("checkpoints", "tasks", "custom"),
    }
)
CUSTOM = "custom"
WATCHED = frozenset({"lifecycle", "input"})
BEHIND = 0.25
"""Seconds by which a stream of `WATCHED` alone tells of a question later. With it LangGraph's
package ends the reading of its other streams, whatever they are just being told.
"""


class Filter(Given):
    """What a client follows."""

    channels: list[str] = Field(min_length=1, max_length=100)
    namespaces: list[list[str]] = Field(default=[], max_length=100)
    """Beginnings of namespaces; none: all."""
    depth: int | None = Field(default=None, ge=0)
    since: int = Field(default=0, ge=0, le=2**62)
    """The number of the last event that the client has."""

    @property
    def begins_behind(self) -> int:
        """The last event of the log of which the client has all."""
        seq, place = divmod(self.since, MOST)
        return seq if place == MOST - 1 else max(seq - 1, 0)

    def wants(self, channel: str, namespace: Sequence[str] = ()) -> bool:
        by_name = channel.startswith(f"{CUSTOM}:") and CUSTOM in self.channels
        return (channel in self.channels or by_name) and self._reaches(list(namespace))

    def _reaches(self, namespace: list[str]) -> bool:
        return any(
            namespace[: len(beginning)] == beginning
            and (self.depth is None or len(namespace) - len(beginning) <= self.depth)
            for beginning in self.namespaces or [[]]
        )


def checked(given: Filter) -> Filter:
    """Raises StreamRefused where a channel is none."""
    for channel in given.channels:
        is_named = channel.startswith(f"{CUSTOM}:") and len(channel) > len(CUSTOM) + 1
        if channel not in CHANNELS and not is_named:
            raise invalid(f"channels: there is no {channel[:60]!r}.")
    return given


def stream(call: Call) -> Streamed:
    """A thread's events as server-sent events: they go on over all its runs."""
    thread = threads.find(call)
    try:
        given = checked(call.body(Filter))
    except StreamRefused as error:
        raise StreamRefused(400, "invalid_argument", error.detail) from error

    async def frames() -> AsyncGenerator[list[bytes], None]:
        async with aclosing(pages(thread.pk, given)) as following:
            async for page in following:
                if WATCHED.issuperset(given.channels) and any(map(_asks, page)):
                    await asyncio.sleep(BEHIND)
                yield [written(event) for event in page]

    return Streamed(frames=frames(), may_stay=lambda: threads.sees(call, thread.pk))


def _asks(event: dict[str, Any]) -> bool:
    return bool(event["method"] == "input.requested")


async def pages(thread_id: uuid.UUID, given: Filter) -> AsyncGenerator[list[dict[str, Any]], None]:
    """The protocol's events of a thread after a number, for as long as the caller listens."""
    tell = in_database_thread(told)
    async with aclosing(hub().pages(thread_id, given.begins_behind)) as following:
        async for page in following:
            shown = await tell(thread_id, [event.event for event in page], [given])
            if shown:
                yield shown


def told(
    thread_id: uuid.UUID, page: list[Envelope], filters: Collection[Filter]
) -> list[dict[str, Any]]:
    """The protocol's events that one of the filters lets through. In a database thread."""
    rows = Event.objects.filter(thread=thread_id, seq__in=[event["seq"] for event in page])
    # when it was written: what is announced while it happens may have the worker's clock
    times = dict(rows.values_list("seq", "at"))
    since = min((given.since for given in filters), default=0)

    def wants(channel: str, namespace: Sequence[str] = ()) -> bool:
        return any(given.wants(channel, namespace) for given in filters)

    return [
        shown
        for event in page
        for shown in events.told(event, times.get(event["seq"]), wants)
        if shown["seq"] > since
    ]


def written(event: dict[str, Any]) -> bytes:
    """An event as server-sent events have it."""
    return f"id: {event['seq']}\nevent: {event['method']}\ndata: {as_json(event)}\n\n".encode()
