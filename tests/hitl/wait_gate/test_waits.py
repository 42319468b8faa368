"""Waystation as the wait gate of another engine: open a wait, answer it, go on with the merged
state.

Long, since it walks one protocol from end to end, in its order, on one engine: apart, each part
would have to open the waits anew.
"""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from django.utils import timezone

from checkpoints import ids
from checkpoints.models import Event
from hitl.decisions import notifications, services
from hitl.decisions.services import Answer
from hitl.models import Decision, IdempotencyKey, OuterRun, Via, Wait
from hitl.models.outbound import Delivery
from hitl.outbound import messages
from hitl.threads import erasure
from hitl.wait_gate import primitives, waits
from hitl.wait_gate import resume as resuming
from runs import services as runs
from runs.definitions import due_times
from runs.engine.advance import advance
from runs.models import Pause, Run
from runs.workflows.base import Ask, Done, Report
from tests.conftest import drive, pause_of, state_at_head
from tests.databases.whole import at_once, rows
from tests.databases.whole import file_database as file_database
from tests.worlds.histories.whole_story import broken
from tests.worlds.scripted_step import order_that as order_that

pytestmark = pytest.mark.django_db

VAT = {
    "type": "object",
    "required": ["vat_id"],
    "properties": {"vat_id": {"type": "string", "pattern": "^DE[0-9]{9}$"}},
    "additionalProperties": False,
}
WAIT: dict[str, Any] = {
    "run_id": "booking-4711",
    "node_id": "decide",
    "blocking_reason": "missing_supplier_data",
    "question": "Which VAT number?",
    "required_inputs": VAT,
    "state": {"invoice": 4711, "lines": [1, 2]},
}
GOOD = {"vat_id": "DE123456789"}
URL = "/api/v1/workflows"


@pytest.fixture
def engine(ana, api):
    """Another engine, which acts as Ana; its answers come by another token of hers."""
    client, sender = api(ana), api(ana)

    class Engine:
        def wait(self, **changes):
            return client.post(f"{URL}/wait", {**WAIT, **changes}, format="json")

        def get(self, run_id="booking-4711"):
            return client.get(f"{URL}/{run_id}")

        def resume(self, at="booking-4711", /, *, then="resume", **event):
            return sender.post(f"{URL}/{at}/{then}", event, format="json")

        def trace(self, **body):
            return sender.post("/api/v1/resume", body, format="json")

    return Engine()


def opened():
    return Pause.objects.open().get()


def test_a_wait_is_opened_answered_and_gone_on_with(engine, ana):
    """S3-3..9, 13..17, 20, 32, 46, 54."""
    made = engine.wait()
    assert made.status_code == 201
    told = made.json()
    assert (told["run_id"], told["status"], told["node_id"]) == (
        "booking-4711",
        "waiting_external",
        "decide",
    )
    assert (told["blocking_reason"], told["required_inputs"], told["state"]) == (
        "missing_supplier_data",
        VAT,
        WAIT["state"],
    )
    assert (told["answers"], told["answer"], told["pause_state"]) == (
        ["answer", "cancel"],
        None,
        "open",
    )
    assert engine.get().json() == told
    pause = opened()
    assert (pause.kind, pause.run.status, pause.run.thread.owner) == ("external", "paused", ana)
    went = engine.resume(
        then="resume-and-continue",
        payload=GOOD,
        input_type="missing_supplier_data",
        sender_metadata={"channel": "mail"},
    )
    assert went.status_code == 200
    told = went.json()
    assert (told["status"], told["node_id"]) == ("running", "decide")
    assert told["state"] == {**WAIT["state"], **GOOD}
    assert (
        told["answer"]["decision"],
        told["answer"]["payload"],
        told["answer"]["decided_by"],
    ) == ("answer", GOOD, "ana")
    assert Event.objects.get(kind="approval_received").data["sender"] == {"channel": "mail"}
    advance(pause.run_id, budget=5)
    told = engine.get().json()
    assert (told["status"], told["state"]) == ("running", {**WAIT["state"], **GOOD})


