"""Signed messages that Waystation sends (Standard Webhooks 1.0)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from waystation_client.errors import WebhookInvalid

TOLERANCE = 300.0
"""Seconds that a message may be old, or a clock may be off."""
PREFIX = "whsec_"
MOST = 10
"""Signatures that are looked at: a sender that changes its secret sends two."""


@dataclass(frozen=True)
class Webhook:
    """A message whose signature is right."""

    id: str
    """The same on every try: what was worked on under this id is not worked on again."""
    sent_at: int
    """Seconds since 1970."""
    data: Any


def verify_webhook(
    body: bytes,
    headers: Mapping[str, str],
    secret: str | Sequence[str],
    *,
    tolerance: float = TOLERANCE,
    now: float | None = None,
) -> Webhook:
    """Give a message that was signed with (one of) the secrets; raise WebhookInvalid for any other.

    Args:
        body: exactly the bytes that came.
        headers: of the request; any case.
        secret: `whsec_…`, or several while one is changed for the next.
        tolerance: seconds.
    """
    if not isinstance(body, bytes | bytearray):
        raise TypeError("verify_webhook takes the bytes that came, before anything decodes them.")
    given = {str(name).lower(): str(value) for name, value in headers.items()}
    message_id, at = given.get("webhook-id", ""), given.get("webhook-timestamp", "")
    if not message_id or not (at.isascii() and at.isdecimal() and len(at) < 13):
        raise WebhookInvalid("It has no webhook-id or no webhook-timestamp.")
    signed = f"{message_id}.{at}.".encode(errors="surrogatepass") + bytes(body)
    wanted = [_signature(one, signed) for one in ([secret] if isinstance(secret, str) else secret)]
    told = [
        part[3:].encode(errors="surrogatepass")
        for part in given.get("webhook-signature", "").split(" ")[:MOST]
        if part.startswith("v1,")
    ]
    fitting = [hmac.compare_digest(one, other) for one in wanted for other in told]
    if not any(fitting):
        raise WebhookInvalid("No signature of it is right.")
    if abs(int(at) - (time.time() if now is None else now)) > tolerance:
        raise WebhookInvalid("It is too old, or the clocks disagree.")
    try:
        return Webhook(message_id, int(at), json.loads(body))
    except ValueError as error:
        raise WebhookInvalid("Its body is no JSON.") from error


def _signature(secret: str, signed: bytes) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) < 24:  # an empty key would let anybody sign
        raise ValueError("A secret is whsec_ and the base64 of at least 24 bytes.")
    return base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
