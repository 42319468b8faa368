"""The questions and their answers for machines; also the work-order routes that end in `decide`."""

from __future__ import annotations

from functools import cache
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, QuerySet, prefetch_related_objects
from drf_spectacular.utils import (
    OpenApiParameter,
    extend_schema,
)
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from checkpoints import ids
from checkpoints.database import clock
from checkpoints.store.prepared_queries import Prepared
from hitl.api.pauses.fields import DecisionIn, DecisionOut, PauseOut, answer_in
from hitl.api.pauses.reviews import Reviews, VotedOut, voted
from hitl.api.query import asked_by, ids_parameter, pages_of, parameters_of
from hitl.decisions import services, visibility
from hitl.decisions.reviewers import policy
from hitl.find.questions import ASKED, INBOX, inbox_of
from hitl.http.incoming import WITH_FILES
from hitl.models import Delegation, Via, Vote
from runs.api.paging import Paged
from runs.api.requests import body_of, user_of
from runs.models import Pause
from runs.security import scopes
from runs.states import PauseStatus

SHOWN = (
    *(field.name for field in Pause._meta.concrete_fields),
    *(f"run__{name}" for name in ("thread", "work_order", "definition", "started_by")),
    *("run__work_order__created_by", "run__thread__owner", "run__thread__team"),
    *(f"claimed_by__{name}" for name in ("username", "first_name", "last_name")),
)
"""Columns that a list shows, or judges who answers by."""
MOST_NAMED = 50
PLACES = (10, 50, 200)
"""Sizes of a page that a query is prepared for."""


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
        pauses = _shown([pause.pk for pause in page])
        if asked["whose"] == ASKED or not (only_open or asked["whose"]):
            # they may be refused, by words that name who takes part
            refusable = [pause for pause in pauses if pause.status == PauseStatus.OPEN]
            prefetch_related_objects(refusable, "run__thread__owner", "run__thread__team")
        context = {"reviews": Reviews(by, policy.seats_of(by, now=clock.now()))}
        return pages.get_paginated_response(PauseOut(pauses, many=True, context=context).data)


def _shown(keys: list[UUID]) -> list[Pause]:
    """These questions in this order, with all that is shown of them; what there is none of is not
    asked for.
    """
    if not keys:
        return []
    places = next((places for places in PLACES if len(keys) <= places), len(keys))
    rows: list[Any] = _rows(places).get(*keys, *[keys[-1]] * (places - len(keys)))
    for pause in rows:
        if not pause.handed:
            pause._prefetched_objects_cache = {"delegations": _nobody()}
    prefetch_related_objects([pause for pause in rows if pause.handed], "delegations__to_user")
    prefetch_related_objects(
        [pause for pause in rows if policy.quorum(pause) > 1], "votes__voter", "votes__seat"
    )
    prefetch_related_objects(
        [pause for pause in rows if pause.status != PauseStatus.OPEN], "decisions__decided_by"
    )
    found = {pause.pk: pause for pause in rows}
    return [pause for key in keys if (pause := found.get(key)) is not None]


@cache
def _nobody() -> QuerySet[Delegation]:
    """No rows, read already, as what is prefetched."""
    nobody = Delegation.objects.none()
    list(nobody)
    return nobody


@cache
def _rows(places: int) -> Prepared[Pause]:
    handed = Exists(Delegation.objects.filter(pause=OuterRef("pk")))
    return Prepared(
        lambda *keys: (
            Pause.objects.select_related("run__work_order", "run__thread", "claimed_by")
            .only(*SHOWN)
            .annotate(handed=handed)
            .filter(pk__in=keys)
        ),
        *[UUID] * places,
    )


class PauseDetail(APIView):
    may_read = scopes.EITHER

    @extend_schema(operation_id="get_pause", responses=PauseOut, summary="Read a question")
    def get(self, request: Request, pause_id: UUID) -> Response:
        pause = visibility.find_shown(pause_id, by=user_of(request))
        return Response(PauseOut(pause, context={"whole": True, "by": user_of(request)}).data)


class DecisionsView(APIView):
    may_act = scopes.ANSWERS
    body_limit = "ORDER_BYTES"
    parser_classes = WITH_FILES

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
