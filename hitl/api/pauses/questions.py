"""The questions and their answers for machines; also the work-order routes that end in `decide`."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import (
    OpenApiParameter,
    extend_schema,
)
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from checkpoints import ids
from checkpoints.database import clock
from hitl.api.pauses.fields import DecisionIn, DecisionOut, PauseOut, answer_in
from hitl.api.pauses.reviews import VotedOut, voted
from hitl.api.query import asked_by, ids_parameter, pages_of, parameters_of
from hitl.decisions import services, visibility
from hitl.decisions.reviewers import policy
from hitl.find.questions import INBOX, inbox_of
from hitl.models import Via, Vote
from runs.api.paging import Paged
from runs.api.requests import body_of, user_of
from runs.models import Pause
from runs.security import scopes

WHOSE = ("run__work_order", "run__thread__owner", "run__thread__team", "claimed_by")
UNSHOWN = (
    *(f"run__{name}" for name in ("input", "code_seen", "interrupt_before", "interrupt_after")),
    *(f"run__work_order__{name}" for name in ("input", "request", "check_command", "delivery")),
)
"""Columns that a list does not show, and whose reading would take longest: JSON."""
MOST_NAMED = 50
WITH = ("decisions__decided_by", "delegations__to_user", "votes__voter", "votes__seat")


class Pauses(Paged):
    may_read = scopes.EITHER

    @extend_schema(
        operation_id="list_pauses",
        responses=PauseOut(many=True),
        parameters=[
            OpenApiParameter("open", bool, description="1: only what waits for an answer."),
            ids_parameter("ids", Pause.PREFIX, MOST_NAMED, "Only these questions."),
            *parameters_of(INBOX),
        ],
        summary="List and search questions, newest first",
        description="With `open` and `sort=due` as the inbox has them; in that order `previous` is "
        "always null. `whose` is of open ones alone.",
    )
    def get(self, request: Request) -> Response:
        only_open = request.query_params.get("open", "").lower() in {"1", "true"}
        asked, asker = asked_by(request, INBOX)
        mine = (
            inbox_of(asker.user, asked, policy.waiting_for(request.user))
            if only_open or asked["whose"]
            else Pause.objects.visible_to(request.user)
        )
        mine = scopes.own(mine, run__thread__owner=request.user)
        if named := request.query_params.get("ids"):
            mine = mine.filter(pk__in=[ids.parse(Pause.PREFIX, one) for one in named.split(",")])
        found = INBOX.among(mine, asked, asker)
        pages = pages_of(INBOX, asked)
        # found first: with all its joins it is planned badly
        page: Any = pages.paginate_queryset(found.only("pk", "deadline_at"), request, view=self)
        by = user_of(request)
        shown = (
            Pause.objects.select_related(*WHOSE)
            .defer(*UNSHOWN)
            .prefetch_related(*WITH)
            .in_bulk([pause.pk for pause in page])
        )
        pauses = [shown[pause.pk] for pause in page if pause.pk in shown]
        context = {"by": by, "seats": policy.seats_of(by, now=clock.now())}
        return pages.get_paginated_response(PauseOut(pauses, many=True, context=context).data)


class PauseDetail(APIView):
    may_read = scopes.EITHER

    @extend_schema(operation_id="get_pause", responses=PauseOut, summary="Read a question")
    def get(self, request: Request, pause_id: UUID) -> Response:
        pause = visibility.find_shown(pause_id, by=user_of(request))
        return Response(PauseOut(pause, context={"whole": True, "by": user_of(request)}).data)


class DecisionsView(APIView):
    may_act = scopes.ANSWERS

    @extend_schema(
        operation_id="decide",
        request=DecisionIn,
        responses={201: DecisionOut, 202: VotedOut},
        summary="Answer a question",
        description="The first valid answer wins; any other gets 409 `pause_closed`, which names "
        "the winner. "
        "202: a vote, others must "
        "approve too. 403 `not_a_reviewer`, `self_approval`: somebody else answers; "
        "`step_up_required`: answer it on its page, with a second factor. 409 "
        "`claimed`, `already_voted`, `vote_differs`.",
    )
    def post(self, request: Request, pause_id: UUID) -> Response:
        values, by = body_of(request, DecisionIn), user_of(request)
        if values["pause_id"] not in {None, ids.show(Pause.PREFIX, pause_id)}:
            raise services.RevisionMismatch(visibility.find_shown(pause_id, by=by))
        given = services.decide(pause_id, answer_in(values, Via.REST), by=by)
        return (
            voted(given)
            if isinstance(given, Vote)
            else Response(DecisionOut(given).data, status=201)
        )
