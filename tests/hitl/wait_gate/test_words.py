"""A word that names its prompt decides the one call that this asks about (S2-22)."""

from __future__ import annotations

import pytest

from hitl.models import Decision
from runs.workflows import tool_calls
from runs.workflows.base import Done
from runs.workflows.tool_calls import Call
from runs.workflows.wait_for_input import ask_about_calls
from tests.conftest import drive, pause_of
from tests.worlds.scripted_step import order_that as order_that

pytestmark = pytest.mark.django_db
MADE: list[dict[str, object]] = []


def asks(risk="high", number=1):
    wanted = [
        Call(
            id=f"wire-{place}",
            tool="wire",
            arguments={"to": "eve", "amount": 40},
            risk=risk,
            editable=["/amount"],
            answerable=True,
        )
        for place in range(number)
    ]

    def act(state, context):
        if asked := ask_about_calls(state, context, calls=wanted):
            return asked
        for call in tool_calls.approved(context, context.step, wanted):
            context.once(call.id, lambda call=call: MADE.append(dict(call.arguments)))
        return Done()

    return act


@pytest.fixture
def say(order_that, ana, api):
    MADE.clear()

    def made(response, prompt="", **how):
        order = drive(order_that(asks(**how)))
        body = {
            "traceId": order.latest_run.shown_id,
            "promptId": prompt or pause_of(order).shown_id,
            "response": response,
        }
        answer = api(ana).post("/api/v1/resume", body, format="json")
        return drive(order), answer

    return made


@pytest.mark.parametrize("risk", ["low", "normal", "high"])
@pytest.mark.parametrize("response", ["approve", " Approve ", {"decision": "approve"}])
def test_a_word_approves_it_whatever_its_risk(say, risk, response):
    """It was 422, "Must be an object", where the risk is high."""
    order, answer = say(response, risk=risk)
    assert (answer.status_code, order.status) == (200, "completed"), answer.json()
    assert MADE == [{"to": "eve", "amount": 40}]
    assert Decision.objects.get().intact


@pytest.mark.parametrize(
    ("response", "made"),
    [
        ({"decision": "reject", "reason": "not to her"}, []),
        (
            {"decision": "edit", "arguments": {"to": "eve", "amount": 1}},
            [{"to": "eve", "amount": 1}],
        ),
        ({"decision": "respond", "result": "Paid by hand."}, []),
    ],
)
def test_what_belongs_to_a_word_comes_with_it(say, response, made):
    order, answer = say(response)
    assert (answer.status_code, order.status, MADE) == (200, "completed", made), answer.json()


@pytest.mark.parametrize(
    ("response", "how", "place"),
    [
        ("reject", {}, "calls.wire-0.reason"),
        ("edit", {}, "calls.wire-0.arguments"),
        (
            {"decision": "edit", "arguments": {"to": "ana", "amount": 40}},
            {},
            "calls.wire-0.arguments",
        ),
        ("approve", {"number": 2}, ""),
        ("reject", {"number": 2}, ""),
        ("perhaps", {}, ""),
        ({"decision": "approve", "calls": {}}, {}, ""),
    ],
)
def test_what_does_not_say_enough_decides_nothing_and_hears_what_is_missing(
    say, response, how, place
):
    """Of several calls each wants a word of its own."""
    order, answer = say(response, **how)
    assert (answer.status_code, order.status, MADE) == (422, "paused", [])
    assert place in str(answer.json()), answer.json()
    assert not Decision.objects.exists()


@pytest.mark.parametrize("response", ["REJECT", {"decision": "reject"}])
def test_the_word_that_rejects_in_a_chat_rejects_here(paused, ana, api, response):
    """S2-22, C7: it was 422, though `approve` was taken."""
    pause = pause_of(paused)
    body = {"traceId": paused.latest_run.shown_id, "promptId": pause.shown_id, "response": response}
    answer = api(ana).post("/api/v1/resume", body, format="json")
    assert (answer.status_code, answer.json()["decision"]) == (200, "cancel"), answer.json()
    assert drive(paused).latest_run.status == "cancelled"
