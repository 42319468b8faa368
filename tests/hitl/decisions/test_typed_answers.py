"""Questions that ask for data: what fits lets the run go on, what does not is named and asked for
again.
"""

from __future__ import annotations

from typing import Any

import pytest

from checkpoints.models import Event
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Decision, Via
from hitl.threads import messages as doors
from runs import definitions
from runs.definitions import TemplateInvalid
from runs.models import Pause
from runs.workflows import schemas
from runs.workflows.base import Ask, Done, Go, Report
from runs.workflows.wait_for_input import wait_for_input
from tests.conftest import drive, fresh, pause_of
from tests.databases.whole import rows
from tests.doors.rest import ana_api as ana_api
from tests.doors.rest import problem
from tests.hitl.views.order_pages import text
from tests.worlds.scripted_step import order_that as order_that
from tests.worlds.scripted_step import state_of

pytestmark = pytest.mark.django_db

SUPPLIER = {
    "type": "object",
    "title": "The supplier",
    "required": ["vat_id"],
    "additionalProperties": False,
    "properties": {
        "vat_id": {"type": "string", "title": "VAT number", "pattern": "^DE[0-9]{9}$"},
        "lines": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"sum": {"type": "integer"}},
                "required": ["sum"],
            },
        },
    },
}
GOOD = {"vat_id": "DE123456789"}
REASON = "missing_supplier_data"


def gate(state, context, **more):
    """Extracts once, then asks for what is missing, then is done."""
    extracted = state.get("extracted", 0)
    asked = wait_for_input(
        state,
        context,
        required_inputs=SUPPLIER,
        blocking_reason=REASON,
        question="Which supplier is it?",
        update={"extracted": extracted + 1} if not extracted else {},
        **more,
    )
    return asked or Done(update={"booked": True})


@pytest.fixture
def waiting(order_that):
    return drive(order_that(gate))


def answer(order, by, payload=None, action="answer", **more):
    return services.decide(
        pause_of(order).pk, Answer(action, Via.PAGE, payload=payload, **more), by=by
    )


def test_a_step_that_lacks_data_pauses_and_says_what_it_needs(waiting):
    """S3-4, S3-5, S3-6, S3-7, S3-8, S3-10, S3-26, S3-27, S2-19: run, node, status, reason and
    schema are stored; the event carries them.
    """
    pause = pause_of(waiting)
    head = pause.checkpoint
    assert (head.run_id, head.node_id, head.status) == (
        waiting.latest_run_id,
        waiting.current_step,
        "pending_input",
    )
    assert head.metadata["blocking_reason"] == REASON
    assert (pause.phase, waiting.phase, waiting.status) == (REASON, REASON, "paused")
    assert (pause.required_inputs, pause.attempts, pause.refined) == (
        schemas.in_order(SUPPLIER),
        0,
        "",
    )
    event = Event.objects.get(kind="await_human_input").data
    assert (event["pause_id"], event["prompt"], event["phase"]) == (
        pause.shown_id,
        "Which supplier is it?",
        REASON,
    )
    assert event["required_inputs"] == schemas.in_order(SUPPLIER)
    # S0-22: a client that knows no questions for data opens its dialog too
    nods = Event.objects.get(kind="approval_requested").data
    assert event == {
        **nods,
        "required_inputs": event["required_inputs"],
        "told_as": "approval_requested",
    }


def test_a_step_whose_data_is_there_does_not_ask(order_that):
    """S3-25."""
    order = drive(order_that(lambda state, context: gate({**state, **GOOD}, context)))
    assert (order.status, state_of(order)["booked"]) == ("completed", True)
    assert not Pause.objects.exists()


def test_what_was_answered_joins_the_state_and_the_run_goes_on_from_the_same_step(waiting, ana):
    """S3-16, S3-17, S3-32, S3-51: what came before the question is not done again."""
    decision = answer(waiting, ana, GOOD)
    order = drive(waiting)
    state = state_of(order)
    assert (order.status, state["vat_id"], state["extracted"], state["booked"]) == (
        "completed",
        "DE123456789",
        1,
        True,
    )
    assert decision.action == "answer"


