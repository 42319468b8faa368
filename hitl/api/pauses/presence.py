"""Who else is at a question, for pages without a socket and for programs that show questions."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from checkpoints.database import clock
from hitl.decisions import presence
from runs.api.requests import body_of, user_of
from runs.security import scopes


class PresenceIn(serializers.Serializer[Any]):
    writing = serializers.BooleanField(
        default=False, help_text="Whether you are writing an answer."
    )


class PresentOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    writing = serializers.BooleanField()


class PresenceOut(serializers.Serializer[Any]):
    present = PresentOut(many=True, help_text="Who else is at the question.")


class PausePresence(APIView):
    """Nobody is kept from answering by it; `claim` does that."""

    may_read = scopes.ANSWERS
    may_act = scopes.ANSWERS

    @extend_schema(
        operation_id="get_presence", responses=PresenceOut, summary="Who is at a question"
    )
    def get(self, request: Request, pause_id: UUID) -> Response:
        return Response({"present": presence.look(pause_id, by=user_of(request), now=clock.now())})

    @extend_schema(
        operation_id="set_presence",
        request=PresenceIn,
        responses=PresenceOut,
        summary="Say that you are at a question",
        description=f"It holds for {presence.LASTS.seconds} s: say it again while you look.",
    )
    def post(self, request: Request, pause_id: UUID) -> Response:
        values = body_of(request, PresenceIn)
        there = presence.note(
            pause_id, by=user_of(request), writing=values["writing"], now=clock.now()
        )
        return Response({"present": there})
