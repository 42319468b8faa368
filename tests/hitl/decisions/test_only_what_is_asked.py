"""What an answer may write into the state: what its question asks for by name, and never what the
engine itself writes.
"""

from __future__ import annotations

from typing import Any

import pytest

from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Decision, Via
from hitl.wait_gate import primitives, waits
from runs.models import OWN_REDUCERS, Pause
from runs.services import InputInvalid
from runs.threads import turns
from runs.threads.turns import PER_TURN, Turn
from runs.workflows import owned, schemas
from runs.workflows.base import Ask, Report
from tests.conftest import drive, fresh, pause_of
from tests.worlds.scripted_step import order_that as order_that
from tests.worlds.scripted_step import state_of

pytestmark = pytest.mark.django_db

OPEN = {"type": "object", "properties": {"iban": {"type": "string"}}, "required": ["iban"]}
IBAN = {"iban": "DE89"}


@pytest.fixture
def order(order_that):
    """It asks for an IBAN, by a schema that leaves further names open as JSON Schema does."""

    def make(schema=OPEN, **changes):
        asks = {
            "question": "Which?",
            "report": Report(content="?"),
            "answers": {"answer": "finish"},
            "required_inputs": schema,
        }
        return drive(
            order_that(lambda state, context: Ask(update={"amount": 5}, **{**asks, **changes}))
        )

    return make


SCHEMAS = {
    "open": OPEN,
    "said to be open": {**OPEN, "additionalProperties": True},
    "open for texts": {**OPEN, "additionalProperties": {"type": ["string", "object", "number"]}},
    "in parts": {"type": "object", "allOf": [OPEN, {"properties": {"bic": {"type": "string"}}}]},
    "alternatives": {
        "type": "object",
        "anyOf": [{"$ref": "#/$defs/it"}, {"required": ["bic"]}],
        "$defs": {"it": OPEN},
    },
    "by condition": {
        "type": "object",
        "if": {"required": ["bic"]},
        "then": {"required": ["bank"]},
        "else": OPEN,
    },
    "by what else is there": {
        "type": "object",
        "required": ["iban"],
        "dependentSchemas": {"iban": {"properties": {"bic": {}}}},
    },
}


def test_however_open_a_schema_is_it_asks_for_what_it_names_alone():
    unasked = {"amount": ["This was not asked for. Leave it out."]}
    for name, schema in SCHEMAS.items():
        kept = schemas.check(schema)
        assert schemas.answer_faults(kept, {**IBAN, "amount": 9_000}) == unasked, name
        assert schemas.answer_faults(kept, IBAN) == {}, name


def test_what_was_not_asked_for_is_refused_with_its_name_at_each_door(order, ana, api):
    """Whoever answered overwrote any key of the state."""
    order = order()
    pause = pause_of(order)
    body = {"decision": "answer", "input": {**IBAN, "amount": 9_000}}
    refused = api(ana).post(f"/api/v1/pauses/{pause.shown_id}/decisions", body, format="json")
    assert (refused.status_code, refused.json()["code"], list(refused.json()["errors"])) == (
        422,
        "input_invalid",
        ["input.amount"],
    )
    assert (pause_of(order).attempts, Decision.objects.count()) == (1, 0)
    for route, said in (
        (f"runs/{pause.run.shown_id}/input", {"input": {**IBAN, "amount": 9_000}}),
        (f"workflows/{pause.run.shown_id}/resume", {"payload": {**IBAN, "amount": 9_000}}),
        (f"threads/{order.thread.shown_id}/runs", {"input": {**IBAN, "amount": 9_000}}),
    ):
        assert api(ana).post(f"/api/v1/{route}", said, format="json").status_code == 422, route
    services.decide(pause.pk, Answer("answer", Via.PAGE, payload=IBAN), by=ana)
    assert (state_of(fresh(order))["amount"], state_of(fresh(order))["iban"]) == (5, "DE89")


def test_names_are_found_in_every_part_that_asks():
    """All that a schema says in place; what it says of an inner value is that value's own."""
    wide = {
        "allOf": [{"properties": {"a": {"properties": {"inner": {}}}}}],
        "oneOf": [{"required": ["b"]}],
        "not": {"required": ["x"]},
    }
    more = {
        "dependentRequired": {"a": ["c"]},
        "if": True,
        "additionalProperties": {"properties": {"y": {}}},
    }
    assert schemas.asked_for({**wide, **more}) == {"a", "b", "c"}
    assert schemas.answer_faults({"type": "object"}, {"a": 1}) == {
        "a": ["This was not asked for. Leave it out."]
    }
    assert primitives.validate_resume_payload is schemas.answer_faults


def test_what_the_engine_writes_is_taken_from_nobody(order, ana, api, subtests):
    """All but four of these names were free."""
    order = order(answers={"answer": "finish", "other": ""}, required_inputs={}, kind="input")
    pause = pause_of(order)
    thread, client = turns.open_thread(by=ana, title="Alone"), api(ana)
    for name in sorted(owned.keys()):
        with subtests.test(name):
            for update in ({name: {"planning": "approve"}}, {"input": "x", name: None}):
                with pytest.raises(services.AnswerInvalid) as refused:
                    services.decide(pause.pk, Answer("answer", Via.PAGE, update=update), by=ana)
                assert (refused.value.code, list(refused.value.errors)) == (
                    "input_reserved",
                    [f"input.{name}"],
                )
            with pytest.raises(InputInvalid, match="by answers alone"):
                turns.invoke(thread.pk, Turn(template="writing", input={name: {}}), by=ana)
            body = {"template": "writing", "input": {name: {}}}
            told = client.post(f"/api/v1/threads/{thread.shown_id}/runs", body, format="json")
            assert told.status_code == 422
    assert (pause_of(order).status, Decision.objects.count()) == ("open", 0)


def test_no_step_asks_for_what_the_engine_writes(order):
    """The step fails and says so, instead of a question that writes a verdict."""
    made = order({"type": "object", "properties": {"decided": {}}})
    assert (made.status, "decided" in fresh(made).latest_run.error) == ("failed", True)


def test_another_engines_wait_keeps_its_own_names_free(ana):
    """What no answer writes here is that engine's own business."""
    schema = {"type": "object", "properties": {"approved": {"type": "boolean"}}}
    asked = waits.WaitRequest(
        run_id="r",
        node_id="n",
        blocking_reason="b",
        required_inputs=schema,
        state={"agent": 1, "approved": False},
    )
    wait, _ = waits.open_wait(asked, by=ana)
    services.decide(wait.pause_id, Answer("answer", Via.REST, payload={"approved": True}), by=ana)
    assert primitives.look("r", by=ana).state == {"agent": 1, "approved": True}
    reserved: list[dict[str, Any]] = [
        {"state": {"decided": {}}},
        {"required_inputs": {"type": "object", "required": ["decided_content"]}},
    ]
    for changes in reserved:
        with pytest.raises(waits.WaitInvalid):
            waits.open_wait(
                waits.WaitRequest(**{**asked.told, "run_id": "other", **changes}), by=ana
            )
    assert Pause.objects.count() == 1


def test_every_key_that_the_engine_merges_or_drops_is_its_own():
    """Who adds one to those adds it here."""
    assert {*OWN_REDUCERS, *PER_TURN} <= owned.keys()
