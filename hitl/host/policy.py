"""Send the content security policy: with every answer of the shipped project, and in other projects
with those of our own views.
"""

from __future__ import annotations

from collections.abc import Callable

from csp.constants import HEADER
from csp.middleware import CSPMiddleware
from csp.utils import build_policy
from django.http import HttpRequest
from django.http.response import HttpResponseBase

OURS = ("hitl", "runs", "checkpoints", "extensions")


class ContentPolicy(CSPMiddleware):
    """django-csp's middleware, except that the settings' policy is written once: django-csp writes
    it anew for each answer.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        super().__init__(get_response)
        self._usual = build_policy()

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        if any(name.startswith("_csp") for name in (*vars(response), *vars(request))):
            return super().process_response(request, response)
        response.headers.setdefault(HEADER, self._usual)
        return response


class OwnPages(ContentPolicy):
    """Leaves the pages of the project that it stands in as they are."""

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        found = request.resolver_match
        if found is None or found.func.__module__.partition(".")[0] not in OURS:
            return response
        return super().process_response(request, response)
