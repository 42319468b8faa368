"""The one validator of answers, and what a step may ask for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from runs.payloads import check_schema, validate_resume_payload
from runs.workflows.base import StepFailed

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "sure": {"const": True},
        "kind": {"oneOf": [{"const": "a"}, {"const": "b"}]},
        "code": {"type": "string", "pattern": "^[A-Z]+$", "description": "Capital letters."},
        "inner": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
    },
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("payload", "field", "words"),
    [
        ({}, "name", "This is needed."),
        ({"name": ""}, "name", "This is needed."),
        ({"name": "x", "sure": False}, "sure", "Confirm this"),
        ({"name": "x", "kind": "c"}, "kind", "Choose one of the options."),
        ({"name": "x", "code": "abc"}, "code", "Capital letters."),
        ({"name": "x", "inner": {}}, "inner.x", "This is needed."),
        ({"name": "x", "inner": {"x": "1"}}, "inner.x", "is not of type 'integer'"),
        ({"name": "x", "other": 1}, "payload", "other"),
        ([], "payload", "is not of type 'object'"),
        ({"name": "a\x00b"}, "payload", "NUL"),
        ({"name": float("nan")}, "payload", ""),
    ],
)
def test_what_is_wrong_is_told_at_its_field(payload, field, words):
    """S3-15, S3-37, S3-48."""
    errors = validate_resume_payload(PERSON, payload)
    assert words in " ".join(errors[field])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("abc", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "sure", "kind", "code", "inner", "x"]), inner),
    max_leaves=6,
)


@given(json_values)
def test_it_accepts_exactly_what_the_schema_accepts(payload):
    assert (validate_resume_payload(PERSON, payload) == {}) is Draft202012Validator(PERSON).is_valid(payload)


def test_a_reference_fetches_nothing():
    """F16: a schema that points elsewhere cannot be checked, and that is said."""
    assert "cannot be checked" in validate_resume_payload({"$ref": "http://192.0.2.1/schema.json"}, {})["payload"][0]


def test_a_step_that_asks_with_a_broken_schema_fails_in_words():
    with pytest.raises(StepFailed) as failed:
        check_schema({"type": "nothing"})
    assert failed.value.code == "bad_required_inputs"
    check_schema({})
    check_schema(PERSON)
