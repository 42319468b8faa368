"""Problem documents (RFC 9457) of what stands before the views; those of views are made by
`hitl.http.refusals`.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

from django.http import HttpResponse


def document(status: int, code: str, detail: str, **extra: Any) -> dict[str, Any]:
    """`code` is stable, `detail` is for people."""
    return {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": detail,
        **extra,
    }


def response(status: int, code: str, detail: str, **extra: Any) -> HttpResponse:
    return HttpResponse(
        json.dumps(document(status, code, detail, **extra)),
        status=status,
        content_type="application/problem+json",
    )
