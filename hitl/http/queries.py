"""Check a request's query against the OpenAPI document: a misspelt filter, or a value that does not
exist, is refused with the known ones, where it would else give an empty list or all rows. A body is
refused where none is read.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any

from rest_framework.exceptions import ValidationError
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from checkpoints.state import codec
from hitl.find.asking import UNREADABLE

FLAGS = ("true", "false", "1", "0")


class UnknownParameter(ValidationError):
    """A query names parameters that nothing reads here; `known` are those that are read."""

    status_code = 422
    code = "unknown_parameter"

    def __init__(self, errors: Mapping[str, list[str]], known: Iterable[str]) -> None:
        super().__init__(dict(errors))
        self.known = list(known)


class KnownQuery(BasePermission):
    """Checks every request once its user is known, so that no view checks by itself.

    A view with `any_query` takes any query.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        known = (
            None
            if getattr(view, "any_query", False)
            else parameters(view.__class__, str(request.method))
        )
        if known is not None and (errors := wrong(request, known)):
            unknown = any(name not in known for name in errors)
            raise UnknownParameter(errors, known) if unknown else ValidationError(errors)
        if takes_nothing(view.__class__, str(request.method)):
            unread = list(request.data)[:10] if isinstance(request.data, dict) else []
            if unread:
                raise ValidationError(
                    {str(name)[:100]: ["No field of a body is read here."] for name in unread}
                )
        return True


def wrong(request: Request, known: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    """Find the faults of a query: parameter → what is wrong with it."""
    errors = {}
    for name, values in request.query_params.lists():
        if name not in known:
            errors[name] = [
                f"There is no such parameter here. Known are: {', '.join(known) or 'none'}."
            ]
        elif len(values) > 1:
            errors[name] = ["Once only."]
        elif (text := refusal(values[0], known[name])) is not None:
            errors[name] = [text]
    return errors


def refusal(text: str, schema: dict[str, Any]) -> str | None:
    """Say why a parameter of this schema cannot have this value; None where it can."""
    kind, known = schema.get("type"), schema.get("enum")
    if kind == "boolean":
        return None if text.lower() in FLAGS else "true or false."
    if kind == "integer":
        low, high = schema.get("minimum", 0), schema.get("maximum", 10**20)
        is_number = text.isascii() and text.isdigit() and low <= int(text[:20]) <= high
        return (
            None
            if is_number
            else f"A whole number from {low}{f' to {high}' if 'maximum' in schema else ''}."
        )
    if known is not None:
        return None if text in known else f"One of {', '.join(known)}."
    if codec.holds_unreadable(text):
        return UNREADABLE
    return (
        None
        if re.search(schema.get("pattern", ""), text)
        else f"This has to fit {schema['pattern']}."
    )


@functools.cache
def parameters(view: type[Any], method: str) -> dict[str, dict[str, Any]] | None:
    """Give the query parameters of an operation and their schemas, as the document has them; None
    where the document has no such operation.
    """
    handler = getattr(view, {"HEAD": "get"}.get(method, method.lower()), None)
    described = getattr(handler, "kwargs", {}).get("schema")
    if described is None:
        return None
    schema = _operation(view, described, "GET" if method == "HEAD" else method)
    named = [
        parameter
        for parameter in schema._process_override_parameters().values()
        if parameter is not None
    ]
    return {
        parameter["name"]: parameter["schema"]
        for parameter in [*schema._get_pagination_parameters(), *named]
        if parameter["in"] == "query"
    }


@functools.cache
def takes_nothing(view: type[Any], method: str) -> bool:
    """Whether the document says that an operation that changes something reads no body."""
    handler = getattr(view, method.lower(), None)
    described = getattr(handler, "kwargs", {}).get("schema")
    if method not in {"POST", "PUT", "PATCH"} or described is None:
        return False
    return _operation(view, described, method).get_request_serializer() is None


def _operation(view: type[Any], described: Any, method: str) -> Any:
    """Make a view's operation as the document has it, for no request in particular."""
    schema, instance = described(), view()
    instance.request, instance.args, instance.kwargs = None, (), {}
    schema.view, schema.method, schema.path = instance, method, ""
    return schema
