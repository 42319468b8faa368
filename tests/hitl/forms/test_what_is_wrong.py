"""What is wrong with a form: said once in the list above it, at its field, and of nothing that was
typed anything is lost; for any schema, and whatever was posted.
"""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser
from typing import Any

from django.template.loader import render_to_string
from django.utils import translation
from hypothesis import given, settings
from hypothesis import strategies as st

from hitl.forms.fields import FormField
from hitl.forms.json_schema import BLANK, OTHER, SchemaForm
from hitl.forms.texts import needed
from runs.workflows import refusals, schemas
from tests.hitl.forms.controls import Controls, query

VOID = {"input", "img", "br", "hr", "wbr"}
NAMES = ["a", "b", "a.b", "a_b", "a_error", "x y", "~n", "0", "a.error"]
"""Also such as look like the ids of others."""
TITLES = st.sampled_from([{}, {"title": "VAT id"}, {"title": "<b>", "description": "Such as 5."}])
SCALARS = st.sampled_from(
    [
        {"type": "string", "minLength": 1},
        {"type": "string", "minLength": 3, "maxLength": 5},
        {"type": "string", "pattern": "^[A-Z]{2}[0-9]+$"},
        {"type": "string", "maxLength": 900, "minLength": 4},
        {"type": ["string", "null"], "format": "email"},
        {"type": "string", "format": "date"},
        {"type": "string", "format": "time"},
        {"type": "string", "format": "date-time"},
        {"type": "integer", "minimum": 3, "maximum": 5},
        {"type": "number", "multipleOf": 2},
        {"type": "number", "exclusiveMinimum": 0},
        {"type": "boolean"},
        {"type": "boolean", "const": True},
        {"const": "as it is"},
        {"enum": ["red", 5, None]},
        {"enum": list(range(20))},
        {"anyOf": [{"enum": ["red", "blue"]}, {"type": "string", "minLength": 4}]},
        {"type": "array", "items": {"type": "string", "maxLength": 2}, "maxItems": 1},
        {"type": "array", "items": {"enum": ["a", "b", "c"]}, "maxItems": 1, "minItems": 1},
        {"type": "array", "items": {"type": "array"}},
        {"type": "object", "minProperties": 1},
    ]
)


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy) -> dict[str, Any]:
    parts = draw(st.dictionaries(st.sampled_from(NAMES), inner, min_size=1, max_size=4))
    return {
        "type": "object",
        "properties": {name: {**part, **draw(TITLES)} for name, part in parts.items()},
        "required": [name for name in parts if draw(st.booleans())],
        **draw(st.sampled_from([{}, {"minProperties": 3}])),
    }


@st.composite
def lists(draw: st.DrawFn, inner: st.SearchStrategy) -> dict[str, Any]:
    return {
        "type": "array",
        "items": {**draw(objects(inner)), **draw(TITLES)},
        "minItems": draw(st.integers(0, 2)),
        "uniqueItems": draw(st.booleans()),
    }


SCHEMAS = objects(st.recursive(SCALARS, lambda inner: objects(inner) | lists(inner), max_leaves=6))
TYPED = st.one_of(
    st.text("aA1 é<&\"'~.,:-T\n", max_size=12),
    st.sampled_from(["5", "4", "2026-02-30", "25:00", "1_000", "1e999", "{oops", "[]", "DE12"]),
)