def test_an_answer_that_does_not_fit_leaves_the_question_open_and_is_asked_again_in_words(
    waiting, ana
):
    """S3-33, C8: counted, kept, and told to those who watch."""
    before = pause_of(waiting)
    cases: list[tuple[Any, dict[str, list[str]]]] = [
        (None, {"input.vat_id": ["This is needed."]}),
        (
            {"vat_id": "x"},
            {"input.vat_id": ['"x" isn\'t a valid VAT number: it must match "^DE[0-9]{9}$".']},
        ),
        ({**GOOD, "lines": [{"sum": "5"}]}, {"input.lines.0.sum": ["Must be a whole number."]}),
        ("text", {"input": ["Must be an object."]}),
    ]
    for attempts, (payload, errors) in enumerate(cases, 1):
        with pytest.raises(services.AnswerInvalid) as refused:
            answer(waiting, ana, payload)
        assert (refused.value.errors, refused.value.code) == (errors, "input_invalid")
        pause = pause_of(waiting)
        assert (pause.pk, pause.attempts, pause.revision) == (before.pk, attempts, 1)
        assert all(text in pause.refined for texts in errors.values() for text in texts)
        again = Event.objects.filter(kind="await_human_input").order_by("seq").last().data
        assert (again["again"], again["attempts"], again["refined"]) == (
            True,
            attempts,
            pause.refined,
        )
    assert not Decision.objects.exists()
    answer(waiting, ana, GOOD)
    assert drive(waiting).status == "completed"


def test_what_cannot_be_kept_is_refused(waiting, ana):
    """F14."""
    payload = {**GOOD, "lines": [{"sum": 1, "note": "a\x00b"}]}
    with pytest.raises(services.AnswerInvalid, match="cannot be kept"):
        answer(waiting, ana, payload)


def test_data_that_nobody_asked_for_is_refused(paused, ana):
    before = rows()
    with pytest.raises(services.AnswerInvalid, match="asks for no data") as refused:
        answer(paused, ana, {"x": 1}, action="approve")
    assert (refused.value.code, rows()) == ("input_unexpected", before)


def test_a_cancel_needs_no_data_and_takes_none(waiting, ana):
    with pytest.raises(services.AnswerInvalid, match="takes no data"):
        answer(waiting, ana, GOOD, action="cancel")
    answer(waiting, ana, action="cancel")
    assert fresh(waiting).status == "failed"


def test_a_late_answer_that_does_not_fit_changes_nothing_and_hears_who_answered(waiting, ana, ben):
    pause = pause_of(waiting)
    answer(waiting, ana, GOOD)
    before = rows()
    with pytest.raises(services.AlreadyAnswered, match="Ana Ruiz"):
        services.decide(pause.pk, Answer("answer", Via.PAGE, payload={}), by=ben)
    assert rows() == before


def test_an_approval_gate_may_ask_for_data_too(make_order, ana):
    steps = [
        {
            "step_type": "planning",
            "step_template_slug": "test-plan",
            "pause_after": True,
            "pause_phase": "awaiting_plan_approval",
        }
    ]
    steps[0]["required_inputs"] = {
        "type": "object",
        "required": ["budget"],
        "properties": {"budget": {"type": "integer"}},
    }
    steps.append({"step_type": "deliver", "step_template_slug": "test-finish"})
    definitions.edit_template("writing", steps=steps)
    order = drive(make_order())
    with pytest.raises(services.AnswerInvalid, match="This is needed"):
        answer(order, ana, action="approve")
    answer(order, ana, action="revise", feedback="again")
    order = drive(order)
    answer(order, ana, {"budget": 5}, action="approve")
    assert state_of(drive(order))["budget"] == 5


def test_a_template_that_asks_a_person_for_a_secret_is_refused(templates):
    """What is given under such a name is not kept, so no step would get it."""
    wanted = {
        "type": "object",
        "properties": {"bank": {"type": "object", "properties": {"password": {"type": "string"}}}},
    }
    steps = [
        {"step_type": "planning", "step_template_slug": "test-plan", "required_inputs": wanted}
    ]
    with pytest.raises(TemplateInvalid, match="named like a secret") as refused:
        definitions.edit_template("writing", steps=steps)
    assert list(refused.value.errors) == ["steps.0.required_inputs"]


