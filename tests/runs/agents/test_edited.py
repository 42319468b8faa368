"""A call that a person edited: what ran is what is shown, to people and to the model, with what it
was; and a call whose run ended first waits for nobody.
"""

from __future__ import annotations

import json

import pytest

from checkpoints.models import WhenBusy
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Decision, Via
from hitl.threads import messages as doors
from runs.agents.tools import ToolFailed
from runs.models import Run
from runs.threads.turns import Turn
from tests.databases.whole import file_database as file_database
from tests.servers.model_endpoint import ModelReply, by_loop, serving
from tests.worlds import agents
from tests.worlds.agents import thread as thread
from tests.worlds.histories.whole_story import broken

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("templates", "file_database"),
]
PAY = [("test_pay", {"what": "bread"}), ("test_pay", {"what": "rent"})]


@pytest.fixture
def endpoint():
    with serving(by_loop(ModelReply("I pay.", PAY), ModelReply("All done."))) as found:
        agents.load(found.url)
        yield found


def said(api, ana, thread):
    answer = api(ana).get(f"/api/v1/threads/{thread.shown_id}/messages").json()
    return [call for message in answer["results"] for call in message["tools"]]


@pytest.mark.parametrize("fails", [False, True])
def test_an_edited_call_reads_everywhere_as_it_was_made(
    endpoint, thread, ana, ben, page, api, monkeypatch, fails
):
    """`/messages`, the page and the model's own conversation kept what the person had replaced; of
    a call that failed nothing said that it was edited.
    """

    def refuse():
        raise ToolFailed("The bank is closed.")

    monkeypatch.setitem(agents.HOOKS, "pay", refuse if fails else lambda: None)
    run = agents.say(thread, "Pay my bills", by=ana)
    pause = agents.asked(run)
    bread, rent = (call["id"] for call in pause.calls)
    answer = {
        bread: {"decision": "edit", "arguments": {"what": "rolls"}},
        rent: {"decision": "approve"},
    }
    services.decide(pause.pk, Answer("answer", Via.REST, payload={"calls": answer}), by=ben)
    assert agents.go_on(run).status == "completed"

    wanted, kept = said(api, ana, thread)
    assert (wanted["arguments"], wanted["was"]) == ({"what": "rolls"}, {"what": "bread"})
    assert (kept["arguments"], kept["was"]) == ({"what": "rent"}, None)
    assert wanted["status"] == ("failed" if fails else "done")
    assert "arguments_changed" not in wanted["result"]

    *_, asked, heard_bread, _ = endpoint.requests[-1]["messages"]
    own = [json.loads(call["function"]["arguments"]) for call in asked["tool_calls"]]
    assert own == [{"what": "rolls"}, {"what": "rent"}]
    heard = json.loads(heard_bread["content"])
    assert heard["arguments_changed_by_a_person"] == {"was": {"what": "bread"}}
    assert heard["result"] == ("The bank is closed." if fails else {"made": "pay", "what": "rolls"})

    told = {one["id"]: one for one in agents.events(thread, "tool_call_completed")}
    assert (told[bread]["arguments"], told[bread]["was"]) == ({"what": "rolls"}, {"what": "bread"})
    assert "was" not in told[rent]
    text = page.get(f"/threads/{thread.shown_id}/").content.decode()
    assert f"Changed by {Decision.objects.get().who}. It was:" in text
    assert broken() == {}


def answers_cancel(thread, run, by):
    services.decide(agents.asked(run).pk, Answer("cancel", Via.REST), by=by)


def cancels_the_run(thread, run, by):
    doors.cancel(run.pk, by=by, via=Via.REST)


def says_something_else(thread, run, by):
    doors.say(
        thread.pk,
        Turn(input={"input": "Never mind"}),
        by=by,
        via=Via.REST,
        auto_resume_pending=False,
        when_busy=WhenBusy.INTERRUPT,
    )


@pytest.mark.parametrize("ends", [answers_cancel, cancels_the_run, says_something_else])
def test_a_call_whose_run_ended_first_waits_for_nobody(endpoint, thread, ana, page, api, ends):
    """It read "Waiting for a person" for ever."""
    run = agents.say(thread, "Pay my bills", by=ana)
    assert {call["status"] for call in said(api, ana, thread)} == {"waiting"}
    assert "Waiting for a person" in page.get(f"/threads/{thread.shown_id}/").content.decode()
    ends(thread, run, ana)
    assert Run.objects.get(pk=run.pk).status == "cancelled"
    assert {call["status"] for call in said(api, ana, thread)} == {"withdrawn"}
    text = page.get(f"/threads/{thread.shown_id}/").content.decode()
    assert "Not made: its run ended first" in text and "Waiting for a person" not in text