class Page(HTMLParser):
    """The ids of a page: their attributes, the ids around each, and the text within each."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[tuple[str, str]] = []
        self.found: list[str] = []
        self.attributes: dict[str, dict[str, str | None]] = {}
        self.around: dict[str, set[str]] = {}
        self.texts: dict[str, str] = {}
        self.links: list[tuple[str, str]] = []
        self.asleep = 0
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.asleep += tag == "template"
        had = dict(attrs)
        own = "" if self.asleep else had.get("id", "")
        if own:
            self.found.append(own)
            self.attributes[own] = had
            self.around[own] = {name for _, name in self.open if name}
            self.texts[own] = ""
        if tag == "a":
            self.links.append((had["href"].removeprefix("#"), ""))
        if tag not in VOID:
            self.open.append((tag, own))

    def handle_endtag(self, tag):
        self.asleep -= tag == "template"
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        for _, name in self.open:
            if name:
                self.texts[name] += data


def html_of(form: SchemaForm) -> str:
    return "".join(
        render_to_string("hitl/forms/_schema_field.html", {"field": field}) for field in form.fields
    )


def list_of(form: SchemaForm) -> list[str]:
    shown = render_to_string("hitl/forms/_wrong.html", {"told": form.problems_told})
    return re.findall(r"<li>(.*?)</li>", shown, re.DOTALL)


def posted(draw: st.DrawFn, form: SchemaForm) -> list[tuple[str, str]]:
    """What somebody who fills in this form at random sends."""
    pairs: list[tuple[str, str]] = []
    for field in form.root.each():
        if field.kind == "rows":
            pairs.append((f"{field.name}.count", str(len(field.parts))))
        elif field.kind in {"one", "several"}:
            pairs += chosen(draw, field)
        elif field.kind == "check":
            pairs += [(field.name, "true")] * draw(st.booleans())
        elif field.kind not in {"group", "fixed", "file"}:
            text = draw(TYPED)
            kept = text if field.kind in {"long", "lines", "json"} else text.replace("\n", "")
            pairs.append((field.name, kept.replace("\n", "\r\n")))
    return pairs


def chosen(draw: st.DrawFn, field: FormField) -> list[tuple[str, str]]:
    values = [option.value for option in field.options] + [OTHER] * field.other
    most = len(values) if field.kind == "several" else 1
    picked = draw(st.lists(st.sampled_from(values), max_size=most, unique=True))
    own = [(f"{field.name}.other", draw(TYPED).replace("\n", ""))] if OTHER in picked else []
    return [(field.name, value) for value in picked] + own


def typed(pairs: list[tuple[str, str]]) -> Counter[tuple[str, str]]:
    """What was typed under each name, whichever row it stands in: one that is left empty goes."""
    return Counter(
        (re.sub(r"\.\d+(?=\.|$)", ".#", name), text)
        for name, text in pairs
        if text.strip() and text != OTHER and not name.endswith(".count")
    )


def test_a_choice_of_ones_own_words_shows_them_as_they_were_typed() -> None:
    """Found by the property below: white space behind them was gone where the form came back."""
    either = {"anyOf": [{"enum": ["red", "blue"]}, {"type": "string", "minLength": 4}]}
    form = SchemaForm(
        schemas.check({"type": "object", "properties": {"a": either}}),
        query([("input.a", OTHER), ("input.a.other", "1 ")]),
    )
    assert form.payload == {"a": "1"}
    assert 'value="1 "' in html_of(form)


@settings(max_examples=150)
@given(st.data(), SCHEMAS)
def test_every_fault_is_in_the_list_once_and_at_its_field_and_nothing_typed_is_lost(data, schema):
    kept = schemas.check(schema)
    pairs = posted(data.draw, SchemaForm(kept))
    form = SchemaForm(kept, query(pairs))
    faults = schemas.validate_resume_payload(kept, form.payload)
    left = form.add_errors(faults)

    fields = {field.path: field for field in form.root.each()}
    said = Counter((fault.id, fault.words) for fault in form.problems_told)
    for path, texts in faults.items():
        at = path
        while at and at not in fields:
            at = at.rpartition(".")[0]
        for text in texts:
            if not at:
                assert text in left
                continue
            field = fields[at]
            empty = text == refusals.NEEDED and at == path
            words = needed(field.kind, field.label or field.title) if empty else text
            assert said[field.id, words] == 1

    html = html_of(form)
    page = Page(html)
    assert len(set(page.found)) == len(page.found), "an id stands for two things"
    lines = list_of(form)
    assert len(lines) == len(form.problems_told) == len(set(lines))
    for line, fault in zip(lines, form.problems_told, strict=True):
        assert f'href="#{fault.id}"' in line
        control, error = page.attributes[fault.id], f"{fault.id}.error"
        described = (control.get("aria-describedby") or "").split()
        assert error in described or fault.id in page.around[error], "it does not carry it"
        assert " ".join(fault.words.split()) in " ".join(page.texts[error].split())
    for control in page.attributes.values():
        for name in (control.get("aria-describedby") or "").split():
            assert name in page.attributes, "it is described by nothing"

    controls = Controls()
    controls.feed(html)
    assert BLANK not in "".join(name for name, _ in controls.posted)
    assert typed(pairs) <= typed(controls.posted)


def test_fields_whose_names_look_alike_have_ids_of_their_own():
    text = {"type": "string", "minLength": 3}
    group = {"type": "object", "properties": {"b": text, "error": text}}
    schema = {"type": "object", "properties": {"a": group, "a_b": text, "a_error": text}}
    names = ("input.a.b", "input.a.error", "input.a_b", "input.a_error")
    form = SchemaForm(schemas.check(schema), query([(name, "x") for name in names]))
    form.add_errors(schemas.validate_resume_payload(form.root.schema, form.payload))
    assert len({fault.id for fault in form.problems_told}) == len(form.problems_told) == 4
    found = Page(html_of(form)).found
    assert len(set(found)) == len(found)


def test_a_fault_names_its_field_by_its_labels_and_says_what_to_do():
    """Above the form stood: "address.city: This is needed."."""
    address = {
        "type": "object",
        "title": "Address",
        "properties": {"city": {"type": "string"}, "kind": {"enum": ["home", "work"]}},
        "required": ["city", "kind"],
    }
    items = {"type": "object", "properties": {"net": {"type": "number", "minimum": 3}}}
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "title": "Your name"},
            "address": address,
            "items": {"type": "array", "title": "Line items", "items": items},
        },
        "required": ["name", "address"],
    }
    data = [("input.items.count", "1"), ("input.items.0.net", "1")]

    def told() -> list[str]:
        form = SchemaForm(schemas.check(schema), query(data))
        form.add_errors(schemas.validate_resume_payload(form.root.schema, form.payload))
        return [" ".join(re.sub(r"<[^>]*>", "", line).split()) for line in list_of(form)]

    assert told() == [
        "Enter “Your name”.",
        "Address, City: Enter “City”.",
        "Address, Kind: Choose “Kind”.",
        "Line items 1, Net: Must be at least 3.",
    ]
    with translation.override("de"):
        assert told() == [
            "Füllen Sie „Your name“ aus.",
            "Address, City: Füllen Sie „City“ aus.",
            "Address, Kind: Wählen Sie „Kind“.",
            "Line items 1, Net: Muss mindestens 3 sein.",
        ]
