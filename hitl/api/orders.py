"""The REST addresses of work orders: make one, list and read them, answer, end, go on."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from django.http import HttpResponseBase, JsonResponse
from django.utils.cache import get_conditional_response, patch_cache_control
from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiParameter,
    extend_schema,
)
from rest_framework import serializers
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from checkpoints import ids
from checkpoints.database import clock
from checkpoints.state import codec
from hitl.api.pauses.fields import DecisionIn, DecisionOut, PauseOut, answer_in, patch_of
from hitl.api.pauses.reviews import VotedOut, voted
from hitl.api.query import asked_by, pages_of, parameters_of
from hitl.api.threads.fields import SUSPENDS, SuspendIn
from hitl.decisions import services
from hitl.find.orders import ORDERS
from hitl.http import tracing
from hitl.http.incoming import WITH_FILES
from hitl.models import Via, Vote
from hitl.rendering.diagrams import times
from hitl.threads import time_spent
from runs import services as runs
from runs.api.fields import OptionalText
from runs.api.paging import Paged
from runs.api.requests import body_of, user_of
from runs.api.work_orders import Priority, WorkOrderIn, WorkOrderOut, just_made
from runs.models import Run, WorkOrder
from runs.models.priority import WORDS
from runs.security import scopes
from runs.services import priorities, resubmit


class Success(serializers.Serializer[Any]):
    success = serializers.BooleanField()


class Resumed(Success):
    """Whether it was done, and what was recorded."""

    decision = DecisionOut()


class WorkOrders(Paged):
    """Work orders that you may see."""

    may_read = scopes.ASKS
    may_act = scopes.ASKS
    body_limit = "ORDER_BYTES"
    parser_classes = WITH_FILES

    @extend_schema(
        operation_id="list_work_orders",
        responses=WorkOrderOut(many=True),
        parameters=parameters_of(ORDERS),
        summary="List and search work orders, newest first",
    )
    def get(self, request: Request) -> Response:
        asked, asker = asked_by(request, ORDERS)
        mine = scopes.own(WorkOrder.objects.visible_to(request.user), thread__owner=request.user)
        pages = pages_of(ORDERS, asked)
        # found first, then read, as on the page
        found: Any = pages.paginate_queryset(
            ORDERS.among(mine, asked, asker).only("pk"), request, view=self
        )
        shown = WorkOrder.objects.shown_to(request.user).in_bulk([order.pk for order in found])
        orders = [shown[order.pk] for order in found if order.pk in shown]
        return pages.get_paginated_response(WorkOrderOut(orders, many=True).data)

    @extend_schema(
        operation_id="create_work_order",
        request=WorkOrderIn,
        responses={201: WorkOrderOut},
        summary="Make a work order and start it",
        examples=[
            OpenApiExample(
                "Tidy",
                {
                    "template": "repo-tidy",
                    "repository_url": "https://github.com/example/project",
                    "input": {"rules": "F401"},
                },
                request_only=True,
            )
        ],
    )
    def post(self, request: Request) -> Response:
        values = body_of(request, WorkOrderIn)
        order = runs.submit(
            values.pop("template"),
            by=user_of(request),
            request=values.pop("user_request"),
            **values,
        )
        return Response(WorkOrderOut(just_made(order)).data, status=201)


class WorkOrderDetail(APIView):
    may_read = scopes.ASKS

    @extend_schema(
        operation_id="get_work_order", responses=WorkOrderOut, summary="Read a work order"
    )
    def get(self, request: Request, order_id: UUID) -> Response:
        return Response(WorkOrderOut(services.look_at_order(order_id, by=user_of(request))).data)


class TimeOut(serializers.Serializer[Any]):
    work = serializers.FloatField(help_text="Seconds at work.")
    people = serializers.FloatField(help_text="Seconds waiting for people.")
    children = serializers.FloatField(help_text="Seconds waiting for child runs.")
    timer = serializers.FloatField(help_text="Seconds waiting for a timer or an event.")
    retry = serializers.FloatField(help_text="Seconds between a try that failed and the next.")
    queue = serializers.FloatField(help_text="Seconds waiting for a place or a worker.")


class StepTimeOut(TimeOut):
    step = serializers.CharField(help_text='"" for the time before the first step.')


class OrderTimeOut(TimeOut):
    now = serializers.ChoiceField(
        list(times.WHATS), allow_null=True, help_text="Which of them grows now; null: none."
    )
    steps = StepTimeOut(many=True, help_text="By step, in the order in which they began.")
    complete = serializers.BooleanField(
        help_text="false: the log is so long that only its latest part was counted."
    )


class OrderTime(APIView):
    """The figures of the order's picture, without its child runs."""

    may_read = scopes.ASKS

    @extend_schema(
        operation_id="get_work_order_time",
        responses=OrderTimeOut,
        summary="Where a work order's time went",
    )
    def get(self, request: Request, order_id: UUID) -> Response:
        order = services.look_at_order(order_id, by=user_of(request))
        spent = time_spent.of_thread(order.thread_id, asked_at=order.created_at, now=clock.now())
        steps = dict.fromkeys(span.step for span in spent.spans)
        last = spent.spans[-1] if spent.spans else None
        return Response(
            {
                **times.seconds(spent.spans),
                "now": last.what if last and last.open else None,
                "steps": [{"step": step, **times.seconds(spent.spans, step)} for step in steps],
                "complete": not spent.cut,
            }
        )


