"""Files that people hand in with an order or an answer, as its schema asks for them and steps find
them.

A part of a schema with `"format": "file"` takes `{"name", "content": base64}`, `{"upload"}` of a
page, or in an order `{"path"}`. What is kept in inputs, answers and states names the file, its
size and digest; the bytes are an artifact of the run, which `context.content_of` reads.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from runs import limits
from runs.workflows import schemas

KEY = "files"
"""Where the state holds those of an order, by the name of the input's property."""
MAX_BYTES = limits.FILE_BYTES
LONGEST = 4 * (MAX_BYTES // 3 + 1)
"""Of a file as base64."""
FORMAT = "file"
LONGEST_NAME = 200


@dataclass(frozen=True)
class File:
    """A file that somebody hands in: a field of a model that an order's input, or a question, asks
    for. `context.content_of(file)` gives its bytes.
    """

    name: str
    bytes: int
    sha256: str


KEPT: Mapping[str, Any] = {
    "properties": {
        "name": {"type": "string", "maxLength": LONGEST_NAME},
        "bytes": {"type": "integer", "minimum": 1, "maximum": MAX_BYTES},
        "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
    },
    "required": ["name", "bytes", "sha256"],
    "additionalProperties": False,
}
"""What a file is kept as."""
ANY: Mapping[str, Any] = {"properties": {}}
"""Whatever a file is handed in as."""


def schema_of(title: str = "", description: str = "", *, path: bool = True) -> dict[str, Any]:
    """The part of a schema that takes a file.

    Args:
        path: whether it may be named by its path in an allowed folder, as an order's may.
    """
    ways = ["content", *(["path"] if path else []), "upload", "sha256"]
    texts = {"title": title, "description": description}
    return {
        "type": "object",
        "format": FORMAT,
        **{name: text for name, text in texts.items() if text},
        "properties": {
            "name": {"type": "string", "maxLength": LONGEST_NAME},
            "content": {
                "type": "string",
                "contentEncoding": "base64",
                "minLength": 1,
                "maxLength": LONGEST,
            },
            **({"path": {"type": "string", "minLength": 1, "maxLength": 1000}} if path else {}),
            "upload": {"type": "string", "maxLength": 40},
            "bytes": KEPT["properties"]["bytes"],
            "sha256": KEPT["properties"]["sha256"],
        },
        "oneOf": [{"required": [way]} for way in ways],
        "additionalProperties": False,
    }


def is_file(schema: Any) -> bool:
    """Whether a part of a schema takes a file."""
    return (
        isinstance(schema, Mapping)
        and schema.get("format") == FORMAT
        and ("properties" in schema or "object" in schema.get("type", ()))
    )


def names_in(schema: Mapping[str, Any]) -> list[str]:
    """The properties of an input schema that take a file."""
    properties = schema.get("properties", {}) if isinstance(schema, Mapping) else {}
    return [name for name, part in properties.items() if is_file(part)]


def asked_in(schema: Any) -> bool:
    """Whether a schema takes a file anywhere in its properties and items."""
    return is_file(schema) or any(asked_in(part) for part in _parts(schema).values())


def as_kept(schema: Any, shape: Mapping[str, Any] = KEPT) -> Any:
    """The schema of what is kept: each file as KEPT has it, however it was handed in."""
    if is_file(schema):
        own = {"oneOf", "required", "additionalProperties", schemas.ORDER}
        return {**{key: value for key, value in schema.items() if key not in own}, **shape}
    if not asked_in(schema):
        return schema
    made = dict(schema)
    if "items" in made:
        made["items"] = as_kept(made["items"], shape)
    if "properties" in made:
        parts = made["properties"].items()
        made["properties"] = {name: as_kept(part, shape) for name, part in parts}
    return made


def each_taken(
    schema: Any, value: Any, take: Callable[[str, Mapping[str, Any]], Any], path: str = ""
) -> Any:
    """The value with what `take` makes of each file in it: of its dotted path, and of what was
    given.
    """
    if is_file(schema):
        return take(path, value) if isinstance(value, Mapping) else value
    if not asked_in(schema):
        return value
    parts = _parts(schema)
    if isinstance(value, Mapping):
        return {
            name: each_taken(parts[name], one, take, f"{path}.{name}" if path else name)
            if name in parts
            else one
            for name, one in value.items()
        }
    if isinstance(value, list) and "items" in schema:
        items = schema["items"]
        return [
            each_taken(items, one, take, f"{path}.{place}" if path else str(place))
            for place, one in enumerate(value)
        ]
    return value


def _parts(schema: Any) -> Mapping[str, Any]:
    if not isinstance(schema, Mapping):
        return {}
    properties = schema.get("properties")
    parts = dict(properties) if isinstance(properties, Mapping) else {}
    return {**parts, **({"[]": schema["items"]} if isinstance(schema.get("items"), dict) else {})}


def bytes_of(file: Mapping[str, Any]) -> bytes:
    """The content of a file that a state holds itself, as those of earlier orders do."""
    return base64.b64decode(file["content"])
