"""Threads, runs and checkpoints for machines: read them, give a thread new input, answer, resume,
end.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiParameter,
    extend_schema,
)
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from checkpoints import store
from checkpoints.models import Checkpoint, Thread
from checkpoints.store import graph_state
from hitl.api.query import asked_by, flag, pages_of, parameters_of
from hitl.api.threads.fields import (
    EXAMPLES,
    RunIn,
    RunOut,
    SaidOut,
    StateOut,
    ThreadChangeIn,
    ThreadIn,
    ThreadOut,
    runs_shown,
)
from hitl.decisions import services, visibility
from hitl.find.threads import THREADS
from hitl.models import Via
from hitl.threads import messages
from runs.api.paging import Paged
from runs.api.requests import body_of, user_of
from runs.security import scopes
from runs.threads import turns
from runs.threads.turns import Turn

MAX_EVENTS = 1000


def thread_of(thread_id: UUID, request: Request) -> Thread:
    return visibility.find_thread(thread_id, by=user_of(request))


class Threads(Paged):
    may_read = scopes.ASKS
    may_act = scopes.ASKS

    @extend_schema(
        operation_id="list_threads",
        responses=ThreadOut(many=True),
        parameters=parameters_of(THREADS),
        summary="List and search threads, newest first",
        description="Those of work orders and of child runs among them.",
    )
    def get(self, request: Request) -> Response:
        asked, asker = asked_by(request, THREADS)
        mine = scopes.own(Thread.objects.visible_to(request.user), owner=request.user)
        rows = THREADS.among(mine, asked, asker).select_related(
            "owner", "team", "head", "work_order"
        )
        pages = pages_of(THREADS, asked)
        found: Any = pages.paginate_queryset(rows.defer("head__body"), request, view=self)
        return pages.get_paginated_response(ThreadOut(found, many=True).data)

    @extend_schema(
        operation_id="create_thread",
        request=ThreadIn,
        responses={201: ThreadOut},
        summary="Open a thread",
    )
    def post(self, request: Request) -> Response:
        thread = turns.open_thread(by=user_of(request), **body_of(request, ThreadIn))
        return Response(ThreadOut(thread_of(thread.pk, request)).data, status=201)


class ThreadDetail(APIView):
    may_read = scopes.ASKS

    @extend_schema(operation_id="get_thread", responses=ThreadOut, summary="Read a thread")
    def get(self, request: Request, thread_id: UUID) -> Response:
        return Response(ThreadOut(thread_of(thread_id, request)).data)

    @extend_schema(
        operation_id="change_thread",
        request=ThreadChangeIn,
        responses=ThreadOut,
        summary="Choose what becomes of messages while a run is alive",
        examples=[OpenApiExample("Queue them", {"when_busy": "queue"}, request_only=True)],
    )
    def patch(self, request: Request, thread_id: UUID) -> Response:
        messages.change(thread_id, by=user_of(request), **body_of(request, ThreadChangeIn))
        return Response(ThreadOut(thread_of(thread_id, request)).data)


class ThreadState(APIView):
    may_read = scopes.ASKS

    @extend_schema(
        operation_id="get_thread_state",
        responses=StateOut,
        summary="The state at a thread's latest checkpoint",
    )
    def get(self, request: Request, thread_id: UUID) -> Response:
        head_id = thread_of(thread_id, request).head_id
        head = Checkpoint.objects.get(pk=head_id) if head_id else graph_state.latest(thread_id)
        if head is None:
            raise services.NotFound("This thread has not run yet, so it has no state.")
        return Response(
            {
                "checkpoint_id": head.shown_id,
                "next_step": head.next_step,
                "values": store.load(head),
            }
        )


class ThreadRuns(Paged):
    """A thread's runs, and the one way to give it something new."""

    may_read = scopes.ASKS
    may_act = scopes.EITHER

    @extend_schema(
        operation_id="list_thread_runs",
        responses=RunOut(many=True),
        summary="A thread's runs, newest first",
    )
    def get(self, request: Request, thread_id: UUID) -> Response:
        return self.page(request, runs_shown().filter(thread=thread_of(thread_id, request)), RunOut)

    @extend_schema(
        operation_id="run_thread",
        request=RunIn,
        responses={201: SaidOut, 202: SaidOut},
        parameters=[
            OpenApiParameter(
                "auto_resume_pending",
                bool,
                description=(
                    "true (the default): a message on a waiting thread answers its question. "
                    "false: it is no answer; it waits until the run that asks has ended (202, "
                    "`how: queued`), or interrupts it where the thread's `when_busy` says so."
                ),
            )
        ],
        summary="Give a thread new input",
        description=(
            "With input alone, all else follows from the latest checkpoint. A waiting thread "
            "takes the message for the answer: APPROVE "
            "approves, REJECT cancels, other text is the answer or feedback for a revision. "
            "`checkpoint_id`, `resume_from` and `state` "
            "take over entirely, and `replaces` edits an earlier message. While a run is alive "
            "that asks nothing, the thread's `when_busy` "
            "decides: 409 `run_live`; 202 with `how: queued` and its place; or 201 with `how: "
            "interrupted`, the old run being cancelled. "
            "409 `nothing_to_resume` where there is nothing to go on with, `queue_full` where "
            "too many wait, `review_stands` where a step, "
            "a state or input would be named behind a step that has review rules; with "
            "`step_around` 403 `step_around_not_allowed`, or "
            "422 `reason_required`."
        ),
        examples=EXAMPLES,
    )
    def post(self, request: Request, thread_id: UUID) -> Response:
        auto = flag(request, "auto_resume_pending", True)
        outcome = messages.say(
            thread_id,
            Turn(**body_of(request, RunIn)),
            by=user_of(request),
            via=Via.REST,
            auto_resume_pending=auto,
        )
        return Response(SaidOut(outcome).data, status=202 if outcome.how == "queued" else 201)
