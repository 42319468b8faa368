"""A worker of an agent dies at every statement and commit.

What was recorded is never done again: neither a request nor a call.
"""

from __future__ import annotations

import json
from collections import Counter

import pytest

from checkpoints import store
from checkpoints.models import Checkpoint, Memo
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from hitl.threads import messages as doors
from runs.models import Run
from runs.threads import turns
from runs.threads.turns import Turn
from tests.databases.whole import file_database as file_database
from tests.killed import moments as crash
from tests.programs.begun import Begun
from tests.servers.model_endpoint import ModelReply, by_loop, serving
from tests.worlds import agents

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("templates", "file_database"),
    pytest.mark.one_database,
]

LOOK, SEARCH = ("test_look", {"what": "a"}), ("test_search", {"what": "b"})
PAY, QUESTION = ("test_pay", {"what": "rent"}), ("ask_human", {"question": "Go on?"})
STORY = by_loop(ModelReply("I do it all.", [LOOK, SEARCH, PAY, QUESTION]), ModelReply("Done."))
"""Two calls at once, a call that waits for an approval, a question; then the answer."""


@pytest.fixture
def endpoint():
    with serving(by_loop(ModelReply("Done."))) as found:
        agents.load(found.url)
        yield found


def begun(ana):
    return turns.invoke(
        turns.open_thread(by=ana).pk, Turn(template="agent-test", input={"input": "Go"}), by=ana
    )


def approve(run, ana):
    doors.say(run.thread_id, Turn(input={"input": "APPROVE"}), by=ana, via=Via.REST)


def settled(run, ana):
    """Other workers and a person do their part until the run ends."""
    for _ in range(5):
        crash.work_off()
        run.refresh_from_db()
        if run.status != "paused":
            break
        approve(run, ana)
    return run


def story(run):
    """What a person could tell of a run, without ids and times."""
    mind = agents.mind(run.thread_id)
    told = Counter(
        (data["tool"], data.get("status", ""))
        for data in agents.events(run.thread, "tool_call_completed")
    )
    made = [
        (at.status, at.loop_num, at.next_step)
        for at in Checkpoint.objects.filter(run_id=run.pk).order_by("id")
    ]
    messages = store.load(Checkpoint.objects.filter(thread=run.thread_id).latest("id"))["messages"]
    said = [
        (
            message["role"],
            message["content"],
            [(call["tool"], call["status"]) for call in message["tools"]],
        )
        for message in messages
    ]
    return {
        "run": (run.status, run.error),
        "usage": {key: mind["usage"][key] for key in ("requests", "input_tokens", "tool_calls")},
        "told": told,
        "checkpoints": made,
        "said": said,
    }


def recorded(run, prefix):
    return Memo.objects.filter(thread=run.thread_id, key__startswith=prefix).count()


@pytest.mark.parametrize(
    "answers", [0, 1], ids=["to the approval of calls", "from there to the question"]
)
def test_no_request_and_no_finished_call_is_made_again(endpoint, ana, answers):
    """P4, P5, S0-63, 64: a death after a request, between two calls at once, before and after each
    checkpoint and record.

    Made again is just what a death left unrecorded: an answer that was on its way into its record,
    a call that was being made.
    """
    endpoint.script = STORY

    def make():
        run = begun(ana)
        for _ in range(answers):
            agents.go_on(run)
            approve(run, ana)
        return run

    def counts():
        return len(endpoint.requests), sum(agents.MADE.values())

    def since(before):
        return tuple(now - then for now, then in zip(counts(), before, strict=True))

    before = counts()
    expected_story, expected = story(settled(make(), ana)), since(before)
    moment = 0
    while True:
        moment += 1
        before = counts()
        run = make()
        with crash.killing(moment, statements=False) as moments:
            agents.go_on(run)
        requests, made = since(before)
        lost = requests - recorded(run, "request"), made - recorded(run, "call/")
        assert min(lost) >= 0
        assert story(settled(run, ana)) == expected_story, f"after a death at moment {moment}"
        assert since(before) == tuple(
            each + more for each, more in zip(expected, lost, strict=True)
        ), f"after a death at moment {moment}"
        if not moments.dead:
            break
    assert moment > 8


CHILD = """
import os, sys, uuid
import django
django.setup()
from django.conf import settings
settings.WAYSTATION_LEASE_SECONDS = 0.5
from runs.engine.advance import advance
from tests.worlds import agents
from tests.killed import moments as crash

run_id, mode = uuid.UUID(sys.argv[1]), sys.argv[2]
if mode == "die in a call":
    agents.HOOKS["look"] = lambda: os._exit(9)
crash.work_off()
"""


def child(run, mode):
    environment = crash.child_environment(
        DJANGO_SETTINGS_MODULE="project.settings", PYTHONWARNINGS="ignore"
    )
    return Begun("-c", CHILD, str(run.pk), mode, environment=environment).ended(within=120)


def test_three_processes_one_turn(endpoint, ana):
    """S0-56, 61..64, S2-32, F5: one is killed in a call, the next asks and ends, the third, this
    one, does what was approved, edited and rejected.
    """
    calls = [LOOK, *(("test_pay", {"what": what}) for what in ("rent", "boat", "bread"))]
    endpoint.script = by_loop(ModelReply("I pay.", calls), ModelReply("Done."))
    run = begun(ana)
    first = child(run, "die in a call")
    assert (first.returncode, len(endpoint.requests)) == (9, 1), first.stderr
    second = child(run, "live")
    assert second.returncode == 0, second.stderr
    pause = agents.asked(Run.objects.get(pk=run.pk))
    rent, boat, bread = (call["id"] for call in pause.calls)
    answer = {
        rent: {"decision": "approve"},
        boat: {"decision": "reject", "reason": "no boats"},
        bread: {"decision": "edit", "arguments": {"what": "rolls"}},
    }
    services.decide(pause.pk, Answer("answer", Via.REST, payload={"calls": answer}), by=ana)
    crash.work_off()
    assert Run.objects.get(pk=run.pk).status == "completed"
    assert len(endpoint.requests) == 2
    heard = [
        json.loads(one["content"]) if one["content"].startswith("{") else one["content"]
        for one in endpoint.requests[-1]["messages"][2:]
    ]
    assert [heard[1], heard[3]["result"]] == [
        {"made": "pay", "what": "rent"},
        {"made": "pay", "what": "rolls"},
    ]
    assert "no boats" in heard[2]
