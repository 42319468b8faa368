"""Files that a work order brings along, as its template asks for them and its steps find them.

A property of the input schema with `"format": "file"` takes `{"name", "content": base64}` or
`{"path"}`. The run's first state holds the file, so that any worker has it and the file itself may
go; the order's input keeps its name, size and digest.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, TypedDict

from runs.workflows import schemas

KEY = "files"
"""Where the state holds them, by the name of the input's property."""
MAX_BYTES = 5_000_000
LONGEST = 4 * (MAX_BYTES // 3 + 1)
"""Of a file as base64."""
FORMAT = "file"


class File(TypedDict):
    name: str
    content: str  # base64
    sha256: str  # of the bytes


def schema_of(title: str, description: str) -> dict[str, Any]:
    """The part of an input schema that takes a file."""
    return {
        "type": "object",
        "format": FORMAT,
        "title": title,
        "description": description,
        "properties": {
            "name": {"type": "string", "maxLength": 200},
            "content": {
                "type": "string",
                "contentEncoding": "base64",
                "minLength": 1,
                "maxLength": LONGEST,
            },
            "path": {"type": "string", "minLength": 1, "maxLength": 1000},
        },
        "oneOf": [{"required": ["content"]}, {"required": ["path"]}],
        "additionalProperties": False,
    }


def names_in(schema: Mapping[str, Any]) -> list[str]:
    """The properties of an input schema that take a file."""
    properties = schema.get("properties", {}) if isinstance(schema, Mapping) else {}
    return [
        name
        for name, part in properties.items()
        if isinstance(part, Mapping) and part.get("format") == FORMAT
    ]


def longest(schema: Mapping[str, Any]) -> int:
    """Bytes that an input's text may have: what any may, and its files."""
    return schemas.MAX_ANSWER + len(names_in(schema)) * LONGEST


def bytes_of(file: Mapping[str, Any]) -> bytes:
    """The content of a file in a state."""
    return base64.b64decode(file["content"])
