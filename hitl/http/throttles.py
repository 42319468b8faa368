"""How often a person, or an address without credentials, may ask the REST API: counted in the
shared cache, per minute.

A cache that is away limits nobody: the product goes on, and one line in a while says so.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from redis.exceptions import RedisError
from rest_framework.exceptions import NotAuthenticated
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from hitl.http import clients, problems
from hitl.http.authentication import BearerAuthentication, asks_who, view_of
from hitl.wait_gate import signatures

logger = logging.getLogger(__name__)

MINUTE = 60
AWAY_SECONDS = 10.0
"""After the cache failed it is left alone for so long, so that no request waits for it."""
API = ("/api/v1/", "/api/agent-work-orders")
"""Where programs ask: the second one is `hitl.api.printed_urls`."""

_away_until = 0.0


def count(scope: str, caller: object) -> int:
    """How often this was called for them in this minute; 0 where the cache is away."""
    global _away_until
    if time.monotonic() < _away_until:
        return 0
    key = f"rate:{scope}:{caller}:{int(time.time()) // MINUTE}"
    try:
        cache.add(key, 0, timeout=2 * MINUTE)
        return int(cache.incr(key))
    except (RedisError, OSError, ValueError) as error:  # a key may go between the two
        _away_until = time.monotonic() + AWAY_SECONDS
        logger.warning(
            "the cache is away, so nobody is throttled for %s s: %s",
            AWAY_SECONDS,
            type(error).__name__,
        )
        return 0


def rest_of_minute() -> int:
    """Seconds until the counting begins anew."""
    return MINUTE - int(time.time()) % MINUTE


class PerPerson(BaseThrottle):
    """Those who are known are limited by who they are, wherever they ask from; others by their
    address.
    """

    def allow_request(self, request: Request, view: Any) -> bool:
        if request.user is not None and request.user.is_authenticated:
            return not is_too_many_of(request.user.pk)
        return (
            count("address", clients.address_of(request._request))
            <= settings.WAYSTATION_ANONYMOUS_RATE
        )

    def wait(self) -> float:
        return float(rest_of_minute())


def middleware(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Limit what comes without credentials, or with wrong ones: the framework refuses those before
    it asks any throttle.

    Whoever brings right credentials is served, whatever others of the same address send. Whoever
    brings none, where some are needed, is told that as often as they ask: it guesses nothing, and
    costs nothing.
    """

    def handle(request: HttpRequest) -> HttpResponse:
        if not request.path_info.startswith(API):
            return get_response(request)
        if _brings_nothing(request):
            if not is_too_many(clients.address_of(request)):
                return get_response(request)
            return nobody(request) if asks_who(view_of(request)) else too_many()
        response = get_response(request)
        if response.status_code == 401 and is_too_many(clients.address_of(request)):
            return too_many()
        return response

    return handle


def _brings_nothing(request: HttpRequest) -> bool:
    return not (
        request.headers.get("Authorization")
        or request.COOKIES.get(settings.SESSION_COOKIE_NAME)
        or request.headers.get(signatures.SIGNATURE)
    )


def is_too_many(address: str) -> bool:
    """Count one more request of an address that nobody is known by."""
    return count("nobody", address) > settings.WAYSTATION_ANONYMOUS_RATE


def is_too_many_of(person: int) -> bool:
    """Count one more request of a person."""
    return count("person", person) > settings.WAYSTATION_USER_RATE


OFTEN = "You asked too often in this minute. Nothing was changed; try again in a minute."
WORDS = (
    "There were too many requests without credentials, or with wrong ones, from this address. "
    "Nothing was changed; try again in a minute."
)


def nobody(request: HttpRequest) -> HttpResponse:
    """401, as the framework says it."""
    error = NotAuthenticated
    response = problems.response(error.status_code, error.default_code, str(error.default_detail))
    response["WWW-Authenticate"] = BearerAuthentication().authenticate_header(Request(request))
    return response


def too_many() -> HttpResponse:
    response = problems.response(429, "throttled", WORDS)
    response["Retry-After"] = str(rest_of_minute())
    return response
