"""The content security policy of the admin: as on all other pages, with the two allowances that its
theme needs.

Alpine, which unfold's pages are alive with, makes functions of the words in its attributes, and
both write styles into the page. Scripts come from this server's files all the same: an inline
script or a handler in an attribute runs nowhere.
"""

from __future__ import annotations

from collections.abc import Callable

from csp.constants import UNSAFE_EVAL, UNSAFE_INLINE
from django.http import HttpRequest, HttpResponse

ALLOWANCES = {"script-src": [UNSAFE_EVAL], "style-src": [UNSAFE_INLINE]}


def middleware(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Stands below django-csp's middleware, which writes the header."""

    def with_allowances(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if request.path_info.startswith("/admin/"):
            # as csp.decorators.csp_update does for one view
            response._csp_update = ALLOWANCES  # type: ignore[attr-defined]
        return response

    return with_allowances
