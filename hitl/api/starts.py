"""Inbound starts over REST: the address that takes signed messages, and the rows by which a person
lets such messages start work.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from checkpoints import ids
from hitl.api.inbound import BySource
from hitl.http import errors
from hitl.models import InboundStart, StartDelivery
from hitl.wait_gate import signatures, starts
from runs.api.fields import OptionalText, TellsQuickly
from runs.api.paging import Paged
from runs.api.requests import body_of, user_of
from runs.api.work_orders import Priority, WorkOrderIn
from runs.models import WorkOrder
from runs.models.priority import NORMAL, WORDS

URL = "/api/v1/inbound/{}/start"


class StartIn(serializers.Serializer[Any]):
    name = serializers.SlugField(max_length=80, help_text="Part of its address; nobody else's yet.")
    template = serializers.SlugField(max_length=80)
    title = OptionalText(max_length=200, help_text="Of each order.")
    user_request = OptionalText(
        max_length=20_000, source="request", help_text="Where the message has no words of its own."
    )
    request_pointer = OptionalText(
        max_length=200, help_text="JSON pointer to the request's words in the message."
    )
    input = serializers.DictField(default=dict, help_text="Fields that are always the same.")
    mapping = serializers.DictField(
        child=serializers.CharField(max_length=200),
        default=dict,
        help_text='Field of the input → JSON pointer into the message: `{"id": "/data/id"}`.',
    )
    repository_url = OptionalText(max_length=500)
    team = WorkOrderIn().fields["team"]
    priority = Priority(default=NORMAL, help_text=WORDS)

    def validate_team(self, name: str | None) -> Any:
        return WorkOrderIn(context=self.context).validate_team(name)


class StartChange(serializers.Serializer[Any]):
    enabled = serializers.BooleanField(help_text="Off: its messages are refused with 401.")


class StartOut(TellsQuickly, serializers.ModelSerializer[InboundStart]):
    id = serializers.CharField(source="shown_id", help_text="ist_…")
    name = serializers.CharField(source="source_id")
    address = serializers.SerializerMethodField(help_text="Where messages are sent to.")
    enabled = serializers.BooleanField(source="source.active")
    user_request = serializers.CharField(source="request")
    input = serializers.DictField()
    mapping = serializers.DictField(child=serializers.CharField())
    team = serializers.CharField(source="team.name", default=None, allow_null=True)

    class Meta:
        model = InboundStart
        fields = (
            "id", "name", "address", "enabled", "template", "title", "user_request",
            "request_pointer", "input", "mapping", "repository_url", "team", "priority",
            "made_at",
        )  # fmt: skip

    def get_address(self, start: InboundStart) -> str:
        return URL.format(start.source_id)


class StartMade(StartOut):
    secret = serializers.SerializerMethodField(help_text="whsec_…, shown only now.")

    class Meta(StartOut.Meta):
        fields = (*StartOut.Meta.fields, "secret")  # type: ignore[assignment]  # a longer tuple

    def get_secret(self, start: InboundStart) -> str:
        return str(self.context["secret"])


class StartDeliveryOut(TellsQuickly, serializers.ModelSerializer[StartDelivery]):
    id = serializers.CharField(source="shown_id", help_text="sdl_…")
    work_order_id = serializers.SerializerMethodField()

    class Meta:
        model = StartDelivery
        fields = ("id", "delivery_id", "started", "work_order_id", "code", "why", "at")

    def get_work_order_id(self, delivery: StartDelivery) -> str | None:
        return ids.show(WorkOrder.PREFIX, delivery.order_id) if delivery.order_id else None


class MayAddStarts(BasePermission):
    """A person needs a right to let messages from outside start work."""

    message = starts.MAY_NOT
    code = starts.MayNotStart.code

    def has_permission(self, request: Request, view: APIView) -> bool:
        return request.method in SAFE_METHODS or request.user.has_perm(starts.ADD)


class Starts(Paged):
    permission_classes = [*APIView.permission_classes, MayAddStarts]

    @extend_schema(
        operation_id="list_inbound_starts",
        responses=StartOut(many=True),
        summary="List your inbound starts, newest first",
    )
    def get(self, request: Request) -> Response:
        mine = InboundStart.objects.filter(source__user=user_of(request))
        return self.page(request, mine.select_related("source", "team"), StartOut)

    @extend_schema(
        operation_id="make_inbound_start",
        request=StartIn,
        responses={201: StartMade},
        summary="Let signed messages start work in your name",
    )
    def post(self, request: Request) -> Response:
        start, secret = starts.make(user_of(request), **body_of(request, StartIn))
        return _show_secret(start, secret)


class StartDetail(APIView):
    @extend_schema(
        operation_id="get_inbound_start", responses=StartOut, summary="Read an inbound start"
    )
    def get(self, request: Request, start_id: UUID) -> Response:
        return Response(StartOut(_find_own(request, start_id)).data)

    @extend_schema(
        operation_id="switch_inbound_start",
        request=StartChange,
        responses=StartOut,
        summary="Switch an inbound start on or off",
    )
    def patch(self, request: Request, start_id: UUID) -> Response:
        start = _find_own(request, start_id)
        starts.switch(start, on=body_of(request, StartChange)["enabled"])
        return Response(StartOut(start).data)

    @extend_schema(
        operation_id="remove_inbound_start",
        responses={204: None},
        summary="Remove an inbound start; its orders stay",
    )
    def delete(self, request: Request, start_id: UUID) -> Response:
        starts.remove(_find_own(request, start_id))
        return Response(status=204)


class StartSecret(APIView):
    @extend_schema(
        operation_id="rotate_inbound_start_secret",
        request=None,
        responses={201: StartMade},
        summary="A new secret; the one before signs until the next",
    )
    def post(self, request: Request, start_id: UUID) -> Response:
        start = _find_own(request, start_id)
        return _show_secret(start, starts.rotate_secret(start))


class StartDeliveries(Paged):
    @extend_schema(
        operation_id="list_start_deliveries",
        responses=StartDeliveryOut(many=True),
        summary="List the signed messages that came, newest first",
    )
    def get(self, request: Request, start_id: UUID) -> Response:
        return self.page(request, _find_own(request, start_id).deliveries.all(), StartDeliveryOut)


class StartAnswer(serializers.Serializer[Any]):
    delivery_id = serializers.CharField()
    work_order_id = serializers.CharField(allow_null=True, help_text="null once it was erased.")


def _header(name: str, kind: Any, words: str = "") -> OpenApiParameter:
    return OpenApiParameter(name, kind, OpenApiParameter.HEADER, required=True, description=words)


class InboundStartDoor(APIView):
    body_limit = "EVENT_BYTES"
    any_query = True  # a sender may put what it likes behind the address that it was given
    authentication_classes = (BySource,)

    @extend_schema(
        operation_id="receive_start",
        request=OpenApiTypes.OBJECT,
        responses={201: StartAnswer, 200: StartAnswer},
        parameters=[
            _header("webhook-id", str, "Of the message; the same on every try."),
            _header("webhook-timestamp", OpenApiTypes.INT, "Within 5 minutes."),
            _header("webhook-signature", str, "Standard Webhooks: v1,<base64>"),
        ],
        summary="Start a work order by a signed message",
        description="201: it started one; 200: it did so before. 401 `signature_invalid`: not "
        "signed by the source. What the order is refused with has its own `code`.",
    )
    def post(self, request: Request, source: str) -> Response:
        start = InboundStart.objects.select_related("source__user", "team").get(source=source)
        delivery_id = request.headers[signatures.ID]
        try:
            delivery, new = starts.take(start, delivery_id, request.data)
        except errors.KNOWN as error:
            starts.refuse(start, delivery_id, str(getattr(error, "code", "error")), str(error))
            raise
        answer = {
            "delivery_id": delivery_id,
            "work_order_id": StartDeliveryOut().get_work_order_id(delivery),
        }
        return Response(answer, status=201 if new else 200)


def _show_secret(start: InboundStart, secret: str) -> Response:
    return Response(
        StartMade(start, context={"secret": secret}).data,
        status=201,
        headers={"Cache-Control": "no-store"},
    )


def _find_own(request: Request, start_id: UUID) -> InboundStart:
    mine = InboundStart.objects.filter(source__user=user_of(request))
    start = mine.select_related("source", "team").filter(pk=start_id).first()
    if start is None:
        raise NotFound("You have no such inbound start.")
    return start
