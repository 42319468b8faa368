"""What agents ask by their tokens: at once, too often, ahead of time, and when nobody answers."""

from __future__ import annotations

import datetime as dt

import pytest
from django.test import Client
from django.utils import timezone

from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import ApiToken, Decision, Via, Wait
from hitl.wait_gate import requests, resume, waits
from hitl.wait_gate.requests import Audience, RequestStatus
from hitl.wait_gate.resume_events import ResumeEvent
from runs.models import Pause, Run
from runs.security import scopes
from runs.workflows.tool_calls import Call
from tests.databases.whole import at_once
from tests.databases.whole import file_database as file_database
from tests.worlds.histories.whole_story import broken

pytestmark = pytest.mark.django_db


@pytest.fixture
def token(ana) -> ApiToken:
    return ApiToken.make(ana, name="agent", scope="ask")[0]


def ask(token: ApiToken, key: str = "", **more):
    call = Call(id=requests.CALL, tool="refund", arguments={"amount": 5})
    audience = Audience(**{"team": "platform", "key": key, **more})
    return requests.ask_approval(token, call, audience, question="May it be refunded?")


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("file_database")
def test_the_same_request_many_times_at_once_is_one_question(token, ben):
    """F7: an agent that is started twice, or retries, asks people once."""
    asked = at_once(*[lambda: ask(token, "1")] * 8)
    assert not [error for error in asked if isinstance(error, Exception)], asked
    assert len({request.pause.pk for request in asked}) == 1
    assert Wait.objects.count() == Pause.objects.count() == Run.objects.count() == 1


def test_a_token_has_a_bounded_number_of_open_questions(token, ben, settings):
    """P12: WAYSTATION_TOKEN_WAITS. An answer makes room; what was asked before is found."""
    settings.WAYSTATION_TOKEN_WAITS = 2
    first, _ = ask(token, "1"), ask(token, "2")
    with pytest.raises(waits.TooManyWaits, match="2 open questions"):
        ask(token, "3")
    assert ask(token, "1").pause == first.pause
    services.decide(first.pause.pk, Answer("approve", Via.PAGE), by=ben)
    assert ask(token, "3").status == RequestStatus.PENDING
    # another token of the same person has its own
    assert ask(ApiToken.make(token.user, name="other", scope="ask")[0]).status == "pending"


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("file_database")
def test_its_bound_is_passed_by_no_requests_at_once(token, ben, settings):
    """P12: each counted before any of the others was there."""
    settings.WAYSTATION_TOKEN_WAITS = 2
    asked = at_once(*[lambda key=str(number): ask(token, key) for number in range(6)])
    refused = [error for error in asked if isinstance(error, Exception)]
    assert [type(error) for error in refused] == [waits.TooManyWaits] * 4, asked
    assert Pause.objects.open().count() == 2


def test_the_page_of_a_request_is_no_conversation(token, ana, ben):
    """Its person is no chat partner: nothing to resume, no message, no empty box."""
    pause = ask(token).pause
    client = Client()
    client.force_login(ana)
    page = client.get(f"/threads/{pause.run.thread.shown_id}/").content.decode()
    assert "May it be refunded?" in page
    for words in ("previous session", "A message sent meanwhile", 'id="content"'):
        assert words not in page


def test_nobody_answers_a_request_before_it_is_asked(token, ana, ben):
    """An early answer would be an approval that nobody gave to what was then asked."""
    first = ask(token, "1")
    name = first.pause.wait.outer.name
    services.decide(first.pause.pk, Answer("approve", Via.PAGE), by=ben)
    event = ResumeEvent(run_id=name, payload={"decision": "approve"}, node_id="approval")
    with pytest.raises(services.AlreadyAnswered):
        resume.ingest(event, by=ana, via=Via.REST)
    assert ask(token, "2").pause.wait.outer.name != name
    with pytest.raises(waits.WaitInvalid, match="begins the names"):
        taken = waits.WaitRequest(run_id=name, node_id="x", blocking_reason="x", key="2")
        waits.open_wait(taken, by=ana)


def test_silence_is_a_no_also_where_no_sweep_looks(token, ben):
    """P8: whoever asks for a request whose time is over hears that it expired."""
    request = ask(token, deadline="PT1H")
    assert request.pause.deadline_at is not None
    Pause.objects.update(deadline_at=timezone.now() - dt.timedelta(seconds=1))
    found = requests.look(token, request.pause.shown_id)
    assert (found.status, found.arguments) == (RequestStatus.EXPIRED, None)
    with pytest.raises(services.AlreadyAnswered):
        services.decide(request.pause.pk, Answer("approve", Via.PAGE), by=ben)
    assert not Decision.objects.exists() and broken() == {}


def test_what_its_own_token_asked_no_token_answers_though_its_person_may(ana, settings):
    """Nor one with the scope `write`."""
    settings.WAYSTATION_MCP_OWNER_DECIDES = True
    token = ApiToken.make(ana, name="agent", scope="write")[0]
    other = ApiToken.make(ana, name="other", scope="write")[0]
    request = ask(token, team="")
    with scopes.acting("write", token.pk), pytest.raises(scopes.OwnQuestion):
        services.decide(request.pause.pk, Answer("approve", Via.REST), by=ana)
    # to end it is no answer
    with scopes.acting("write", token.pk):
        assert requests.withdraw(token, request.pause.shown_id, via=Via.MCP).status == "withdrawn"
    request = ask(token, "again", team="")
    with scopes.acting("write", other.pk):
        services.decide(request.pause.pk, Answer("approve", Via.REST), by=ana)
    assert requests.look(token, request.pause.shown_id).arguments == {"amount": 5}


def test_only_a_decision_that_approves_is_an_approval(token, ben):
    """P6: of two answers that let a run go on, one rejects the call."""
    reject = {"calls": {"call": {"decision": "reject", "reason": "Too much."}}}
    for number, (answer, status, feedback) in enumerate(
        [
            (Answer("approve", Via.PAGE), "approved", ""),
            (Answer("answer", Via.PAGE, payload=reject), "rejected", "Too much."),
            (Answer("cancel", Via.PAGE, feedback="No."), "rejected", "No."),
        ]
    ):
        request = ask(token, str(number))
        services.decide(request.pause.pk, answer, by=ben)
        found = requests.look(token, request.pause.shown_id)
        assert (found.status, found.feedback) == (status, feedback)
        assert (found.arguments is not None) == (status == "approved")
    assert broken() == {}
