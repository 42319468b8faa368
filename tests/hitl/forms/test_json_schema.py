"""The form of a JSON Schema: what it shows, and that a browser's answer becomes the payload that
was meant.
"""

import datetime as dt

import pytest
from django.template.loader import render_to_string
from hypothesis import given, settings
from hypothesis import strategies as st

from hitl.forms.json_schema import OTHER, SchemaForm
from runs.workflows import schemas
from tests.hitl.forms.controls import Controls, query


def html_of(form: SchemaForm) -> str:
    return "".join(
        render_to_string("hitl/forms/_schema_field.html", {"field": field}) for field in form.fields
    )


def untouched(form: SchemaForm) -> list[tuple[str, str]]:
    controls = Controls()
    controls.feed(html_of(form))
    assert len(set(controls.ids)) == len(controls.ids)
    return controls.posted


def payload_of(schema, *pairs):
    return SchemaForm(schemas.check(schema), query(pairs)).payload


def one(schema, *, needed=False):
    return {
        "type": "object",
        "properties": {"a": schema},
        **({"required": ["a"]} if needed else {}),
    }


@pytest.mark.parametrize(
    ("schema", "posted", "meant"),
    [
        ({"type": "string"}, " hello ", "hello"),
        ({"type": "string", "maxLength": 5000}, "two\r\nlines ", "two\nlines "),
        ({"type": "integer"}, "12", 12),
        ({"type": "integer"}, "twelve", "twelve"),
        ({"type": "integer"}, "1" * 30, int("1" * 30)),
        ({"type": "number"}, "1.50", 1.5),
        ({"type": "number"}, "12", 12),
        ({"type": "number"}, "1e999", "1e999"),
        ({"type": "number"}, "nan", "nan"),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "false", False),
        ({"type": "boolean", "default": False}, "true", True),
        ({"enum": ["red", 5, None]}, "5", 5),
        ({"enum": ["red", 5, None]}, "red", "red"),
        ({"enum": ["1", 1]}, "1", 1),
        ({"enum": ["1", 1]}, '"1"', "1"),
        ({"enum": ["a.b", OTHER]}, "~0other", OTHER),
        ({"oneOf": [{"const": "a", "title": "Account A"}, {"const": "b"}]}, "a", "a"),
        ({"type": "string", "format": "date"}, "2026-02-28", "2026-02-28"),
        ({"type": "string", "format": "time"}, "14:30", "14:30"),
        ({"type": "array", "items": {"type": "string"}}, "one\r\n\r\n two ", ["one", "two"]),
        ({"type": ["string", "null"]}, "x", "x"),
        ({}, '{"any": [1]}', {"any": [1]}),
        ({"type": "array", "items": {"type": "array"}}, "[[1]]", [[1]]),
    ],
)
def test_a_posted_text_becomes_what_was_meant(schema, posted, meant):
    """S3-19: a person's answer becomes a compact typed payload."""
    found = payload_of(one(schema), ("input.a", posted))["a"]
    assert (found, type(found)) == (meant, type(meant))


def test_what_is_left_empty_is_absent_and_asked_for_where_it_is_needed():
    schema = one({"type": "string"}, needed=True)
    form = SchemaForm(schemas.check(schema), query([("input.a", "  ")]))
    assert form.payload == {}
    assert schemas.validate_resume_payload(schema, form.payload) == {"a": ["This is needed."]}
    assert payload_of(one({"type": ["string", "null"]}, needed=True), ("input.a", "")) == {
        "a": None
    }
    assert payload_of(one({"type": "boolean", "default": True})) == {"a": False}
    assert payload_of(one(one({"type": "string"})), ("input.a.a", "")) == {}


def test_a_moment_is_read_in_the_zone_of_the_page_and_kept_with_its_zone(settings):
    settings.TIME_ZONE = "Europe/Berlin"
    schema = one({"type": "string", "format": "date-time"})
    meant = payload_of(schema, ("input.a", "2026-07-01T10:00"))["a"]
    assert dt.datetime.fromisoformat(meant).utcoffset() is not None
    assert schemas.validate_resume_payload(schema, {"a": meant}) == {}
    assert (
        dict(untouched(SchemaForm(schema, initial={"a": meant})))["input.a"]
        == "2026-07-01T10:00:00"
    )


def test_a_moment_whose_schema_names_a_zone_is_typed_and_shown_there(settings):
    settings.TIME_ZONE = "America/New_York"
    schema = one({"type": "string", "format": "date-time", schemas.ZONE: "Europe/Berlin"})
    meant = payload_of(schema, ("input.a", "2026-07-01T10:00"))["a"]
    assert meant == "2026-07-01T10:00:00+02:00"
    form = SchemaForm(schemas.check(schema), initial={"a": "2026-12-01T08:00:00Z"})
    assert dict(untouched(form))["input.a"] == "2026-12-01T09:00:00"
    gone = SchemaForm(schemas.check(schema), query([("input.a", "2026-03-29T02:30")]))
    assert "the clock is put forward" in gone.problems["a"][0]


def test_a_page_says_beside_a_moment_in_which_zone_it_is_typed(settings):
    settings.TIME_ZONE = "America/New_York"
    schema = {"type": "string", "format": "date-time"}
    for named, said in ({}, "America/New_York"), ({schemas.ZONE: "Europe/Berlin"}, "Europe/Berlin"):
        page = html_of(SchemaForm(schemas.check(one({**schema, **named}))))
        assert f"Time in {said}." in page
        assert 'aria-describedby="id_input_a.zone"' in page
        assert 'id="id_input_a.zone"' in page


@pytest.mark.parametrize(
    ("part", "value"),
    [
        # the second of two equal hours, another zone, parts of a second, the last day there is
        ({"type": "string", "format": "date-time"}, "2026-10-25T02:30:00+01:00"),
        ({"type": "string", "format": "date-time"}, "2026-07-01T10:00:00Z"),
        ({"type": "string", "format": "date-time"}, "2026-07-01T10:00:00.123456+00:00"),
        ({"type": "string", "format": "date-time"}, "9999-12-31T23:59:59Z"),
        ({"type": "string", "format": "date-time"}, "0001-01-01T00:00:00+00:00"),
        ({"type": "string", "format": "time"}, "14:30:00Z"),
        ({"type": "string", "format": "time"}, "14:30:00.123456+02:00"),
        ({"type": "integer"}, 5.0),
        ({"type": "number"}, 1e22),
        ({"type": "integer"}, 3544790567247868102),
        ({"type": "array", "items": {"type": "string"}}, ["a\nb", " c", ""]),
        ({"type": "array", "items": {"type": "string"}}, []),
        ({"type": "string"}, " two\nlines "),
        ({"type": ["boolean", "null"], "default": None}, None),
        ({"type": ["boolean", "null"], "default": True}, True),
        ({"type": ["string", "null"], "format": "date", "default": None}, None),
        ({"type": ["object", "null"], "properties": {"x": {"type": "string"}}}, None),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, None),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, 7),
        ({"anyOf": [{"enum": ["a"], "type": "string"}, {"type": "null"}]}, None),
    ],
)
@pytest.mark.parametrize("from_schema", [False, True])
def test_what_nobody_touched_is_what_it_was(settings, part, value, from_schema):
    """A browser shows less of a value than there is, and empties an input that cannot show it.

    Tried after camunda#21346, airflow#72375 and airflow#57350.
    """
    settings.TIME_ZONE = "Europe/Berlin"
    begun = {} if from_schema else {"a": value}
    schema = schemas.check(one({**part, "default": value} if from_schema else part, needed=True))
    found = SchemaForm(schema, query(untouched(SchemaForm(schema, initial=begun))), begun).payload
    assert (found, type(found["a"])) == ({"a": value}, type(value))
    assert schemas.validate_resume_payload(schema, found) == {}


@pytest.mark.parametrize(
    ("kind", "typed", "words"),
    [
        ("integer", "1_000", "Must be a whole number."),
        ("integer", "١٢", "Must be a whole number."),
        ("number", "1_0.5", "Must be a number."),
        ("number", "12345678901234567.89", "it would become 1.2345678901234568e+16"),
        ("number", "0.1234567890123456789", "it would become 0.12345678901234568"),
        ("number", "1e-400", "it would become 0.0"),
        ("number", "1e-99999999999999999999", "it would become 0.0"),
        ("date-time", "2026-03-29T02:30", "there is no such time"),
        ("date-time", "9999-99-99T02:30", "Must be a date and time"),
    ],
)
def test_what_would_be_kept_as_something_else_is_refused_with_the_reason(
    settings, kind, typed, words
):
    """Tried after temporalio/ui#2670: a large number was rounded between a form and its run."""
    settings.TIME_ZONE = "Europe/Berlin"
    part = {"type": "string", "format": kind} if kind == "date-time" else {"type": kind}
    schema = schemas.check(one(part))
    form = SchemaForm(schema, query([("input.a", typed)]))
    form.add_errors(schemas.validate_resume_payload(schema, form.payload))
    assert words in " ".join(form.fields[0].errors)
    assert f'value="{typed}"' in html_of(form)


COLOURS = {"anyOf": [{"enum": ["red", "green"]}, {"type": "string"}]}


def test_other_lets_a_person_write_their_own():
    schema = one(COLOURS)
    assert payload_of(schema, ("input.a", "green"), ("input.a.other", "ignored")) == {"a": "green"}
    assert payload_of(schema, ("input.a", OTHER), ("input.a.other", " blue ")) == {"a": "blue"}
    assert payload_of(schema, ("input.a", OTHER), ("input.a.other", "")) == {}
    assert "Other" in html_of(SchemaForm(schema))
    assert ("input.a", OTHER) in untouched(SchemaForm(schema, initial={"a": "blue"}))


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["Small", "Large"], ["Small", "Large"]),
        (["Small", ""], ["Small", "l"]),
        (["Small"], ["s", "l"]),
        ("sl", ["s", "l"]),
    ],
)
def test_choices_are_called_by_the_names_that_older_makers_of_forms_give(names, shown):
    """MCP's `enumNames`; those that are not one for each value say nothing."""
    schema = {"enum": ["s", "l"], "enumNames": names}
    for asked in (schema, {"type": "array", "items": schema}):
        [field] = SchemaForm(one(asked)).fields
        assert [(option.label, option.means) for option in field.options] == [
            (shown[0], "s"),
            (shown[1], "l"),
        ]


def test_several_are_taken_in_the_schema_s_order():
    schema = one({"type": "array", "items": COLOURS})
    posted = [
        ("input.a", OTHER),
        ("input.a", "green"),
        ("input.a", "red"),
        ("input.a.other", "blue"),
    ]
    assert payload_of(schema, *posted) == {"a": ["red", "green", "blue"]}
    assert payload_of(schema, ("input.a", "forged")) == {}
    assert payload_of(one(schema["properties"]["a"], needed=True)) == {"a": []}


LINE = {
    "type": "object",
    "required": ["sum"],
    "properties": {"sum": {"type": "integer"}, "note": {"type": "string"}},
}
LINES = one({"type": "array", "items": LINE, "maxItems": 3})


def test_a_list_of_objects_is_read_row_by_row_and_empty_rows_are_none():
    rows = [
        ("input.a.count", "3"),
        ("input.a.0.sum", "1"),
        ("input.a.1.sum", ""),
        ("input.a.2.sum", "0"),
        ("input.a.2.note", "x"),
    ]
    assert payload_of(LINES, *rows) == {"a": [{"sum": 1}, {"sum": 0, "note": "x"}]}


@pytest.mark.parametrize("count", ["", "-1", "x", "99999999999", "²", "201"])
def test_a_forged_count_of_rows_is_bounded(count):
    assert payload_of(LINES, ("input.a.count", count), ("input.a.0.sum", "1")) in (
        {},
        {"a": [{"sum": 1}]},
    )


def test_rows_are_added_and_removed_by_buttons_without_losing_what_was_typed():
    rows = [
        ("input.a.count", "2"),
        ("input.a.0.sum", "1"),
        ("input.a.1.sum", "oops"),
        ("input.a.1.note", "kept"),
    ]
    grown = SchemaForm(LINES, query([*rows, ("change", "add:input.a")]))
    assert [len(grown.fields[0].parts), grown.fields[0].may_grow] == [3, False]
    assert untouched(grown) == [
        ("input.a.count", "3"),
        *rows[1:2],
        ("input.a.0.note", ""),
        *rows[2:],
        ("input.a.2.sum", ""),
        ("input.a.2.note", ""),
    ]
    shrunk = SchemaForm(LINES, query([*rows, ("change", "remove:input.a.0")]))
    assert untouched(shrunk) == [
        ("input.a.count", "1"),
        ("input.a.0.sum", "oops"),
        ("input.a.0.note", "kept"),
    ]


