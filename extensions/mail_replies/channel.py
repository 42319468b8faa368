"""The channel: mails that a gateway signs and hands over, and those that a mailbox holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.conf import settings
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers

from checkpoints.database.people import User
from extensions.mail_replies import addresses, reading, taking
from hitl.channels import receiving
from hitl.channels.protocol import (
    Channel,
    Given,
    InboundMessage,
    Invitation,
    OutboundMessage,
    Outcome,
    Sender,
    SetupFault,
    SignedRequest,
    Unreadable,
    Unsigned,
)
from hitl.models.outbound import Channel as Way
from hitl.models.outbound import Delivery, Link
from hitl.outbound.signatures import new_secret
from hitl.wait_gate import signatures


class MailTaken(serializers.Serializer[Any]):
    outcome = serializers.CharField(
        help_text="`answered`, `voted`, or the code of why nothing was decided."
    )


class MailReplies(Channel):
    name = "mail"
    label = "Mail"
    body_limit = "MAIL_BYTES"
    operation = {
        "request": {
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
        "responses": {200: MailTaken},
        "parameters": [
            OpenApiParameter(name, str, OpenApiParameter.HEADER, required=True)
            for name in (signatures.ID, signatures.TIMESTAMP, signatures.SIGNATURE)
        ],
        "summary": "Take a reply to a mail",
        "description": (
            "The whole mail (`message/rfc822` or any other type), or its parts as JSON, signed by "
            "Standard Webhooks with a secret of WAYSTATION_REPLY_SECRETS. A mail that was taken in "
            "before does nothing. 401: not signed. 413: too long."
        ),
    }

    def verify(self, request: SignedRequest) -> InboundMessage:
        try:
            signatures.verify(
                # one that nobody knows, where there is none
                settings.WAYSTATION_REPLY_SECRETS or [new_secret()],
                message_id=request.headers.get(signatures.ID, ""),
                timestamp=request.headers.get(signatures.TIMESTAMP, ""),
                signature=request.headers.get(signatures.SIGNATURE, ""),
                body=request.body,
                now=request.now,
            )
        except signatures.BadSignature as error:
            raise Unsigned(f"{error} Nothing was done.") from error
        if request.content_type == "application/json":
            parts = request.json()
            mail = reading.from_json(parts) if isinstance(parts, Mapping) else None
        else:
            mail = reading.from_rfc822(request.body)
        if mail is None:
            raise Unreadable("This is no mail. Nothing was done.")
        return message_of(mail)

    def person(self, sender: Sender) -> User | None:
        """Whom the address for replies was made for, whoever wrote: they alone are told."""
        made = Link.objects.select_related("recipient").filter(pk=sender.account).first()
        return made.recipient if made is not None else None

    def take(self, message: InboundMessage, by: User | None) -> Given:
        return taking.take(message.body)

    def tell(
        self, message: InboundMessage, by: User | None, outcome: Outcome | None
    ) -> dict[str, str]:
        assert outcome is not None
        return {"outcome": taking.tell(message.body, outcome)}

    def invite(self, delivery: Delivery, message: OutboundMessage) -> Invitation | None:
        """The mail's address for replies, which is made by it."""
        if delivery.channel != Way.EMAIL or not (reply_to := addresses.address_of(delivery)):
            return None
        answers = addresses.invited(delivery)
        return Invitation(reply_to=reply_to, marker=addresses.MARKER, answers=answers)

    def setup_faults(self) -> Iterator[SetupFault]:
        asks = bool(settings.WAYSTATION_REPLY_ADDRESS)
        reads = bool(settings.WAYSTATION_REPLY_MAILBOX or settings.WAYSTATION_REPLY_SECRETS)
        if asks and not reads:
            yield SetupFault(
                "replies",
                "Mails say that a reply answers them, but nobody reads replies.",
                "Set WAYSTATION_REPLY_MAILBOX, or WAYSTATION_REPLY_SECRETS for a mail gateway.",
            )
        elif reads and not asks:
            yield SetupFault(
                "replies",
                "Replies are read, but no mail asks for one.",
                "Set WAYSTATION_REPLY_ADDRESS.",
                wrong=False,
            )


def message_of(mail: reading.Mail) -> InboundMessage:
    """A mail as a message of the address for replies that it came in by."""
    reply = taking.read(mail)
    return InboundMessage(Sender("", reply.link.pk if reply.link is not None else ""), reply)


def take_in(mail: reading.Mail) -> str:
    """Take in one mail; gives what became of it, as a code."""
    message = message_of(mail)
    told: str = receiving.receive(CHANNEL, message, CHANNEL.person(message.sender))["outcome"]
    return told


CHANNEL = MailReplies()
