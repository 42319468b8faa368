"""Send the content security policy with every answer. For pages of the admin also: refuse an
address with a NUL in it, which no column can hold, and give the policy the two allowances that the
admin's theme needs.

The theme, Unfold, runs its pages with Alpine. Alpine makes functions from the text of attributes,
and both write styles into the page. Scripts come from this server's files all the same: an inline
script or a handler in an attribute never runs.
"""

from __future__ import annotations

from collections.abc import Callable

from csp.constants import HEADER, UNSAFE_EVAL, UNSAFE_INLINE
from csp.middleware import CSPMiddleware
from csp.utils import build_policy
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

ALLOWANCES = {"script-src": [UNSAFE_EVAL], "style-src": [UNSAFE_INLINE]}


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


def middleware(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Note the admin's allowances for `ContentPolicy`, which stands above and writes the header.
    Raises BadRequest.
    """

    def with_allowances(request: HttpRequest) -> HttpResponse:
        ours = request.path_info.startswith("/admin/")
        if ours and "%00" in request.META.get("QUERY_STRING", ""):
            raise BadRequest("There is a NUL in this address, which no value holds.")
        response = get_response(request)
        if ours:
            # as csp.decorators.csp_update does for one view
            response._csp_update = ALLOWANCES  # type: ignore[attr-defined]
        return response

    return with_allowances
