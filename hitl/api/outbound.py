"""Endpoints and messages for machines."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib.auth.models import Group
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from checkpoints import ids
from hitl.api.query import id_parameter
from hitl.decisions import services, visibility
from hitl.models.outbound import (
    FOR_ENDPOINTS,
    Delivery,
    DeliveryStatus,
    Endpoint,
    channel_choices,
)
from hitl.outbound import endpoints, sending
from runs.api.fields import OptionalText
from runs.api.paging import Paged
from runs.api.requests import body_of, user_of


class ChannelField(serializers.ChoiceField):
    """One of the channels that are switched on when it is asked, not when this module is read."""

    def __init__(self, **options: Any) -> None:
        super().__init__(channel_choices(), **options)


class EndpointIn(serializers.Serializer[Any]):
    channel = ChannelField()
    target = OptionalText(
        max_length=2000,
        help_text="A webhook's URL, an Apprise URL, or for a team a mail address. Empty for one's "
        "own mail, for which `order_…` occasions alone are chosen.",
    )
    name = OptionalText(max_length=80)
    scope = serializers.ChoiceField(["me", "team", "everybody"], default="me")
    team = OptionalText(max_length=150, help_text="Name of the group, where the scope is team.")
    occasions = serializers.ListField(
        child=serializers.ChoiceField(FOR_ENDPOINTS),
        default=list,
        max_length=20,
        help_text="What it is told; empty for all about questions. `order_…` are told only where "
        "they stand here.",
    )
    templates = serializers.ListField(
        child=serializers.CharField(max_length=100),
        default=list,
        max_length=50,
        help_text="Slugs of the templates whose work it is told of; empty for all.",
    )


class EndpointChange(serializers.Serializer[Any]):
    enabled = serializers.BooleanField()


class EndpointOut(serializers.ModelSerializer[Endpoint]):
    """Where it leads is not told: an address may hold secrets."""

    id = serializers.CharField(source="shown_id", help_text="end_…")
    whose = serializers.CharField(help_text="Person, team or everybody.")
    occasions = serializers.ListField(child=serializers.CharField())
    templates = serializers.ListField(child=serializers.CharField())

    class Meta:
        model = Endpoint
        fields = (
            "id",
            "channel",
            "name",
            "whose",
            "occasions",
            "templates",
            "enabled",
            "why_disabled",
            "made_at",
        )


class EndpointMade(EndpointOut):
    """An endpoint with the secret that it is signed with, shown this once."""

    secret = serializers.SerializerMethodField(
        help_text="whsec_…; empty where the channel has none."
    )

    class Meta:
        model = Endpoint
        fields = (*EndpointOut.Meta.fields, "secret")

    def get_secret(self, endpoint: Endpoint) -> str:
        return str(self.context["secret"])


class DeliveryOut(serializers.ModelSerializer[Delivery]):
    id = serializers.CharField(source="shown_id", help_text="dlv_…; a webhook's `webhook-id`.")
    pause_id = serializers.SerializerMethodField(
        help_text="pse_…; null for a test, and where it is about an order's end."
    )
    run_id = serializers.SerializerMethodField(
        help_text="run_…, whose end it is about; null where it is about a question."
    )
    to = serializers.CharField(help_text="Who it goes to.")

    class Meta:
        model = Delivery
        fields = (
            "id",
            "pause_id",
            "run_id",
            "occasion",
            "channel",
            "to",
            "status",
            "attempts",
            "next_at",
            "error",
            "made_at",
            "sent_at",
        )

    def get_pause_id(self, delivery: Delivery) -> str | None:
        return ids.show("pse", delivery.pause_id) if delivery.pause_id else None

    def get_run_id(self, delivery: Delivery) -> str | None:
        return ids.show("run", delivery.run_id) if delivery.run_id else None


class Endpoints(Paged):
    @extend_schema(
        operation_id="list_endpoints",
        responses=EndpointOut(many=True),
        summary="List your endpoints",
    )
    def get(self, request: Request) -> Response:
        known = Endpoint.objects.managed_by(user_of(request)).select_related(
            "owner", "team", "thread"
        )
        return self.page(request, known, EndpointOut)

    @extend_schema(
        operation_id="make_endpoint",
        request=EndpointIn,
        responses={201: EndpointMade},
        summary="Be told of questions",
    )
    def post(self, request: Request) -> Response:
        values = body_of(request, EndpointIn)
        team = Group.objects.filter(name=values.pop("team")).first()
        endpoint, secret = endpoints.make(user_of(request), team=team, **values)
        return Response(
            EndpointMade(endpoint, context={"secret": secret}).data,
            status=201,
            headers={"Cache-Control": "no-store"},
        )


class EndpointDetail(APIView):
    @extend_schema(operation_id="get_endpoint", responses=EndpointOut, summary="Read an endpoint")
    def get(self, request: Request, endpoint_id: UUID) -> Response:
        return Response(EndpointOut(_endpoint(request, endpoint_id)).data)

    @extend_schema(
        operation_id="switch_endpoint",
        request=EndpointChange,
        responses=EndpointOut,
        summary="Switch an endpoint on or off",
    )
    def patch(self, request: Request, endpoint_id: UUID) -> Response:
        endpoint = _endpoint(request, endpoint_id)
        values = body_of(request, EndpointChange)
        endpoints.switch(endpoint, on=values["enabled"])
        return Response(EndpointOut(endpoint).data)

    @extend_schema(
        operation_id="remove_endpoint", responses={204: None}, summary="Remove an endpoint"
    )
    def delete(self, request: Request, endpoint_id: UUID) -> Response:
        _endpoint(request, endpoint_id).delete()
        return Response(status=204)


class EndpointSecret(APIView):
    @extend_schema(
        operation_id="rotate_endpoint_secret",
        request=None,
        responses={201: EndpointMade},
        summary="A new secret",
        description=(
            "Messages are signed with the new one and, for 24 hours, with the one before too."
        ),
    )
    def post(self, request: Request, endpoint_id: UUID) -> Response:
        endpoint = _endpoint(request, endpoint_id)
        secret = endpoints.rotate_secret(endpoint)
        return Response(
            EndpointMade(endpoint, context={"secret": secret}).data,
            status=201,
            headers={"Cache-Control": "no-store"},
        )


class EndpointTest(APIView):
    @extend_schema(
        operation_id="test_endpoint",
        request=None,
        responses={202: DeliveryOut},
        summary="Send a test",
    )
    def post(self, request: Request, endpoint_id: UUID) -> Response:
        delivery = endpoints.send_test(user_of(request), _endpoint(request, endpoint_id))
        if delivery is None:
            raise endpoints.EndpointInvalid(
                "id", "A test is on its way already; try again in ten seconds."
            )
        return Response(DeliveryOut(delivery).data, status=202)


class Deliveries(Paged):
    @extend_schema(
        operation_id="list_deliveries",
        responses=DeliveryOut(many=True),
        parameters=[
            OpenApiParameter("status", str, enum=DeliveryStatus.values),
            id_parameter("pause", "pse", "Of one question."),
        ],
        summary="List messages about the questions that you may see, newest first",
    )
    def get(self, request: Request) -> Response:
        deliveries = Delivery.objects.visible_to(user_of(request)).shown()
        if status := request.query_params.get("status"):
            deliveries = deliveries.filter(status=status)
        if pause := request.query_params.get("pause"):
            key = ids.parse("pse", pause)
            deliveries = deliveries.filter(pause=key)
            if not visibility.sees_pause(key, by=user_of(request)) and not deliveries.exists():
                raise services.NotFound("There is no such question.")
        return self.page(request, deliveries, DeliveryOut)


class DeliveryDetail(APIView):
    @extend_schema(
        operation_id="get_delivery", responses=DeliveryOut, summary="Read a message's state"
    )
    def get(self, request: Request, delivery_id: UUID) -> Response:
        return Response(DeliveryOut(_delivery(request, delivery_id)).data)


class DeliveryAgain(APIView):
    @extend_schema(
        operation_id="send_delivery_again",
        request=None,
        responses=DeliveryOut,
        summary="Send again what was given up, or failed and waits for its next try",
        description=(
            "Under the same id. 409 `delivery_not_held_back` for any other: it was sent, is on "
            "its way, or waits for its first."
        ),
    )
    def post(self, request: Request, delivery_id: UUID) -> Response:
        delivery = _delivery(request, delivery_id)
        if not sending.send_again(delivery):
            raise sending.NotHeldBack(
                f"This message is {delivery.get_status_display().lower()}, and nothing "
                "holds it back. Nothing was changed."
            )
        return Response(DeliveryOut(_delivery(request, delivery_id)).data)


def _endpoint(request: Request, endpoint_id: UUID) -> Endpoint:
    known = Endpoint.objects.managed_by(user_of(request)).select_related("owner", "team", "thread")
    endpoint = known.filter(pk=endpoint_id).first()
    if endpoint is None:
        raise services.NotFound("There is no such endpoint.")
    return endpoint


def _delivery(request: Request, delivery_id: UUID) -> Delivery:
    delivery = Delivery.objects.visible_to(user_of(request)).shown().filter(pk=delivery_id).first()
    if delivery is None:
        raise services.NotFound("There is no such message.")
    return delivery
