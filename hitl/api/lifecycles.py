"""Runs over REST by their lifecycle (waiting, resumed, expired and so on): a list, and counters.

A socket tells the same live: `hitl.live.routing`.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from django.db.models import OuterRef, Subquery
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from checkpoints import ids
from checkpoints.database import clock
from checkpoints.models import Thread
from hitl.api.query import number, number_parameter
from hitl.api.wait_gate import STATES
from hitl.wait_gate import lifecycles
from runs.api.paging import NewestFirst, Paged
from runs.models import Pause, Run
from runs.security import scopes
from runs.states import Lifecycle, PauseStatus

DAY, MONTH = 24, 24 * 31
"""Hours that counters look back: by default, and at most."""


class WorkflowListed(serializers.Serializer[Any]):
    run_id = serializers.CharField(help_text="Your engine's id of the run, or run_… of one here.")
    lifecycle = serializers.ChoiceField(Lifecycle.choices, help_text=STATES)
    blocking_reason = serializers.CharField(
        allow_null=True, help_text="Of the question that is open, as the deadline."
    )
    next_deadline = serializers.DateTimeField(allow_null=True)
    pause_id = serializers.CharField(
        allow_null=True, help_text="The question that is open, else the last one."
    )
    waystation_run_id = serializers.CharField()
    thread_id = serializers.CharField()
    created_at = serializers.DateTimeField()


class CountsOut(serializers.Serializer[Any]):
    waiting_external = serializers.IntegerField(help_text="Questions that are open now.")
    resumed = serializers.IntegerField(
        help_text="Questions since then whose answer let a run go on."
    )
    expired = serializers.IntegerField(
        help_text="Questions since then that nobody answered in time, so that their run ended."
    )
    since = serializers.DateTimeField()


class Workflows(Paged):
    may_read = scopes.ASKS

    @extend_schema(
        operation_id="list_workflows",
        responses=WorkflowListed(many=True),
        parameters=[OpenApiParameter("lifecycle", str, enum=Lifecycle.values, description=STATES)],
        summary="List runs by where they are, newest first",
        description=(
            "Your engines' runs, each once with its newest wait, and runs here. `GET "
            "workflows/{run_id}` says the rest of one."
        ),
    )
    def get(self, request: Request) -> Response:
        runs = Run.objects.filter(thread__in=_threads(request), parent=None)
        if state := request.query_params.get("lifecycle", ""):
            runs = lifecycles.among(runs, Lifecycle(state))
        newest = Pause.objects.filter(run=OuterRef("pk")).order_by("-id").values("pk")[:1]
        rows = lifecycles.newest(runs).select_related("definition").annotate(asked=Subquery(newest))
        pages = NewestFirst()
        page: Any = pages.paginate_queryset(rows, request, view=self)
        pauses = Pause.objects.select_related("wait__outer").in_bulk(
            [run.asked for run in page if run.asked]
        )
        return pages.get_paginated_response(
            WorkflowListed([_row(run, pauses.get(run.asked)) for run in page], many=True).data
        )


def _threads(request: Request) -> Any:
    return scopes.own(Thread.objects.visible_to(request.user), owner=request.user)


def _row(run: Run, last: Pause | None) -> dict[str, Any]:
    wait = getattr(last, "wait", None)
    open_pause = last if last is not None and last.status == PauseStatus.OPEN else None
    return {
        "run_id": wait.outer.name if wait else run.shown_id,
        "lifecycle": lifecycles.of(run, last),
        "blocking_reason": open_pause.phase if open_pause else None,
        "next_deadline": open_pause.deadline_at if open_pause else None,
        "pause_id": last.shown_id if last else None,
        "waystation_run_id": run.shown_id,
        "thread_id": ids.show(Thread.PREFIX, run.thread_id),
        "created_at": run.created_at,
    }


class WaitCounts(APIView):
    may_read = scopes.ASKS

    @extend_schema(
        operation_id="count_waits",
        responses=CountsOut,
        parameters=[
            number_parameter(
                "hours", DAY, high=MONTH, description="How far `resumed` and `expired` look back."
            )
        ],
        summary="Count what waits, was resumed and has expired",
    )
    def get(self, request: Request) -> Response:
        since = clock.now() - dt.timedelta(hours=number(request, "hours", DAY))
        return Response(CountsOut(lifecycles.counted(_threads(request), since=since)).data)
