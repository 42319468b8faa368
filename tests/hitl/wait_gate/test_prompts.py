"""Questions under names that their authors chose: `prompt_id` of a wait and of a step's Ask is
`promptId` where one is told or answered.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from checkpoints.events import log
from checkpoints.state import codec
from hitl.models import Decision, Wait
from hitl.wait_gate.waits import WaitRequest
from runs.models import Pause
from runs.workflows.base import Ask, Call, Done, Report
from runs.workflows.wait_for_input import ask_about_calls
from tests.conftest import drive, fresh, pause_of
from tests.doors.rest import ana_api as ana_api
from tests.worlds.scripted_step import order_that as order_that
from tests.worlds.scripted_step import state_of

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]

ASKING = {"approval_requested", "await_human_input"}
WAIT = {
    "run_id": "deploy-7",
    "node_id": "push",
    "blocking_reason": "about_to_push",
    "question": "About to push PR #42 — approve?",
}


def told_of(pause):
    return [event for event in log.told_after(pause.run.thread_id, 0) if event["event"] in ASKING]


def respond(client, trace, prompt, response="approve"):
    return client.post(
        "/api/v1/resume",
        {"traceId": trace, "promptId": prompt, "response": response},
        format="json",
    )


def asks_twice(state, context):
    asked = int(state.get("asked", 0))
    answers = {"approve": context.step, "revise": context.step}
    if asked == 2:
        return Done(update={"pushed": True})
    words = Report(content="PR #42")
    return Ask(
        question="About to push — approve?",
        answers=answers,
        report=words,
        update={"asked": asked + 1},
        prompt_id=f"push-{asked}",
    )


def test_a_wait_is_answered_under_the_name_that_its_author_chose(ana_api, api, ana):
    """S2-19, S2-22: `promptId` could only be an id of ours."""
    opened = ana_api.post(
        "/api/v1/workflows/wait", {**WAIT, "prompt_id": "pr-42"}, format="json"
    ).json()
    again = ana_api.post("/api/v1/workflows/wait", {**WAIT, "prompt_id": "pr-42"}, format="json")
    assert (again.status_code, again.json()["pause_id"]) == (200, opened["pause_id"])
    pause = Pause.objects.get()
    told, twice = told_of(pause)  # in the words of both documents (S0-22)
    assert (told["event"], twice["event"]) == ("await_human_input", "approval_requested")
    assert {**twice["data"], "told_as": twice["event"]} == told["data"]
    assert (told["channel"], told["data"]["promptId"], told["data"]["prompt"]) == (
        "status",
        "pr-42",
        WAIT["question"],
    )
    assert (told["data"]["pause_id"], told["data"]["step"]) == (pause.shown_id, pause.step)
    sender = api(ana)
    wrong = respond(sender, "deploy-7", "pr-43")
    assert (wrong.status_code, wrong.json()["code"]) == (409, "wrong_question")
    answered = respond(sender, opened["waystation_run_id"], "pr-42")
    assert (answered.status_code, answered.json()["decision"]) == (200, "approve")


def test_a_steps_own_question_has_the_name_and_a_late_answer_to_it_meets_no_other(
    order_that, ana_api
):
    """S2-19, F3."""
    order = drive(order_that(asks_twice))
    run = order.latest_run.shown_id
    assert [event["data"]["promptId"] for event in told_of(pause_of(order))] == ["push-0"] * 2
    assert respond(ana_api, run, "push-0").status_code == 200
    order = drive(order)
    assert [event["data"]["promptId"] for event in told_of(pause_of(order))] == ["push-0"] * 2 + [
        "push-1"
    ] * 2
    late = respond(ana_api, run, "push-0", {"decision": "cancel"})
    assert (late.status_code, late.json()["code"]) == (409, "pause_closed")
    assert respond(ana_api, run, pause_of(order).shown_id).status_code == 200, (
        "the question's own id names it too"
    )
    assert drive(order).status == "completed"
    assert Decision.objects.count() == 2


def test_a_name_is_no_way_to_a_question_that_one_may_not_see(order_that, api, zoe):
    """F4."""
    order = drive(order_that(asks_twice))
    assert respond(api(zoe), order.latest_run.shown_id, "push-0").status_code == 404
    assert not Decision.objects.exists()


@pytest.mark.parametrize("name", ["pse_" + "0" * 26, "two words", "x" * 201, "a\u2028b", "../x"])
def test_a_name_that_is_none_is_refused(ana_api, order_that, name):
    """S2-19: nor may it look like an id of ours, which might be another question's."""
    assert ana_api.post(
        "/api/v1/workflows/wait", {**WAIT, "prompt_id": name}, format="json"
    ).status_code in {400, 422}
    assert not Wait.objects.exists()
    asks = order_that(
        lambda state, context: Ask(
            question="?", answers={"approve": ""}, report=Report(content=""), prompt_id=name
        )
    )
    assert (drive(asks).status, fresh(asks).latest_run.failure_code) == ("failed", "prompt_invalid")


