"""The door of all channels: what other programs hand over in people's names.

Each request is signed by whoever hands it over, and read only then. Each channel that is switched
on has an address; any other name is 404.
"""

from __future__ import annotations

from typing import IO, Any, ClassVar

from django.http import HttpResponse, JsonResponse
from django.urls import URLPattern, path
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import APIException, ParseError
from rest_framework.parsers import BaseParser
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from checkpoints.database import clock
from hitl.api import unknown
from hitl.api.inbound import MARK, BySource
from hitl.channels import protocol, receiving, registry
from hitl.channels.protocol import Channel, SignedRequest
from hitl.http import idempotency, incoming

USUAL = {
    "request": {"application/json": {"type": "object", "additionalProperties": True}},
    "responses": {200: OpenApiTypes.OBJECT},
}
"""What the document says of an address whose channel says nothing else."""


class Unsigned(APIException):
    """Not signed by who may send it: nothing was read, and nothing was done."""

    status_code = 401
    default_code = protocol.Unsigned.code


class ByChannel(BySource):
    """Nobody is logged in: who answers, the body says. `signature` is for the API's document."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel


class RawParser(BaseParser):
    """Gives the body as it came, which is what was signed."""

    media_type = "*/*"

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Any = None
    ) -> Any:
        view = (parser_context or {}).get("view")
        limit = incoming.value(getattr(view, "body_limit", "BODY_BYTES"))
        raw: bytes = stream.read(limit + 1)
        if len(raw) > limit:
            raise incoming.BodyTooLarge(limit)
        return raw


class ChannelDoor(APIView):
    """Takes what a channel's service signed, and nothing else."""

    channel: ClassVar[Channel]
    authentication_classes = (BySource,)
    permission_classes = (AllowAny,)
    parser_classes = (RawParser,)
    any_query = True  # senders put what they like behind the address that they were given

    def get_authenticators(self) -> list[BaseAuthentication]:
        return [BySource() if self.channel.signature is None else ByChannel(self.channel)]

    def post(self, request: Request) -> HttpResponse:
        given: Any = request.data  # of no body at all an empty form
        signed = SignedRequest(
            request.headers,
            (request.content_type or "").partition(";")[0].strip(),
            given if isinstance(given, bytes) else b"",
            clock.now(),
            lambda: _json(signed.body),
        )
        try:
            message = self.channel.verify(signed)
        except protocol.Unsigned as error:
            raise Unsigned(str(error)) from error
        except protocol.Unreadable as error:
            raise ParseError(str(error)) from error
        by = self.channel.person(message.sender)
        if by is None or not message.key:
            return Response(receiving.receive(self.channel, message, by))
        request._request._body = signed.body  # its digest is kept
        return idempotency.once(
            request._request,
            by,
            f"{MARK}{self.channel.name}:{message.key}",
            lambda first: JsonResponse(receiving.receive(self.channel, message, by)),
        )


def _json(body: bytes) -> Any:
    try:
        return incoming.read(body)
    except incoming.UnreadableBody as error:
        raise protocol.Unreadable(f"{error} Nothing was done.") from error


def routes() -> list[URLPattern]:
    """The addresses of the channels that are switched on, and a 404 for all others."""
    doors = [
        path(f"channels/{channel.name}", _door(channel).as_view())
        for channel in registry.channels()
    ]
    return [*doors, path("channels/<slug:name>", unknown.NoSuchChannel.as_view())]


def _door(channel: Channel) -> type[ChannelDoor]:
    """The door, with what the API's document says of this channel."""
    made = type(
        f"{channel.name.capitalize()}Door",
        (ChannelDoor,),
        {"channel": channel, "body_limit": channel.body_limit},
    )
    operation = {**USUAL, "operation_id": f"receive_{channel.name}", **channel.operation}
    return extend_schema_view(post=extend_schema(**operation))(made)
