"""Tokens that ask and tokens that answer: what each may do where one door does both, and that
`decide` itself asks (docs/reference/tokens.md).
"""

from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction
from rest_framework.test import APIClient

from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import ApiToken, Decision, EarlyAnswer, Via
from runs.models import Run, WorkOrder
from runs.security import scopes
from tests.conftest import drive, pause_of
from tests.databases.whole import rows
from tests.doors.rest import ORDERS, problem
from tests.worlds.talking_threads import thread as thread

pytestmark = pytest.mark.django_db

API = "/api/v1"
SCHEMA = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}


def with_token(user, scope):
    found = APIClient()
    found.credentials(
        HTTP_AUTHORIZATION=f"Bearer {ApiToken.make(user, name='test', scope=scope)[1]}"
    )
    return found


def post(client, path, body=None):
    return client.post(f"{API}/{path}", body or {}, format="json")


@pytest.fixture
def asker(templates, ana):
    return with_token(ana, "ask")


@pytest.fixture
def answerer(templates, ana):
    return with_token(ana, "answer")


def test_a_program_that_asks_cannot_approve_what_it_asked(asker, ana):
    """Whoever could start work by a token could approve it by the same: a runaway agent said yes to
    itself. (Here, and by a message; every other door is in `matrix/test_scopes`.)

    The rules let Ana approve her own work here, so nothing but the scope stands in the way.
    """
    made = post(asker, "work-orders", {"template": "writing"})
    assert made.status_code == 201
    order = drive(WorkOrder.objects.get())
    pause = pause_of(order)
    assert asker.get(f"{ORDERS}/{order.shown_id}/pause-state").json()["id"] == pause.shown_id
    other, resume = with_token(ana, "ask"), f"work-orders/{order.shown_id}/resume"
    before, approve = rows(), {"decision": "approve"}
    for program in (asker, other):
        problem(post(program, resume, approve), 403, "scope_ask_cannot_answer")
    message = post(asker, f"threads/{order.thread.shown_id}/runs", {"input": "APPROVE"})
    problem(message, 403, "scope_ask_cannot_answer")
    assert rows() == before
    assert post(with_token(ana, "answer"), resume, approve).status_code == 200


def test_decide_itself_refuses_a_token_that_asks(paused, ana):
    """A door that forgets to name its scopes would have been a way to answer."""
    pause = pause_of(paused)
    with scopes.acting("ask"), pytest.raises(scopes.AskCannotAnswer):
        services.decide(pause.pk, Answer("approve", Via.REST), by=ana)
    assert not Decision.objects.exists()
    services.decide(pause.pk, Answer("approve", Via.REST), by=ana)


def test_the_next_request_does_not_act_by_the_token_of_the_one_before(paused, asker, page):
    problem(
        post(asker, f"work-orders/{paused.shown_id}/resume", {"decision": "approve"}),
        403,
        "scope_ask_cannot_answer",
    )
    assert not scopes.asks()
    assert (
        page.post(f"/pauses/{pause_of(paused).shown_id}/decide", {"action": "approve"}).status_code
        == 302
    )
    assert Decision.objects.get().action == "approve"


def test_a_token_that_asks_ends_its_own_work(paused, asker):
    assert post(asker, f"work-orders/{paused.shown_id}/cancel").status_code == 200
    assert Decision.objects.get().action == "cancel"


def test_it_begins_turns_and_steps_around_nothing(asker, thread, ana):
    """By a turn that names where to go on, a program might have passed what asks."""
    where = f"threads/{thread.shown_id}/runs"
    for more in (
        {"state": {"a": 1}, "resume_from": "step3"},
        {"step_around": True, "reason": "why not"},
    ):
        problem(
            post(asker, where, {"template": "talk", "input": {"messages": []}, **more}),
            403,
            "scope_missing",
        )
    assert not Run.objects.exists()
    assert post(asker, where, {"template": "talk", "input": {"messages": []}}).status_code == 201


def test_a_token_that_answers_starts_nothing(answerer, thread, paused):
    """A program that only passes on what people answered could order work in their names."""
    before = rows()
    problem(post(answerer, "work-orders", {"template": "writing"}), 403, "scope_missing")
    problem(post(answerer, "threads"), 403, "scope_missing")
    problem(
        post(
            answerer,
            f"threads/{thread.shown_id}/runs",
            {"template": "talk", "input": {"messages": []}},
        ),
        403,
        "scope_missing",
    )
    problem(post(answerer, f"work-orders/{paused.shown_id}/cancel"), 403, "scope_missing")
    problem(answerer.get(f"{API}/threads/{paused.thread.shown_id}/state"), 403, "scope_missing")
    assert rows() == before
    assert (
        post(answerer, f"threads/{paused.thread.shown_id}/runs", {"input": "APPROVE"}).json()["how"]
        == "answered"
    )


def test_it_does_not_take_up_a_failed_run(answerer, make_order):
    order = drive(make_order("writing-fail"))
    problem(post(answerer, f"runs/{order.latest_run.shown_id}/resume"), 403, "scope_missing")
    assert Run.objects.count() == 1


def test_it_reads_the_questions_that_its_person_sees(answerer, paused):
    shown = pause_of(paused).shown_id
    assert [one["id"] for one in answerer.get(f"{API}/pauses?open=1").json()["results"]] == [shown]
    assert answerer.get(f"{API}/pauses/{shown}").json()["pause_content"]


def test_an_answer_that_waits_for_its_question_is_given_whoever_opens_that(asker, answerer, ana):
    """The answer is who sent it's, not the program's whose request opens the question."""
    wait = {
        "run_id": "outer",
        "node_id": "one",
        "blocking_reason": "blocked",
        "required_inputs": SCHEMA,
    }
    assert post(asker, "workflows/wait", wait).status_code == 201
    data = {"payload": {"n": 1}}
    assert post(answerer, "workflows/outer/resume", data).status_code == 200
    assert post(answerer, "workflows/outer/resume", {**data, "node_id": "two"}).status_code == 202
    assert post(asker, "workflows/wait", {**wait, "node_id": "two"}).status_code == 201
    assert EarlyAnswer.objects.get().status == "taken"
    assert asker.get(f"{API}/workflows/outer").json()["answer"]["decided_by"] == "ana"


def test_a_scope_that_is_none_cannot_be_stored(ana):
    """`token_scope_known`."""
    with pytest.raises(IntegrityError), transaction.atomic():
        ApiToken.make(ana, name="x", scope="admin")