@pytest.mark.parametrize(
    ("changes", "summary", "brief"),
    [
        ({"content": "Pay **120 EUR**?", "required_inputs": {}}, "Pay 120 EUR?", True),
        ({"content": "Pay 120 EUR? And more.", "required_inputs": {}}, "Pay 120 EUR?", False),
        ({"content": "Pay 120 EUR?"}, "Pay 120 EUR?", False),
    ],
)
def test_its_row_says_what_is_decided(engine, changes, summary, brief):
    """As a row of a question of ours does."""
    assert engine.wait(**changes).status_code == 201
    pause = Pause.objects.get()
    assert (pause.summary, pause.brief) == (summary, brief)


def test_no_step_and_no_worker_is_needed_to_wait(engine):
    """P7, S3-12, S3-29."""
    engine.wait()
    run = Run.objects.get()
    assert (run.status, run.lease_owner, run.epoch) == ("paused", "", 0)
    assert list(Event.objects.order_by("seq").values_list("kind", flat=True)) == [
        "run_started",
        "await_human_input",
        "approval_requested",
        "checkpoint_created",
        "run_paused",
    ]


def test_the_same_wait_again_is_the_same_answered_or_not(engine):
    """S3-43: for an engine that was killed and asks again under its key."""
    first = engine.wait(key="1")
    again = engine.wait(key="1")
    assert (again.status_code, again.json()) == (200, first.json())
    engine.resume(payload=GOOD)
    answered = engine.wait(key="1")
    assert (answered.status_code, answered.json()["answer"]["payload"]) == (200, GOOD)
    assert (Wait.objects.count(), Run.objects.count()) == (1, 1)


def test_another_question_waits_until_the_first_is_answered(engine):
    engine.wait()
    before = rows()
    refused = engine.wait(node_id="post")
    assert (refused.status_code, refused.json()["code"]) == (409, "wait_open")
    assert rows() == before
    engine.resume(payload=GOOD)
    # no worker has ended the first yet
    second = engine.wait(node_id="post", state={"booked": True})
    assert (second.status_code, second.json()["state"]) == (201, {"booked": True})
    third = engine.wait(key="2")
    assert third.json()["code"] == "wait_open"
    assert OuterRun.objects.get().thread.runs.count() == 2
    assert broken() == {}


def test_a_loop_tells_its_questions_apart_by_key(engine):
    """F17: what was answered in one round is no answer in the next."""
    engine.wait(key="1")
    engine.resume(payload=GOOD)
    again = engine.wait(key="2")
    assert (again.status_code, again.json()["answer"]) == (201, None)


def test_what_does_not_fit_is_said_per_field_and_asked_again(engine):
    """S3-15, 31, 33, 37, C8."""
    engine.wait()
    refused = engine.resume(payload={"vat_id": "x"})
    assert refused.status_code == 422
    assert (refused.json()["code"], list(refused.json()["errors"])) == (
        "input_invalid",
        ["input.vat_id"],
    )
    told = engine.get().json()
    assert (told["status"], told["attempts"]) == ("waiting_external", 1)
    assert "isn't a valid" in told["refined"]
    assert engine.resume(payload=GOOD).status_code == 200


def test_an_event_sent_again_is_the_same_answer(engine):
    """S3-43: with and without an id, also through the other route."""
    engine.wait()
    first = engine.resume(payload=GOOD, sender_metadata={"event_id": "e1"})
    again = engine.resume(payload=GOOD, sender_metadata={"event_id": "e1"})
    assert (again.status_code, again.json(), again["Idempotent-Replayed"]) == (
        200,
        first.json(),
        "true",
    )
    bare = engine.resume(payload=GOOD)
    assert (bare.status_code, bare.json()["duplicate"]) == (200, True)
    assert engine.resume(then="resume-and-continue", payload=GOOD).json()["duplicate"] is True
    late = engine.resume(payload={"vat_id": "DE999999999"})
    assert (late.status_code, late.json()["code"], late.json()["decided_by"]) == (
        409,
        "pause_closed",
        "ana",
    )
    assert Decision.objects.count() == 1


def test_an_event_id_with_another_body_is_refused_and_one_that_did_not_fit_counts_once(engine):
    """F7, S3-43."""
    engine.wait()
    for _ in range(2):
        assert engine.resume(payload={}, sender_metadata={"event_id": "e1"}).status_code == 422
    assert opened().attempts == 1
    reused = engine.resume(payload=GOOD, sender_metadata={"event_id": "e1"})
    assert reused.json()["code"] == "idempotency_key_reused"


def test_an_event_that_was_not_taken_may_come_again(engine):
    sent = {"payload": GOOD, "sender_metadata": {"event_id": "e1"}}
    assert engine.resume(**sent).status_code == 404
    assert not IdempotencyKey.objects.exists()
    engine.wait()
    assert engine.resume(**sent).status_code == 200


def test_what_goes_on_without_an_answer_is_told_when_there_is_one(engine, ben, ana, team):
    """S3-38: the person answered on the page; the engine asks for the state."""
    engine.wait(team="platform")
    waiting = engine.resume(then="resume-and-continue")
    assert (waiting.status_code, waiting.json()["code"]) == (409, "still_waiting")
    services.decide(opened().pk, Answer("answer", Via.PAGE, payload=GOOD), by=ben)
    told = engine.resume(then="resume-and-continue").json()
    assert (told["state"]["vat_id"], told["answer"]["decided_by"]) == ("DE123456789", "ben")


@pytest.mark.parametrize(
    ("event", "decision"),
    [
        ({"payload": "approve"}, "approve"),
        ({"payload": {"decision": "approve", "feedback": "fine"}}, "approve"),
        ({"input_type": "approve"}, "approve"),
        ({"input_type": "hold", "payload": {"feedback": "later"}}, "hold"),
        ({"payload": {"decision": "cancel"}}, "cancel"),
    ],
)
def test_a_verdict_is_said_in_several_ways(engine, event, decision):
    """S3-1: a compliance sign-off asks for no data."""
    engine.wait(required_inputs={}, choices=[{"name": "hold", "label": "Hold it"}])
    assert engine.resume(**event).status_code == 200
    assert Decision.objects.get().action == decision


def test_what_cannot_be_told_decides_nothing(engine, subtests):
    engine.wait(required_inputs={})
    before = rows()
    cases: list[tuple[Any, ...]] = [
        ({"payload": {}}, 422, "unknown_answer"),
        ({"payload": {"decision": "maybe"}}, 422, "unknown_answer"),
        ({"payload": {"decision": "approve", "other": 1}}, 422, "input_unexpected"),
        ({"payload": {"decision": "approve", "feedback": 5}}, 422, "answer_invalid"),
        ({"payload": {"decision": "approve", "revision": 2}}, 409, "revision_mismatch"),
        ({"payload": "approve", "input_type": "needs_bookkeeper_decision"}, 409, "wrong_question"),
        ({"payload": "approve", "pause_id": "pse_other"}, 409, "wrong_question"),
        ({"payload": "approve", "run_id": "other"}, 422, "invalid"),
    ]
    for event, status, code in cases:
        with subtests.test(ascii(event)[:60]):
            refused = engine.resume(**event)
            assert (refused.status_code, refused.json()["code"]) == (status, code)
    assert rows() == before


