"""What every door for protocols of others asks before it reads a request: whose token it is, how
often it came, and how much it brings. Sessions open none of them: they speak to programs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any

from hitl.http import clients, incoming, throttles
from hitl.http.authentication import Caller, caller_by, secret_of, unknown
from hitl.live.pump import StreamRefused

Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]


def admit(scope: dict[str, Any], *, methods: Collection[str]) -> Caller:
    """Who calls, by a token. Raises StreamRefused. In a database thread."""
    if scope["method"] not in methods:
        known = ", ".join(methods)
        raise StreamRefused(405, "method_not_allowed", f"Use {known}.", allow=known)
    return by_token(scope, method=scope["method"])


def by_token(scope: dict[str, Any], *, method: str) -> Caller:
    """As `admit`, of what has no method: a socket."""
    secret = secret_of(scope)
    caller = None if secret is None else caller_by(secret, method=method)
    if caller is None:
        if throttles.is_too_many(clients.address_in(scope)):
            raise StreamRefused(429, "throttled", throttles.WORDS)
        why = unknown(scope)
        raise StreamRefused(401, str(why.get_codes()), str(why.detail))
    if throttles.is_too_many_of(caller.user.pk):
        raise StreamRefused(429, "throttled", throttles.OFTEN)
    return caller


async def body_of(receive: Receive, *, limit: str) -> bytes:
    """A request's body, up to a limit of `runs.limits`. Raises StreamRefused."""
    most, body, more = incoming.value(limit), b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = bool(message.get("more_body"))
        if len(body) > most:
            raise StreamRefused(413, "too_large", incoming.words(most))
    return body
