"""Signatures of webhooks, as Standard Webhooks 1.0 has them (https://www.standardwebhooks.com).

`webhook-id` stays the same on every try, `webhook-timestamp` is the try's own, `webhook-signature`
is `v1,<base64>` for each secret that is valid, separated by spaces: HMAC-SHA256 over
`id.timestamp.body`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Iterable

PREFIX = "whsec_"
SHORTEST, LONGEST = 24, 64
"""Bytes of a secret."""


class BadSecret(ValueError):
    """No secret; the message does not repeat it."""


def new_secret() -> str:
    """A secret as Standard Webhooks writes it."""
    return PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def key_of(secret: str) -> bytes:
    """The bytes of a secret; raises BadSecret."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(PREFIX) or not SHORTEST <= len(key) <= LONGEST:
        raise BadSecret(f"A secret is {PREFIX} and {SHORTEST} to {LONGEST} random bytes in base64.")
    return key


def headers(message_id: str, timestamp: int, body: bytes, valid: Iterable[str]) -> dict[str, str]:
    """The three headers of a message."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    signatures = [
        base64.b64encode(hmac.new(key_of(secret), signed, hashlib.sha256).digest()).decode()
        for secret in valid
    ]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }
