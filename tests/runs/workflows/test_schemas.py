"""Which JSON Schemas are taken, and what the one validator says of an answer."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from runs import limits
from runs.workflows import schemas
from runs.workflows.schemas import SchemaRefused, validate_resume_payload
from tests.runs.workflows.deep_schemas import doubling, nested

PERSON = {
    "type": "object",
    "required": ["name", "age"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "mail": {"type": "string", "format": "email"},
        "born": {"type": "string", "format": "date"},
        "woken": {"type": "string", "format": "date-time"},
        "role": {"enum": ["buyer", "seller"]},
        "tags": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "maxItems": 3,
            "uniqueItems": True,
        },
        "home": {
            "type": "object",
            "required": ["city"],
            "properties": {"city": {"type": "string"}},
        },
    },
}
FITTING = {"name": "Ana", "age": 40}


KEYWORDS = [
    "type",
    "properties",
    "items",
    "anyOf",
    "allOf",
    "$ref",
    "$defs",
    "pattern",
    "enum",
    "required",
    "not",
    "minimum",
    "const",
]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ([], "is an object"),
        ("text", "is an object"),
        ({"type": 5}, "5 is not valid"),
        ({"required": "x"}, "is not of type"),
        ({"properties": {"a": 7}}, "must be a schema"),
        ({"$ref": "https://evil.example/schema"}, "nothing is fetched"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "nothing is fetched"),
        ({"$ref": "#/$defs/none"}, "leads nowhere"),
        (
            {"$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"},
            "leads back to itself",
        ),
        ({"$dynamicRef": "#x"}, "not supported"),
        ({"properties": {"a": {"unevaluatedProperties": False}}}, "not supported"),
        ({"pattern": "(?=a)"}, "RE2"),
        ({"pattern": r"(a)\1"}, "RE2"),
        ({"properties": {"a": {"pattern": "["}}}, "RE2"),
        ({"pattern": 5}, "RE2"),
        ({"properties": {"a": {"x-zone": "Europe/Berln"}}}, "no time zone"),
        ({"x-zone": ["UTC"]}, "no time zone"),
        ({"title": "x" * schemas.MAX_BYTES}, "bytes"),
        (doubling(12), "parts"),
        (nested(30), "nested"),
        (nested(900), "nested"),
        ({"default": float("nan")}, "no JSON"),
    ],
)
def test_a_hostile_or_broken_schema_is_refused_in_words(schema, words):
    """Depth, size, patterns and references that would cost without bound never get as far as an
    answer.
    """
    with pytest.raises(SchemaRefused, match=words):
        schemas.check(schema)


@pytest.mark.parametrize("schema", [{}, {"type": "string"}, {"type": ["object", "null"]}])
def test_what_is_asked_for_with_a_question_is_an_object(schema):
    with pytest.raises(SchemaRefused, match="joins the state"):
        schemas.check_inputs(schema)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYWORDS) | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON)
def test_whatever_is_handed_in_is_taken_or_refused_and_never_fails(schema):
    try:
        kept = schemas.check(schema)
    except SchemaRefused:
        return
    assert schemas.check(kept) == kept


def test_references_are_written_out_once():
    schema = {
        "$defs": {"a/b": {"type": "string"}},
        "properties": {"x": {"$ref": "#/$defs/a~1b", "title": "X"}},
    }
    assert schemas.check(schema) == {"properties": {"x": {"type": "string", "title": "X"}}}


def test_a_reference_beside_other_words_means_both():
    schema = {
        "$defs": {"a": {"minLength": 2}},
        "properties": {"x": {"$ref": "#/$defs/a", "minLength": 1}},
    }
    kept = schemas.check(schema)
    assert validate_resume_payload(kept, {"x": "a"}) == {"x": ["Must have at least 2 characters."]}


def test_a_pattern_that_backtracks_without_end_elsewhere_answers_at_once():
    kept = schemas.check({"type": "string", "pattern": "(a+)+$"})
    began = time.process_time()
    assert validate_resume_payload(kept, "a" * 100_000 + "b")
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("change", "errors"),
    [
        ({}, {}),
        ({"name": None}, {"name": ["Must be text."]}),
        ({"name": ""}, {"name": ["This is needed."]}),
        ({"name": "x" * 21}, {"name": ["May have up to 20 characters."]}),
        ({"age": "40"}, {"age": ["Must be a whole number."]}),
        ({"age": True}, {"age": ["Must be a whole number."]}),
        ({"age": -1}, {"age": ["Must be at least 0."]}),
        ({"age": 151}, {"age": ["Must be at most 150."]}),
        ({"mail": "ana"}, {"mail": ["Must be an email address."]}),
        ({"born": "2026-02-30"}, {"born": ["Must be a date such as 2026-03-31."]}),
        (
            {"woken": "2026-02-03T10:00:00"},
            {
                "woken": [
                    "Must be a date and time with its zone, such as 2026-03-31T14:30:00+02:00."
                ]
            },
        ),
        ({"role": "thief"}, {"role": ["Must be one of: buyer, seller."]}),
        ({"tags": []}, {"tags": ["Needs at least 1 entry."]}),
        ({"tags": ["a", "b", "c", "d"]}, {"tags": ["May have up to 3 entries."]}),
        ({"home": {}}, {"home.city": ["This is needed."]}),
        ({"home": {"city": 5}}, {"home.city": ["Must be text."]}),
        (
            {"more": 1},
            {
                "": ["Holds names that are not asked for: more."],
            },
        ),
    ],
)
def test_each_fault_is_said_in_words_at_its_place(change, errors):
    """S3-15, S3-31, S3-37, S3-48: one validator, a message per field."""
    assert validate_resume_payload(schemas.check(PERSON), {**FITTING, **change}) == errors


def test_what_is_missing_is_told_by_its_name():
    assert validate_resume_payload(schemas.check(PERSON), {}) == {
        "age": ["This is needed."],
        "name": ["This is needed."],
    }


def test_what_another_name_makes_necessary_is_said_at_its_own_place():
    schema = schemas.check(
        {
            "type": "object",
            "properties": {"card": {"dependentRequired": {"number": ["month", "year"]}}},
        }
    )
    assert validate_resume_payload(schema, {"card": {"number": "1", "year": 1}}) == {
        "card.month": ["This is needed where number is given."]
    }


def test_defaults_fill_what_was_left_out_also_inside():
    style = {"type": "object", "properties": {"font": {"default": "serif"}, "size": {}}}
    schema = {
        "type": "object",
        "properties": {
            "tone": {"type": "string", "default": "calm"},
            "tags": {"type": "array", "default": ["a"]},
            "style": style,
            "page": {**style, "default": {"size": 4}},
        },
    }
    filled = schemas.with_defaults(schema, {"tags": [], "style": {"size": 2}, "more": 1})
    assert filled == {
        "tone": "calm",
        "tags": [],
        "style": {"size": 2, "font": "serif"},
        "page": {"size": 4, "font": "serif"},
        "more": 1,
    }
    filled["page"]["size"] = 5
    assert schemas.with_defaults(schema, {})["page"]["size"] == 4


@pytest.mark.parametrize(
    "more",
    [
        {"properties": {"a": {"type": "integer", "default": "one"}}},
        {"properties": {"a": {"default": 1}}, "maxProperties": 1},
        {"properties": {"a": {"default": 1}}, "dependentRequired": {"a": ["b"]}},
    ],
)
def test_defaults_that_do_not_fit_are_left_out(more):
    assert schemas.with_defaults({"type": "object", **more}, {"x": 1}) == {"x": 1}


@pytest.mark.parametrize(
    "payload", [float("inf"), {"a": object()}, {"name": "x" * schemas.MAX_ANSWER}]
)
def test_what_is_no_json_or_too_large_is_refused(payload):
    assert list(validate_resume_payload(schemas.check({}), payload)) == [""]


def test_an_answer_too_large_for_its_schema_is_refused_before_it_is_checked():
    wide = schemas.check({"items": {"allOf": [{"minimum": -n} for n in range(1000)]}})
    began = time.process_time()
    assert "more values than can be checked" in validate_resume_payload(wide, [1] * 20_000)[""][0]
    assert time.process_time() - began < 5


def test_long_lists_are_not_compared_item_by_item():
    kept = schemas.check({"type": "array", "uniqueItems": True})
    assert validate_resume_payload(kept, list(range(1000))) == {}
    assert "can be compared" in validate_resume_payload(kept, list(range(1001)))[""][0]


def test_of_several_alternatives_the_nearest_one_is_told():
    account = {
        "type": "object",
        "required": ["iban"],
        "properties": {"iban": {"type": "string", "minLength": 15}},
    }
    schema = {"properties": {"pay": {"oneOf": [account, {"type": "string"}]}}}
    assert validate_resume_payload(schemas.check(schema), {"pay": {"iban": "DE1"}}) == {
        "pay.iban": ["Must have at least 15 characters."]
    }
    assert validate_resume_payload(schemas.check(schema), {"pay": 5}) == {
        "pay": ["Fits none of the allowed shapes."]
    }


TYPES = [{"type": name} for name in ("string", "integer", "number", "boolean")]
LEAF = st.sampled_from(
    [*TYPES, {"enum": ["a", 1, None, True]}, {"const": "x"}, {"minLength": 2}, {"maximum": 3}]
)
SCHEMA = st.recursive(
    LEAF,
    lambda inner: st.one_of(
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.lists(inner, min_size=1, max_size=3).map(lambda several: {"anyOf": several}),
        st.lists(inner, min_size=1, max_size=3).map(lambda several: {"allOf": several}),
        st.builds(
            lambda parts, needed: {
                "type": "object",
                "properties": parts,
                "required": sorted(needed & parts.keys()),
            },
            st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            st.sets(st.sampled_from("abc")),
        ),
    ),
    max_leaves=8,
)


VALUE = st.recursive(
    st.sampled_from(["", "ab", 1, 1.5, True, None, "x"]),
    lambda one: (
        st.lists(one, max_size=3) | st.dictionaries(st.sampled_from("abc"), one, max_size=3)
    ),
    max_leaves=6,
)


@given(SCHEMA, VALUE)
def test_the_validator_agrees_with_the_standard(schema, value):
    kept = schemas.check(schema)
    assert (validate_resume_payload(kept, value) == {}) == Draft202012Validator(schema).is_valid(
        value
    )


@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        ({"anyOf": [{"type": "integer", "minimum": n} for n in range(900)]}, "x" * 500_000),
        ({"allOf": [{"uniqueItems": True}] * 900}, [[n] * 50 for n in range(1000)]),
        ({"allOf": [{"contains": True}] * 900}, [1] * 1000),
        ({"items": {"anyOf": [{"type": "object", "required": ["a"]}] * 400}}, [1] * 50_000),
        ({"allOf": [{"pattern": "(a|b|c)*d$"}] * 900}, "abc" * 160_000),
        ({"allOf": [{"additionalProperties": False}] * 900}, {str(n): 1 for n in range(40_000)}),
    ],
)
def test_a_validation_ends_at_its_work(schema, answer, monkeypatch):
    """A schema of 64 KB and an answer of 500 KB kept a web worker for 5 s and more: the product of
    their parts said nothing of the texts that each alternative which does not fit repeats.
    """
    left = []
    spend = schemas._spend

    def counted(steps):
        spend(steps)
        left.append(steps)

    monkeypatch.setattr(schemas, "_spend", counted)
    monkeypatch.setattr(schemas, "MAX_WORK", limits.VALIDATION_WORK // 2)
    [[words]] = validate_resume_payload(schemas.check(schema), answer).values()
    assert "more values than can be checked" in words
    assert 0 < sum(left) <= schemas.MAX_WORK


def test_a_large_honest_answer_is_checked():
    line = {
        "type": "object",
        "required": ["text"],
        "properties": {"text": {"type": "string"}, "net": {"type": "number", "multipleOf": 0.01}},
    }
    kept = schemas.check({"type": "array", "items": line})
    assert validate_resume_payload(kept, [{"text": "paper", "net": 12.34}] * 3000) == {}


@pytest.mark.parametrize(
    ("of", "value", "fits"),
    [
        (0.1, int("9" * 400), True),
        (int("9" * 400), 0.1, False),
        (int("9" * 400), int("9" * 400), True),
        (0.01, 4.02, True),
        (0.01, 4.025, False),
        (1e-300, 1e300, True),
        (3, 9.0, True),
        (3, True, True),
    ],
)
def test_multiples_are_exact_and_of_any_size(of, value, fits):
    """`multipleOf` with a number of 400 digits was a 500: the library divides floats."""
    errors = validate_resume_payload(schemas.check({"multipleOf": of}), value)
    assert bool(errors) is not fits


NUMBERS = (
    st.integers(-(10**400), 10**400)
    | st.floats()
    | st.sampled_from([0, -0.0, 1e308, 5e-324, int("9" * 4300)])
)


@given(
    st.sampled_from(["multipleOf", "minimum", "maximum", "exclusiveMinimum", "const"]),
    NUMBERS,
    NUMBERS,
)
def test_no_number_fails_a_validation(keyword, of, value):
    """Numbers that no float holds, and floats that are none, failed inside the library."""
    try:
        kept = schemas.check({keyword: of})
    except SchemaRefused:
        return
    assert isinstance(validate_resume_payload(kept, value), dict)


@pytest.mark.parametrize(
    ("items", "unique"),
    [
        ([1, 1.0], False),
        ([1, True], True),
        ([{"a": 1, "b": 2}, {"b": 2, "a": 1.0}], False),
        ([[], {}], True),
    ],
)
def test_items_are_told_apart_as_json_has_it(items, unique):
    assert bool(validate_resume_payload({"uniqueItems": True}, items)) is not unique


@pytest.mark.parametrize("keyword", [{"uniqueItems": True}, {"contains": {"const": 0}}])
def test_lists_whose_items_are_compared_have_a_length(keyword):
    assert validate_resume_payload(keyword, list(range(limits.UNIQUE_ITEMS))) == {}
    assert validate_resume_payload(keyword, list(range(limits.UNIQUE_ITEMS + 1)))
