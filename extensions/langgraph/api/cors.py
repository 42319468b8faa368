"""Pages of other origins, such as Agent Inbox, with a token: those that
`WAYSTATION_LANGGRAPH_ORIGINS` names, and no cookies.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings

from hitl.live.admission import Send

METHODS = b"GET, POST, PUT, PATCH, DELETE"
TAKEN = b"authorization, content-type, idempotency-key, last-event-id, prefer, x-api-key"
SHOWN = b"Content-Location, Location, X-Pagination-Next, X-Pagination-Total"


def origin_of(scope: dict[str, Any]) -> bytes | None:
    """The origin of a request, where it is one that operators named."""
    origin: bytes = dict(scope["headers"]).get(b"origin", b"")
    named = origin.decode("latin-1") in settings.WAYSTATION_LANGGRAPH_ORIGINS
    return origin if named else None


def showing(origin: bytes, send: Send) -> Send:
    """`send`, with what lets that origin's pages read the answer."""

    async def sent(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            others = [pair for pair in message["headers"] if pair[0] != OWN_PAGES]
            message = {**message, "headers": [*others, *_headers(origin)]}
        await send(message)

    return sent


OWN_PAGES = b"cross-origin-resource-policy"


def _headers(origin: bytes) -> list[tuple[bytes, bytes]]:
    return [
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", SHOWN),
        (b"vary", b"Origin"),
    ]


async def preflight(send: Send) -> None:
    """Say what pages of other origins may ask; `showing` says which."""
    headers = [
        (b"access-control-allow-methods", METHODS),
        (b"access-control-allow-headers", TAKEN),
        (b"access-control-max-age", b"600"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
