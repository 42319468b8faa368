"""Runs over REST: lists, one of them with its checkpoints, and what may be done to it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import OuterRef, Subquery
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from checkpoints import ids
from checkpoints.database import clock
from checkpoints.models import Checkpoint, Thread
from hitl.api.query import flag, id_parameter
from hitl.api.threads.fields import (
    PENDING_INPUT,
    SUSPENDS,
    CheckpointOut,
    IdField,
    InputIn,
    RunOut,
    SaidOut,
    SuspendIn,
    runs_shown,
)
from hitl.api.threads.threads import thread_of
from hitl.decisions import visibility
from hitl.models import Via
from hitl.threads import messages, why
from runs.api.fields import OptionalText
from runs.api.paging import NewestFirst, Paged
from runs.api.requests import body_of, user_of
from runs.models import Pause
from runs.security import scopes
from runs.states import RunStatus
from runs.threads.reasons import Code, Reason


class ResumeIn(serializers.Serializer[Any]):
    checkpoint_id = IdField(
        "ckpt",
        default=None,
        allow_null=True,
        help_text="Where to go on from; the latest where it is left out.",
    )
    reason = OptionalText(max_length=2_000)


class NewestQuestionFirst(NewestFirst):
    """Runs that ask, by the checkpoint of their question: what was asked last comes first, however
    old its run is.
    """

    ordering = "-asked_at"


class Runs(Paged):
    may_read = scopes.ASKS

    @extend_schema(
        operation_id="list_runs",
        responses=RunOut(many=True),
        parameters=[
            OpenApiParameter(
                "status",
                str,
                enum=[*RunStatus.values, PENDING_INPUT],
                description=(
                    "`pending_input` for runs that wait for a person, those asked last first."
                ),
            ),
            OpenApiParameter(
                "mine",
                bool,
                description="true: only of threads that you own, not those of your teams.",
            ),
            id_parameter("thread", "thr", "Of one thread, thr_…"),
            id_parameter("parent", "run", "The child runs of one run, run_…"),
            OpenApiParameter(
                "user_id",
                str,
                description="Of threads that are held with this user, as you call them.",
            ),
        ],
        summary="List runs, newest first",
    )
    def get(self, request: Request) -> Response:
        runs: Any = scopes.own(
            runs_shown().filter(thread__in=Thread.objects.visible_to(request.user)),
            thread__owner=request.user,
        )
        status = request.query_params.get("status", "")
        pages = NewestFirst()
        if status == PENDING_INPUT:
            asked = Pause.objects.open().filter(run=OuterRef("pk")).values("checkpoint")[:1]
            runs, pages = (
                runs.annotate(asked_at=Subquery(asked)).exclude(asked_at=None),
                NewestQuestionFirst(),
            )
        elif status:
            runs = runs.filter(status=status)
        if thread := request.query_params.get("thread"):
            runs = runs.filter(thread=thread_of(ids.parse("thr", thread), request))
        if parent := request.query_params.get("parent"):
            runs = runs.filter(parent=ids.parse("run", parent))
        if user_id := request.query_params.get("user_id"):
            runs = runs.filter(thread__for_user=user_id)
        if flag(request, "mine", False):
            runs = runs.filter(thread__owner=request.user)
        return pages.get_paginated_response(
            RunOut(pages.paginate_queryset(runs, request, view=self), many=True).data
        )


class RunDetail(APIView):
    may_read = scopes.ASKS

    @extend_schema(operation_id="get_run", responses=RunOut, summary="Read a run")
    def get(self, request: Request, run_id: UUID) -> Response:
        return Response(RunOut(visibility.find_run(run_id, by=user_of(request))).data)


class RunCheckpoints(Paged):
    may_read = scopes.ASKS

    @extend_schema(
        operation_id="list_run_checkpoints",
        responses=CheckpointOut(many=True),
        summary="A run's checkpoints, newest first",
    )
    def get(self, request: Request, run_id: UUID) -> Response:
        run = visibility.find_run(run_id, by=user_of(request))
        return self.page(
            request, Checkpoint.objects.filter(run_id=run.pk).defer("body"), CheckpointOut
        )


class ReasonOut(serializers.Serializer[Reason]):
    """Why one run stands where it stands."""

    run_id = serializers.CharField(source="run.shown_id")
    child_name = serializers.CharField(
        source="run.child_name", help_text="What its parent calls it; empty for the run itself."
    )
    code = serializers.ChoiceField(Code.choices)
    title = serializers.CharField(source="code.label", help_text="The code in words.")
    words = serializers.CharField(help_text="What it waits for.")
    details = serializers.ListField(
        child=serializers.CharField(),
        help_text="Further sentences: who may answer, votes, claims, errors, workers.",
    )
    since = serializers.DateTimeField(allow_null=True)
    sent_at = serializers.DateTimeField(
        allow_null=True,
        help_text="When its message went to the broker last, as far as rows say: as it became due, "
        "or by the last look of beat's. Null where it waits for no worker.",
    )
    until = serializers.DateTimeField(
        allow_null=True, help_text="When it ends, or `then` happens; null where that is not known."
    )
    then = serializers.CharField(help_text="What happens at that time; may be empty.")
    advice = serializers.CharField(help_text="What can be done, and by whom; may be empty.")
    pause_id = serializers.SerializerMethodField(help_text="The open question; null where none.")
    holders = serializers.SerializerMethodField(
        help_text="Work orders that hold the places it waits for, as far as you may see them."
    )
    other_holders = serializers.IntegerField(help_text="How many others do.")

    def get_pause_id(self, reason: Reason) -> str | None:
        return reason.pause.shown_id if reason.pause is not None else None

    def get_holders(self, reason: Reason) -> list[str]:
        return [order.shown_id for order in reason.holders]


class RunWhyOut(serializers.Serializer[Any]):
    """What a run waits for."""

    run_id = serializers.CharField()
    status = serializers.ChoiceField(RunStatus.choices)
    reasons = ReasonOut(
        many=True, help_text="The run's own first, then those of child runs that it waits for."
    )


class RunWhy(APIView):
    may_read = scopes.ASKS

    @extend_schema(
        operation_id="get_run_why",
        responses=RunWhyOut,
        summary="Why a run does not go on",
        description="Each reason has a stable code, and words for people.",
    )
    def get(self, request: Request, run_id: UUID) -> Response:
        run = visibility.find_run(run_id, by=user_of(request))
        reasons = why.of_run(run.pk, by=user_of(request), now=clock.now())
        told = {"run_id": run.shown_id, "status": run.status, "reasons": reasons}
        return Response(RunWhyOut(told).data)


class RunInput(APIView):
    may_act = scopes.ANSWERS

    @extend_schema(
        operation_id="give_run_input",
        request=InputIn,
        responses={201: SaidOut},
        summary="Answer what a run asks, in words",
        examples=[OpenApiExample("Approve", {"content": "APPROVE"}, request_only=True)],
    )
    def post(self, request: Request, run_id: UUID) -> Response:
        values = body_of(request, InputIn)
        outcome = messages.input_to(run_id, values["given"], by=user_of(request), via=Via.REST)
        return Response(SaidOut(outcome).data, status=201)


class RunResume(APIView):
    may_act = scopes.EITHER

    @extend_schema(
        operation_id="resume_run",
        request=ResumeIn,
        responses={200: SaidOut},
        summary="Go on with a run",
        description="Answers with the run to follow: a failed run is taken up by a new one; one "
        "that waits "
        "asks again, also where "
        "`checkpoint_id` names the checkpoint that it waits at.",
    )
    def post(self, request: Request, run_id: UUID) -> Response:
        outcome = messages.resume(
            run_id, by=user_of(request), via=Via.REST, **body_of(request, ResumeIn)
        )
        return Response(SaidOut(outcome).data)


class RunCancel(APIView):
    may_act = scopes.ASKS

    @extend_schema(
        operation_id="cancel_run",
        request=None,
        responses={200: RunOut},
        summary="End a run and its child runs",
    )
    def post(self, request: Request, run_id: UUID) -> Response:
        messages.cancel(run_id, by=user_of(request), via=Via.REST)
        return Response(RunOut(runs_shown().get(pk=run_id)).data)


class RunSuspend(APIView):
    may_act = scopes.ASKS

    @extend_schema(
        operation_id="suspend_run",
        request=SuspendIn,
        responses={200: RunOut},
        summary="Stop a run at its next step boundary",
        description=SUSPENDS,
    )
    def post(self, request: Request, run_id: UUID) -> Response:
        by, reason = user_of(request), body_of(request, SuspendIn)["reason"]
        messages.suspend(run_id, by=by, reason=reason)
        run = runs_shown().get(pk=run_id)
        if visibility.is_observer(run.thread, by=by):
            run.input = {}  # the run's data is for those who take part
        return Response(RunOut(run).data)
