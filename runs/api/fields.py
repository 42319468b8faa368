"""Fields that many serializers of the REST API have."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers


class OptionalText(serializers.CharField):
    """Text that may be left out or empty; "" then."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"default": "", "allow_blank": True, **settings})


class TextOrNull(serializers.CharField):
    """Text that may be left out or null; null then."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"default": None, "allow_null": True, **settings})