def test_each_fault_stands_at_its_field_also_after_an_empty_row():
    rows = [
        ("input.a.count", "3"),
        ("input.a.0.sum", ""),
        ("input.a.1.sum", "x"),
        ("input.a.2.note", "no sum"),
    ]
    form = SchemaForm(LINES, query(rows))
    left = form.add_errors(
        {
            **schemas.validate_resume_payload(LINES, form.payload),
            "": ["General."],
            "gone.far": ["Elsewhere."],
        }
    )
    assert left == ["General.", "Elsewhere."]
    assert {one.name: one.errors for one in form.root.each() if one.errors} == {
        "input.a.0.sum": ["Must be a whole number."],
        "input.a.1.sum": ["Enter “Sum”."],
    }
    page = html_of(form)
    assert page.count('aria-invalid="true"') == 2
    assert 'id="id_input_a_0_sum.error"' in page


def test_what_is_no_json_is_said_and_kept():
    form = SchemaForm(one({}), query([("input.a", "{oops")]))
    assert form.fields[0].errors == ["This is not JSON."]
    assert ("input.a", "{oops") in untouched(form)


def test_names_that_look_like_paths_or_options_stay_apart():
    nested = {"type": "object", "properties": {"b": {"type": "string"}}}
    schema = {
        "type": "object",
        "properties": {"a.b": {"type": "string"}, "a": nested, "~1": {"type": "string"}},
    }
    posted = untouched(
        SchemaForm(schema, initial={"a.b": "dotted", "a": {"b": "nested"}, "~1": "tilde"})
    )
    assert SchemaForm(schema, query(posted)).payload == {
        "a.b": "dotted",
        "a": {"b": "nested"},
        "~1": "tilde",
    }


def test_what_the_schema_says_is_shown_as_text_never_as_markup():
    evil = "<script>alert(1)</script>"
    schema = {
        "type": "object",
        "properties": {evil: {"title": evil, "description": evil, "enum": [evil]}},
    }
    assert "<script>" not in html_of(SchemaForm(schema, initial={evil: evil}))


def holding(schema, values):
    return st.tuples(st.just(schema), values)


SOME = ["a", "1", 1, None, True, "~other", "x.y"]
WORD = st.text("abc é<&\"'~.", min_size=1).map(str.strip).filter(bool)
NUMBERS = st.sets(st.sampled_from([3, 1, 2]), min_size=1).map(
    lambda some: [number for number in (3, 1, 2) if number in some]
)
SCALARS = st.one_of(
    holding({"type": "string"}, WORD),
    holding(
        {"type": "string", "maxLength": 900},
        st.text("abc\n", min_size=1, max_size=50).filter(str.strip),
    ),
    holding({"type": "integer"}, st.integers()),
    holding({"type": "number"}, st.floats(allow_nan=False, allow_infinity=False)),
    holding({"type": "boolean"}, st.booleans()),
    holding({"type": "boolean", "default": False}, st.booleans()),
    holding({"enum": SOME}, st.sampled_from(SOME)),
    holding({"enum": list(range(20))}, st.integers(0, 19)),
    holding({"type": "string", "format": "date"}, st.dates().map(str)),
    holding(COLOURS, st.sampled_from(["red", "green", "blue", "~0"])),
    holding({"type": "array", "items": {"type": "string"}}, st.lists(WORD, min_size=1)),
    holding({"type": "array", "items": {"enum": [3, 1, 2]}}, NUMBERS),
    holding(
        {},
        st.recursive(st.integers() | WORD, lambda inner: st.lists(inner, min_size=1), max_leaves=4),
    ),
)


def objects(inner):
    return st.dictionaries(
        st.sampled_from(["a", "b.c", "~", "d e"]), inner, min_size=1, max_size=3
    ).map(
        lambda parts: (
            {
                "type": "object",
                "properties": {name: schema for name, (schema, _) in parts.items()},
                "required": sorted(parts),
            },
            {name: value for name, (_, value) in parts.items()},
        )
    )


