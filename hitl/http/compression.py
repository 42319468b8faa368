"""Pages and JSON as gzip for whoever takes it, where no proxy does that.

Django's own, which adds a random number of bytes to each answer; tokens against forgery are masked
anew for each page. So the length of an answer tells nothing about what stands in it (BREACH).
"""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware

TEXTS = ("text/", "application/json", "application/problem+json", "image/svg+xml")
"""Content types that get smaller."""


def middleware(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Outside all others, which read what they answer.

    Not streams, whose parts are to come at once, nor what has an ETag: a compressed answer has
    another, and clients send theirs back to say what they decided on.
    """
    gzip = GZipMiddleware(get_response)

    def handle(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        headers = response.headers
        if (
            response.streaming
            or "ETag" in headers
            or not headers.get("Content-Type", "").startswith(TEXTS)
        ):
            return response
        return gzip.process_response(request, response)

    return handle
