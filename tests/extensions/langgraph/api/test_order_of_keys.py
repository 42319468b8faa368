"""Answers, fields, choices, facts and arguments are shown to everybody in their author's order."""

from __future__ import annotations

import json
from typing import Any

import pytest

from checkpoints.state import codec
from extensions.langgraph.api import interrupts
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from hitl.threads import export
from runs.workflows.base import Ask, Report
from runs.workflows.tool_calls import Call
from runs.workflows.wait_for_input import ask_about_calls
from tests.conftest import drive, pause_of
from tests.doors.html import fold
from tests.worlds.scripted_step import order_that as order_that

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

ORDER = ["zinc", "c10", "c2", "apple", "b"]
"""Neither by name, nor by length and name, as PostgreSQL's jsonb has keys."""
FIELDS = {
    "type": "object",
    "properties": {name: {"type": "string", "enum": ORDER} for name in ORDER},
    "required": ["apple"],
}


def in_order(text: str, *, of: str) -> list[str]:
    """These names as a text has them, each at its first place."""
    places = {name: text.find(of.format(name)) for name in ORDER}
    assert min(places.values()) >= 0, (places, text[:2000])
    return sorted(ORDER, key=places.__getitem__)


def choosing(state: Any, context: Any) -> Ask:
    facts = {name: name for name in ORDER}
    return Ask(
        question="Which one?",
        answers=dict.fromkeys(ORDER, ""),
        labels={name: f"Take {name}" for name in ORDER},
        report=Report(content="Here.", facts=facts),
    )


def filling(state: Any, context: Any) -> Ask:
    return Ask(
        question="What is it?",
        answers={"answer": ""},
        report=Report(content="Here."),
        required_inputs=FIELDS,
        known=dict.fromkeys(ORDER, "b"),
    )


def calling(state: Any, context: Any) -> Ask | None:
    call = Call(id="1", tool="pay", arguments=dict.fromkeys(ORDER, "x"), risk="normal")
    return ask_about_calls(state, context, calls=[call], to="")


def shown(order: Any, client: Any, page: Any) -> dict[str, str]:
    """What each door says of a question, as text."""
    read = pause_of(order)
    return {
        "page": fold(page.get(f"/work-orders/{order.shown_id}", follow=True).content.decode()),
        "rest": client.get(f"/api/v1/pauses/{read.shown_id}").content.decode(),
        "workflows": client.get(f"/api/v1/workflows/{read.run.shown_id}").content.decode(),
        "langgraph": json.dumps(interrupts.value_of(read)),
        "schema": json.dumps(interrupts.schema_of(read)),
    }


def moved(order: Any, zoe: Any, **answer: Any) -> str:
    """The order's thread, answered, as a document of a copy that was made from its document."""
    services.decide(pause_of(order).pk, Answer(via=Via.PAGE, **answer), by=order.thread.owner)
    drive(order)
    text = codec.encode_in_order(export.export(order.thread_id))
    copy = export.load(json.loads(text), owner=zoe).thread
    return codec.encode_in_order(export.export(copy.pk))


def part(document: str, name: str) -> str:
    """From a question's field on."""
    return document[document.index(f'"{name}":') :]


def test_answers_keep_their_order(order_that, ana, api, page, zoe):
    order = drive(order_that(choosing))
    said = shown(order, api(ana), page)
    assert in_order(said["page"], of='value="{}"') == ORDER
    for door in ("rest", "workflows", "langgraph", "schema"):
        assert in_order(said[door], of='"{}"') == ORDER, door
    copy = moved(order, zoe, action="c2")
    for name in ("answers", "labels", "facts"):
        assert in_order(part(copy, name), of='"{}"') == ORDER, name


def test_fields_and_their_choices_keep_their_order(order_that, ana, api, page, zoe):
    order = drive(order_that(filling))
    said = shown(order, api(ana), page)
    assert in_order(said["page"], of='name="input.{}"') == ORDER
    assert in_order(said["page"], of='name="input.c2" value="{}"') == ORDER
    for door in ("rest", "workflows", "langgraph", "schema"):
        assert in_order(said[door], of='"{}":') == ORDER, door
    copy = moved(order, zoe, action="answer", payload=dict.fromkeys(ORDER, "b"))
    for name in ("required_inputs", "known", "payload"):
        assert in_order(part(copy, name), of='"{}":') == ORDER, name


def test_the_arguments_of_a_call_keep_their_order(order_that, ana, api, page, zoe):
    order = drive(order_that(calling))
    said = shown(order, api(ana), page)
    assert in_order(said["page"], of="<dt>{}</dt>") == ORDER
    assert in_order(said["page"], of="&quot;{}&quot;:") == ORDER
    for door in ("rest", "langgraph"):
        assert in_order(said[door], of='"{}":') == ORDER, door
    copy = moved(order, zoe, action="approve")
    assert in_order(part(copy, "arguments"), of='"{}":') == ORDER
