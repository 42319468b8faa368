"""Signed webhooks as Standard Webhooks has them: `webhook-id`, `webhook-timestamp`, `webhook-signature: v1,<base64> …` (HMAC-SHA256).

Source: https://www.standardwebhooks.com, specification 1.0.0.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import hashlib
import hmac
from collections.abc import Sequence

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
PREFIX = "whsec_"
TOLERANCE = dt.timedelta(minutes=5)
LONGEST_ID = 200
MOST = 10
"""Signatures that are looked at: a sender that changes its secret sends two."""


class BadSignature(Exception):
    """Not what was sent, not by who may send, or too old; which of them is not told."""

    code = "signature_invalid"


def sign(secret: str, message_id: str, at: dt.datetime, body: bytes) -> str:
    """The signature of a message. Raises ValueError for what is no secret."""
    digest = hmac.new(_key(secret), f"{message_id}.{int(at.timestamp())}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def verify(secrets: Sequence[str], *, message_id: str, timestamp: str, signature: str, body: bytes, now: dt.datetime) -> None:
    """Raise BadSignature unless one of the secrets signed this message within TOLERANCE. Takes the same time for any wrong signature."""
    if not 0 < len(message_id) <= LONGEST_ID or not message_id.isprintable():
        raise BadSignature("The webhook-id is missing, or too long.")
    at = int(timestamp) if timestamp.isascii() and timestamp.isdecimal() and len(timestamp) < 13 else None
    if at is None or abs(at - now.timestamp()) > TOLERANCE.total_seconds():
        raise BadSignature("The webhook-timestamp is missing, or more than five minutes off.")
    given = [one.encode() for one in signature.split(" ")[:MOST] if one.startswith("v1,")]
    when = dt.datetime.fromtimestamp(at, dt.UTC)
    fitting = [hmac.compare_digest(sign(secret, message_id, when, body).encode(), one) for secret in secrets for one in given]
    if not any(fitting):
        raise BadSignature("The signature does not match.")


def is_secret(text: str) -> bool:
    """Whether a text is a secret of at least 24 bytes."""
    try:
        return len(_key(text)) >= 24
    except ValueError:
        return False


def _key(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error as error:
        raise ValueError("a secret is whsec_ and base64") from error
