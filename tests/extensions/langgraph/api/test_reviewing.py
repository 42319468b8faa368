"""Reviewers whom the rules name, and tokens that only answer, at LangGraph's door: the question,
its answer, and nothing else of the thread.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from extensions.langgraph.api.calls import Streamed
from hitl.decisions.errors import NotFound
from hitl.http.authentication import Caller
from hitl.live.pump import StreamRefused
from hitl.models import Decision, Via
from runs.models import Run
from runs.security import scopes
from tests.conftest import pause_of
from tests.doors.langgraph import acted, sent
from tests.worlds.ruled_order import ruled as ruled

pytestmark = pytest.mark.django_db

SECRET = "nobody else's business"
INBOX = {"status": "interrupted", "metadata": {"graph_id": "ruled"}}
ACCEPT = {"command": {"resume": {"decision": "approve"}}}


def whole(streamed: Streamed) -> str:
    async def read() -> bytes:
        return b"".join(
            [part for page in [page async for page in streamed.frames] for part in page]
        )

    return asyncio.run(read()).decode()


@pytest.fixture
def theirs(ruled, zoe):
    """Ana's order, whose question the rules put to Zoe: she is in none of its teams."""
    return ruled({"reviewers": {"users": ["zoe"]}, "self_approval": False}, order={"title": SECRET})


def places(order: Any) -> tuple[str, str]:
    return f"/threads/{order.thread_id}", f"/threads/{order.thread_id}/runs"


@pytest.mark.both_databases
@pytest.mark.parametrize("scope", ["write", "answer"])
def test_a_reviewer_by_rule_finds_reads_and_answers_the_question_here(theirs, zoe, scope):
    """S3-24: with this an inbox of LangGraph's is one for reviewers."""
    pause, (thread, runs) = pause_of(theirs), places(theirs)
    (row,) = sent(zoe, "POST", "/threads/search", INBOX, scope=scope)
    assert sent(zoe, "POST", "/threads/count", INBOX, scope=scope) == 1
    assert row["thread_id"] == str(theirs.thread_id) and row["status"] == "interrupted"
    (interrupt,) = next(iter(row["interrupts"].values()))
    assert interrupt["id"] == pause.pk.hex
    assert sent(zoe, "GET", thread, scope=scope) == row
    state = sent(zoe, "GET", f"{thread}/state", scope=scope)
    assert [one["id"] for one in state["interrupts"]] == [pause.pk.hex]
    assert state["values"]["content"] == pause.content
    run = sent(zoe, "POST", runs, ACCEPT, scope=scope)
    decision = Decision.objects.get()
    assert (run["run_id"], decision.action, decision.via) == (
        str(decision.pk), "approve", Via.LANGGRAPH,
    )  # fmt: skip
    assert sent(zoe, "POST", "/threads/search", INBOX, scope=scope) == []
    assert sent(zoe, "GET", f"{thread}/state", scope=scope)["interrupts"] == []


@pytest.mark.parametrize(("tail", "kind"), [("stream", "text"), ("wait", "json")])
def test_what_follows_from_an_answer_is_told_to_those_alone_who_take_part(theirs, zoe, tail, kind):
    """S0-54: the run goes on with the whole state, which is none of the reviewer's."""
    _, runs = places(theirs)
    streamed = acted(Caller(user=zoe, scope="write"), "POST", f"{runs}/{tail}", ACCEPT)
    assert isinstance(streamed, Streamed)
    said = whole(streamed)
    assert Decision.objects.get().decided_by == zoe and streamed.may_stay()
    if kind == "json":
        assert json.loads(said) == {}
    else:
        assert [line for line in said.splitlines() if line.startswith("event")] == [
            "event: metadata"
        ]


def test_nothing_else_of_the_thread_is_theirs(theirs, zoe):
    """S0-54: by the question's own words alone; history, runs, copies and new work are 404."""
    thread, runs = places(theirs)
    seen = [sent(zoe, "POST", "/threads/search", INBOX), sent(zoe, "GET", f"{thread}/state")]
    assert SECRET not in json.dumps(seen)
    wire_run = str(Run.objects.get().pk)
    for method, path, body in [
        ("GET", f"{thread}/history", None),
        ("POST", f"{thread}/history", {}),
        ("GET", f"{thread}/state/{theirs.thread.head_id}", None),
        ("PATCH", thread, {"metadata": {"mine": 1}}),
        ("DELETE", thread, None),
        ("POST", f"{thread}/copy", {}),
        ("GET", runs, None),
        ("GET", f"{runs}/{wire_run}", None),
        ("GET", f"{runs}/{wire_run}/stream", None),
        ("GET", f"{thread}/stream", None),
        ("POST", runs, {"assistant_id": "ruled", "input": {}}),
        ("POST", runs, {"command": {"goto": "__end__"}}),
        ("POST", f"{thread}/state", {"as_node": "__end__"}),
    ]:
        with pytest.raises(NotFound):
            sent(zoe, method, path, body)
    assert not Decision.objects.exists()


def test_who_is_not_asked_finds_nothing_and_a_token_that_asks_finds_its_own(
    theirs, zoe, django_user_model
):
    eve = django_user_model.objects.create_user("eve")
    thread, runs = places(theirs)
    assert sent(eve, "POST", "/threads/search", INBOX) == []
    for by, scope in ((eve, "write"), (eve, "answer"), (zoe, "ask")):
        for path in (thread, f"{thread}/state"):
            with pytest.raises(NotFound):
                sent(by, "GET", path, scope=scope)
    assert sent(zoe, "POST", "/threads/search", INBOX, scope="ask") == []
    with pytest.raises((NotFound, scopes.ScopeMissing)):
        sent(eve, "POST", runs, ACCEPT)


def test_a_token_that_only_answers_sees_no_state_of_its_own_threads(ruled, ana):
    """S0-54: what it is asked, as reviewers do; and begins nothing."""
    order = ruled({})
    thread, runs = places(order)
    whole_state = sent(ana, "GET", f"{thread}/state")
    asked = sent(ana, "GET", f"{thread}/state", scope="answer")
    assert set(asked["values"]) == {"question", "content", "facts"} != set(whole_state["values"])
    assert [row["thread_id"] for row in sent(ana, "POST", "/threads/search", {}, scope="answer")]
    for method, path, body in [
        ("POST", f"{runs}/stream", {"assistant_id": "ruled", "input": {}}),
        ("GET", f"{thread}/history", None),
    ]:
        with pytest.raises((scopes.ScopeMissing, StreamRefused)):
            sent(ana, method, path, body, scope="answer")
    streamed = acted(Caller(user=ana, scope="answer"), "POST", f"{runs}/wait", ACCEPT)
    assert isinstance(streamed, Streamed)
    assert json.loads(whole(streamed)) == {} and Decision.objects.get().decided_by == ana
