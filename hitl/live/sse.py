"""Server-sent events as plain ASGI applications beside Django: inside Django's handler each open
stream would hold a thread.

`id:` is the event's number; a reconnect with `Last-Event-ID` (or `?after=`) misses nothing and sees
nothing twice. What has ended and was told to its end is 204, which is how an EventSource learns to
stop. While the database does not answer, an event `error` says so once, and `recovered` that it
does again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qs

from checkpoints.database import outages
from checkpoints.database.people import User
from hitl.http import tracing
from hitl.live import pump, subscriptions
from hitl.live.hub import cursor
from hitl.live.pump import EventStream, Receive, Send, StreamRefused, caller_or_refusal
from hitl.live.subscriptions import EventPage, Filter, FilterInvalid, Subscription
from hitl.live.topics import in_database_thread
from runs.security import scopes
from runs.security.scopes import Scope

Find = Callable[[User, dict[str, Any]], Subscription | None]


def thread_of(user: User, names: dict[str, Any]) -> Subscription | None:
    return subscriptions.find_thread(user, names["thread_id"])


def run_of(user: User, names: dict[str, Any]) -> Subscription | None:
    return subscriptions.find_run(user, names["run_id"])


def workflow_of(user: User, names: dict[str, Any]) -> Subscription | None:
    return subscriptions.find_named(user, names["run_id"])


def order_of(user: User, names: dict[str, Any]) -> Subscription | None:
    return subscriptions.find_order(user, names["order_id"])


@dataclass(frozen=True, kw_only=True)
class Following:
    """What one request follows."""

    person: int
    subject: Subscription
    trace: str
    seq: int
    """The number from which on it is told."""
    done: bool
    """Whether all of it was told before."""


def stream(find: Find) -> Any:
    """GET …/stream: all events of what `find` gives, then what comes, until it ends."""

    async def application(scope: dict[str, Any], receive: Receive, send: Send) -> None:
        try:
            following = await in_database_thread(_open)(scope, find)
        except StreamRefused as refusal:
            await pump.send_problem(send, refusal)
            return
        except outages.ERRORS as error:
            if (outage := outages.said(error, changing=False)) is None:
                raise
            away = StreamRefused(outage.status, outage.code, outage.words)
            await pump.send_problem(send, away)
            return
        headers, subject = _named(following.trace), following.subject
        if following.done:
            await send({"type": "http.response.start", "status": 204, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return
        opened = EventStream(
            scope=scope,
            person=following.person,
            frames=_frames(subject, following.seq),
            may_stay=lambda caller: (
                subject.is_visible(caller.user) and caller.may_follow(subject.thread_id)
            ),
            headers=headers,
        )
        await pump.run(opened, receive, send)

    return application


def _open(scope: dict[str, Any], find: Find) -> Following:
    """Admit a request. Raises StreamRefused. In a database thread."""
    if scope["method"] != "GET":
        raise StreamRefused(405, "method_not_allowed", "This is a stream: use GET.")
    caller = caller_or_refusal(scope)
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
    return Following(
        person=caller.user.pk,
        subject=subject,
        trace=tracing.of(subject.thread_id, subject.run_id, subject.order_id),
        seq=seq,
        done=seq > 0 and subject.ends and subject.has_ended(seq),
    )


def _named(trace: str) -> list[tuple[bytes, bytes]]:
    return [(b"x-trace-id", trace.encode()), (b"x-agentkit-trace-id", trace.encode())]


async def _frames(subject: Subscription, seq: int) -> AsyncGenerator[list[bytes], None]:
    async with aclosing(subscriptions.pages(subject, seq)) as pages:
        async for page in pages:
            yield frames_of(page)


def frames_of(page: EventPage) -> list[bytes]:
    """The frames of a page.

    A frame without data moves the reader's id on over events that were left out.
    """
    if page.outage is not None:
        return [page.outage.frame]
    frames = [event.frame for event in page.told]
    if not page.told or page.told[-1].seq < page.seq:
        frames.append(f"id: {page.seq}\n\n".encode())
    return frames
