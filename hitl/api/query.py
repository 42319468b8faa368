"""Values of a request's query.

`project.queries` holds requests to what is declared here, so that a view reads what is one.
"""

from __future__ import annotations

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from checkpoints import ids


def id_parameter(name: str, prefix: str, description: str) -> OpenApiParameter:
    """A shown id."""
    return OpenApiParameter(
        name, {"type": "string", "pattern": ids.pattern(prefix)}, description=description
    )


def number_parameter(name: str, default: int, *, high: int, description: str) -> OpenApiParameter:
    """A whole number, from 0."""
    return OpenApiParameter(
        name,
        {"type": "integer", "minimum": 0, "maximum": high, "default": default},
        description=description,
    )


def number(request: Request, name: str, default: int) -> int:
    return int(request.query_params.get(name) or default)


def flag(request: Request, name: str, default: bool) -> bool:
    return (request.query_params.get(name) or str(default)).lower() in {"true", "1"}