def rows(inner):
    return st.tuples(objects(inner), st.integers(1, 3)).map(
        lambda pair: ({"type": "array", "items": pair[0][0]}, [pair[0][1]] * pair[1])
    )


@settings(deadline=None)  # it renders templates
@given(objects(st.recursive(SCALARS, lambda inner: objects(inner) | rows(inner), max_leaves=6)))
def test_form_payload_and_validator_agree(pair):
    """What fits a schema comes back from a browser that changes nothing, and fits still."""
    schema, value = pair
    kept = schemas.check(schema)
    assert schemas.validate_resume_payload(kept, value) == {}
    found = SchemaForm(kept, query(untouched(SchemaForm(kept, initial=value)))).payload
    assert found == value
    assert schemas.validate_resume_payload(kept, found) == {}


def test_rows_that_are_needed_stay_on_the_form_though_nobody_filled_them_in():
    needed = one({"type": "array", "items": LINE, "minItems": 2})
    form = SchemaForm(
        needed, query([("input.a.count", "2"), ("input.a.0.sum", ""), ("input.a.1.sum", "5")])
    )
    assert form.payload == {"a": [{"sum": 5}]}
    assert [name for name, _ in untouched(form)] == [
        "input.a.count",
        "input.a.0.sum",
        "input.a.0.note",
        "input.a.1.sum",
        "input.a.1.note",
    ]


@pytest.mark.parametrize(
    ("order", "shown"),
    [
        (["b", "gone", "a"], ["b", "a", "c"]),
        (["c"], ["c", "a", "b"]),
        (None, ["a", "b", "c"]),
        (5, ["a", "b", "c"]),
        ("cba", ["a", "b", "c"]),
        ([["a"], None, "b"], ["b", "a", "c"]),
    ],
)
def test_properties_are_shown_in_the_order_that_the_schema_names(order, shown):
    """Stored JSON sorts its keys; what is no order is none."""
    schema = {
        "type": "object",
        "x-order": order,
        "properties": {name: {"type": "string"} for name in "abc"},
    }
    form = SchemaForm(schemas.check(schema))
    assert [field.path for field in form.fields] == shown


def test_what_must_be_confirmed_is_a_box_that_nobody_ticked_before():
    """A constant is filled in by the form; a confirmation never is."""
    schema = one({"type": "boolean", "const": True, "title": "I checked it"}, needed=True)
    form = SchemaForm(schemas.check(schema))
    assert (form.fields[0].kind, form.fields[0].value) == ("check", "")
    assert payload_of(schema) == {}
    assert payload_of(schema, ("input.a", "true")) == {"a": True}
    assert schemas.validate_resume_payload(schema, {"a": False}) == {"a": ["Must be confirmed."]}
    assert payload_of(one({"const": "EUR"}, needed=True)) == {"a": "EUR"}


def test_a_group_of_many_fields_is_folded_until_something_stands_in_it():
    parts = {str(number): {"type": "string"} for number in range(9)}
    schema = one({"type": "object", "properties": parts})
    assert SchemaForm(schemas.check(schema)).fields[0].folded
    assert "<details>" in render_to_string(
        "hitl/forms/_schema_field.html", {"field": SchemaForm(schemas.check(schema)).fields[0]}
    )
    assert not SchemaForm(schemas.check(schema), query([("input.a.3", "x")])).fields[0].folded
    assert (
        not SchemaForm(
            schemas.check(one({"type": "object", "properties": dict(list(parts.items())[:8])}))
        )
        .fields[0]
        .folded
    )
    wrong = SchemaForm(schemas.check(schema))
    wrong.add_errors({"a.3": ["This is needed."]})
    assert not wrong.fields[0].folded


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (
            {"pattern": "^[A-Z]{3}$", "description": "Three letters."},
            '"x" isn\'t a valid A. Three letters.',
        ),
        ({"oneOf": [{"const": "a"}, {"const": "b"}]}, "Must be one of the choices."),
        ({"oneOf": [{"type": "null"}, {"type": "integer"}]}, "Fits none of the allowed shapes."),
    ],
)
def test_what_does_not_fit_is_said_in_words_for_people(part, words):
    assert schemas.validate_resume_payload(schemas.check(one(part)), {"a": "x"}) == {"a": [words]}