class PauseStateOut(PauseOut):
    also_open = serializers.ListField(
        child=serializers.CharField(),
        help_text="Further questions of the order's child runs, pse_…; an answer then names one as "
        "`pause_id`.",
    )

    class Meta(PauseOut.Meta):
        fields: ClassVar = [*PauseOut.Meta.fields, "also_open"]


class PauseState(APIView):
    """The open question of a work order, or `null`; of several the one that was asked first, which
    names the others.

    Answers 304 while nothing happened on the order's thread, and all that is told stayed as it was.
    """

    may_read = scopes.EITHER

    @extend_schema(
        operation_id="get_pause_state",
        responses={200: PauseStateOut(allow_null=True), 304: None},
        parameters=[
            OpenApiParameter(
                "If-None-Match",
                str,
                OpenApiParameter.HEADER,
                description="The ETag of your last answer.",
            )
        ],
        summary="What the work order waits for",
    )
    def get(self, request: Request, order_id: UUID) -> HttpResponseBase:
        order = services.look_at_order(order_id, by=user_of(request))
        pauses = services.open_pauses(order)
        told: dict[str, Any] | None = None
        if pauses:
            asked = PauseOut(pauses[0], context={"by": request.user}).data
            told = {**asked, "also_open": [pause.shown_id for pause in pauses[1:]]}
        # by what is told, too: a child run's question has a log of its own, and a claim lapses
        # without a word
        etag = f'"{order.thread.last_seq}-{codec.digest(JSONRenderer().render(told))[:16]}"'
        # only 304 or 412 come back here
        response = get_conditional_response(request._request, etag=etag)
        if response is None and told:
            response = Response({**told, "patch": patch_of(pauses[0])})
        elif response is None:
            response = JsonResponse(None, safe=False)
        response["ETag"] = etag
        patch_cache_control(response, private=True, no_cache=True)
        return response


class Resume(APIView):
    """Answer the work order's open question."""

    may_act = scopes.ANSWERS
    body_limit = "ORDER_BYTES"
    parser_classes = WITH_FILES

    @extend_schema(
        operation_id="resume_work_order",
        request=DecisionIn,
        responses={200: Resumed, 202: VotedOut},
        summary="Approve, revise or cancel",
        description="202: a vote, others must approve too. 403 `not_a_reviewer`, `self_approval`, "
        "`step_up_required`; "
        "409 "
        "`pause_closed` names who answered "
        "first, `claimed` who is on it, `not_paused`: nothing is asked; 422 says what is missing.",
        examples=[
            OpenApiExample(
                "Revise", {"decision": "revise", "feedback": "skip UP007"}, request_only=True
            )
        ],
    )
    def post(self, request: Request, order_id: UUID) -> Response:
        values = body_of(request, DecisionIn)
        given = services.answer_order(
            order_id,
            answer_in(values, Via.REST),
            by=user_of(request),
            pause_id=values["pause_id"],
        )
        if isinstance(given, Vote):
            return voted(given)
        answer = Response({"success": True, "decision": DecisionOut(given).data})
        order = given.pause.run.work_order if given.pause is not None else None
        if order is not None and order.latest_run_id is not None:
            # known here; who waits for the answer would wait for it to be looked up
            answer[tracing.HEADER] = ids.show(Run.PREFIX, order.latest_run_id)
        return answer


