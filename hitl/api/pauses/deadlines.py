"""More time for a question, and a while without it, for machines."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from hitl.api.pauses.fields import PauseOut
from hitl.decisions.deadlines import changes
from runs.api.requests import body_of, user_of
from runs.models import Pause
from runs.security import scopes


class ExtendIn(serializers.Serializer[Any]):
    until = serializers.DateTimeField(
        help_text=(
            "The new deadline: later than the present one, up to the question's extendable_until."
        )
    )
    reason = serializers.CharField(
        max_length=changes.MAX_REASON, help_text="Why; recorded with your name."
    )


class PauseExtend(APIView):
    may_act = scopes.ANSWERS

    @extend_schema(
        operation_id="extend_deadline",
        request=ExtendIn,
        responses=PauseOut,
        summary="Move a question's deadline",
        description="For those who may answer it (403 `not_an_answerer`). 409 `no_deadline`; 409 "
        "`deadline_moved`: look again; "
        "409 `pause_closed`: it was answered, or expired, first; 422 `postponing_invalid` says "
        "how far it may go.",
        examples=[
            OpenApiExample(
                "Until Friday",
                {"until": "2026-11-27T17:00:00+01:00", "reason": "Ana is ill"},
                request_only=True,
            )
        ],
    )
    def post(self, request: Request, pause_id: UUID) -> Response:
        changes.extend(pause_id, by=user_of(request), **body_of(request, ExtendIn))
        shown = Pause.objects.shown().get(pk=pause_id)
        return Response(PauseOut(shown, context={"whole": True, "by": user_of(request)}).data)


class SnoozeIn(serializers.Serializer[Any]):
    until = serializers.DateTimeField(
        allow_null=True,
        help_text="When it comes back to your inbox, before its deadline; null: now.",
    )


class PauseSnooze(APIView):
    may_act = scopes.ANSWERS

    @extend_schema(
        operation_id="snooze_pause",
        request=SnoozeIn,
        responses=SnoozeIn,
        summary="Hide a question from your inbox for a while",
        description=(
            "From yours only, and the deadline stays. It comes back sooner when people are "
            "reminded."
        ),
        examples=[
            OpenApiExample(
                "Until tomorrow", {"until": "2026-11-23T09:00:00+01:00"}, request_only=True
            )
        ],
    )
    def post(self, request: Request, pause_id: UUID) -> Response:
        values = body_of(request, SnoozeIn)
        made = changes.snooze(pause_id, by=user_of(request), until=values["until"])
        return Response(SnoozeIn({"until": made.until if made else None}).data)
