"""Whether a request came from Slack: its signature `v0` over the time and the body.

Source: https://docs.slack.dev/authentication/verifying-requests-from-slack
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac

TIMESTAMP, SIGNATURE = "X-Slack-Request-Timestamp", "X-Slack-Signature"
TOLERANCE = dt.timedelta(minutes=5)


def sign(secret: str, timestamp: str, body: bytes) -> str:
    """The signature of a request."""
    signed = b"v0:" + timestamp.encode() + b":" + body
    return "v0=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def is_genuine(
    secret: str, *, timestamp: str, signature: str, body: bytes, now: dt.datetime
) -> bool:
    """Whether the secret's holder sent this within TOLERANCE; where there is none, nobody did."""
    if not secret or not (timestamp.isascii() and timestamp.isdecimal() and len(timestamp) < 13):
        return False
    fits = hmac.compare_digest(sign(secret, timestamp, body).encode(), signature.encode())
    return fits and abs(int(timestamp) - now.timestamp()) <= TOLERANCE.total_seconds()
