"""Answers while the database, or the store of checkpoints, is away: 503 with words, 507 where its
disk is full.

A view of the API says it by `hitl.http.refusals`; here is what pages say, and everything that fails
around a view: in a middleware, in authentication, at a commit.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, HttpResponseServerError
from django.shortcuts import render
from django.template import loader
from django.views.decorators.csrf import requires_csrf_token
from redis.exceptions import RedisError

from checkpoints.database import outages
from checkpoints.store import StoreUnavailable
from hitl.http import problems

logger = logging.getLogger(__name__)

SAFE = {"GET", "HEAD", "OPTIONS", "TRACE"}


class Unavailable:
    """503 with words instead of an error page: the same click works later."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if isinstance(error, StoreUnavailable):
            logger.warning("%s %s: %s", request.method, request.path, error)
            response = render(request, "503.html", status=503)
            response["Retry-After"] = "5"
            return response
        if isinstance(error, RedisError):  # of what counts tries, at the pages of one's account
            logger.warning("%s %s: %s", request.method, request.path, type(error).__name__)
            response = render(request, "uncounted.html", status=503)
            response["Retry-After"] = "5"
            return response
        return during_trouble(request, error)


def during_trouble(request: HttpRequest, error: BaseException) -> HttpResponse | None:
    """The answer to a request that the database's own trouble kept from its answer; None for any
    other error. Needs no database.
    """
    answer = outages.said(error, changing=request.method not in SAFE)
    if answer is None:
        return None
    logger.warning("%s %s: %s", request.method, request.path, error)
    if request.path.startswith("/api/"):
        response = problems.response(answer.status, answer.code, answer.words)
    else:
        page = loader.render_to_string(
            "unavailable.html", {"said": answer, "changing": request.method not in SAFE}
        )
        response = HttpResponse(page, status=answer.status)
    response["Retry-After"] = str(answer.after)
    return response


@requires_csrf_token
def server_error(request: HttpRequest) -> HttpResponse:
    """What Django asks for when an error reached nobody who could answer it."""
    error = sys.exception()
    response = during_trouble(request, error) if error is not None else None
    if response is not None:
        return response
    if request.path.startswith("/api/"):
        message = (
            "Something went wrong on our side; the error is in the server's log. Whether this "
            "was done is not known."
        )
        return problems.response(500, "server_error", message)
    return HttpResponseServerError(loader.render_to_string("500.html"))
