"""What other programs hand over in people's names: replies to mails, what is pressed in Slack, what
is written in Teams.

Each is signed by whoever hands it over, and read only then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any
from urllib.parse import parse_qs

from django.conf import settings
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import APIException, ParseError
from rest_framework.parsers import BaseParser
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from checkpoints.database import clock
from checkpoints.state import codec
from hitl.api.inbound import BySource
from hitl.channels import teams
from hitl.channels.mail import reading, taking
from hitl.channels.slack import interactions, signing
from hitl.http import incoming
from hitl.outbound.signatures import new_secret
from hitl.wait_gate import signatures


class Unsigned(APIException):
    """Not signed by who may send it: nothing was read, and nothing was done."""

    status_code = 401
    default_code = signatures.BadSignature.code


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


class SignedView(APIView):
    """Takes what was signed, and nothing else; a body is read after `check` alone.

    Nobody is logged in here: who answers, the body says.
    """

    authentication_classes = (BySource,)
    permission_classes = (AllowAny,)
    parser_classes = (RawParser,)
    any_query = True  # senders put what they like behind the address that they were given

    def check(self, request: Request, body: bytes) -> None:
        """Raise Unsigned for what is not signed."""
        raise NotImplementedError

    def signed_body(self, request: Request) -> bytes:
        given: Any = request.data  # of no body at all an empty form
        body = given if isinstance(given, bytes) else b""
        self.check(request, body)
        return body


class MailTaken(serializers.Serializer[Any]):
    outcome = serializers.CharField(
        help_text="`answered`, `voted`, or the code of why nothing was decided."
    )


class InboundMailDoor(SignedView):
    body_limit = "MAIL_BYTES"

    @extend_schema(
        operation_id="receive_mail",
        request={
            # generators of clients know no message/rfc822, which is taken as well
            "application/octet-stream": OpenApiTypes.BINARY,
            "application/json": {
                "type": "object",
                "properties": {
                    **{name: {"type": "string"} for name in ("from", "to", "subject", "text")},
                    "message_id": {"type": "string"},
                    "headers": {"type": "object", "additionalProperties": {"type": "string"}},
                },
            },
        },
        responses={200: MailTaken},
        parameters=[
            OpenApiParameter(name, str, OpenApiParameter.HEADER, required=True)
            for name in (signatures.ID, signatures.TIMESTAMP, signatures.SIGNATURE)
        ],
        summary="Take a reply to a mail",
        description=(
            "The whole mail (`message/rfc822` or any other type), or its parts as JSON, signed by "
            "Standard Webhooks with a secret of WAYSTATION_REPLY_SECRETS. A mail that was taken in "
            "before does nothing. 401: not signed. 413: too long."
        ),
    )
    def post(self, request: Request) -> Response:
        body = self.signed_body(request)
        if (request.content_type or "").partition(";")[0].strip() == "application/json":
            mail = self._from_json(body)
        else:
            mail = reading.from_rfc822(body)
        if mail is None:
            raise ParseError("This is no mail. Nothing was done.")
        return Response({"outcome": taking.take(mail)})

    def _from_json(self, body: bytes) -> reading.Mail | None:
        try:
            value = incoming.read(body)
        except incoming.UnreadableBody as error:
            raise ParseError(f"{error} Nothing was done.") from error
        return reading.from_json(value) if isinstance(value, Mapping) else None

    def check(self, request: Request, body: bytes) -> None:
        try:
            signatures.verify(
                # one that nobody knows, where there is none
                settings.WAYSTATION_REPLY_SECRETS or [new_secret()],
                message_id=request.headers.get(signatures.ID, ""),
                timestamp=request.headers.get(signatures.TIMESTAMP, ""),
                signature=request.headers.get(signatures.SIGNATURE, ""),
                body=body,
                now=clock.now(),
            )
        except signatures.BadSignature as error:
            raise Unsigned(f"{error} Nothing was done.") from error


class BySlack(BySource):
    """Slack signs by a header of its own."""


class SlackDoor(SignedView):
    authentication_classes = (BySlack,)
    body_limit = "EVENT_BYTES"

    @extend_schema(
        operation_id="receive_slack",
        request={
            "application/x-www-form-urlencoded": {
                "type": "object",
                "properties": {"payload": {"type": "string"}},
            }
        },
        responses={200: OpenApiTypes.OBJECT},
        parameters=[
            OpenApiParameter(name, str, OpenApiParameter.HEADER, required=True)
            for name in (signing.TIMESTAMP, signing.SIGNATURE)
        ],
        summary="Take what was pressed in Slack",
        description=(
            "The request URL of a Slack app's interactivity. What becomes of a press is told in "
            "Slack. 401: not signed by Slack with the app's secret, or more than five minutes off."
        ),
    )
    def post(self, request: Request) -> Response:
        body = self.signed_body(request)
        try:
            fields = parse_qs(body.decode(), max_num_fields=20)
            payload = incoming.read(fields.get("payload", ["{}"])[0])
        except ValueError as error:
            raise ParseError("This is nothing that Slack sends. Nothing was done.") from error
        key = codec.digest(request.headers.get(signing.SIGNATURE, ""))[:40]
        if not isinstance(payload, Mapping):
            return Response({})
        return Response(interactions.handle(payload, request_key=key))

    def check(self, request: Request, body: bytes) -> None:
        if not signing.is_genuine(
            settings.WAYSTATION_SLACK_SIGNING_SECRET,
            timestamp=request.headers.get(signing.TIMESTAMP, ""),
            signature=request.headers.get(signing.SIGNATURE, ""),
            body=body,
            now=clock.now(),
        ):
            raise Unsigned("This was not signed by Slack, or not now. Nothing was done.")


class ByTeams(BySource):
    """Teams signs by `Authorization: HMAC …`."""


class TeamsSaid(serializers.Serializer[Any]):
    type = serializers.ChoiceField(["message"])
    text = serializers.CharField()


class TeamsDoor(SignedView):
    authentication_classes = (ByTeams,)
    body_limit = "EVENT_BYTES"

    @extend_schema(
        operation_id="receive_teams",
        request={"application/json": {"type": "object", "additionalProperties": True}},
        responses={200: TeamsSaid},
        summary="Take what was written to an outgoing webhook of Teams",
        description=(
            "The callback URL of an outgoing webhook; Teams shows the answer's text. 401: not "
            "signed with its security token, or the message is more than five minutes old."
        ),
    )
    def post(self, request: Request) -> Response:
        body = self.signed_body(request)
        try:
            activity = incoming.read(body)
        except incoming.UnreadableBody as error:
            raise ParseError(f"{error} Nothing was done.") from error
        if not isinstance(activity, Mapping) or not teams.is_fresh(activity, now=clock.now()):
            raise Unsigned("The message is old, or does not say when it was written.")
        return Response({"type": "message", "text": teams.handle(activity)})

    def check(self, request: Request, body: bytes) -> None:
        header = request.headers.get("Authorization", "")
        if not teams.is_genuine(settings.WAYSTATION_TEAMS_SECRETS, header=header, body=body):
            raise Unsigned("This was not signed by Teams. Nothing was done.")
