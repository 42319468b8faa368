"""Who asks, and what a request's body says: for the views of all apps."""

from __future__ import annotations

from typing import Any, cast

from rest_framework import serializers
from rest_framework.request import Request

from checkpoints.database.people import User


def body_of(request: Request, serializer: type[serializers.Serializer[Any]]) -> dict[str, Any]:
    """Give the values of a request's body; raises ValidationError where they are not right."""
    data = serializer(data=request.data, context={"request": request})
    data.is_valid(raise_exception=True)
    return dict(data.validated_data)


def user_of(request: Request) -> User:
    """Who asks; behind IsAuthenticated."""
    return cast(User, request.user)
