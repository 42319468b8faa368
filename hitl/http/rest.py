"""How Django REST framework serves the API: what tokens may do, how much is taken, and by whom how
often.

A project that sets nothing for that framework gets this (`hitl.apps`); one that does names these
classes itself, which a check looks for.
"""

from __future__ import annotations

from typing import Any

FRAMEWORK: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "hitl.http.authentication.BearerAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    # escapes, since a state may hold what UTF-8 cannot: half a surrogate pair
    "UNICODE_JSON": False,
    "DEFAULT_PERMISSION_CLASSES": [
        "rest_framework.permissions.IsAuthenticated",
        "hitl.http.authentication.WithinScope",
        "hitl.http.queries.KnownQuery",
    ],
    "DEFAULT_SCHEMA_CLASS": "hitl.openapi.operation.Operation",
    "EXCEPTION_HANDLER": "hitl.http.refusals.exception_handler",
    # there is one format; where there are two, `format` is the view's own
    "URL_FORMAT_OVERRIDE": None,
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": [
        "hitl.http.incoming.JsonParser",
        "hitl.http.incoming.UntypedJsonParser",
    ],
    "DEFAULT_THROTTLE_CLASSES": ["hitl.http.throttles.PerPerson"],
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
NEEDED = ("DEFAULT_AUTHENTICATION_CLASSES", "DEFAULT_PERMISSION_CLASSES")
"""Without these the API would let in whom it should not."""


def lacking(given: dict[str, Any]) -> list[str]:
    """Classes that another project's own settings of the framework leave out, though rights hang on
    them.
    """
    return [
        name
        for field in NEEDED
        for name in FRAMEWORK[field]
        if name.startswith("hitl.http.authentication.") or "IsAuthenticated" in name
        if name not in given.get(field, ())
    ]
