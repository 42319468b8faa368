"""The log for programs that poll: the events after a number, or 304 while the log has not changed.

Whoever may see the thread's page may read its log, here as over the socket.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.http import HttpResponseBase
from django.utils.cache import get_conditional_response, patch_cache_control
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.utils.urls import replace_query_param

from checkpoints.events import log
from checkpoints.models import Event, Thread
from hitl.api.query import number, number_parameter
from hitl.api.threads.fields import EventOut
from hitl.api.threads.threads import MAX_EVENTS
from hitl.decisions import services, visibility
from runs.api.paging import Listed, listed
from runs.api.requests import user_of
from runs.models import Run
from runs.security import scopes

PARAMETERS = [
    number_parameter(
        "after", 0, high=2**62, description="Events with a higher number only; 0 for all."
    ),
    number_parameter("limit", log.PAGE, high=MAX_EVENTS, description="How many at most."),
    OpenApiParameter(
        "If-None-Match", str, OpenApiParameter.HEADER, description="The ETag of your last answer."
    ),
]


class ThreadEvents(Listed):
    may_read = scopes.ASKS

    @extend_schema(
        operation_id="list_thread_events",
        responses={200: EventOut(many=True), 304: None},
        parameters=PARAMETERS,
        summary="A thread's log, in order",
    )
    def get(self, request: Request, thread_id: UUID) -> HttpResponseBase:
        thread = Thread.objects.filter(pk=thread_id).first()
        if thread is None or not visibility.sees(thread_id, by=user_of(request)):
            raise services.NotFound("There is no such thread.")
        return _answer(
            request, thread, lambda after, limit: log.told_after(thread.pk, after, limit=limit)
        )


class RunEvents(Listed):
    may_read = scopes.ASKS

    @extend_schema(
        operation_id="list_run_events",
        responses={200: EventOut(many=True), 304: None},
        parameters=PARAMETERS,
        summary="A run's events, in order",
        description="Numbers are the thread's, so they begin where the run does.",
    )
    def get(self, request: Request, run_id: UUID) -> HttpResponseBase:
        run = Run.objects.select_related("thread").filter(pk=run_id).first()
        if run is None or not visibility.sees(run.thread_id, by=user_of(request)):
            raise services.NotFound("There is no such run.")
        events = Event.objects.filter(thread=run.thread_id, run_id=run.pk).order_by("seq")
        return _answer(
            request,
            run.thread,
            lambda after, limit: [
                log.envelope(event) for event in events.filter(seq__gt=after)[:limit]
            ],
        )


def _answer(
    request: Request, thread: Thread, read: Callable[[int, int], list[Any]]
) -> HttpResponseBase:
    """Answer with the events that `read(after, limit)` gives; 304 if the ETag still fits."""
    after, limit = number(request, "after", 0), number(request, "limit", log.PAGE)
    etag = f'"{thread.first_seq}-{thread.last_seq}"'
    response = get_conditional_response(request._request, etag=etag)
    if response is None:
        events = read(after, limit)
        following = None
        if events and len(events) >= limit:
            here = request.build_absolute_uri()
            following = replace_query_param(here, "after", events[-1]["seq"])
        response = listed(events, following=following)
    response["ETag"] = etag
    patch_cache_control(response, private=True, no_cache=True)
    return response
