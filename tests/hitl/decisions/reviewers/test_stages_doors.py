"""Reviews in stages, whichever door opened the question and whichever the answers come through.

Issue 30: a wait of another engine with `review.stages` was opened without a turn: nobody's list had
it, and every answer was 409 `stage_answered`.
"""

from __future__ import annotations

import ast
import datetime as dt
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User

from checkpoints.database import clock
from hitl.decisions import services, undo
from hitl.decisions.deadlines import outcomes
from hitl.decisions.reviewers import policy
from hitl.decisions.services import Answer
from hitl.http.authentication import Caller
from hitl.http.refusals import exception_handler
from hitl.models import ApiToken, Decision, EarlyAnswer, Via, Vote, Wait
from hitl.outbound import quotas
from hitl.wait_gate import primitives
from runs import services as runs
from runs.models import Pause
from tests.conftest import pause_of
from tests.doors import langgraph, mcp
from tests.house.rest import ROOT
from tests.worlds.histories.whole_story import broken
from tests.worlds.people import group, person
from tests.worlds.ruled_order import rest
from tests.worlds.ruled_order import ruled as ruled

pytestmark = pytest.mark.django_db

LEGAL = {"name": "legal", "reviewers": {"users": ["lea"], "groups": ["lawyers"]}}
FINANCE = {"name": "finance", "reviewers": {"users": ["fin"]}}
CFO = {"name": "cfo", "reviewers": {"users": ["carl"]}, "after": ["legal", "finance"]}
STAGES = {"stages": [LEGAL, FINANCE, CFO]}
WAIT = {"run_id": "deal-7", "question": "May we sign?", "team": "platform"}


@pytest.fixture
def people(team):
    """They see each other's work, so that they can come by each door."""
    named = {name: person(name) for name in ("lea", "fin", "carl", "lou")}
    named["lou"].groups.add(group("lawyers"))
    for one in named.values():
        one.groups.add(team)
    return named


def by_step(rules, ruled, ana) -> Pause:
    return pause_of(ruled(rules))


def by_retry(rules, ruled, ana) -> Pause:
    """As a run that asks again whose question expired."""
    order = ruled({**rules, "deadline": {"after": "PT1H"}})
    past = clock.now() - dt.timedelta(minutes=1)
    Pause.objects.update(deadline_at=past, next_at=past)
    outcomes.meet(Pause.objects.all())
    runs.retry(order.pk, by=order.created_by)
    return pause_of(order)


def by_undo(rules, ruled, ana) -> Pause:
    """As an answer that is taken back."""
    order = ruled({**rules, "undo": 600})
    pause = pause_of(order)
    for name in ("lea", "fin", "carl"):
        given = services.decide(
            pause.pk, Answer("approve", Via.REST), by=User.objects.get(username=name)
        )
    undo.undo(given.pk, by=User.objects.get(username="carl"), via=Via.REST)
    return pause_of(order)


def by_rest(rules, ruled, ana, **more) -> Pause:
    body = {**WAIT, "review": rules, **more}
    told = rest(ana).post("/api/v1/workflows/wait", body, format="json")
    assert told.status_code == 201, told.content
    return Pause.objects.get()


def in_process(rules, ruled, ana) -> Pause:
    more = {"question": "May we sign?", "team": "platform", "review": rules}
    return primitives.create_checkpoint("deal-7", "sign", {}, {}, "b", by=ana, **more).pause


OPENERS: dict[str, Callable[..., Pause]] = {
    "a step": by_step,
    "a run that asks again": by_retry,
    "an answer that is taken back": by_undo,
    "another engine over REST": by_rest,
    "another engine in this process": in_process,
}


def rest_answer(pause, by, **given) -> tuple[int, str]:
    return _rest(by, f"pauses/{pause.shown_id}/decisions", given)


def resume_event(pause, by, **given) -> tuple[int, str]:
    return _rest(by, f"workflows/{pause.run.shown_id}/resume", {"payload": given})


def go_on(pause, by, **given) -> tuple[int, str]:
    event = {"input_type": given.pop("decision"), **given}
    return _rest(by, f"workflows/{pause.run.shown_id}/resume-and-continue", event)


def trace(pause, by, **given) -> tuple[int, str]:
    named = {"traceId": pause.run.shown_id, "promptId": pause.shown_id}
    return _rest(by, "resume", {**named, "response": given})


def _rest(by, path, body) -> tuple[int, str]:
    told = rest(by).post(f"/api/v1/{path}", body, format="json")
    return told.status_code, told.json().get("code", "")


def mcp_answer(pause, by, **given) -> tuple[int, str]:
    seen = {"revision": pause.revision, "content_digest": pause.content_digest}
    secret = ApiToken.make(by, name="assistant", scope="answer")[1]
    body = {"question_id": pause.shown_id, **seen, **given}
    status, words = mcp.called_here(f"Bearer {secret}", "answer", body)
    return status, words


