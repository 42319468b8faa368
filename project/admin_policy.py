"""For pages of the admin: refuse an address with a NUL in it, which no column can hold, and give
the content security policy the two allowances that the admin's theme needs.

The theme, Unfold, runs its pages with Alpine. Alpine makes functions from the text of attributes,
and both write styles into the page. Scripts come from this server's files all the same: an inline
script or a handler in an attribute never runs.
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
