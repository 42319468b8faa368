"""A call that a person answered in its tool's place: the tool is not called, and the words are its
result for the model and for people.
"""

from __future__ import annotations

import pytest

from extensions.langgraph.api.values import values_of
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Decision, Via
from runs.agents.tools import find, registry, tool
from tests.databases.whole import file_database as file_database
from tests.servers.model_endpoint import ModelReply, by_loop, serving
from tests.worlds import agents
from tests.worlds.agents import thread as thread
from tests.worlds.histories.whole_story import broken

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("templates", "file_database"),
]
PAY = [("test_pay", {"what": "rent"}), ("test_pay", {"what": "boat"})]
WORDS = "Paid by hand this morning."


def test_what_a_person_answers_is_the_result_that_the_model_hears(thread, ana, ben, page):
    """A `respond` of LangChain's became a rejection, with the words as its reason. Nothing runs, so
    P6 has nothing to say; the ledger signs the words like any answer.
    """
    with serving(by_loop(ModelReply("I pay.", PAY), ModelReply("All done."))) as endpoint:
        agents.load(endpoint.url)
        run = agents.say(thread, "Pay my bills", by=ana)
        pause = agents.asked(run)
        rent, boat = (call["id"] for call in pause.calls)
        answer = {
            rent: {"decision": "respond", "result": WORDS},
            boat: {"decision": "reject", "reason": "no boats"},
        }
        services.decide(pause.pk, Answer("answer", Via.REST, payload={"calls": answer}), by=ana)
        run = agents.go_on(run)
        assert (run.status, sum(agents.MADE.values())) == ("completed", 0)
        heard = {
            message["tool_call_id"]: message["content"]
            for message in endpoint.requests[-1]["messages"]
            if message["role"] == "tool"
        }
    assert heard[rent] == WORDS
    decision = Decision.objects.get()
    assert decision.intact and broken() == {}
    told = {one["id"]: one for one in agents.events(thread, "tool_call_completed")}
    assert (told[rent]["status"], told[rent]["result"]) == ("answered", WORDS)
    assert told[rent]["decision"] == decision.shown_id and "decision" not in told[boat]
    thread.refresh_from_db()
    results = {
        one["tool_call_id"]: one
        for one in values_of(thread.head)["messages"]
        if one["type"] == "tool"
    }
    assert (results[rent]["status"], results[rent]["content"]) == ("success", WORDS)
    assert results[boat]["status"] == "error"
    text = page.get(f"/threads/{thread.shown_id}/").content.decode()
    assert f"Answered by {decision.who}" in text and WORDS in text
    receipt = page.get(f"/decisions/{decision.shown_id}/").content.decode()
    assert f"Answered by {decision.who}" in receipt and WORDS in receipt


def test_a_rejected_call_keeps_none_of_its_reply_from_being_made(thread, ana):
    """Tried after langchainjs#11391: calls that nobody is asked about were dropped with it."""
    calls = [PAY[0], ("test_look", {"what": "sky"}), ("test_broken", {"what": "shop"})]
    with serving(by_loop(ModelReply("I pay.", calls), ModelReply("All done."))) as endpoint:
        agents.load(endpoint.url)
        run = agents.say(thread, "Pay and look", by=ana)
        [rent] = (call["id"] for call in agents.asked(run).calls)
        answer = {"calls": {rent: {"decision": "reject", "reason": "no"}}}
        pause = agents.asked(run)
        services.decide(pause.pk, Answer("answer", Via.REST, payload=answer), by=ana)
        assert agents.go_on(run).status == "completed"
        heard = [one for one in endpoint.requests[-1]["messages"] if one["role"] == "tool"]
    assert [words in one["content"] for words, one in zip(
        ("rejected this call", "sky", "The shop is closed."), heard, strict=True
    )] == [True] * 3  # fmt: skip
    assert list(agents.MADE.values()) == [1]


def test_a_tool_may_keep_people_from_answering_in_its_place(monkeypatch):
    """A balance is the bank's to tell."""
    monkeypatch.setattr(registry, "_TOOLS", dict(registry._TOOLS))

    @tool("test_balance", description="Look.", parameters={"type": "object"}, answerable=False)
    def balance(arguments, use):
        return 7

    assert not find("test_balance").answerable and find("test_pay").answerable
