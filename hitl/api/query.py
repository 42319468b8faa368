"""Parameters of a request's query: how a view declares them, and how it reads their values.

`hitl.http.queries` refuses a request that does not fit the declarations, so a view reads without
checking again.
"""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiParameter
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.utils.urls import replace_query_param

from checkpoints import ids
from checkpoints.database import clock
from hitl.find import asking
from hitl.find.asking import Asked
from hitl.find.lists import NEWEST, OLDEST, Asker, List
from hitl.rendering.paging import ListOrder, NoSuchPlace
from runs.api.paging import NewestFirst
from runs.api.requests import user_of


def id_parameter(name: str, prefix: str, description: str) -> OpenApiParameter:
    """Declare a shown id."""
    return OpenApiParameter(
        name, {"type": "string", "pattern": ids.pattern(prefix)}, description=description
    )


def ids_parameter(name: str, prefix: str, most: int, description: str) -> OpenApiParameter:
    """Declare shown ids, with commas between them."""
    single = ids.pattern(prefix).strip("^$")
    pattern = f"^{single}(,{single}){{0,{most - 1}}}$"
    description = f"{description} Up to {most} ids, with commas between them."
    return OpenApiParameter(name, {"type": "string", "pattern": pattern}, description=description)


def number_parameter(name: str, default: int, *, high: int, description: str) -> OpenApiParameter:
    """Declare a whole number from 0 to `high`."""
    return OpenApiParameter(
        name,
        {"type": "integer", "minimum": 0, "maximum": high, "default": default},
        description=description,
    )


def number(request: Request, name: str, default: int) -> int:
    return int(request.query_params.get(name) or default)


def flag(request: Request, name: str, default: bool) -> bool:
    return (request.query_params.get(name) or str(default)).lower() in {"true", "1"}


def parameters_of(asked_of: List, *, without: tuple[str, ...] = ()) -> list[OpenApiParameter]:
    """Declare what a list can be asked: the same parameters as in the address of its page."""
    return [
        OpenApiParameter(
            parameter.name,
            {
                "type": "string",
                "maxLength": asking.LONGEST,
                **({"enum": list(parameter.choices)} if parameter.choices else {}),
            },
            description=parameter.about,
        )
        for parameter in asked_of.parameters
        if parameter.name not in without
    ]


def asked_by(request: Request, asked_of: List) -> tuple[Asked, Asker]:
    """Read what a request asks of a list, and who asks. Raises NotUnderstood.

    Unknown names, and values that break the declared schema, were refused before.
    """
    asker = Asker(user_of(request), clock.now())
    known = {parameter.name for parameter in asked_of.parameters}
    given = [(name, values) for name, values in request.query_params.lists() if name in known]
    return asking.read(given, asked_of.parameters, now=asker.now), asker


class OldestFirst(NewestFirst):
    ordering = "id"


class ByPlace(NewestFirst):
    """Pages in any order but by age: each continues after the last row of the page before, and none
    links back.
    """

    def __init__(self, order: ListOrder) -> None:
        self._order, self._next = order, ""

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        self._request, size = request, self.get_page_size(request) or self.page_size
        text = request.query_params.get(self.cursor_query_param, "")
        try:
            place = self._order.read(text) if text else None
        except NoSuchPlace as error:
            raise NotFound(self.invalid_cursor_message) from error
        rows = list(self._order(queryset, place)[: size + 1])
        if len(rows) > size:
            self._next = self._order.write(self._order.place(rows[size - 1]))
        return rows[:size]

    def get_next_link(self) -> str | None:
        if not self._next:
            return None
        address = self._request.build_absolute_uri()
        return str(replace_query_param(address, self.cursor_query_param, self._next))

    def get_previous_link(self) -> str | None:
        return None


def pages_of(asked_of: List, asked: Asked, *, usual: str = NEWEST) -> NewestFirst:
    """Return the paginator for the order that a request asks for."""
    sort = asked[asking.SORT] or usual
    if sort in {NEWEST, OLDEST}:
        return NewestFirst() if sort == NEWEST else OldestFirst()
    return ByPlace(asked_of.orders[sort])