def test_a_wait_that_cannot_be_asked_is_refused_by_field(engine, subtests):
    before = rows()
    cases: list[tuple[Any, ...]] = [
        ({"required_inputs": {"type": "string"}}, "required_inputs"),
        (
            {"required_inputs": {"type": "object", "properties": {"a": {"$ref": "http://x/"}}}},
            "required_inputs.properties.a",
        ),
        ({"state": {"decided": {}}}, "state"),
        ({"state": {"call_decisions": {}}}, "state"),
        ({"state": {"x": "y" * 600_000}}, "state"),
        ({"state": {"x": "a\x00b"}}, ""),
        ({"reviewers": {"users": [5]}}, "review.reviewers.users.0"),
        ({"reviewers": 5}, "review.reviewers"),
        ({"deadline": "soon"}, "review.deadline.after"),
        ({"deadline": {"after": "P1D", "outcome": "escalate"}}, "review.deadline.outcome"),
        ({"review": {"nonsense": 1}}, "review"),
        ({"review": {"undo": 60}}, "review.undo"),
        ({"run_id": "wait"}, "run_id"),
        ({"run_id": "a/b"}, "run_id"),
        ({"run_id": ids.show("run", ids.new())}, "run_id"),
        ({"choices": [{"name": "answer", "label": "x"}]}, "choices"),
        ({"callback_url": "file:///etc/passwd"}, "callback_url"),
        (
            {"callback_url": "https://x.example", "callback_secret": "whsec_short"},
            "callback_secret",
        ),
        ({"team": "strangers"}, "team"),
    ]
    for changes, field in cases:
        with subtests.test(ascii(changes)[:60]):
            refused = engine.wait(**changes)
            assert (refused.status_code, refused.json()["code"]) == (422, "wait_invalid")
            assert list(refused.json()["errors"]) == [field]
    assert rows() == before


HOSTILE = [
    b"",
    b"[]",
    b"null",
    b"5",
    b'{"run_id": ',
    b'{"run_id": NaN}',
    b"[" * 100_000,
    b'{"run_id": "x", "state": ' + b'{"a":' * 5_000 + b"1" + b"}" * 5_000 + b"}",
    b'{"run_id": {"a": 1}, "node_id": [], "blocking_reason": 7, "state": "x"}',
    b'{"run_id": "\\u0000", "node_id": "\\ud800", "blocking_reason": "x"}',
    b'{"run_id": "r", "node_id": "n\\ud800", "blocking_reason": "x"}',
    b'{"payload": "\\ud800", "traceId": "x", "promptId": "\\u0000", "response": 1}',
    b'{"payload": 1e999}',
    b'{"payload": {}, "sender_metadata": "x"}',
    b'{"sender_metadata": {"event_id": {"a": 1}}, "input_type": ["x"]}',
    b"\xff\xfe",
    b'{"a": "' + b"x" * 1_100_000 + b'"}',
]


@pytest.mark.parametrize(
    "path",
    [
        "workflows/wait",
        "workflows/booking-4711/resume",
        "workflows/booking-4711/resume-and-continue",
        "resume",
    ],
)
def test_hostile_bodies_are_refused_with_a_code(engine, ana, api, path):
    """Nothing is decided, begun or kept, whatever is sent."""
    engine.wait()
    client = api(ana)
    for body in HOSTILE:
        refused = client.generic("POST", f"/api/v1/{path}", body, content_type="application/json")
        assert 400 <= refused.status_code < 500, body[:80]
        assert refused.json()["code"]
    assert (Wait.objects.count(), Run.objects.count(), Decision.objects.count()) == (1, 1, 0)
    assert opened().status == "open"


def test_an_id_that_is_none_is_not_found(engine):
    for run_id in ("%00", "a%00b", "..", "x" * 300, "run_" + "0" * 26, "%F0%9F%98%80"):
        assert engine.get(run_id).status_code == 404
        assert engine.resume(run_id, payload={}).status_code == 404


