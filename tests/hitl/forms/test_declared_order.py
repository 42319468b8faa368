"""A form's fields stand in the order in which its author declared them, whatever the database makes
of a JSON object.
"""

from __future__ import annotations

import re

import pytest

from runs import definitions
from runs.models import Template
from runs.workflows import schemas
from tests.conftest import drive, pause_of
from tests.worlds.scripted_step import order_that as order_that

pytestmark = pytest.mark.django_db
TEXT = {"type": "string"}
INPUTS = {
    "type": "object",
    "properties": {"supplier": TEXT, "due": TEXT, "amount": TEXT, "by": TEXT},
}
ADDRESS = {"type": "object", "properties": {"street": TEXT, "city": TEXT}}
LINES = {
    "type": "array",
    "minItems": 1,
    "items": {"type": "object", "properties": {"what": TEXT, "amount": TEXT}},
}
ASKED = {
    "type": "object",
    "required": ["surname"],
    "properties": {
        "surname": TEXT,
        "given": TEXT,
        "address": ADDRESS,
        "lines": LINES,
        "born": TEXT,
    },
}


def names(text: str) -> list[str]:
    """Names of the fields of a page, in the order of the page."""
    return re.findall(r'name="input\.([\w.]+)"', text)


def test_the_fields_of_a_new_order_stand_as_the_template_declares_them(templates, page):
    """PostgreSQL's jsonb had the shortest name first."""
    definitions.edit_template("typed", steps=[{"step_type": "deliver",
        "step_template_slug": "test-finish"}],
                              title="Typed", needs_repository=False,
                              input_schema=INPUTS)  # fmt: skip
    assert names(page.get("/work-orders/new?template=typed").content.decode()) == list(
        INPUTS["properties"]
    )
    again = definitions.edit_template("typed", input_schema=INPUTS)
    assert again.version == Template.objects.get(slug="typed").version == 1


@pytest.mark.parametrize("where", ["step", "configuration"])
def test_the_fields_of_a_question_stand_as_its_step_declares_them(make_order, page, where):
    """Those inside a group and a row too."""
    asking = {
        "step_type": "planning",
        "step_template_slug": "test-plan",
        "pause_after": True,
        "pause_phase": "awaiting_plan_approval",
    }
    if where == "step":
        asking["required_inputs"] = ASKED
    else:
        config = {"required_inputs": ASKED, "blocking_reason": "data", "question": "Who?"}
        definitions.edit_step_template(
            "ask-who", title="Ask", function="gate.wait_for_input", config=config
        )
        asking = {"step_type": "planning", "step_template_slug": "ask-who"}
    definitions.edit_template("asking", steps=[asking, {"step_type": "deliver",
        "step_template_slug": "test-finish"}],
                              title="Asking", needs_repository=False)  # fmt: skip
    order = drive(make_order("asking"))
    shown = names(page.get(f"/work-orders/{order.shown_id}/").content.decode())
    assert shown == [
        "surname",
        "given",
        "address.street",
        "address.city",
        "lines.count",
        "lines.0.what",
        "lines.0.amount",
        "born",
    ]
    assert pause_of(order).required_inputs["properties"]["address"][schemas.ORDER] == [
        "street",
        "city",
    ]


def test_an_order_that_every_database_keeps_is_not_written_down():
    """Nothing is added to a schema that needs nothing."""
    kept = {"type": "object", "properties": {"a": {"type": "string"}, "bb": {"type": "string"}}}
    assert schemas.in_order(kept) == kept == schemas.check(kept)
    assert schemas.check({**kept, "properties": {"bb": {}, "a": {}}})[schemas.ORDER] == ["bb", "a"]
    own = {**kept, schemas.ORDER: ["bb"]}
    assert list(schemas.declared(schemas.in_order(own))) == ["bb", "a"]