class CancelIn(serializers.Serializer[Any]):
    reason = OptionalText(
        max_length=services.MAX_FEEDBACK,
        help_text="Needed where the rules of an open question ask for it.",
    )


class Cancel(APIView):
    may_act = scopes.ASKS

    @extend_schema(
        operation_id="cancel_work_order",
        request=CancelIn,
        responses={200: Success},
        summary="End a work order",
    )
    def post(self, request: Request, order_id: UUID) -> Response:
        values = body_of(request, CancelIn)
        services.cancel_order(order_id, by=user_of(request), via=Via.REST, reason=values["reason"])
        return Response({"success": True})


class Suspend(APIView):
    may_act = scopes.ASKS

    @extend_schema(
        operation_id="suspend_work_order",
        request=SuspendIn,
        responses={200: Success},
        summary="Stop at the next step boundary",
        description=SUSPENDS,
    )
    def post(self, request: Request, order_id: UUID) -> Response:
        reason = body_of(request, SuspendIn)["reason"]
        services.suspend_order(order_id, by=user_of(request), reason=reason)
        return Response({"success": True})


class RetryView(APIView):
    @extend_schema(
        operation_id="retry_work_order",
        request=None,
        responses={200: WorkOrderOut},
        summary="Go on with a failed work order from its last good checkpoint",
    )
    def post(self, request: Request, order_id: UUID) -> Response:
        order = services.find_order(order_id, by=user_of(request))
        runs.retry(order.pk, by=user_of(request))
        return Response(
            WorkOrderOut(WorkOrder.objects.shown_to(request.user).get(pk=order.pk)).data
        )


class Again(APIView):
    @extend_schema(
        operation_id="ask_again_for_work_order",
        request=None,
        responses={201: WorkOrderOut},
        summary="Ask for a work order again that was cancelled, failed or expired",
        description=(
            "Answers with a new work order: the same template in its current version, request, "
            "input, repository, team and stops. Every "
            "step runs anew and asks by its own rules. 409 `cannot_ask_again` while it is alive, "
            "where it completed, or where it was asked "
            "for again already; 422 `input_invalid` where what was asked cannot be taken over, "
            "e.g. a secret that was not kept; and what "
            "`POST work-orders` answers else. Send an `Idempotency-Key`."
        ),
    )
    def post(self, request: Request, order_id: UUID) -> Response:
        order = services.find_order(order_id, by=user_of(request))
        new = resubmit.ask_again(order.pk, by=user_of(request))
        return Response(WorkOrderOut(just_made(new)).data, status=201)


class PriorityIn(serializers.Serializer[Any]):
    priority = Priority(help_text=WORDS)


class OrderPriority(APIView):
    @extend_schema(
        operation_id="change_work_order_priority",
        request=PriorityIn,
        responses={200: WorkOrderOut},
        summary="Change the priority of a work order that has not ended",
        description="For whoever asked for the work, and holders of `runs.raise_priority`. 403 "
        "`priority_not_allowed`: it is somebody else's, or above 0 without that right.",
    )
    def post(self, request: Request, order_id: UUID) -> Response:
        order = services.find_order(order_id, by=user_of(request))
        priorities.change(order.pk, body_of(request, PriorityIn)["priority"], by=user_of(request))
        return Response(
            WorkOrderOut(WorkOrder.objects.shown_to(request.user).get(pk=order.pk)).data
        )
