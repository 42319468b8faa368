"""The system check that a project with these apps guards their API."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from hitl.http import rest


@register("hitl")
def api_is_guarded(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """Report which classes REST_FRAMEWORK lacks: in all views, they ask for a login and check the
    scopes of tokens.
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
