"""Values of a request's query, each refused in words where it is none."""

from __future__ import annotations

from rest_framework import serializers
from rest_framework.request import Request


def number(request: Request, name: str, default: int, *, high: int) -> int:
    """A whole number of the query, from 0."""
    text = request.query_params.get(name, str(default))
    if not text.isascii() or not text.isdigit() or int(text[:20]) > high:
        raise serializers.ValidationError({name: [f"A whole number from 0 to {high}."]})
    return int(text)


def flag(request: Request, name: str, default: bool) -> bool:
    text = request.query_params.get(name, str(default)).lower()
    if text not in {"true", "false", "1", "0"}:
        raise serializers.ValidationError({name: ["true or false."]})
    return text in {"true", "1"}
