"""A token answers no question that it asked: one rule, whichever door the question was asked at and
whichever the answer comes through.

Issue 30: the REST token that opened a wait approved it itself where the rules named its person;
only what a token asked over MCP was refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from hitl.models import ApiToken, Decision, EarlyAnswer
from runs.models import Pause
from tests.doors import langgraph, mcp
from tests.doors.asking import DOORS as ASKED_AT

pytestmark = pytest.mark.django_db
BODY = {"decision": "approve"}
OWN = (403, "own_question")


def _rest(path: str, body: Callable[[Pause], Any]) -> Callable[..., tuple[int, str]]:
    def answer(pause: Pause, secret: str) -> tuple[int, str]:
        client = APIClient(HTTP_AUTHORIZATION=f"Bearer {secret}")
        names = {
            "pause": pause.shown_id,
            "run": pause.run.shown_id,
            "thread": pause.run.thread.shown_id,
        }
        told = client.post(f"/api/v1/{path.format(**names)}", body(pause), format="json")
        results = told.json().get("results")
        if results:
            code = results[0]["code"]
            return 403 if code == "own_question" else told.status_code, code
        return told.status_code, told.json().get("code", "")

    return answer


def _mcp(pause: Pause, secret: str) -> tuple[int, str]:
    seen = {"revision": pause.revision, "content_digest": pause.content_digest}
    body = {"question_id": pause.shown_id, **seen, **BODY}
    status, words = mcp.called_here(f"Bearer {secret}", "answer", body)
    return status, "own_question" if "This token asked the question" in words else words


def _langgraph(pause: Pause, secret: str) -> tuple[int, str]:
    body = {"assistant_id": "x", "command": {"resume": BODY}}
    status, words = langgraph.called_here(
        f"Bearer {secret}", "POST", f"/threads/{pause.run.thread_id}/runs", body
    )
    return status, "own_question" if "This token asked the question" in words else words


ANSWERED_AT: dict[str, Callable[..., tuple[int, str]]] = {
    "the question's own": _rest("pauses/{pause}/decisions", lambda _: BODY),
    "several at once": _rest(
        "pauses/bulk",
        lambda pause: {**BODY, "pauses": [{"pause_id": pause.shown_id, "revision": 1}]},
    ),
    "a resume event": _rest("workflows/{run}/resume", lambda _: {"payload": BODY}),
    "resume-and-continue": _rest(
        "workflows/{run}/resume-and-continue", lambda _: {"payload": BODY}
    ),
    "a trace": _rest(
        "resume",
        lambda pause: {
            "traceId": pause.run.shown_id,
            "promptId": pause.shown_id,
            "response": "approve",
        },
    ),
    "a message": _rest(
        "threads/{thread}/runs?auto_resume_pending=true", lambda _: {"input": "APPROVE"}
    ),
    "input for the run": _rest("runs/{run}/input", lambda _: {"content": "APPROVE"}),
    "MCP": _mcp,
    "LangGraph": _langgraph,
}
VERDICTS = [name for name in ASKED_AT if name not in {"MCP ask_human", "the primitives"}]
"""Doors with a token at which a yes or a no is asked for."""


@pytest.fixture(autouse=True)
def owner_decides(settings):
    """As in an installation of one person, whom the rules name."""
    settings.WAYSTATION_MCP_OWNER_DECIDES = True


@pytest.mark.parametrize(
    ("asked_at", "answered_at"),
    [
        *(("REST", answered_at) for answered_at in ANSWERED_AT),
        *((asked_at, "the question's own") for asked_at in VERDICTS if asked_at != "REST"),
    ],
)
def test_a_token_answers_nothing_that_it_asked_and_another_one_does(
    asked_at, answered_at, ana, team
):
    token, secret = ApiToken.make(ana, name="asks", scope="write")
    pause = ASKED_AT[asked_at](token, secret)("Deploy?", key="a")
    pause = Pause.objects.select_related("run__thread").get(pk=pause.pk)
    answer = ANSWERED_AT[answered_at]
    assert answer(pause, secret) == OWN
    assert not Decision.objects.exists()
    other = ApiToken.make(ana, name="other", scope="write")[1]
    assert answer(pause, other)[0] < 300
    assert Decision.objects.get().decided_by == ana


def test_a_token_ends_what_it_asked(ana, api):
    """To withdraw is no answer."""
    client = api(ana)
    told = client.post(
        "/api/v1/workflows/wait", {"run_id": "r", "question": "Deploy?"}, format="json"
    ).json()
    ended = client.post(f"/api/v1/runs/{told['waystation_run_id']}/cancel", {}, format="json")
    assert ended.status_code == 200
    assert Pause.objects.get().status == "cancelled"


@pytest.mark.parametrize("by", ["itself", "another"])
def test_an_answer_of_a_token_that_came_early_is_refused_where_that_token_then_asks(by, ana, api):
    """It was given as nobody's token, so a program could answer first and ask then."""
    client, other = api(ana), api(ana)
    ask = {"run_id": "r", "node_id": "first", "question": "Ready?"}
    assert client.post("/api/v1/workflows/wait", ask, format="json").status_code == 201
    other.post("/api/v1/workflows/r/resume", {"payload": "approve"}, format="json")
    asked = {"type": "object", "properties": {"vat_id": {"type": "string"}}}
    event = {"node_id": "next", "payload": {"vat_id": "DE1"}}
    sender = client if by == "itself" else other
    kept = sender.post("/api/v1/workflows/r/resume", event, format="json")
    assert kept.status_code == 202, kept.content
    wait = {**ask, "node_id": "next", "question": "Which?", "required_inputs": asked}
    told = client.post("/api/v1/workflows/wait", wait, format="json")
    assert told.status_code == 201, told.content
    early = EarlyAnswer.objects.get()
    if by == "itself":
        assert (early.status, told.json()["pause_state"]) == ("refused", "open")
        assert "This token asked the question" in early.error
    else:
        assert early.status == "taken"


def test_a_bare_question_is_a_run_and_its_words(ana, api):
    """By curl one had to name a node and a reason that nobody reads."""
    client = api(ana)
    told = client.post(
        "/api/v1/workflows/wait", {"run_id": "deploy-42", "question": "Deploy?"}, format="json"
    )
    assert (told.status_code, told.json()["node_id"], told.json()["blocking_reason"]) == (
        201,
        "ask",
        "needs_approval",
    )
    same = {
        "run_id": "deploy-42",
        "question": "Deploy?",
        "node_id": "ask",
        "blocking_reason": "needs_approval",
    }
    again = client.post("/api/v1/workflows/wait", same, format="json")
    assert (again.status_code, again.json()["pause_id"]) == (200, told.json()["pause_id"])
    data = {"run_id": "vat", "question": "Which?", "required_inputs": {"type": "object"}}
    told = client.post("/api/v1/workflows/wait", data, format="json")
    assert told.json()["blocking_reason"] == "needs_input"
    nothing = client.post("/api/v1/workflows/wait", {"run_id": "silent"}, format="json")
    assert (nothing.status_code, list(nothing.json()["errors"])) == (422, ["question"])
