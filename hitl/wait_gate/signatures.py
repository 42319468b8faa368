"""Whether a signed webhook that came in is what was sent, by who may send it: the other end of
`hitl.outbound.signatures`.
"""

from __future__ import annotations

import datetime as dt
import hmac
from collections.abc import Sequence

from hitl.outbound import signatures

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
TOLERANCE = dt.timedelta(minutes=5)
LONGEST_ID = 200
MOST = 10
"""Signatures that are looked at: a sender that changes its secret sends two."""


class BadSignature(Exception):
    """Not what was sent, not by who may send, or too old; which of them is not told."""

    code = "signature_invalid"


def sign(secret: str, message_id: str, at: dt.datetime, body: bytes) -> str:
    """The signature of a message. Raises ValueError for what is no secret."""
    return signatures.headers(message_id, int(at.timestamp()), body, [secret])[SIGNATURE]


def verify(
    secrets: Sequence[str],
    *,
    message_id: str,
    timestamp: str,
    signature: str,
    body: bytes,
    now: dt.datetime,
) -> None:
    """Raise BadSignature unless one of the secrets signed this message within TOLERANCE.

    Takes the same time for any wrong signature.
    """
    if not 0 < len(message_id) <= LONGEST_ID or not message_id.isprintable():
        raise BadSignature("The webhook-id is missing, or too long.")
    at = (
        int(timestamp)
        if timestamp.isascii() and timestamp.isdecimal() and len(timestamp) < 13
        else None
    )
    if at is None or abs(at - now.timestamp()) > TOLERANCE.total_seconds():
        raise BadSignature("The webhook-timestamp is missing, or more than five minutes off.")
    given = [part.encode() for part in signature.split(" ")[:MOST] if part.startswith("v1,")]
    when = dt.datetime.fromtimestamp(at, dt.UTC)
    fitting = [
        hmac.compare_digest(sign(secret, message_id, when, body).encode(), part)
        for secret in secrets
        for part in given
    ]
    if not any(fitting):
        raise BadSignature("The signature does not match.")


def is_secret(text: str) -> bool:
    """Whether a text is a secret that messages can be signed with."""
    try:
        return bool(signatures.key_of(text))
    except signatures.BadSecret:
        return False
