"""`X-Trace-Id` on every response: the run's id where the request is about a run, as
`POST /api/v1/resume` takes it.

A request about an order is about its latest run, one about a question, a decision or a checkpoint
about its run, and one that begins a run about the new one. Of a thread it is the thread's own id.
Any other response, a refusal too, has an id of its own (`req_…`), which the log has where the
server failed. No run is named to who may not see it.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import Resolver404, resolve

from checkpoints import ids
from checkpoints.database import one_look, outages
from checkpoints.database.people import User
from checkpoints.models import Checkpoint, Thread
from checkpoints.telemetry import about, spans
from hitl.decisions import services, visibility
from hitl.models import Decision
from hitl.wait_gate import waits
from runs.models import Pause, Run, WorkOrder

logger = logging.getLogger(__name__)

HEADER = "X-Trace-Id"
PREFIX = "req"
"""Of responses that are about no run."""
UNTOLD = ("/livez", "/readyz", "/metrics")
"""Addresses that have no span: machines ask them every few seconds."""
NOWHERE = "(no such address)"
"""The route of a span whose address is none: what was asked for may be anything."""
TOLD = {409, 422}
"""Refusals that are told to who may see what they are about."""
SAFE = {"GET", "HEAD", "OPTIONS"}
NAMES = ("waystation_run_id", "run_id", "id")
"""Where an answer names its run; the first that does."""
FIND: dict[str, Callable[[uuid.UUID], Any]] = {
    "pause_id": lambda key: Pause.objects.filter(pk=key).values_list("run", "run__thread"),
    "decision_id": lambda key: Decision.objects.filter(pk=key).values_list(
        "pause__run", "pause__run__thread"
    ),
    "checkpoint_id": lambda key: Checkpoint.objects.filter(pk=key).values_list("run_id", "thread"),
    "order_id": lambda key: WorkOrder.objects.filter(pk=key).values_list("latest_run", "thread"),
}
"""By what an address names: a run, and its thread."""


def middleware(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Outside all others that answer, so that what they refuse has the header too."""

    def handle(request: HttpRequest) -> HttpResponse:
        own, looks = fresh(), request.method in SAFE
        with about.work(request_id=own), one_look.only(when=looks), spanned(request) as answered:
            response = respond(request, own)
            answered(response)
        return response

    def respond(request: HttpRequest, own: str) -> HttpResponse:
        response = get_response(request)
        if HEADER not in response:
            response[HEADER] = name(request, response, by=getattr(request, "user", None)) or own
        if response.status_code >= 500:
            logger.warning(
                "%s %s was answered with %d, %s %s",
                request.method,
                request.path,
                response.status_code,
                HEADER,
                response[HEADER],
            )
        return response

    return handle


@contextmanager
def spanned(request: HttpRequest) -> Iterator[Callable[[HttpResponse], None]]:
    """A span of the request, where this process makes any and a person or a program asked: no probe
    and no stream.
    """
    if spans.tracing is None or request.path_info in UNTOLD:
        yield lambda response: None
        return
    method = request.method or "GET"
    with spans.tracing.request(method, request.headers) as span:
        failed = spans.tracing.fail

        def note_answer(response: HttpResponse) -> None:
            route = _route(request)
            span.update_name(f"{method} {route}")
            span.set_attribute("http.route", route)
            span.set_attribute("http.response.status_code", response.status_code)
            span.set_attribute("waystation.trace_id", response[HEADER])
            if response.status_code >= 500:
                failed(str(response.status_code))

        yield note_answer


def _route(request: HttpRequest) -> str:
    """The address's pattern, since an address may hold a token; also of what was answered before a
    view was looked for.
    """
    if request.path_info.startswith(static := f"/{settings.STATIC_URL.lstrip('/')}"):
        return f"{static}<path>"
    try:
        return f"/{(request.resolver_match or resolve(request.path_info)).route}"
    except Resolver404:
        return NOWHERE


def traced(application: Any) -> Any:
    """The same for what is answered beside Django: streams, which have no span, since they last as
    long as somebody watches.
    """

    async def outside(
        scope: dict[str, Any], receive: Any, send: Callable[[dict[str, Any]], Awaitable[None]]
    ) -> None:
        async def send_with_id(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                if not any(name.lower() == b"x-trace-id" for name, _ in headers):
                    message = {**message, "headers": [*headers, (b"x-trace-id", fresh().encode())]}
            await send(message)

        await application(scope, receive, send_with_id)

    return outside


def fresh() -> str:
    """An id for a response that is about no run. It asks no database, which may be what failed."""
    return ids.show(PREFIX, uuid.uuid4())


def of(
    thread_id: uuid.UUID, run_id: uuid.UUID | None = None, order_id: uuid.UUID | None = None
) -> str:
    """The trace of what somebody follows."""
    if run_id is None and order_id is not None:
        run_id = WorkOrder.objects.filter(pk=order_id).values_list("latest_run", flat=True).first()
    return ids.show(Thread.PREFIX, thread_id) if run_id is None else ids.show(Run.PREFIX, run_id)


def name(request: HttpRequest, response: HttpResponse, *, by: Any) -> str | None:
    """What a request was about, as far as this person may see it."""
    if response.status_code >= 400 and response.status_code not in TOLD:
        return None
    names = _names(request)
    # which has many runs, and names its last
    looks_at_thread = "thread_id" in names and request.method != "POST"
    if not looks_at_thread and (named := _told(request, response)) is not None:
        return named
    try:
        # `by` is read from the database when it is first looked at
        return _found(names, by=by) if names and isinstance(by, User) else None
    except outages.ERRORS:
        return None  # what was asked is answered, and that counts


def _names(request: HttpRequest) -> Mapping[str, Any]:
    """What the address names."""
    try:
        return (request.resolver_match or resolve(request.path_info)).kwargs
    except Resolver404:
        return {}


def _told(request: HttpRequest, response: HttpResponse) -> str | None:
    """The run that the answer itself names."""
    body = getattr(response, "data", None)
    if body is None and "Idempotency-Key" in request.headers and not response.streaming:
        try:
            body = json.loads(response.content)  # it was kept, and is given again
        except ValueError:
            return None
    if not isinstance(body, Mapping):
        return None
    return next((candidate for candidate in map(body.get, NAMES) if _is_run(candidate)), None)


def _is_run(name: Any) -> bool:
    try:
        ids.parse(Run.PREFIX, name)
    except (ValueError, AttributeError):
        return False
    return True


def _found(names: Mapping[str, Any], *, by: User) -> str | None:
    """The run of what the address names, where they may see it."""
    run_id = names.get("run_id")
    if isinstance(run_id, str):  # another engine's own
        try:
            return waits.look_for(run_id, by=by)[0].shown_id
        except services.NotFound:
            return None
    if run_id is not None:
        thread = Run.objects.filter(pk=run_id).values_list("thread", flat=True).first()
        return (
            ids.show(Run.PREFIX, run_id)
            if thread is not None and visibility.sees(thread, by=by)
            else None
        )
    if (thread := names.get("thread_id")) is not None:
        return ids.show(Thread.PREFIX, thread) if visibility.sees(thread, by=by) else None
    for key in FIND.keys() & names.keys():
        if (seen := visibility.seen(names[key], by=by)) is not None:
            return of(*seen)
        run, thread = FIND[key](names[key]).first() or (None, None)
        if thread is None or not visibility.sees(thread, by=by):
            return None
        return ids.show(Thread.PREFIX, thread) if run is None else ids.show(Run.PREFIX, run)
    return None
