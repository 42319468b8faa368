"""Server-sent events as plain ASGI applications beside Django: inside Django's handler each open
stream would hold a thread.

`id:` is the event's number; a reconnect with `Last-Event-ID` (or `?after=`) misses nothing and sees
nothing twice. What has ended and was told to its end is 204, which is how an EventSource learns to
stop. While the database does not answer, an event `error` says so once, and `recovered` that it
does again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import replace
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs

from checkpoints.database import outages
from checkpoints.database.people import User
from hitl.http import clients, throttles, tracing
from hitl.http.authentication import caller_of, unknown
from hitl.live import connections, subscriptions
from hitl.live.backpressure import Gone
from hitl.live.hub import cursor
from hitl.live.outages import RETRY_MS, Outage
from hitl.live.subscriptions import EventPage, Filter, FilterInvalid, Subscription
from hitl.live.topics import in_database_thread
from runs.security import scopes
from runs.security.scopes import Scope

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
Find = Callable[[User, dict[str, Any]], Subscription | None]


class StreamRefused(Exception):
    """The request is answered with a problem document."""

    def __init__(self, status: int, code: str, detail: str, *, allow: str = "GET") -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.allow = status, code, detail, allow


def thread_of(user: User, names: dict[str, Any]) -> Subscription | None:
    return subscriptions.find_thread(user, names["thread_id"])


def run_of(user: User, names: dict[str, Any]) -> Subscription | None:
    return subscriptions.find_run(user, names["run_id"])


def workflow_of(user: User, names: dict[str, Any]) -> Subscription | None:
    return subscriptions.find_named(user, names["run_id"])


def order_of(user: User, names: dict[str, Any]) -> Subscription | None:
    return subscriptions.find_order(user, names["order_id"])


def stream(find: Find) -> Any:
    """GET …/stream: all events of what `find` gives, then what comes, until it ends."""

    async def application(scope: dict[str, Any], receive: Receive, send: Send) -> None:
        try:
            person, subject, trace, seq, done = await in_database_thread(_open)(scope, find)
        except StreamRefused as refusal:
            await send_problem(send, refusal)
            return
        except outages.ERRORS as error:
            if (outage := outages.said(error, changing=False)) is None:
                raise
            await send_problem(send, StreamRefused(outage.status, outage.code, outage.words))
            return
        if done:
            await send({"type": "http.response.start", "status": 204, "headers": _named(trace)})
            await send({"type": "http.response.body", "body": b""})
            return
        if not connections.take(person):
            await send_problem(send, StreamRefused(429, "too_many_streams", connections.words()))
            return
        try:
            await _stream(scope, subject, trace, seq, receive, send)
        finally:
            connections.give_back(person)

    return application


def _open(scope: dict[str, Any], find: Find) -> tuple[int, Subscription, str, int, bool]:
    """Who asks, what is to be told, its trace, from which number on, whether all was told.

    Raises Refused. In a database thread.
    """
    if scope["method"] != "GET":
        raise StreamRefused(405, "method_not_allowed", "This is a stream: use GET.")
    caller = caller_of(scope)
    if caller is None and throttles.is_too_many(clients.address_in(scope)):
        raise StreamRefused(429, "throttled", throttles.WORDS)
    if caller is None:
        why = unknown(scope)
        raise StreamRefused(401, str(why.get_codes()), str(why.detail))
    # all that a thread holds is more than its questions
    refused = scopes.refusal(caller.scope, (Scope.READ, Scope.ASK))
    if refused is not None:
        raise StreamRefused(403, refused.code, str(refused))
    found = find(caller.user, scope["url_route"]["kwargs"])
    if found is None or not caller.may_follow(found.thread_id):
        raise StreamRefused(404, "not_found", "There is nothing of this id.")
    query = parse_qs(scope["query_string"].decode("latin-1"))
    try:
        last = dict(scope["headers"]).get(b"last-event-id", b"").decode("latin-1")
        seq = cursor(last or query.get("after", ["0"])[0])
    except ValueError as error:
        raise StreamRefused(
            400, "cursor_invalid", f"{error}: send the id of the last event you have, or nothing."
        ) from error
    try:
        subject = replace(found, only=Filter.of(query))
    except FilterInvalid as error:
        raise StreamRefused(400, "filter_invalid", f"{error}.") from error
    return (
        caller.user.pk,
        subject,
        tracing.of(subject.thread_id, subject.run_id, subject.order_id),
        seq,
        seq > 0 and subject.ends and subject.has_ended(seq),
    )


def _named(trace: str) -> list[tuple[bytes, bytes]]:
    return [(b"x-trace-id", trace.encode()), (b"x-agentkit-trace-id", trace.encode())]


async def _stream(
    scope: dict[str, Any], subject: Subscription, trace: str, seq: int, receive: Receive, send: Send
) -> None:
    headers = [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-cache"),
        (b"x-accel-buffering", b"no"),
        (b"x-content-type-options", b"nosniff"),
        (b"cross-origin-resource-policy", b"same-origin"),
        *_named(trace),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await _write(send, f"retry: {RETRY_MS}\n\n".encode())
    ending = [
        asyncio.create_task(_pump(subject, seq, send)),
        asyncio.create_task(_watch_rights(scope, subject)),
    ]
    others = [asyncio.create_task(_until_gone(receive)), asyncio.create_task(_beat(send))]
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


async def _pump(subject: Subscription, seq: int, send: Send) -> None:
    # an async generator
    async with aclosing(subscriptions.pages(subject, seq)) as pages:  # type: ignore[type-var]
        async for page in pages:
            for piece in [page.outage.frame] if page.outage is not None else _pieces(page):
                await _write(send, piece)


def _pieces(page: EventPage) -> list[bytes]:
    """The frames of a page, in pieces of bounded length.

    A frame without data moves the reader's id on over events that were left out.
    """
    frames = [event.frame for event in page.told]
    if not page.told or page.told[-1].seq < page.seq:
        frames.append(f"id: {page.seq}\n\n".encode())
    if len(frames) == 1:
        return frames
    pieces, piece, size = [], [], 0
    for frame in frames:
        piece.append(frame)
        size += len(frame)
        if size > CHUNK:
            pieces.append(b"".join(piece))
            piece, size = [], 0
    return [*pieces, b"".join(piece)] if piece else pieces


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _watch_rights(scope: dict[str, Any], subject: Subscription) -> None:
    """Ends when the person may not follow any more."""

    def may_stay() -> bool:
        caller = caller_of(scope)
        return (
            caller is not None
            and subject.is_visible(caller.user)
            and caller.may_follow(subject.thread_id)
        )

    stays = True
    while stays:
        await asyncio.sleep(RECHECK_EVERY)
        stays = await in_database_thread(may_stay)()


async def _beat(send: Send) -> None:
    while True:
        await asyncio.sleep(HEARTBEAT)
        await _write(send, b": still here\n\n")


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
