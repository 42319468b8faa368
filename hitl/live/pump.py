"""The pump of a stream of server-sent events: frames, heartbeats, and an eye on rights and on the
client. What is told, and to whom, says the door that opens it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from checkpoints.database import outages
from hitl.http import clients, throttles
from hitl.http.authentication import Caller, caller_of, unknown
from hitl.live import connections
from hitl.live.backpressure import Gone
from hitl.live.outages import RETRY_MS, Outage
from hitl.live.topics import in_database_thread

HEARTBEAT = 15.0
RECHECK_EVERY = 30.0
"""Seconds after which a stream ends whose person may not see it any more; the next try is refused
with the reason.
"""
RETRY_SECONDS = 30
"""Told to whoever has too many streams."""
CHUNK = 32_000
"""Bytes in one write: a client that does not read is noticed between two of them."""

Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]


class StreamRefused(Exception):
    """The request is answered with a problem document."""

    def __init__(self, status: int, code: str, detail: str, *, allow: str = "GET") -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.allow = status, code, detail, allow


@dataclass(frozen=True, kw_only=True)
class EventStream:
    """A stream that a door has admitted."""

    scope: dict[str, Any]
    person: int
    """Whose it is, among those that one person may have open."""
    frames: AsyncGenerator[list[bytes], None]
    """Whole frames, in the order of the log; the stream ends with it."""
    may_stay: Callable[[Caller], bool]
    """Whether this caller may go on following. Asked in a database thread."""
    headers: list[tuple[bytes, bytes]]
    heartbeat: float | None = None
    """Seconds between two comments; `HEARTBEAT` where the door names none."""
    opening: bytes = f"retry: {RETRY_MS}\n\n".encode()
    """What is told before the first frame."""
    beat: bytes = b": still here\n\n"
    media: bytes = b"text/event-stream; charset=utf-8"


def caller_or_refusal(scope: dict[str, Any]) -> Caller:
    """The caller of a stream. Raises StreamRefused. In a database thread."""
    caller = caller_of(scope)
    if caller is None and throttles.is_too_many(clients.address_in(scope)):
        raise StreamRefused(429, "throttled", throttles.WORDS)
    if caller is None:
        why = unknown(scope)
        raise StreamRefused(401, str(why.get_codes()), str(why.detail))
    return caller


async def run(stream: EventStream, receive: Receive, send: Send) -> None:
    """Tell a stream to its end, or until its client is gone or may not see it any more."""
    if not connections.take(stream.person):
        await send_problem(send, StreamRefused(429, "too_many_streams", connections.words()))
        return
    try:
        await _run(stream, receive, send)
    finally:
        connections.give_back(stream.person)


async def _run(stream: EventStream, receive: Receive, send: Send) -> None:
    headers = [
        (b"content-type", stream.media),
        (b"cache-control", b"no-cache"),
        (b"x-accel-buffering", b"no"),
        (b"x-content-type-options", b"nosniff"),
        (b"cross-origin-resource-policy", b"same-origin"),
        *stream.headers,
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    if stream.opening:
        await _write(send, stream.opening)
    ending = [
        asyncio.create_task(_tell(stream.frames, send)),
        asyncio.create_task(_watch_rights(stream)),
    ]
    others = [
        asyncio.create_task(_until_gone(receive)),
        asyncio.create_task(_beat(stream, send)),
    ]
    try:
        done, _ = await asyncio.wait({*ending, *others}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (*ending, *others):
            task.cancel()
        await asyncio.gather(*ending, *others, return_exceptions=True)
    for task in done:
        with suppress(Gone):
            try:
                task.result()
            except outages.ERRORS as error:
                if (outage := outages.said(error, changing=False)) is None:
                    raise
                await _write(send, Outage(outage).frame)
    if done & set(ending):
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _tell(frames: AsyncGenerator[list[bytes], None], send: Send) -> None:
    async with aclosing(frames) as pages:
        async for page in pages:
            for piece in pieces(page):
                await _write(send, piece)


def pieces(frames: list[bytes]) -> list[bytes]:
    """The frames, joined to pieces of bounded length."""
    joined, piece, size = [], [], 0
    for frame in frames:
        piece.append(frame)
        size += len(frame)
        if size > CHUNK:
            joined.append(b"".join(piece))
            piece, size = [], 0
    return [*joined, b"".join(piece)] if piece else joined


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _watch_rights(stream: EventStream) -> None:
    """Ends when the person may not follow any more."""

    def may_stay() -> bool:
        caller = caller_of(stream.scope)
        return caller is not None and stream.may_stay(caller)

    stays = True
    while stays:
        await asyncio.sleep(RECHECK_EVERY)
        stays = await in_database_thread(may_stay)()


async def _beat(stream: EventStream, send: Send) -> None:
    while True:
        await asyncio.sleep(stream.heartbeat or HEARTBEAT)
        await _write(send, stream.beat)


async def _write(send: Send, piece: bytes) -> None:
    """Whole frames only, so that a heartbeat may come between two of them."""
    await send({"type": "http.response.body", "body": piece, "more_body": True})


async def send_problem(send: Send, refused: StreamRefused) -> None:
    """Answer with a problem document."""
    problem = {
        "type": "about:blank",
        "title": HTTPStatus(refused.status).phrase,
        "status": refused.status,
        "code": refused.code,
        "detail": refused.detail,
    }
    body = json.dumps(problem).encode()
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(body)).encode()),
    ]
    if refused.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if refused.status == 503:
        headers.append((b"retry-after", b"5"))
    if refused.status == 429:
        headers.append((b"retry-after", str(RETRY_SECONDS).encode()))
    if refused.status == 405:
        headers.append((b"allow", refused.allow.encode()))
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
