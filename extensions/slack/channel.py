"""The channel: what Slack signs and presses, and what it is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from django.conf import settings
from django.utils.translation import gettext_lazy
from drf_spectacular.utils import OpenApiParameter

from checkpoints.database.people import User
from checkpoints.state import codec
from extensions.slack import interactions, posting, signing
from hitl.channels.protocol import (
    Given,
    InboundMessage,
    OutboundMessage,
    Outcome,
    PostingChannel,
    SignedRequest,
    Unreadable,
    Unsigned,
)
from hitl.http import incoming
from hitl.models.outbound import Delivery


class Slack(PostingChannel):
    name = "slack"
    label = "Slack"
    connect = gettext_lazy("Press an answer below a question, then Connect, and enter the code.")
    connected = gettext_lazy(
        "Connected: from now on you answer here as %(name)s. Press your answer again."
    )
    stranger = interactions.STRANGER
    place = gettext_lazy("Slack, with buttons")
    places = posting.PLACE
    example = "C0123ABCD"
    needs = ("WAYSTATION_SLACK_TOKEN", "WAYSTATION_SLACK_SIGNING_SECRET")
    signature = {
        "name": signing.SIGNATURE,
        "description": "Slack's v0, over the time and the body, with the app's signing secret.",
    }
    operation = {
        "request": {
            "application/x-www-form-urlencoded": {
                "type": "object",
                "properties": {"payload": {"type": "string"}},
            }
        },
        "parameters": [
            OpenApiParameter(name, str, OpenApiParameter.HEADER, required=True)
            for name in (signing.TIMESTAMP, signing.SIGNATURE)
        ],
        "summary": "Take what was pressed in Slack",
        "description": (
            "The request URL of a Slack app's interactivity. What becomes of a press is told in "
            "Slack. 401: not signed by Slack with the app's secret, or more than five minutes off."
        ),
    }

    def verify(self, request: SignedRequest) -> InboundMessage:
        signature = request.headers.get(signing.SIGNATURE, "")
        if not signing.is_genuine(
            settings.WAYSTATION_SLACK_SIGNING_SECRET,
            timestamp=request.headers.get(signing.TIMESTAMP, ""),
            signature=signature,
            body=request.body,
            now=request.now,
        ):
            raise Unsigned("This was not signed by Slack, or not now. Nothing was done.")
        try:
            fields = parse_qs(request.body.decode(), max_num_fields=20)
            payload = incoming.read(fields.get("payload", ["{}"])[0])
        except ValueError as error:
            raise Unreadable("This is nothing that Slack sends. Nothing was done.") from error
        known = payload if isinstance(payload, Mapping) else {}
        return interactions.read(known, request_key=codec.digest(signature)[:40])

    def take(self, message: InboundMessage, by: User | None) -> Given | None:
        return interactions.take(message.body, by)

    def tell(self, message: InboundMessage, by: User | None, outcome: Outcome | None) -> Any:
        return interactions.tell(message, by, outcome)

    def render(self, delivery: Delivery, message: OutboundMessage) -> dict[str, Any]:
        return posting.render(delivery, message)

    def post(self, place: str, content: dict[str, Any]) -> str:
        return posting.post(place, content)

    def change(self, kept: str, content: dict[str, Any]) -> bool:
        return posting.change(kept, content)

    def whisper(self, delivery: Delivery) -> None:
        posting.whisper(delivery)


CHANNEL = Slack()
