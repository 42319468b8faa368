"""Fields that many serializers of the REST API have."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.fields import empty

from runs.workflows import refusals

MOST_UNKNOWN = 10
"""Fields of a body that are told to be unknown."""


def unknown_fields(
    serializer: serializers.Field[Any, Any, Any, Any], given: Any
) -> dict[str, list[str]]:
    """Say which fields of a body nobody would read, at any depth, and which ones there are; the
    first MOST_UNKNOWN.

    A misspelt field would be a wish that nobody hears. A serializer may name fields that it takes
    and does not read in `passed_over`.
    """
    errors: dict[str, list[str]] = {}
    _look(serializer, given, "", errors)
    return errors


def _look(field: Any, given: Any, place: str, errors: dict[str, list[str]]) -> None:
    if isinstance(field, serializers.ListSerializer):
        for number, item in enumerate(given if isinstance(given, list) else ()):
            _look(field.child, item, f"{place}{number}.", errors)
    elif isinstance(field, serializers.Serializer) and isinstance(given, dict):
        known = {name: known for name, known in field.fields.items() if not known.read_only}
        for name, value in given.items():
            if len(errors) >= MOST_UNKNOWN:
                return
            if name in known:
                _look(known[name], value, f"{place}{name}.", errors)
            elif name not in getattr(field, "passed_over", ()):
                errors[f"{place}{name}"[:100]] = [refusals.unknown("field", str(name), known)]


class OptionalText(serializers.CharField):
    """Text that may be left out or empty, and with `allow_null` null; "" then."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"default": "", "allow_blank": True, **settings})

    def run_validation(self, data: Any = empty) -> str:
        return super().run_validation(data) or ""


class TextOrNull(serializers.CharField):
    """Text that may be left out or null; null then."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"default": None, "allow_null": True, **settings})