def test_a_stranger_sees_no_wait_and_may_use_the_same_id(engine, zoe, api):
    """F4: run ids are each caller's own."""
    engine.wait()
    stranger = api(zoe)
    assert stranger.get(f"{URL}/booking-4711").status_code == 404
    assert (
        stranger.post(f"{URL}/booking-4711/resume", {"payload": GOOD}, format="json").status_code
        == 404
    )
    pause = opened()
    assert (
        stranger.post(
            "/api/v1/resume",
            {"traceId": pause.run.shown_id, "promptId": pause.shown_id, "response": GOOD},
            format="json",
        ).status_code
        == 404
    )
    assert (
        stranger.post(f"{URL}/wait", {**WAIT, "state": {"mine": 1}}, format="json").status_code
        == 201
    )
    assert engine.get().json()["state"] == WAIT["state"]
    assert Decision.objects.count() == 0


def test_a_colleague_sees_the_wait_in_the_inbox_and_answers(engine, ben, client):
    engine.wait(team="platform", content="Look *here*.")
    client.force_login(ben)
    inbox = client.get("/?kind=external").content.decode()
    assert "Which VAT number?" in inbox
    assert "Wait gates" in inbox
    assert "Which VAT number?" not in client.get("/?kind=tools").content.decode()
    pause = opened()
    page = client.get(f"/threads/{pause.run.thread.shown_id}/").content.decode()
    assert "booking-4711" in page
    assert "Look <em>here</em>." in page
    assert "booking-4711 at decide" in page  # what goes on, not an end
    assert "Answer in words" not in page
    answered = client.post(
        f"/pauses/{pause.shown_id}/decide",
        {"action": "answer", "revision": 1, "input.vat_id": "DE123456789"},
    )
    assert answered.status_code == 302
    assert engine.get().json()["answer"]["decided_by"] == "ben"
    assert client.get(f"/threads/{pause.run.thread.shown_id}/").status_code == 200


def test_a_wait_that_is_cancelled_has_failed_and_says_so(engine, ana):
    engine.wait()
    services.decide(opened().pk, Answer("cancel", Via.PAGE), by=ana)
    told = engine.get().json()
    assert (told["status"], told["failure_code"], told["answer"]["decision"]) == (
        "failed",
        "cancelled_by_user",
        "cancel",
    )


def test_runs_of_ours_are_told_and_answered_by_the_same_routes(paused, ana, engine):
    """S3-20, S3-46: `run_…` names one."""
    run_id = paused.latest_run.shown_id
    told = engine.get(run_id).json()
    assert (told["run_id"], told["status"], told["node_id"]) == (
        run_id,
        "waiting_external",
        "planning",
    )
    assert (told["blocking_reason"], told["answers"]) == (
        "awaiting_plan_approval",
        ["approve", "revise", "cancel"],
    )
    sent = engine.resume(
        run_id, payload={"decision": "revise", "feedback": "shorter", "revision": 1}
    )
    assert sent.json()["status"] == "running"
    assert pause_of(drive(paused)).revision == 2
    assert engine.resume(run_id, then="resume-and-continue", payload="approve").status_code == 200
    assert Decision.objects.order_by("position").last().action == "approve"


@pytest.mark.parametrize("trace", ["run", "thread"])
def test_a_prompt_of_a_trace_is_answered(paused, engine, trace):
    """S2-21..23: the example of the guide, response approve."""
    pause = pause_of(paused)
    trace_id = paused.latest_run.shown_id if trace == "run" else paused.thread.shown_id
    answered = engine.trace(traceId=trace_id, promptId=pause.shown_id, response="approve")
    assert answered.json() == {
        "success": True,
        "traceId": trace_id,
        "promptId": pause.shown_id,
        "decision": "approve",
    }
    again = engine.trace(traceId=trace_id, promptId=pause.shown_id, response="approve")
    assert again.status_code == 200
    drive(paused)
    late = engine.trace(traceId=trace_id, promptId=pause.shown_id, response={"decision": "cancel"})
    assert (late.status_code, late.json()["code"]) == (409, "pause_closed")
    wrong = engine.trace(traceId=trace_id, promptId="planning", response="approve")
    assert (wrong.status_code, wrong.json()["code"], wrong.json()["pause_id"]) == (
        409,
        "wrong_question",
        pause_of(paused).shown_id,
    )
    assert Decision.objects.count() == 1


