"""Server-sent events as a plain ASGI application beside Django: inside Django's handler each open stream would hold a thread.

`id:` is the event's number; a reconnect with `Last-Event-ID` (or `?after=`) misses nothing and sees nothing twice.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs

from checkpoints import ids
from checkpoints.log import Envelope
from hitl import services
from hitl.authentication import person_of
from hitl.hub import cursor, hub, in_database_thread
from runs.models import WorkOrder
from runs.states import ENDED

HEARTBEAT = 15.0
RETRY_MS = 2000
TERMINAL = {"run_completed", "run_failed", "run_cancelled", "run_expired"}

Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]


@in_database_thread
def find_order(user: Any, order_id: uuid.UUID) -> WorkOrder | None:
    try:
        return services.look_at_order(order_id, by=user)
    except services.NotFound:
        return None


@in_database_thread
def has_ended(order_id: uuid.UUID, seq: int) -> bool:
    """Whether the order is over and `seq` is its last event."""
    order = WorkOrder.objects.select_related("latest_run", "thread").get(pk=order_id)
    return order.latest_run is not None and order.latest_run.status in ENDED and order.thread.last_seq <= seq


async def order_stream(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """GET /api/v1/work-orders/<id>/logs/stream: all events of the order's thread, then what comes, until the order ends."""
    if scope["method"] != "GET":
        await _problem(send, 405, "method_not_allowed", "This is a stream: use GET.")
        return
    user = await in_database_thread(person_of)(scope)
    if user is None:
        await _problem(send, 401, "not_authenticated", "Log in, or send Authorization: Bearer with a token.")
        return
    order = await find_order(user, scope["url_route"]["kwargs"]["order_id"])
    if order is None:
        await _problem(send, 404, "not_found", "There is no such work order.")
        return
    try:
        seq = _cursor(scope)
    except ValueError as error:
        await _problem(send, 400, "cursor_invalid", f"{error}: send the id of the last event you have, or nothing.")
        return
    await _stream(order, seq, receive, send)


def _cursor(scope: dict[str, Any]) -> int:
    last = dict(scope["headers"]).get(b"last-event-id", b"").decode("latin-1")
    return cursor(last or parse_qs(scope["query_string"].decode("latin-1")).get("after", ["0"])[0])


async def _stream(order: WorkOrder, seq: int, receive: Receive, send: Send) -> None:
    trace = ids.show("thr", order.thread_id).encode()
    headers = [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-cache"),
        (b"x-accel-buffering", b"no"),
        (b"x-trace-id", trace),
        (b"x-agentkit-trace-id", trace),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await _write(send, f"retry: {RETRY_MS}\n\n")
    lock = asyncio.Lock()
    pump = asyncio.create_task(_pump(order, seq, send, lock))
    others = [asyncio.create_task(_until_gone(receive)), asyncio.create_task(_beat(send, lock))]
    try:
        await asyncio.wait({pump, *others}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (pump, *others):
            task.cancel()
    if pump.done() and not pump.cancelled():
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _pump(order: WorkOrder, seq: int, send: Send, lock: asyncio.Lock) -> None:
    if seq and await has_ended(order.pk, seq):
        return
    async for events in hub().follow(order.thread_id, seq):
        async with lock:
            await _write(send, "".join(frame(event) for event in events))
        ended = any(event["event"] in TERMINAL for event in events)
        if ended and await has_ended(order.pk, events[-1]["seq"]):
            return


def frame(event: Envelope) -> str:
    return f"id: {event['seq']}\nevent: {event['event']}\ndata: {json.dumps(event, ensure_ascii=True)}\n\n"


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _beat(send: Send, lock: asyncio.Lock) -> None:
    while True:
        await asyncio.sleep(HEARTBEAT)
        async with lock:
            await _write(send, ": still here\n\n")


async def _write(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


async def _problem(send: Send, status: int, code: str, detail: str) -> None:
    problem = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "code": code, "detail": detail}
    body = json.dumps(problem).encode()
    headers = [(b"content-type", b"application/problem+json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if status == 405:
        headers.append((b"allow", b"GET"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
