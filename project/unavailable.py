"""Pages while the store of checkpoints is away. The API says it by `project.errors`."""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from checkpoints.store import StoreUnavailable

logger = logging.getLogger(__name__)


class Unavailable:
    """503 with words instead of an error page: nothing was changed, and the same click works later."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if not isinstance(error, StoreUnavailable):
            return None
        logger.warning("%s %s: %s", request.method, request.path, error)
        response = render(request, "503.html", status=503)
        response["Retry-After"] = "5"
        return response
