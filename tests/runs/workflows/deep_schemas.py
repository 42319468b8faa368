"""Schemas that are small to write and large to check."""

from __future__ import annotations

from typing import Any


def doubling(levels: int) -> dict[str, Any]:
    """Each part refers to the next one twice."""
    parts = {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(levels)}
    return {"$defs": {**parts, f"a{levels}": {"type": "string"}}, "$ref": "#/$defs/a0"}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"not": schema}
    return schema
