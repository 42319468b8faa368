"""What holds for all pages of the admin: no address with a NUL in it, which no column can hold; and
the content security policy as on all other pages, with the two allowances that its theme needs.

Alpine, which unfold's pages are alive with, makes functions of the words in its attributes, and
both write styles into the page. Scripts come from this server's files all the same: an inline
script or a handler in an attribute runs nowhere.
"""

from __future__ import annotations

from collections.abc import Callable

from csp.constants import UNSAFE_EVAL, UNSAFE_INLINE
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse

ALLOWANCES = {"script-src": [UNSAFE_EVAL], "style-src": [UNSAFE_INLINE]}


def middleware(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Stands below django-csp's middleware, which writes the header. Raises BadRequest."""

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
