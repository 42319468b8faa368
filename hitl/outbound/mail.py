"""Mails: HTML and text, one thread per question and receiver, marked as sent by a machine."""

from __future__ import annotations

import smtplib
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.mail import BadHeaderError, EmailMultiAlternatives
from django.template.loader import render_to_string
from django.utils.translation import gettext

from checkpoints.models.fields import demand
from hitl.channels import registry
from hitl.channels.protocol import OutboundMessage
from hitl.models.outbound import ASKING, Delivery, Occasion
from hitl.outbound.addresses import AddressRefused, CannotReach
from hitl.outbound.recipients import why_no_address


def address_of(delivery: Delivery) -> str:
    """Where a mail goes; "" where there is no address any more."""
    if delivery.contact:
        return str(demand(delivery.contact))
    if delivery.endpoint is not None and delivery.endpoint.target:
        return str(demand(delivery.endpoint.target))
    return delivery.recipient.email if delivery.recipient is not None else ""


def demanded_address(delivery: Delivery) -> str:
    """Where a mail goes; raises AddressRefused where there is no such place."""
    address = address_of(delivery)
    if not address:
        raise AddressRefused("There is no mail address.")
    # kept before addresses were checked where they come in
    if (wrong := why_no_address(address)) is not None:
        raise AddressRefused(wrong)
    return address


def send(delivery: Delivery, message: OutboundMessage) -> None:
    """Send a mail; raises AddressRefused where it can never arrive, CannotReach where it may
    later.
    """
    invited = registry.invitation(delivery, message)
    context = {
        "message": message,
        "asking": delivery.occasion in ASKING,
        "elsewhere": bool(delivery.contact) and not message.link_answers,
        "replies": bool(invited.reply_to),
        "invited": invited.answers,
        "marker": invited.marker,
    }
    _send(delivery, message.subject, "question", context, reply=invited.reply_to)


def send_digest(first: Delivery, messages: list[OutboundMessage]) -> None:
    """Send several questions to one person as one mail; raises as `send`."""
    _send(
        first,
        gettext("%(count)s questions wait for you") % {"count": len(messages)},
        "digest",
        {"said": messages},
    )


def _send(
    delivery: Delivery, subject: str, template: str, context: dict[str, Any], *, reply: str = ""
) -> None:
    address = demanded_address(delivery)
    text = render_to_string(f"mail/{template}.txt", context)
    mail = EmailMultiAlternatives(
        subject=subject,
        body=text,
        to=[address],
        headers=_headers(delivery),
        reply_to=[reply] if reply else None,
    )
    mail.attach_alternative(render_to_string(f"mail/{template}.html", context), "text/html")
    _hand_over(mail)


def send_text(delivery: Delivery, address: str, subject: str, text: str) -> None:
    """Send plain words to an address; raises as `send`."""
    _hand_over(
        EmailMultiAlternatives(subject=subject, body=text, to=[address], headers=_headers(delivery))
    )


def _hand_over(mail: EmailMultiAlternatives) -> None:
    try:
        mail.send()
    except (BadHeaderError, UnicodeError) as error:
        raise AddressRefused(
            "The mail cannot be written: its address or subject holds signs that no mail may."
        ) from error
    except smtplib.SMTPRecipientsRefused as error:
        code = next((code for code, _ in error.recipients.values()), 0)
        raise (AddressRefused if code >= 500 else CannotReach)(
            f"The mail server refused the address ({code})."
        ) from error
    except (smtplib.SMTPException, OSError) as error:
        raise CannotReach(f"The mail server did not take it: {type(error).__name__}.") from error


def _headers(delivery: Delivery) -> dict[str, str]:
    made = {
        "Message-ID": _message_id(delivery),
        "Auto-Submitted": "auto-replied"
        if delivery.occasion == Occasion.REPLIED
        else "auto-generated",
        "X-Auto-Response-Suppress": "All",
    }
    if delivery.occasion in {Occasion.ASKED, Occasion.TEST, Occasion.ACCOUNT}:
        return made
    first = (
        Delivery.objects.filter(
            pause=delivery.pause_id, occasion=Occasion.ASKED, place=delivery.place
        )
        .order_by("id")
        .first()
    )
    if first is None:
        return made
    return {**made, "In-Reply-To": _message_id(first), "References": _message_id(first)}


def _message_id(delivery: Delivery) -> str:
    return f"<{delivery.shown_id}@{urlsplit(settings.WAYSTATION_URL).hostname}>"
