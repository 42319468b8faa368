"""Whether the project that the apps are in guards the API as it has to be."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from hitl.http import rest


@register("hitl")
def api_is_guarded(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """Tokens' scopes, and that one has to log in, are classes that REST_FRAMEWORK names for all
    views.
    """
    if not (lacking := rest.lacking(settings.REST_FRAMEWORK)):
        return []
    message = (
        f"REST_FRAMEWORK leaves out {', '.join(lacking)}, so the API would let in whom it "
        "should not."
    )
    return [
        Error(
            message,
            hint="Build it on hitl.http.rest.FRAMEWORK; see docs/how-to/embedding.md.",
            id="hitl.E001",
        )
    ]
