"""Reply addresses: each mail that asks one person has its own, and a reply to it answers for them.

Its token is made as that of a link (`hitl.outbound.links`), apart from it: an address is copied
into every mail of a thread, so it opens no page. It fits into an address: letters and digits, of
one case. What it may answer is less than its recipient may, by `may_answer`.
"""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Iterable

from django.conf import settings
from django.utils.crypto import salted_hmac

from hitl.models.outbound import ASKING, Channel, Delivery, InboundMail, Link, Occasion
from hitl.outbound import links, messages
from runs.models import Pause

MARKER = "Write your answer above this line"
"""Stands on top of a mail that takes a reply: what a reply quotes begins with it."""
TOKEN = re.compile(r"[a-z2-7]{32}")
"""160 bits in base32."""


def address_of(delivery: Delivery) -> str:
    """Where a reply to a mail goes; "" where replies are not taken. Makes the address' row."""
    asking = _asking(delivery)
    if not settings.WAYSTATION_REPLY_ADDRESS or asking is None:
        return ""
    token = _token(asking)
    links.make(asking, token, Link.Purpose.REPLY)
    name, _, domain = settings.WAYSTATION_REPLY_ADDRESS.rpartition("@")
    return f"{name}+{token}@{domain}" if name else f"{token}@{domain}"


def _asking(delivery: Delivery) -> Delivery | None:
    """The mail that asked one person: this one, or the one that this one is about."""
    if delivery.occasion == Occasion.REPLIED and delivery.channel == Channel.EMAIL:
        return (
            Delivery.objects.select_related("pause", "recipient")
            .filter(links__mails=uuid.UUID(hex=delivery.mark))
            .first()
        )
    to_one = delivery.channel == Channel.EMAIL and delivery.recipient is not None
    return delivery if to_one and delivery.pause and delivery.occasion in ASKING else None


def find(addresses: Iterable[str]) -> Link | None:
    """The row of the first of these addresses that is a reply address; None where none is."""
    own, _, own_domain = settings.WAYSTATION_REPLY_ADDRESS.lower().rpartition("@")
    for address in addresses:
        name, _, domain = address.lower().rpartition("@")
        before, _, token = name.rpartition("+")
        if not own_domain or (domain, before) != (own_domain, own) or not TOKEN.fullmatch(token):
            continue
        link = links.of_token(token)
        if link is not None and link.purpose == Link.Purpose.REPLY:
            return link
    return None


def may_answer(pause: Pause, *, proven: bool = False) -> bool:
    """Whether a reply may answer this question.

    Args:
        proven: the receiving mail server verified who sent it. Without that, a reply answers what
            whoever holds the mail's link may answer too.
    """
    whole = len(pause.content) <= messages.CONTENT
    return whole and pause.risk != "high" and (proven or links.may_answer(pause))


def invited(delivery: Delivery) -> bool:
    """Whether a mail says that a reply answers it."""
    proven = bool(settings.WAYSTATION_REPLY_AUTHSERV)
    return delivery.pause is not None and may_answer(delivery.pause, proven=proven)


def remember(link: Link, digest: str, outcome: str, *, uses: bool) -> InboundMail:
    """Note a reply that was taken in, and use its address up where it answered.

    Call inside a transaction. Raises IntegrityError where it was noted before.
    """
    if uses:
        links.use(link)
    return InboundMail.objects.create(link=link, message_digest=digest, outcome=outcome[:64])


def _token(delivery: Delivery) -> str:
    key = salted_hmac("hitl.outbound.reply", delivery.pk.hex, algorithm="sha256").digest()
    return base64.b32encode(key[:20]).decode().lower()
