"""What is said of a value that does not fit: in JSON's words, and in the order of whoever made the
choices.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from runs.workflows import refusals, schemas

PYTHON = re.compile(r"\b(?:None|True|False)\b|(?<!\w)'|'(?!\w)")
"""How Python writes what JSON writes otherwise."""

FAULTS: dict[str, tuple[dict[str, Any], Any]] = {
    "additionalProperties": ({"additionalProperties": False}, {"it's": True}),
    "anyOf": ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, None),
    "const": ({"const": {"a": None}}, True),
    "contains": ({"contains": {"const": None}}, [True]),
    "dependentRequired": ({"dependentRequired": {"a": ["b"]}}, {"a": None}),
    "enum": ({"enum": [None, True, "it"]}, False),
    "exclusiveMaximum": ({"exclusiveMaximum": 3}, 3),
    "exclusiveMinimum": ({"exclusiveMinimum": 3}, 3),
    "format": ({"format": "date"}, "None"),
    "items": ({"prefixItems": [True], "items": False}, [None, True]),
    "maxItems": ({"maxItems": 1}, [None, None]),
    "maxLength": ({"maxLength": 1}, "None"),
    "maxProperties": ({"maxProperties": 1}, {"a": None, "b": True}),
    "maximum": ({"maximum": 1}, 2),
    "minItems": ({"minItems": 2}, [None]),
    "minLength": ({"minLength": 9}, "None"),
    "minProperties": ({"minProperties": 2}, {"a": None}),
    "minimum": ({"minimum": 1}, 0),
    "multipleOf": ({"multipleOf": 2}, 3),
    "not": ({"not": {"type": "null"}}, None),
    "oneOf": ({"oneOf": [{"type": "null"}, {"const": None}]}, None),
    "pattern": ({"pattern": "^a'"}, "it"),
    "required": ({"required": ["b"]}, {"a": None}),
    "type": ({"type": "string"}, None),
    "uniqueItems": ({"uniqueItems": True}, [None, None]),
}
"""Keyword → a schema that asks by it, and a value that does not fit."""
ONLY_LEADS = {
    "$dynamicRef", "$ref", "allOf", "dependentSchemas", "if", "patternProperties", "prefixItems",
    "properties", "propertyNames", "unevaluatedItems", "unevaluatedProperties",
}  # fmt: skip
"""Keywords that say nothing themselves, and those that no schema here may have."""


def test_each_keyword_of_the_standard_is_in_the_table():
    assert Draft202012Validator.VALIDATORS.keys() == FAULTS.keys() | ONLY_LEADS


@pytest.mark.parametrize("keyword", FAULTS)
def test_a_fault_is_said_in_words_of_json(keyword):
    """Who sent `null` and `true` reads nothing of Python's `None` and `True`."""
    asked, value = FAULTS[keyword]
    schema = schemas.check({"type": "object", "properties": {"v": asked}})

    said = [
        text for texts in schemas.answer_faults(schema, {"v": value}).values() for text in texts
    ]

    assert said
    for text in said:
        allowed = text.replace("it's", "").replace('"^a\'"', "").replace('"None"', "")
        assert not PYTHON.search(allowed), text


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        ({"type": "string"}, None, 'null is not of type "string"'),
        ({"type": "string"}, {"a": [None, True]}, '{"a": [null, true]} is not of type "string"'),
        ({"enum": ["a", True]}, "b", '"b" is not one of ["a", true]'),
        ({"required": ["it's"]}, {"a": None}, '"it\'s" is a required property'),
    ],
)
def test_the_librarys_own_words_have_values_as_json_writes_them(schema, value, text):
    error: ValidationError = next(Draft202012Validator(schema).iter_errors(value))

    assert refusals.library_message(error) == text


@pytest.mark.parametrize(
    ("known", "order"),
    [
        (["low", "medium", "high"], ["low", "medium", "high"]),
        (("c2", "c10", "c2"), ["c2", "c10"]),
        ({"low": 1, "high": 2}, ["low", "high"]),
        ({"c10", "c2", "b"}, ["b", "c2", "c10"]),
    ],
)
def test_names_stay_in_their_authors_order_and_others_are_counted(known, order):
    assert refusals.in_order(known) == order
    assert f"There are {', '.join(order)}." in refusals.unknown("choice", "zzz", known)


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("", ""),
        ("due_date", "Due date"),
        ("items.0.price", "Line items 1, Net price"),
        ("items.1", "Line items 2"),
        ("home.town", "Home, Town"),
        ("of.nothing", "Of, Nothing"),
    ],
)
def test_a_place_in_a_value_is_named_by_its_labels(path, title):
    schema = {
        "properties": {
            "items": {
                "title": "Line items",
                "items": {"properties": {"price": {"title": "Net price"}}},
            },
            "home": {"properties": {"town": {}}},
        }
    }

    assert refusals.titled(schema, path) == title