def test_a_step_that_asks_for_what_cannot_be_asked_fails_in_words(order_that):
    ask = Ask(
        question="?",
        answers={"answer": ""},
        report=Report(content=""),
        required_inputs={"type": "string"},
    )
    order = drive(order_that(lambda state, context: ask))
    assert (order.status, order.latest_run.failure_code) == ("failed", "schema_refused")


def test_the_gate_is_a_step_of_a_template_too(make_order, ana):
    """S3-10, S3-45."""
    config = {
        "required_inputs": SUPPLIER,
        "blocking_reason": REASON,
        "question": "Which supplier is it?",
        "content": "Look *here*.",
    }
    definitions.edit_step_template(
        "ask-supplier", title="Ask", function="gate.wait_for_input", config=config
    )
    steps = [
        {"step_type": "planning", "step_template_slug": "ask-supplier"},
        {"step_type": "deliver", "step_template_slug": "test-finish"},
    ]
    definitions.edit_template("asking", steps=steps, needs_repository=False)
    order = drive(make_order("asking"))
    assert pause_of(order).content == "Look *here*."
    answer(order, ana, GOOD)
    assert drive(order).status == "completed"


def test_a_gate_that_does_not_say_what_it_needs_fails_in_words(make_order):
    definitions.edit_step_template(
        "ask-nothing", title="Ask", function="gate.wait_for_input", config={"question": "?"}
    )
    definitions.edit_template(
        "asking",
        steps=[{"step_type": "planning", "step_template_slug": "ask-nothing"}],
        needs_repository=False,
    )
    order = drive(make_order("asking"))
    assert order.latest_run.failure_code == "gate_unclear"
    assert "required_inputs" in order.latest_run.error


def test_data_on_a_thread_answers_its_question(waiting, ana):
    """S0-41, S3-16."""
    run = waiting.latest_run
    said = doors.input_to(run.pk, GOOD, by=ana, via=Via.REST)
    assert (said.how, said.decision.action) == ("answered", "answer")


# REST.


def test_the_same_schema_is_read_and_answered_over_rest(ana_api, waiting):
    """S3-8, S3-33, F28."""
    state = ana_api.get(f"/api/v1/work-orders/{waiting.shown_id}/pause-state").json()
    assert (state["required_inputs"], state["attempts"], state["answers"]) == (
        schemas.in_order(SUPPLIER),
        0,
        ["answer", "cancel"],
    )
    url = f"/api/v1/pauses/{state['id']}/decisions"
    refused = problem(
        ana_api.post(url, {"decision": "answer", "input": {"vat_id": "1"}}, format="json"),
        422,
        "input_invalid",
    )
    assert list(refused["errors"]) == ["input.vat_id"]
    assert ana_api.get(f"/api/v1/pauses/{state['id']}").json()["attempts"] == 1
    assert (
        ana_api.post(url, {"decision": "answer", "input": GOOD}, format="json").status_code == 201
    )


def test_an_answer_nested_without_end_is_refused_and_nothing_fails(ana_api, waiting, subtests):
    for depth in [30, 400, 900, 100_000]:
        with subtests.test(ascii(depth)[:60]):
            body = '{"decision": "answer", "input": {"vat_id": %s}}' % ("[" * depth + "]" * depth)
            url = f"/api/v1/work-orders/{waiting.shown_id}/resume"
            assert ana_api.post(url, body, content_type="application/json").status_code in {
                400,
                422,
            }


# The page, without JavaScript.


def post(page, order, **fields):
    return page.post(f"/pauses/{pause_of(order).shown_id}/decide", fields)


def test_the_card_shows_a_form_and_only_the_answers_there_are(page, waiting):
    shown = text(page.get(f"/work-orders/{waiting.shown_id}/"))
    assert "The supplier" in shown
    assert 'name="input.vat_id"' in shown
    assert 'value="answer"' in shown
    assert 'value="approve"' not in shown
    assert "<dt>If you approve" not in shown


def test_a_form_that_does_not_fit_comes_back_with_the_fault_at_its_field_and_what_was_typed(
    page, waiting
):
    """S3-33: without JavaScript."""
    response = post(
        page,
        waiting,
        action="answer",
        **{"input.vat_id": "DE12", "input.lines.count": "1", "input.lines.0.sum": "x"},
    )
    shown = text(response)
    assert response.status_code == 422
    assert 'value="DE12"' in shown
    assert "isn&#x27;t a valid VAT number" in shown
    assert shown.count('aria-invalid="true"') == 2
    assert "what you typed is kept" in shown
    assert pause_of(waiting).attempts == 1


