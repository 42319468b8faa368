"""What is said of a value that is refused: the field that brought it, and of a name that nobody
knows, the names that come close.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Self

from jsonschema.exceptions import SchemaError, ValidationError

LISTED = 30
"""Known names that a sentence lists."""


class FieldRefused(Exception):
    """A value cannot be taken; `field` names it."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field

    @property
    def errors(self) -> dict[str, list[str]]:
        """The same as of `FieldsRefused`."""
        return {self.field: [str(self)]}


class FieldsRefused(Exception):
    """Something cannot be taken as it is. `errors` maps fields to sentences."""

    def __init__(self, errors: Mapping[str, list[str]]) -> None:
        super().__init__(self.told(errors))
        self.errors = dict(errors)

    @classmethod
    def of(cls, field: str, *sentences: str) -> Self:
        """Refuse one field."""
        return cls({field: [*sentences]})

    def told(self, errors: Mapping[str, list[str]]) -> str:
        """Write the message: what became of it, and the sentences."""
        return as_text(errors)


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
    `There is no key "pause_afterr". Did you mean pause_after? There are choices, name, …`.
    """
    names = in_order(known)
    nearest = close(name, names)
    listed = [*nearest, *(name for name in names if name not in nearest)]
    sentences = [f"There is no {kind} {in_json(name, 100)}."]
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
    kept = value[:longest] if isinstance(value, str) else value
    text = json.dumps(kept, ensure_ascii=False, default=str)
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
    text, values = str(error.message), (error.instance, error.validator_value)
    for place, value in enumerate(values):
        if value is None or isinstance(value, bool | str | dict | list):
            text = text.replace(repr(value), f"\0{place}\0")
    text = _QUOTED.sub(lambda quoted: in_json(ast.literal_eval(quoted[0])), text)
    for place, value in enumerate(values):
        text = text.replace(f"\0{place}\0", in_json(value, 200))
    return text[:300]


_QUOTED = re.compile(r"'(?:[^'\\\n]|\\.)*'")
"""A text as Python writes it."""


def config_fault(error: ValidationError) -> tuple[str, str]:
    """Say where a part of a configuration does not fit and why; of a key that its schema does not
    know, as `unknown`.
    """
    if (
        error.validator == "additionalProperties"
        and isinstance(error.instance, dict)
        and isinstance(error.schema, dict)
    ):
        known = error.schema.get("properties", {})
        strange = [str(name) for name in error.instance if name not in known]
        place = ".".join(str(part) for part in error.absolute_path)
        return place, " ".join(unknown("key", name, known) for name in strange)
    return fault_of(error)


def fault_of(error: ValidationError) -> tuple[str, str]:
    """Say where a fault of a value belongs, and what it is in words for a person."""
    path = [str(part) for part in error.absolute_path]
    if error.validator in {"required", "dependentRequired"}:
        path.append(_missing_name(error))
    return ".".join(path), _words_of(error)


def _missing_name(error: ValidationError) -> str:
    """The required name that an error is about; "" where none can be told."""
    if not isinstance(error.instance, dict):
        return ""
    names: Any = error.validator_value
    if isinstance(names, Mapping):  # of `dependentRequired`: a name → the names that it needs
        names = [name for needed in names.values() for name in needed]
    missing = (name for name in names if name not in error.instance and repr(name) in error.message)
    return next(missing, "")


def _words_of(error: ValidationError) -> str:
    """Pages know these sentences in other languages: `hitl.rendering.own_words`."""
    rule: Any = error.validator_value
    if not isinstance(error.validator, str):  # the schema `false`
        return "This was not asked for. Leave it out."
    match error.validator:
        case "required":
            return NEEDED
        case "dependentRequired":
            given: Any = error.instance
            missing = _missing_name(error)
            causes = (name for name, needed in rule.items() if missing in needed and name in given)
            return f"This is needed where {next(causes, 'another field')[:100]} is given."
        case "type":
            kinds = [rule] if isinstance(rule, str) else list(rule)
            return f"Must be {' or '.join(KINDS.get(kind, kind) for kind in kinds)}."
        case "enum":
            values = [one[:60] if isinstance(one, str) else in_json(one, 60) for one in rule]
            rest = " and others" if len(values) > MOST_VALUES else ""
            return f"Must be one of: {', '.join(values[:MOST_VALUES])}{rest}."
        case "const":
            return "Must be confirmed." if rule is True else f"Must be {in_json(rule)}."
        case "minimum":
            return f"Must be at least {rule}."
        case "maximum":
            return f"Must be at most {rule}."
        case "exclusiveMinimum":
            return f"Must be more than {rule}."
        case "exclusiveMaximum":
            return f"Must be less than {rule}."
        case "multipleOf":
            return f"Must be a multiple of {str(rule)[:40]}."
        case "minLength":
            return NEEDED if rule == 1 else f"Must have at least {rule} characters."
        case "maxLength":
            return f"May have up to {rule} characters."
        case "minItems":
            return f"Needs at least {rule} {'entry' if rule == 1 else 'entries'}."
        case "maxItems":
            return f"May have up to {rule} entries."
        case "uniqueItems" if isinstance(error.instance, list):
            return f"{error.message[:1].upper()}{error.message[1:]}."
        case "format":
            return f"Must be {FORMAT_WORDS.get(rule, f'a valid {rule}')}."
        case "additionalProperties" if rule is False:
            asked = error.schema.get("properties", {}) if isinstance(error.schema, Mapping) else {}
            held: Any = error.instance
            more = [str(name)[:60] for name in held if name not in asked]
            return f"Holds names that are not asked for: {', '.join(more[:MOST_VALUES])}."
        case "pattern":
            return _misshapen(error)
        case "anyOf" | "oneOf" if all(
            isinstance(value, Mapping) and "const" in value for value in rule
        ):
            return "Must be one of the choices."
        case "anyOf" | "oneOf" if error.context:
            return "Fits none of the allowed shapes."
        case "anyOf" | "oneOf":
            return "Fits more than one of the allowed shapes."
        case "items" if rule is False and isinstance(error.schema, Mapping):
            return f"May have up to {len(error.schema.get('prefixItems', []))} entries."
        case "contains" if error.message.endswith("matching the given schema"):
            return "Has no entry of the kind that is asked for."
        case "minProperties":
            return f"Needs at least {rule} {'field' if rule == 1 else 'fields'}."
        case "maxProperties":
            return f"May have up to {rule} {'field' if rule == 1 else 'fields'}."
    if error.validator == "not":
        return "This value is not allowed here."
    text = library_message(error)
    return f"{text[:1].upper()}{text[1:]}."


def _misshapen(error: ValidationError) -> str:
    """`"XX12" isn't a valid VAT id. Such as DE136695976.`: by the field's own name and description,
    else by its pattern.
    """
    schema = error.schema if isinstance(error.schema, Mapping) else {}
    names = [part for part in error.absolute_path if isinstance(part, str)]
    name = label_of(names[-1] if names else "value", schema)
    said = f"{in_json(error.instance, 60)} isn't a valid {_within(name)}"
    if shape := str(schema.get("description") or "")[:200]:
        return f"{said}. {shape}"
    return f"{said}: it must match {in_json(error.validator_value, 200)}."


def _within(name: str) -> str:
    """A label within a sentence: `issue date`, but `VAT id`."""
    return name[:1].lower() + name[1:] if name[1:2].islower() else name


MOST_VALUES = 20
"""Values that a sentence lists."""
NEEDED = "This is needed."
KINDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "yes or no",
    "array": "a list",
    "object": "an object",
    "null": "empty",
}
FORMAT_WORDS = {
    "date": "a date such as 2026-03-31",
    "time": "a time such as 14:30",
    "date-time": "a date and time with its zone, such as 2026-03-31T14:30:00+02:00",
    "email": "an email address",
}
