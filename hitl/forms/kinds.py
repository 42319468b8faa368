"""Which entry of a form a part of a JSON Schema gets: its kind and its choices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from django.utils.translation import gettext

from checkpoints.state import codec
from checkpoints.text import media
from runs.definitions.editing.fields import DURATION, GROUP, PERSON
from runs.workflows import attachments

LONG = 200
"""A text that may be longer than this has several lines."""
Kind = Literal[
    "text",
    "long",
    "lines",
    "whole",
    "number",
    "check",
    "one",
    "several",
    "date",
    "time",
    "moment",
    "fixed",
    "group",
    "rows",
    "file",
    "json",
]


@dataclass
class Option:
    value: str
    label: str
    means: Any
    chosen: bool = False


@dataclass(frozen=True)
class KeptFile:
    """A file that a form has already, as a hidden field of it says."""

    key: str
    """Of an upload, or the digest of a file that the run has."""
    size: int
    kind: str
    """Its media type; "" where that is not known here."""
    name: str

    def __str__(self) -> str:
        return f"{self.key} {self.size} {self.kind or '-'} {self.name}"

    @classmethod
    def parse(cls, text: str) -> KeptFile | None:
        parts = text.split(" ", 3)
        if len(parts) != 4 or not parts[1].isdecimal() or len(parts[1]) > 12:
            return None
        return cls(parts[0], int(parts[1]), parts[2].strip("-"), parts[3])

    @property
    def is_upload(self) -> bool:
        return self.key.startswith("upl_")

    @property
    def is_picture(self) -> bool:
        return self.kind in media.PICTURES

    @property
    def has_text(self) -> bool:
        return self.kind in media.TEXTS


def flatten(schema: Any) -> dict[str, Any]:
    """A schema with the members of its `allOf` taken in, as far as showing it goes."""
    if not isinstance(schema, Mapping):
        return {}
    flat = {key: value for key, value in schema.items() if key != "allOf"}
    for member in schema.get("allOf", []):
        inner = flatten(member)
        properties = {**inner.get("properties", {}), **flat.get("properties", {})}
        required = [*flat.get("required", []), *inner.get("required", [])]
        flat = {
            **inner,
            **flat,
            **({"properties": properties} if properties else {}),
            **({"required": required} if required else {}),
        }
    return _or_null(flat)


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """What may be empty beside one other shape, as that shape: programs write `str | None` so."""
    for key in ("anyOf", "oneOf"):
        members = schema.get(key)
        if not isinstance(members, list | tuple) or len(members) != 2:
            continue
        others = [flatten(member) for member in members if member != {"type": "null"}]
        if len(others) == 1 and (types := types_of(others[0])):
            rest = {name: value for name, value in schema.items() if name != key}
            return {**others[0], **rest, "type": [*types, *{"null"}.difference(types)]}
    return schema


def types_of(schema: Mapping[str, Any]) -> list[str]:
    types = schema.get("type", [])
    return [types] if isinstance(types, str) else list(types)


def takes_null(schema: Mapping[str, Any]) -> bool:
    """Whether no answer is an answer, too."""
    values = schema.get("enum")
    listed = isinstance(values, list | tuple) and None in values
    return listed or ("null" in types_of(schema) and values is None)


def kind_of(schema: Mapping[str, Any]) -> Kind:
    types = [name for name in types_of(schema) if name != "null"]
    if "const" in schema:
        # a thing to confirm is never confirmed by itself
        return "check" if schema["const"] is True and types == ["boolean"] else "fixed"
    if attachments.is_file(schema):
        return "file"
    if _choices(schema) is not None:
        return "one"
    if "properties" in schema and types in ([], ["object"]):
        return "group"
    match types:
        case ["string"]:
            formats: dict[str, Kind] = {"date": "date", "time": "time", "date-time": "moment"}
            return formats.get(
                schema.get("format", ""), "long" if schema.get("maxLength", 0) > LONG else "text"
            )
        case ["integer"]:
            return "whole"
        case ["number"] | ["integer", "number"] | ["number", "integer"]:
            return "number"
        case ["boolean"]:
            # a box that nobody ticked says no
            sure = "null" not in types_of(schema)
            return "check" if sure and isinstance(schema.get("default"), bool) else "one"
        case ["array"] if "prefixItems" not in schema:
            return _list_kind(flatten(schema.get("items")))
    return "json"


def _list_kind(items: Mapping[str, Any]) -> Kind:
    inner = kind_of(items) if items else "json"
    if items.get("format") in {PERSON, GROUP, DURATION}:
        return "rows"
    if inner == "one":
        return "several"
    if inner in {"text", "long"} and not items.get("pattern"):
        return "lines"
    return "json" if inner in {"json", "rows", "several", "lines"} else "rows"


def _choices(schema: Mapping[str, Any]) -> tuple[list[tuple[Any, str]], bool] | None:
    """The values to choose from with their labels, and whether a person may write another; None
    where it is no choice.
    """
    if isinstance(values := schema.get("enum"), Sequence) and values:
        named = zip(values, names_of(schema, values), strict=True)
        # null is no answer, which has an entry of its own
        return [(value, name) for value, name in named if value is not None], False
    members = schema.get("oneOf") or schema.get("anyOf") or []
    fixed = [
        (member["const"], str(member.get("title") or words(member["const"])))
        for member in members
        if isinstance(member, Mapping) and "const" in member
    ]
    if fixed and len(fixed) == len(members):
        return fixed, False
    if len(members) == 2 and all(isinstance(member, Mapping) for member in members):
        first, second = flatten(members[0]), flatten(members[1])
        listed = _choices(first)
        if listed and not listed[1] and kind_of(second) in {"text", "long"}:
            return listed[0], True
    return None


def names_of(schema: Mapping[str, Any], values: Sequence[Any]) -> list[str]:
    """What an enum's values are called: `enumNames` was MCP's word for it until 2025-11-25, and is
    that of several makers of forms.
    """
    named = schema.get("enumNames")
    if isinstance(named, list | tuple) and len(named) == len(values):
        return [str(name) or words(value) for name, value in zip(named, values, strict=True)]
    return [words(value) for value in values]


def options_of(schema: Any) -> tuple[list[Option], bool]:
    flat = flatten(schema)
    values, other = _choices(flat) or ([(True, gettext("Yes")), (False, gettext("No"))], False)
    posted = [escaped(value) if isinstance(value, str) else words(value) for value, _ in values]
    if len(set(posted)) < len(posted):  # "1" and 1
        posted = [codec.encode(value).replace("~", "~0") for value, _ in values]
    return [
        Option(value=key, label=label, means=value)
        for key, (value, label) in zip(posted, values, strict=True)
    ], other


def same(value: Any, other: Any) -> bool:
    """Equal as JSON has it: true is not 1."""
    return codec.encode(value) == codec.encode(other)


def words(value: Any) -> str:
    return value if isinstance(value, str) else codec.encode(value)


def escaped(name: str) -> str:
    return name.replace("~", "~0").replace(".", "~1")