def langgraph_answer(pause, by, **given) -> tuple[int, str]:
    body = {"assistant_id": "x", "command": {"resume": given}}
    return _langgraph(by, f"/threads/{pause.run.thread_id}/runs", body)


def agui_answer(pause, by, **given) -> tuple[int, str]:
    resumed = {"interruptId": pause.pk.hex, "status": "resolved", "payload": given}
    body = {"threadId": str(pause.run.thread_id), "runId": str(uuid.uuid4()), "resume": [resumed]}
    return _langgraph(by, "/agui/x", body)


def _langgraph(by, path, body) -> tuple[int, str]:
    try:
        langgraph.acted(Caller(user=by, scope="write"), "POST", path, body)
    except Exception as error:  # noqa: BLE001  # what the door tells of it
        told: Any = exception_handler(error, {})
        return told.status_code, told.data.get("code", "")
    return 200, ""


DOORS: dict[str, Callable[..., tuple[int, str]]] = {
    "REST": rest_answer,
    "a resume event": resume_event,
    "resume-and-continue": go_on,
    "a trace": trace,
    "MCP": mcp_answer,
    "LangGraph": langgraph_answer,
    "AG-UI": agui_answer,
}


def waits_for(people) -> set[str]:
    return {name for name, one in people.items() if policy.waiting_for(one).exists()}


@pytest.mark.parametrize(
    ("opener", "door"),
    [
        *((opener, "REST") for opener in OPENERS if opener != "another engine over REST"),
        *(("another engine over REST", door) for door in DOORS),
    ],
)
def test_each_stage_is_asked_and_answers_in_its_turn(door, opener, ruled, people, ana):
    pause, answer = OPENERS[opener](STAGES, ruled, ana), DOORS[door]
    before = Vote.objects.count()
    assert waits_for(people) == {"lea", "lou", "fin"}
    status, refused = answer(pause, people["carl"], decision="approve")
    assert (status, "turn" in refused) == (409, True)
    assert answer(pause, people["fin"], decision="approve")[0] < 300
    assert waits_for(people) == {"lea", "lou"}
    assert answer(pause, people["lou"], decision="approve")[0] < 300
    assert waits_for(people) == {"carl"}
    assert answer(pause, people["carl"], decision="approve")[0] < 300
    votes = [vote.stage for vote in Vote.objects.order_by("pk")][before:]
    assert votes == ["finance", "legal", "cfo"]
    pause.refresh_from_db()
    assert (pause.status, Decision.objects.answer_to(pause).action) == ("answered", "approve")
    assert broken() == {}


@pytest.mark.parametrize("door", DOORS)
def test_who_is_asked_at_several_stages_says_which_at_each_door(door, ruled, people, ana):
    """MCP, LangGraph, AG-UI and resume events had no word for it, so nobody could answer there."""
    rules = {"stages": [LEGAL, {**FINANCE, "reviewers": {"users": ["lea", "fin"]}}]}
    pause, answer = by_rest(rules, ruled, ana), DOORS[door]
    assert answer(pause, people["lea"], decision="approve")[0] == 422
    assert answer(pause, people["lea"], decision="approve", stage="legla")[0] == 422
    assert answer(pause, people["lea"], decision="approve", stage="finance")[0] < 300
    assert Vote.objects.get().stage == "finance"


@pytest.fixture
def mia(db):
    """Named by the rules; takes no part in Ana's work."""
    return person("mia")


def asks_mia(ana, **more) -> Pause:
    named = {"reviewers": {"users": ["mia"]}, **more}
    return by_rest(named, None, ana, team="", state={"secret": "of Ana"})


@pytest.mark.parametrize("door", DOORS)
def test_whom_the_rules_ask_answers_at_each_door_the_owner_does_not_and_nobody_else_sees_it(
    door, ana, mia, zoe
):
    """Issue 37: by resume events and traces they got 404, as if nothing was asked."""
    pause, answer = asks_mia(ana), DOORS[door]
    strange, owner = answer(pause, zoe, decision="approve"), answer(pause, ana, decision="approve")
    assert strange[0] == 404 or "no such question" in strange[1]
    assert owner[0] == 403 or "Reviewers: mia" in owner[1]
    assert not Decision.objects.exists()
    assert answer(pause, mia, decision="approve")[0] < 300
    assert (Decision.objects.get().decided_by, Vote.objects.count()) == (mia, 0)


