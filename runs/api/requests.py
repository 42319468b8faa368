"""Who asks, and what a request's body says: for the views of all apps."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, cast

from django.core.files.uploadedfile import UploadedFile
from django.http import QueryDict
from rest_framework import serializers
from rest_framework.request import Request

from checkpoints.database.people import User
from runs import limits
from runs.api.fields import unknown_fields


class CannotBe(serializers.ValidationError):
    """A request that is as the OpenAPI document says, and asks for what cannot be."""

    status_code = 422
    code = "cannot_be"
    """Of an error that only looking at other fields, or at what there is, can find."""


def body_of(request: Request, serializer: type[serializers.Serializer[Any]]) -> dict[str, Any]:
    """Give the values of a request's body; raises ValidationError where they are not right, or
    where the body has a field that nobody would read.
    """
    given = request.data
    if isinstance(given, QueryDict):
        given = _of_form(given, serializer)
    return values_of(given, serializer, context={"request": request})


def values_of(
    given: Any,
    serializer: type[serializers.Serializer[Any]],
    context: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """As `body_of`, of what came in another way."""
    data = serializer(data=given, context=dict(context or {}))
    unknown = unknown_fields(data, given)
    if not data.is_valid() or unknown:
        errors = {**data.errors, **unknown}
        codes = {getattr(word, "code", "") for words in errors.values() for word in words}
        raise (CannotBe if codes == {CannotBe.code} else serializers.ValidationError)(errors)
    return dict(data.validated_data)


def user_of(request: Request) -> User:
    """Who asks; behind IsAuthenticated."""
    return cast(User, request.user)


def _of_form(given: QueryDict, serializer: type[serializers.Serializer[Any]]) -> dict[str, Any]:
    """A form as the JSON that it stands for: `input` is a text of JSON, a list has a part for each
    item, and a file or a text is put into the input by its dotted path: `input.invoice`. Raises
    ValidationError.
    """
    lists = {
        name
        for name, field in serializer().fields.items()
        if isinstance(field, serializers.ListField)
    }
    parts = {name: given.getlist(name) if name in lists else part for name, part in given.items()}
    inside = {
        name: part
        for name, part in parts.items()
        if isinstance(part, UploadedFile) or name.startswith("input.")
    }
    values: dict[str, Any] = {name: part for name, part in parts.items() if name not in inside}
    if "input" in values or inside:
        values["input"] = _json(values.get("input") or "{}")
    for name, part in inside.items():
        first, *path = name.split(".")
        if first != "input" or not path or not _put(values["input"], path, _told(part)):
            words = "A file is a part of the input: name it input.<field>, as input.items.0.scan."
            raise serializers.ValidationError({name[:100]: [words]})
    return values


def _told(part: Any) -> Any:
    """A file as the input holds it; a text as it is."""
    if not isinstance(part, UploadedFile):
        return part
    content = base64.b64encode(part.read()).decode()
    return {"name": (part.name or "")[:200], "content": content}


def _json(text: str) -> Any:
    if text.count(",") + text.count("[") + text.count("{") > limits.BODY_PARTS:
        words = f"The JSON holds more than {limits.BODY_PARTS:,} values."
        raise serializers.ValidationError({"input": [words]})
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise serializers.ValidationError({"input": ["This is not JSON."]}) from error


def _put(value: Any, path: list[str], told: Any) -> bool:
    """Put something at its place in a value; tells whether there is such a place."""
    if len(path) > limits.BODY_DEPTH:
        return False
    for part in path[:-1]:
        if isinstance(value, dict):
            value = value.setdefault(part, {})
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return False
    if not isinstance(value, dict):
        return False
    value[path[-1]] = told
    return True
