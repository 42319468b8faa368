"""What is said of a value that is refused: the field that brought it, and of a name that nobody
knows, the names that come close.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from jsonschema.exceptions import SchemaError, ValidationError

LISTED = 30
"""Known names that a sentence lists."""


class FieldRefused(Exception):
    """A value cannot be taken; `field` names it."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field


def as_text(errors: Mapping[str, Iterable[str]]) -> str:
    """Write errors, sentences by field, as one line of text."""
    return " ".join(
        f"{field}: {text}" if field else text for field, texts in errors.items() for text in texts
    )


def close(name: str, known: Iterable[str]) -> list[str]:
    """Give the known names that a misspelt one may stand for, the closest first."""
    return get_close_matches(name, sorted(set(known)), n=3, cutoff=0.6)


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """Say that there is no such name; give a sentence such as
    `There is no key 'pause_afterr'. Did you mean pause_after? There are choices, name, …`.
    """
    names = in_order(known)
    nearest = close(name, names)
    listed = [*nearest, *(name for name in names if name not in nearest)]
    sentences = [f"There is no {kind} {name[:100]!r}."]
    if nearest:
        sentences.append(f"Did you mean {' or '.join(nearest)}?")
    if names:
        sentences.append(
            f"There {'is' if len(names) == 1 else 'are'} "
            f"{', '.join(listed[:LISTED])}{' and others' if len(listed) > LISTED else ''}."
        )
    return " ".join(sentences)


def in_order(names: Iterable[str]) -> list[str]:
    """Give names as somebody put them, each once; those that nobody put in an order with numbers
    as people count: `c2` before `c10`.
    """
    ordered = isinstance(names, Sequence | Mapping)
    return list(dict.fromkeys(names if ordered else sorted(names, key=_counted)))


def _counted(name: str) -> list[tuple[int, str]]:
    parts = re.split(r"([0-9]+)", name)
    return [(int(part[:300]), "") if place % 2 else (0, part) for place, part in enumerate(parts)]


def in_json(value: Any, longest: int = 80) -> str:
    """Write a value as JSON has it, for sentences: Python's `None` and `True` say nothing to who
    sent `null` and `true`.
    """
    text = json.dumps(value[:longest] if isinstance(value, str) else value, ensure_ascii=False)
    return text if len(text) <= longest + 2 else f"{text[: longest - 1]}…"


def label_of(name: str, schema: Any) -> str:
    """What a property is called where its author gave it no title."""
    title = schema.get("title") if isinstance(schema, Mapping) else None
    return str(title or name.replace("_", " ").strip().capitalize() or name)


def titled(schema: Any, path: str) -> str:
    """A dotted path into a value as a person reads it, by the titles of a schema's properties:
    `items.0.price` is `Items 1, Price`.
    """
    names: list[str] = []
    at = schema
    for part in path.split(".") if path else []:
        of = at if isinstance(at, Mapping) else {}
        if part.isdecimal() and names and "items" in of:
            names[-1] += f" {int(part) + 1}"
            at = of["items"]
        else:
            at = of.get("properties", {}).get(part, {})
            names.append(label_of(part, at))
    return ", ".join(names)


def library_message(error: ValidationError | SchemaError) -> str:
    """Give the library's own words of a fault, with the values in them as JSON has them."""
    text = str(error.message)
    for value in (error.instance, error.validator_value):
        if value is None or isinstance(value, bool | dict | list):
            text = text.replace(repr(value), in_json(value, 200))
    return text[:300]


def message_of(error: ValidationError) -> str:
    """Say why a value does not fit its JSON Schema; of a key that the schema does not know, as
    `unknown`.
    """
    if (
        error.validator == "additionalProperties"
        and isinstance(error.instance, dict)
        and isinstance(error.schema, dict)
    ):
        known = error.schema.get("properties", {})
        return " ".join(
            unknown("key", str(name), known) for name in error.instance if name not in known
        )
    return library_message(error)