@pytest.mark.parametrize("trace", ["run_" + "0" * 26, "thr_" + "0" * 26, "nothing", "wo_1"])
def test_a_trace_that_is_none_is_not_found(engine, trace):
    """S2-22."""
    refused = engine.trace(traceId=trace, promptId="p", response="approve")
    assert (refused.status_code, refused.json()["code"]) == (404, "not_found")


def test_a_prompt_without_a_token_is_refused(client, paused):
    """S2-22."""
    assert client.post("/api/v1/resume", {}, content_type="application/json").status_code == 401


def test_a_node_of_another_engine_is_a_prompt_and_a_word_is_the_one_thing_asked_for(engine):
    """S2-22, S3-19."""
    engine.wait()
    answered = engine.trace(traceId="booking-4711", promptId="decide", response="DE123456789")
    assert answered.json()["decision"] == "answer"
    assert engine.get().json()["state"]["vat_id"] == "DE123456789"


def test_the_example_prompt_of_an_agent_that_is_about_to_push(order_that, engine):
    """S2-20: asked before the effect, answered by word, and only then done."""
    pushed = []

    def push(state, context):
        if state.get("decided", {}).get(context.step) == "approve":
            pushed.append(42)
            return Done()
        question = "About to push PR #42 — approve?"
        return Ask(
            question=question,
            answers={"approve": context.step},
            report=Report(content="", effects=["Opens the pull request."]),
        )

    order = drive(order_that(push))
    pause = pause_of(order)
    assert (pause.question, pushed) == ("About to push PR #42 — approve?", [])
    engine.trace(traceId=order.latest_run.shown_id, promptId=pause.shown_id, response="approve")
    assert (drive(order).status, pushed) == ("completed", [42])


DOMAINS = {
    "missing_documents": ("KYC of a customer", "passport", "L01X00T47"),
    "compliance_sign_off": ("Payment above the limit", "officer", "M. Weber"),
    "support_escalation": ("A customer writes for the third time", "refund", "20.00"),
    "onboarding": ("A new colleague", "laptop", "14 inch"),
}


@pytest.mark.parametrize("reason", DOMAINS)
def test_any_domain_waits_by_the_same_five_calls(ana, reason):
    """S3-2, 21, 39, 53, 55: nothing is configured for one."""
    question, field, value = DOMAINS[reason]
    schema = {"type": "object", "properties": {field: {"type": "string"}}, "required": [field]}
    wait = primitives.create_checkpoint(
        reason, "ask", {"case": question}, schema, reason, by=ana, question=question
    )
    told = primitives.document(primitives.look(reason, by=ana))
    assert (wait.outer.name, told["blocking_reason"], told["status"]) == (
        reason,
        reason,
        "waiting_external",
    )
    primitives.ingest_resume_event(reason, {field: value}, {"channel": "desk"}, by=ana)
    found = primitives.resume_from_checkpoint(reason, by=ana)
    assert (found.node_id, found.state) == ("ask", {"case": question, field: value})


def test_what_a_long_history_costs_an_engine_that_waits_is_the_answer_alone(
    ana, django_assert_max_num_queries
):
    """S3-40: no transcript goes along."""
    history = [f"message {number}" for number in range(2_000)]
    primitives.create_checkpoint(
        "long",
        "decide",
        {"history": history},
        VAT,
        "missing_supplier_data",
        by=ana,
        question="Which?",
    )
    pause = opened()
    assert "message 7" not in json.dumps(
        [pause.question, pause.content, pause.facts, pause.required_inputs, pause.known]
    )
    primitives.ingest_resume_event("long", GOOD, {}, by=ana)
    with django_assert_max_num_queries(20):
        assert primitives.resume_from_checkpoint("long", by=ana).state["vat_id"] == "DE123456789"


