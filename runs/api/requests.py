"""Who asks, and what a request's body says: for the views of all apps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from rest_framework import serializers
from rest_framework.request import Request

from checkpoints.database.people import User
from runs.api.fields import unknown_fields


def body_of(request: Request, serializer: type[serializers.Serializer[Any]]) -> dict[str, Any]:
    """Give the values of a request's body; raises ValidationError where they are not right, or
    where the body has a field that nobody would read.
    """
    return values_of(request.data, serializer, context={"request": request})


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