def test_a_wait_without_a_name_has_the_digest_it_had_before_there_were_names():
    """S2-19: for who asks again after an upgrade."""
    asked = WaitRequest(run_id="r", node_id="n", blocking_reason="b", callback_secret="s")
    later = {"prompt_id", "calls", "next_deadline"}
    before = {name: value for name, value in asked.told.items() if name not in later}
    assert asked.digest == codec.digest(codec.encode({**before, "callback_secret": ""}))
    # nor do calls that nobody may answer say so
    (told,) = replace(asked, calls=[Call(id="c", tool="t")]).told["calls"]
    assert told.keys() == {"id", "tool", "arguments", "preview", "risk", "editable", "schema"}


TWO = {
    "type": "object",
    "properties": {"vat": {"type": "string"}, "paid": {"type": "boolean"}},
    "required": ["vat", "paid"],
}
ONE = {"type": "object", "properties": {"note": {"type": "string"}}, "required": ["note"]}
CALLS = [
    Call(id="mail", tool="send_mail", arguments={"to": "ana@example.org"}),
    Call(id="list", tool="list_files", arguments={}),
]
RISKY = [*CALLS, Call(id="drop", tool="drop_table", arguments={}, risk="high")]


def calls_of(wanted):
    def act(state, context):
        return ask_about_calls(state, context, calls=wanted) or Done()

    return act


def asks_for(schema):
    def ask(state, context):
        if "note" in state:
            return Done(update={"got": state["note"]})
        return Ask(
            question="What is missing?",
            answers={"answer": context.step},
            report=Report(content=""),
            required_inputs=schema,
        )

    return ask


def test_the_printed_word_approves_calls_that_may_be_approved_together(order_that, ana_api):
    """S2-22: it was taken for the data."""
    order = drive(order_that(calls_of(CALLS)))
    answered = respond(ana_api, order.latest_run.shown_id, pause_of(order).shown_id)
    assert (answered.status_code, answered.json()["decision"]) == (200, "approve")
    assert drive(order).status == "completed"
    risky = drive(order_that(calls_of(RISKY)))
    refused = respond(ana_api, risky.latest_run.shown_id, pause_of(risky).shown_id)
    assert refused.status_code == 422 and pause_of(risky).status == "open"


@pytest.mark.parametrize(
    ("word", "status", "said"), [("cancel", 200, "cancel"), ("approve", 422, ""), ("soon", 422, "")]
)
def test_a_word_is_no_data_where_more_than_a_text_is_asked_for(
    order_that, ana_api, word, status, said
):
    """S2-22: `cancel` was refused as if it were the data."""
    order = drive(order_that(asks_for(TWO)))
    response = respond(ana_api, order.latest_run.shown_id, pause_of(order).shown_id, word)
    assert response.status_code == status and (not said or response.json()["decision"] == said)
    assert fresh(order).latest_run.status == ("cancelled" if said else "paused")


def test_a_word_is_the_data_where_one_text_is_asked_for(order_that, ana_api):
    order = drive(order_that(asks_for(ONE)))
    assert (
        respond(ana_api, order.latest_run.shown_id, pause_of(order).shown_id, "cancel").status_code
        == 200
    )
    assert state_of(drive(order))["got"] == "cancel"