def test_a_button_for_another_row_decides_nothing(page, waiting):
    before = rows()
    shown = text(
        post(
            page,
            waiting,
            change="add:input.lines",
            **{"input.vat_id": "kept", "input.lines.count": "0"},
        )
    )
    assert 'name="input.lines.0.sum"' in shown
    assert 'value="kept"' in shown
    assert rows() == before


def test_the_answer_of_a_form_goes_on(page, waiting):
    response = post(
        page,
        waiting,
        action="answer",
        **{"input.vat_id": " DE123456789 ", "input.lines.count": "1", "input.lines.0.sum": "7"},
    )
    assert response.status_code == 302
    state = state_of(drive(waiting))
    assert (state["vat_id"], state["lines"]) == ("DE123456789", [{"sum": 7}])


def test_who_comes_later_sees_what_was_wrong_before(page, waiting, ben):
    with pytest.raises(services.AnswerInvalid):
        answer(waiting, ben, {"vat_id": "1"})
    assert "1 answer did not fit yet" in text(page.get(f"/work-orders/{waiting.shown_id}/"))


def test_what_is_known_is_in_the_form(page, order_that):
    order = drive(order_that(lambda state, context: wait_for_input(
        {"vat_id": "DE1"}, context, required_inputs=SUPPLIER, blocking_reason=REASON,
        question="?") or Go()))  # fmt: skip
    assert 'value="DE1"' in text(page.get(f"/work-orders/{order.shown_id}/"))


def refusable(state, context):
    """Asks for data, or for a plain no."""
    if verdict := state.get("decided", {}).get(context.step):
        return Done(update={"verdict": verdict})
    return Ask(
        question="Which supplier is it?",
        answers={"approve": context.step, "reject": context.step},
        labels={"reject": "Reject"},
        report=Report(content=""),
        phase=REASON,
        required_inputs=SUPPLIER,
        answers_without_input=["reject"],
    )


def test_an_answer_that_brings_nothing_is_taken_without_data_and_refused_with_it(
    order_that, ana, api, page
):
    """S3-50: a refusal needs no data."""
    orders = [drive(order_that(refusable)) for _ in range(2)]
    with pytest.raises(services.AnswerInvalid) as refused:
        answer(orders[0], ana, GOOD, action="reject")
    assert refused.value.code == "input_unexpected"
    with pytest.raises(services.AnswerInvalid) as refused:
        answer(orders[0], ana, None, action="approve")
    assert refused.value.code == "input_invalid"
    shown = api(ana).get(f"/api/v1/work-orders/{orders[0].shown_id}/pause-state").json()
    assert (shown["answers_without_input"], shown["required_inputs"]) == (
        ["reject"],
        schemas.in_order(SUPPLIER),
    )
    decision = answer(orders[0], ana, None, action="reject")
    assert (decision.payload, state_of(drive(orders[0]))["verdict"]) == (None, "reject")
    body = {"action": "reject", "revision": "1", "input.vat_id": "half typ"}
    url = f"/pauses/{pause_of(orders[1]).shown_id}/decide"
    # said before it is dropped: `test_second_look`
    assert "half typ" in page.post(url, body).content.decode()
    assert page.post(url, body | {"sure": "yes"}).status_code == 302
    assert state_of(drive(orders[1]))["verdict"] == "reject"


def test_a_secret_in_an_answer_is_kept_nowhere(order_that, ana):
    """Neither in the state nor with the decision."""
    schema = {
        "type": "object",
        "properties": {"password": {"type": "string"}},
        "required": ["password"],
    }

    def asks(state, context):
        if state.get("decided", {}).get(context.step):
            return Done()
        return Ask(
            question="?",
            answers={"answer": context.step},
            report=Report(content=""),
            phase=REASON,
            required_inputs=schema,
        )

    order = drive(order_that(asks))
    answer(order, ana, {"password": "hunter2hunter2"})
    drive(order)
    assert Decision.objects.get().payload == {"password": "[redacted]"}
    assert not {
        table
        for table, found in rows().items()
        if any("hunter2hunter2" in str(row) for row in found)
    }
