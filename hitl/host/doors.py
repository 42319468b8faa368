"""Check hosts and origins for sockets and streams, as Django does for its pages: by which names
this server is addressed, and from which sites' pages.

Sockets and streams are plain ASGI beside Django, so Django's own checks never see them. A browser
sends the owner's cookie along from every page of the same host, whatever its port: the page's
origin (scheme, host and port) has to be the request's own, or one of CSRF_TRUSTED_ORIGINS. A
program that is no browser sends no Origin.
"""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Awaitable, Callable, Collection
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from django.core.exceptions import DisallowedHost, ImproperlyConfigured
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse
from django.middleware.csrf import CsrfViewMiddleware

from hitl.http import clients

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

FOREIGN_HOST = (
    "host_refused",
    "This server does not go by that name. Operators name its hosts in ALLOWED_HOSTS.",
)
FOREIGN_ORIGIN = (
    "origin_refused",
    (
        "A page of another site may not speak to this server. Operators may allow one in "
        "CSRF_TRUSTED_ORIGINS."
    ),
)


def guarded(application: Application, origins: Collection[str] = ()) -> Any:
    """Wrap an application: it gets requests to this server's own names, from its own pages or those
    of `origins`; all others are refused.
    """

    async def door(scope: Scope, receive: Receive, send: Send) -> None:
        refused = refusal(scope, origins)
        if refused is None:
            await application(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()  # websocket.connect; a close before it is accepted answers 403
            await send({"type": "websocket.close", "code": 4403})
        else:
            await _problem(send, *refused)

    return door


def near(application: Application, otherwise: Application) -> Any:
    """Send clients on this machine to one application, and all others to the other one."""

    async def door(scope: Scope, receive: Receive, send: Send) -> None:
        chosen = application if clients.is_on_this_machine(scope) else otherwise
        await chosen(scope, receive, send)

    return door


def when_asked(module: str, package: str, installs: str) -> Application:
    """Give the `application` of a module that is imported with its first request: importing its
    package would take a quarter of a server's start. Raises ImproperlyConfigured where that package
    is not installed.
    """
    if find_spec(package) is None:
        raise ImproperlyConfigured(f"{package} is not installed: {installs}")
    found: list[Application] = []

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if not found:
            found.append((await asyncio.to_thread(import_module, module)).application)
        await found[0](scope, receive, send)

    return serve


def refusal(scope: Scope, origins: Collection[str] = ()) -> tuple[str, str] | None:
    """Say why a request to a stream or a socket is refused (code, words); None where it is not."""
    request = request_of(scope)
    try:
        if "HTTP_HOST" in request.META:  # no browser sends none
            request.get_host()
    except DisallowedHost:
        return FOREIGN_HOST
    origin = request.META.get("HTTP_ORIGIN")
    return None if origin in {None, *origins} or _own_origin(request) else FOREIGN_ORIGIN


def request_of(scope: Scope) -> ASGIRequest:
    """Make Django's request of a scope: so hosts, schemes and the proxy's header are read as for
    Django's pages.
    """
    scheme = {"ws": "http", "wss": "https"}.get(
        scope.get("scheme", ""), scope.get("scheme", "http")
    )
    return ASGIRequest({**scope, "type": "http", "method": "GET", "scheme": scheme}, io.BytesIO())


def _own_origin(request: ASGIRequest) -> bool:
    """Check the origin as Django checks every form's: it is the request's own scheme, host and
    port, or CSRF_TRUSTED_ORIGINS names it.
    """
    middleware: Any = CsrfViewMiddleware(lambda _: HttpResponse())
    return bool(middleware._origin_verified(request))


async def _problem(send: Send, code: str, detail: str) -> None:
    status, title = (400, "Bad Request") if code == FOREIGN_HOST[0] else (403, "Forbidden")
    body = json.dumps(
        {"type": "about:blank", "title": title, "status": status, "code": code, "detail": detail}
    ).encode()
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