def test_an_answer_in_words_joins_what_was_said(order_that, engine):
    """S2-24: the model sees it in the next round."""

    def talk(state, context):
        return (
            Done()
            if state.get("input")
            else Ask(
                question="What now?", answers={"answer": context.step}, report=Report(content="")
            )
        )

    order = drive(order_that(talk))
    pause = pause_of(order)
    assert pause.kind == "input"
    engine.trace(traceId=order.latest_run.shown_id, promptId=pause.shown_id, response="Go left")
    assert drive(order).status == "completed"
    assert state_at_head(order.thread_id)["input"] == "Go left"


def test_the_five_primitives(ana, settings):
    """S3-34..38."""
    settings.WAYSTATION_OUTSIDE_DOMAINS = ["example.org"]
    wait = primitives.create_checkpoint(
        "r1", "decide", {"n": 1}, VAT, "missing_supplier_data", by=ana, question="Which?"
    )
    primitives.send_request("r1", "mailto:a@example.org", "Which is yours?", VAT, by=ana)
    primitives.send_request("r1", "mailto:a@example.org", "Which is yours?", VAT, by=ana)
    wait.refresh_from_db()
    assert wait.recipients == [{"to": "mailto:a@example.org", "question": "Which is yours?"}]
    assert Event.objects.get(kind="pause_updated").data["what"] == "request"
    with pytest.raises(primitives.RequestMismatch):
        primitives.send_request("r1", "mailto:b@example.org", "?", {"type": "object"}, by=ana)
    assert primitives.validate_resume_payload(VAT, {}) == {"vat_id": ["This is needed."]}
    with pytest.raises(resuming.StillWaiting):
        primitives.resume_from_checkpoint("r1", by=ana)
    with pytest.raises(services.AnswerInvalid):
        primitives.ingest_resume_event("r1", {}, {}, by=ana)
    primitives.ingest_resume_event("r1", GOOD, {"channel": "mail"}, by=ana)
    found = primitives.resume_from_checkpoint("r1", by=ana)
    assert (found.node_id, found.state, found.status) == ("decide", {"n": 1, **GOOD}, "running")


def test_what_is_called_back_holds_the_answer_and_only_once_there_is_one(engine):
    """S3-20: the relay sends it, signed; sent again it has the same id."""
    secret = "whsec_" + "QUJD" * 8
    told = engine.wait(callback_url="https://engine.example.org/", callback_secret=secret)
    assert "secret" not in json.dumps(told.json())
    pause = opened()
    notifications.announce()
    assert not Delivery.objects.filter(channel="webhook").exists()
    engine.resume(payload=GOOD)
    notifications.announce()
    notifications.announce()
    delivery = Delivery.objects.select_related("endpoint", "pause__run__thread").get(
        channel="webhook"
    )
    assert delivery.endpoint
    assert (
        delivery.occasion,
        delivery.endpoint.target,
        delivery.endpoint.secrets[0]["secret"],
    ) == (
        "answered",
        "https://engine.example.org/",
        secret,
    )
    body = messages.payload_of(delivery)
    assert (body["answer"]["payload"], body["state"]["vat_id"]) == (GOOD, "DE123456789")
    assert (pause.pk, messages.payload_of(delivery)) == (delivery.pause_id, body)


def test_a_deadline_is_kept_with_the_question(engine):
    """S3-9: an instant in UTC."""
    told = engine.wait(deadline="P2D", reviewers=["ben"]).json()
    pause = opened()
    assert pause.review == {"deadline": {"after": "P2D"}, "reviewers": {"users": ["ben"]}}
    assert told["next_deadline"] == (pause.opened_at + dt.timedelta(days=2)).isoformat()


