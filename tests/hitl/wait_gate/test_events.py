"""A step that waits for an event of the world outside, by name and for so long at most."""

from __future__ import annotations

import datetime as dt

import pytest
from django.urls import reverse

from checkpoints.database import clock
from hitl.decisions.deadlines import outcomes
from hitl.models import Decision, Via
from hitl.operations.invariants import waiting
from runs.engine import questions
from runs.models import Pause
from runs.workflows import Ask, Done, Report, Sleep, StepFailed, wait_for_event
from tests.conftest import drive, fresh, pause_of
from tests.worlds.scripted_step import order_that as order_that
from tests.worlds.scripted_step import state_of

pytestmark = pytest.mark.django_db

PAID = {"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]}
DAY = dt.timedelta(days=1)


def payment(state, context):
    return wait_for_event("payment_received", to="finish", data=PAID)


def patient(state, context):
    """Wait a day for the payment, then go on without it."""
    if state.get("reminded"):
        return Done()
    return wait_for_event(
        "payment_received",
        to="finish",
        data=PAID,
        within=DAY,
        otherwise="execute",
        update={"reminded": True},
    )


def let_a_day_pass():
    past = clock.now() - dt.timedelta(minutes=1)
    Pause.objects.update(opened_at=past - DAY, deadline_at=past, next_at=past)


def test_a_program_tells_of_the_event_by_its_name(order_that, client, ana):
    """The data joins the state, and the run goes on at the step that was named."""
    order = drive(order_that(payment))
    pause = pause_of(order)
    assert (pause.kind, pause.phase, pause.question) == (
        "external",
        "payment_received",
        "Waiting for the event “payment received”",
    )
    client.force_login(ana)
    told = {
        "traceId": order.latest_run.shown_id,
        "promptId": "payment_received",
        "response": {"amount": "a lot"},
    }
    refused = client.post("/api/v1/resume", told, content_type="application/json")
    assert refused.status_code == 422
    told["response"] = {"amount": 40}
    answer = client.post("/api/v1/resume", told, content_type="application/json")
    assert answer.status_code == 200, answer.content
    order = drive(order)
    assert (order.status, state_of(order)["amount"]) == ("completed", 40)


@pytest.mark.both_databases
def test_an_event_that_does_not_come_in_time_lets_the_step_go_on_without_it(
    order_that, client, ana
):
    """P8: nobody is said to have answered."""
    order = drive(order_that(patient))
    pause = pause_of(order)
    client.force_login(ana)
    card = client.get(reverse("hitl:order", args=[order.pk])).content.decode()
    assert "the run goes on without an answer: Anything runs next." in card
    let_a_day_pass()
    assert outcomes.fire_due(now=clock.now()) == 1
    assert outcomes.fire_due(now=clock.now()) == 0
    decision = Decision.objects.get(pause=pause)
    assert (decision.action, decision.via, decision.decided_by) == ("timed_out", Via.POLICY, None)
    assert list(waiting.decided_by_silence(clock.now())) == []
    told = {
        "traceId": order.latest_run.shown_id,
        "promptId": "payment_received",
        "response": {"amount": 40},
    }
    late = client.post("/api/v1/resume", told, content_type="application/json")
    assert late.status_code == 409
    order = drive(order)
    assert order.status == "completed"
    assert "amount" not in state_of(order)


@pytest.mark.both_databases
def test_an_event_without_a_way_on_expires(order_that):
    def waits(state, context):
        return wait_for_event("payment_received", to="finish", within=DAY)

    order = drive(order_that(waits))
    let_a_day_pass()
    outcomes.fire_due(now=clock.now())
    assert fresh(order).latest_run.status == "expired"


def test_somebody_says_in_the_systems_place_that_it_happened(order_that, client, ana):
    """The wait stands in the inbox as a question."""
    order = drive(order_that(payment))
    client.force_login(ana)
    pause = pause_of(order)
    body = {
        "decision": "answer",
        "input": {"amount": 3},
        "revision": 1,
        "content_digest": pause.content_digest,
    }
    said = client.post(
        f"/api/v1/pauses/{pause.shown_id}/decisions", body, content_type="application/json"
    )
    assert said.status_code in {200, 201}, said.content
    assert drive(order).status == "completed"


def ask(**more):
    return Ask(question="?", report=Report(content=""), **more)


NONSENSE = [
    ask(answers={"answer": "finish"}, within=dt.timedelta(0)),
    ask(answers={"answer": "finish"}, within=dt.timedelta(days=9999)),
    ask(answers={"answer": "finish"}, within=60),
    ask(answers={"answer": "finish"}, otherwise="answer"),
    ask(answers={"answer": "finish"}, within=DAY, otherwise="answer"),
    ask(answers={"answer": "finish"}, within=DAY, otherwise="late"),
    ask(answers={"answer": "a", "expire": "finish"}, within=DAY, otherwise="expire"),
    ask(answers={"answer": "a", "no": "finish"}, required_inputs=PAID, within=DAY, otherwise="no"),
]


def test_a_time_limit_that_makes_no_sense_fails_the_step_in_words(order_that):
    """A verdict has its deadline in the rules: no step takes an approval by waiting."""
    verdict = ask(answers={"approve": "finish"}, within=DAY)
    order = drive(order_that(lambda state, context: verdict))
    assert (order.status, order.latest_run.failure_code) == ("failed", "limit_invalid")
    assert "Nothing of this step was recorded" in order.latest_run.error
    for question in NONSENSE:
        with pytest.raises(StepFailed, match="cannot be asked with a time limit"):
            questions.limited(question, {})


@pytest.mark.both_databases
def test_a_run_sleeps_and_then_waits_for_an_event(order_that):
    """A refund: wait an hour, then for the bank."""

    def refund(state, context):
        if not state.get("slept"):
            return Sleep(for_=DAY, to="execute", update={"slept": True})
        return wait_for_event("refund_settled", to="finish")

    order = order_that(refund)
    drive(order)
    assert fresh(order).phase == "sleeping"
    fresh(order).latest_run.__class__.objects.update(due_at=clock.now() - DAY)
    assert drive(order).phase == "refund_settled"