@pytest.mark.parametrize("name", ["the run", "the thread", "the engine's own name", "event"])
def test_who_is_asked_only_names_the_run_as_its_engine_does_and_is_told_no_state(name, ana, mia):
    """Nor does their answer say that the engine goes on, or keep one ahead of its question."""
    pause = asks_mia(ana)
    run = pause.run
    trace_id = {"the run": run.shown_id, "the thread": run.thread.shown_id}.get(name, "deal-7")
    client = rest(mia)
    early = {"node_id": "later", "payload": {"price": 1}}
    path = f"/api/v1/workflows/{trace_id}/resume"
    if name == "event":
        assert client.get(f"/api/v1/workflows/{trace_id}").status_code == 404, "shown whole"
        assert client.post(path, early, format="json").json()["code"] == "wrong_question"
        told = client.post(f"{path}-and-continue", {"payload": "approve"}, format="json")
        assert (told.status_code, told.json()["state"]) == (200, {})
        assert told.json()["answer"]["decided_by"] == "mia"
        assert client.post(f"{path}-and-continue", {}, format="json").status_code == 404
        assert client.post(path, early, format="json").json()["code"] == "not_paused"
        assert Wait.objects.get().reported == ""
    else:
        body = {"traceId": trace_id, "promptId": pause.shown_id, "response": "approve"}
        both = [client.post("/api/v1/resume", body, format="json") for _ in range(2)]
        assert [one.status_code for one in both] == [200, 200], "the same again is the same"
    assert Decision.objects.get().decided_by == mia
    assert not EarlyAnswer.objects.exists()


@pytest.mark.parametrize("trace_id", ["{}", "deal-7"])
def test_whom_the_rules_ask_from_the_deadline_on_answers_by_a_trace_before_any_sweep(
    trace_id, ana, mia, zoe
):
    stages = [{"after": "PT9H", "users": ["zoe"]}]
    pause = asks_mia(ana, deadline={"after": "PT4H", "outcome": "escalate"}, escalation=stages)
    body = {"traceId": trace_id.format(pause.run.shown_id), "promptId": pause.shown_id}
    body["response"] = "approve"
    assert rest(zoe).post("/api/v1/resume", body, format="json").status_code == 404
    past = clock.now() - dt.timedelta(minutes=1)
    Pause.objects.update(deadline_at=past, next_at=past)
    assert rest(zoe).post("/api/v1/resume", body, format="json").status_code == 200


def test_a_wait_brings_the_data_of_each_stage(ruled, people, ana):
    asked = {
        "type": "object",
        "properties": {
            "legal": {"type": "object", "properties": {"clause": {"type": "string"}}},
            "cfo": {"type": "object", "properties": {"budget": {"type": "integer"}}},
        },
    }
    body = {**WAIT, "review": STAGES, "required_inputs": asked}
    made = rest(ana).post("/api/v1/workflows/wait", body, format="json")
    assert made.status_code == 201, made.content
    pause = Pause.objects.get()
    for name, data in (("lea", {"legal": {"clause": "7b"}}), ("fin", None)):
        assert rest_answer(pause, people[name], decision="answer", input=data) == (202, "")
    last = {"cfo": {"budget": 90}}
    assert rest_answer(pause, people["carl"], decision="answer", input=last) == (201, "")
    told = rest(ana).get("/api/v1/workflows/deal-7").json()
    assert told["state"] == {"legal": {"clause": "7b"}, "cfo": {"budget": 90}}


def test_a_wait_whose_data_no_stage_brings_is_refused(ruled, people, ana):
    """It could never have been answered."""
    asked = {"type": "object", "properties": {"price": {"type": "integer"}}}
    body = {**WAIT, "review": STAGES, "required_inputs": asked}
    told = rest(ana).post("/api/v1/workflows/wait", body, format="json")
    assert (told.status_code, list(told.json()["errors"])) == (
        422,
        ["required_inputs.properties.price"],
    )
    assert not Pause.objects.exists()


def test_a_wait_asks_people_outside_as_its_rules_say(people, ana, monkeypatch):
    """A stage of theirs alone was asked of nobody; `review.external` was no more than a word."""
    monkeypatch.setattr(quotas, "check", lambda by, to: checked.extend(to))
    checked: list[str] = []
    stage = {"name": "supplier", "external": ["Bill@supplier.example"]}
    pause = by_rest({"stages": [stage, FINANCE]}, None, ana)
    assert pause.outside["to"] == ["bill@supplier.example"]
    assert checked == ["Bill@supplier.example"]


OPENED_BY = {
    "hitl/decisions/review_bypass.py": "a question that is closed already",
    "runs/engine/drafts/step_rows.py": "",
    "runs/engine/start.py": "",
    "runs/services/external_runs.py": "",
    "runs/services/undo.py": "",
}
"""Modules that make a row of `Pause`, with why one needs no `questions.opens`."""


def test_whoever_opens_a_question_takes_what_its_rules_say_from_one_function():
    """The turn of the stages was forgotten at one of four places that each wrote it."""
    found: dict[str, str] = {}
    for path in sorted([*ROOT.glob("runs/**/*.py"), *ROOT.glob("hitl/**/*.py")]):
        text = path.read_text("utf-8")
        if "Pause" in text and any(map(_makes_pause, ast.walk(ast.parse(text)))):
            found[str(path.relative_to(ROOT))] = text
    assert found.keys() == OPENED_BY.keys()
    for name, why in OPENED_BY.items():
        assert why or "questions.opens(" in found[name], name
        assert "turn=" not in found[name], name


def _makes_pause(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    called = ast.unparse(node.func)
    makes = {f"Pause.objects.{name}" for name in ("create", "bulk_create", "get_or_create")}
    return called == "Pause" or called in makes
