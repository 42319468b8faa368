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


def body_of(request: Request, serializer: type[serializers.Serializer[Any]]) -> dict[str, Any]:
    """Give the values of a request's body; raises ValidationError where they are not right, or
    where the body has a field that nobody would read.
    """
    given = _of_form(request.data) if isinstance(request.data, QueryDict) else request.data
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
        raise serializers.ValidationError({**data.errors, **unknown})
    return dict(data.validated_data)


def user_of(request: Request) -> User:
    """Who asks; behind IsAuthenticated."""
    return cast(User, request.user)


def _of_form(given: QueryDict) -> dict[str, Any]:
    """A form with files as the JSON that it stands for: `input` is a text of JSON, and each file a
    part of it, by its dotted path: `input.invoice`. Raises ValidationError.
    """
    parts: dict[str, Any] = dict(given.items())
    sent = {name: part for name, part in parts.items() if isinstance(part, UploadedFile)}
    values = {name: part for name, part in parts.items() if name not in sent}
    if "input" in values or sent:
        values["input"] = _json(values.get("input") or "{}")
    for name, file in sent.items():
        first, *path = name.split(".")
        content = base64.b64encode(file.read()).decode()
        if first != "input" or not path or not _put(values["input"], path, file.name, content):
            words = "A file is a part of the input: name it input.<field>, as input.items.0.scan."
            raise serializers.ValidationError({name[:100]: [words]})
    return values


def _json(text: str) -> Any:
    if text.count(",") + text.count("[") + text.count("{") > limits.BODY_PARTS:
        words = f"The JSON holds more than {limits.BODY_PARTS:,} values."
        raise serializers.ValidationError({"input": [words]})
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise serializers.ValidationError({"input": ["This is not JSON."]}) from error


def _put(value: Any, path: list[str], name: str | None, content: str) -> bool:
    """Put a file at its place in a value; tells whether there is such a place."""
    for part in path[:-1]:
        if isinstance(value, dict):
            value = value.setdefault(part, {})
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return False
    if not isinstance(value, dict):
        return False
    value[path[-1]] = {"name": (name or "")[:200], "content": content}
    return True
