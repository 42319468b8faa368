"""Pages of the REST API's long lists: newest first, by a cursor."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from rest_framework.exceptions import NotFound
from rest_framework.pagination import BasePagination, CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

LIMIT = "Rows of a page; of a larger number {most} are given."


def shape(results: dict[str, Any]) -> dict[str, Any]:
    """Give the schema of a page of such results: each list of the API has this one."""
    address = {"type": ["string", "null"], "format": "uri"}
    return {
        "type": "object",
        "required": ["next", "previous", "results"],
        "properties": {
            "next": {
                **address,
                "description": "The address of the next page; null on the last one.",
            },
            "previous": {
                **address,
                "description": "The address of the page before; null on the first one.",
            },
            "results": results,
        },
    }


class WithoutCursor(BasePagination):
    """Of lists that are given whole, or go on behind a number or a name: the document reads it."""

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        return shape(schema)

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        return []


class NewestVersionFirst(CursorPagination):
    """Of rows with numbers as keys."""

    ordering = "-id"
    page_size = 50
    page_size_query_param = "limit"
    max_page_size = 200

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        return shape(schema)

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        limit = {"type": "integer", "minimum": 1, "default": self.page_size}
        return [
            {
                "name": "cursor",
                "in": "query",
                "schema": {"type": "string"},
                "description": "Of the `next` or `previous` of another page.",
            },
            {
                "name": "limit",
                "in": "query",
                "schema": limit,
                "description": LIMIT.format(most=self.max_page_size),
            },
        ]


class NewestFirst(NewestVersionFirst):
    """Keys are time-ordered, so a page is a range of the primary key."""

    def decode_cursor(self, request: Request) -> Any:
        cursor = super().decode_cursor(request)
        try:
            if cursor is not None and cursor.position is not None:
                UUID(str(cursor.position))
        except ValueError as error:
            raise NotFound(self.invalid_cursor_message) from error
        return cursor


class Paged(APIView):
    """A view whose GET gives a list by pages.

    The document of the API reads `pagination_class` too.
    """

    pagination_class: type[NewestVersionFirst] = NewestFirst

    def page(self, request: Request, rows: Any, out: Any, **context: Any) -> Response:
        """One page of these rows, each as this serializer shows it."""
        pages = self.pagination_class()
        found: Any = pages.paginate_queryset(rows, request, view=self)
        return pages.get_paginated_response(out(found, many=True, context=context).data)


class Listed(APIView):
    """A view whose GET gives a list without a cursor."""

    pagination_class: type[BasePagination] = WithoutCursor


def listed(rows: Any, *, following: str | None = None) -> Response:
    """Answer with these rows, as a serializer shows them, and the address of what follows."""
    return Response({"next": following, "previous": None, "results": rows})