def test_a_deadline_may_be_the_moment_of_the_snapshot(engine):
    """S3-9: `next_deadline` as S3's WorkflowState has it. It was refused, with the name of
    `deadline`, which took durations alone.
    """
    moment = (timezone.now() + dt.timedelta(days=2)).replace(microsecond=250_000)
    told = engine.wait(next_deadline=moment.isoformat(), deadline={"outcome": "cancel"})
    assert told.status_code == 201, told.json()
    assert dt.datetime.fromisoformat(told.json()["next_deadline"]) == moment, "to the microsecond"
    pause = opened()
    assert (pause.deadline_at, pause.next_at, due_times.outcome_of(pause)) == (
        moment,
        moment,
        "cancel",
    )
    assert pause.extendable_until > moment
    again = engine.wait(next_deadline=moment.isoformat(), deadline={"outcome": "cancel"})
    assert (again.status_code, again.json()["pause_id"]) == (200, told.json()["pause_id"])
    assert engine.wait(next_deadline=(moment + dt.timedelta(days=1)).isoformat()).status_code == 409


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"next_deadline": "2001-01-31T12:00:00Z"}, "passed"),
        ({"next_deadline": "2031-01-31T12:00:00"}, "zone"),
        ({"next_deadline": "tomorrow"}, "zone"),
        ({"next_deadline": "9999-12-31T23:59:59-12:00"}, "ten years"),
        ({"next_deadline": "2031-01-31T12:00:00Z", "deadline": "P2D"}, "one of them"),
    ],
)
def test_a_moment_that_cannot_be_kept_is_refused(engine, wrong, says):
    """S3-9."""
    refused = engine.wait(**wrong)
    assert (refused.status_code, refused.json()["code"]) == (422, "wait_invalid")
    assert says in refused.json()["errors"]["next_deadline"][0]
    assert not Run.objects.exists()
    assert engine.wait(next_deadline=None).json()["next_deadline"] is None


def test_a_fork_of_a_wait_says_that_only_the_other_engine_can_ask(engine, ana):
    engine.wait()
    pause = opened()
    services.decide(pause.pk, Answer("cancel", Via.PAGE), by=ana)
    run = runs.fork(pause.checkpoint_id, by=ana, reason="try")
    while advance(run.pk, budget=5):
        pass
    run.refresh_from_db()
    assert (run.status, run.failure_code) == ("failed", "waits_for_another_engine")


def test_a_wait_is_erased_with_its_thread(engine, ana):
    engine.wait()
    pause = opened()
    engine.resume(payload=GOOD)
    advance(pause.run_id, budget=5)
    erasure.erase(pause.run.thread_id, by="ana", reason="asked for")
    assert not (Wait.objects.exists() or OuterRun.objects.exists() or Pause.objects.exists())


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("different", [False, True])
def test_waits_opened_at_the_same_moment_are_one(file_database, ana, different):
    """F0: twelve at once, in the same words or in others: one question, each caller is told."""
    asked = [
        waits.WaitRequest(
            run_id="r", node_id="n", blocking_reason="b", key=str(number) if different else ""
        )
        for number in range(12)
    ]
    ended = at_once(*(lambda one=one: waits.open_wait(one, by=ana) for one in asked))
    assert (Wait.objects.count(), Pause.objects.open().count(), Run.objects.count()) == (1, 1, 1)
    opened_by = [one for one in ended if isinstance(one, tuple) and one[1]]
    others = [one for one in ended if one not in opened_by]
    assert len(opened_by) == 1
    assert all(
        isinstance(other, waits.WaitOpen) if different else isinstance(other, tuple)
        for other in others
    ), others


@pytest.mark.django_db(transaction=True)
def test_events_at_the_same_moment_are_one_answer(file_database, ana):
    """F0, S3-43: the same from one sender is the same answer; one decision."""
    primitives.create_checkpoint("r", "n", {}, VAT, "b", by=ana)
    ended = at_once(*([lambda: primitives.ingest_resume_event("r", GOOD, {}, by=ana)] * 12))
    assert not [one for one in ended if isinstance(one, Exception)], ended
    assert sum(not one.duplicate for one in ended) == 1
    assert Decision.objects.count() == 1
