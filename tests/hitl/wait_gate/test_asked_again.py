"""A program asks a second time: whether people are asked anew, or the answer of before is given.

Issue 30: twenty minutes later, the same words got the first yes again in 0.06 s, and nobody was
asked. A table holds it for each door at which a program asks.
"""

from __future__ import annotations

import datetime as dt
from contextlib import contextmanager

import pytest
from django.db import IntegrityError

from checkpoints.database import clock
from checkpoints.database.clock import FromNow
from checkpoints.database.people import User
from extensions.mcp.door.server import TOOLS
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import ApiToken, Decision, Via, Wait
from hitl.wait_gate import requests, waits
from hitl.wait_gate.requests import Audience
from runs.models import Pause
from runs.states import PauseStatus
from runs.workflows.tool_calls import Call
from tests.databases.whole import at_once
from tests.databases.whole import file_database as file_database
from tests.doors.asking import DOORS, ONE_RUN
from tests.doors.mcp import CallHere, no_progress
from tests.worlds.histories.whole_story import broken

pytestmark = pytest.mark.django_db
WORDS = "Delete 10 000 rows?"
HOUR = 3600

CASES: dict[str, tuple[dict[str, object], int | None, dict[str, object], bool]] = {
    # what is asked first; seconds since its answer, None: unanswered; what is asked then; the same?
    "no key, open": ({}, None, {}, False),
    "no key, answered just now": ({}, 0, {}, False),
    "no key, answered long ago": ({}, 2 * HOUR, {}, False),
    "the key, open": ({"key": "a"}, None, {"key": "a"}, True),
    "the key, answered within the hour": ({"key": "a"}, HOUR - 60, {"key": "a"}, True),
    "the key, answered before": ({"key": "a"}, HOUR + 60, {"key": "a"}, False),
    "the key, within its time": ({"key": "a"}, 90, {"key": "a", "valid_for": 120}, True),
    "the key, after its time": ({"key": "a"}, 90, {"key": "a", "valid_for": 60}, False),
    "the key, of no time": ({"key": "a"}, 1, {"key": "a", "valid_for": 0}, False),
    "the key, long after in a longer time": (
        {"key": "a"},
        9 * HOUR,
        {"key": "a", "valid_for": 10 * HOUR},
        True,
    ),
    "another key": ({"key": "a"}, 0, {"key": "b"}, False),
    "a key, then none": ({"key": "a"}, 0, {}, False),
    "none, then a key": ({}, 0, {"key": "a"}, False),
}


@pytest.fixture
def token(ana):
    return ApiToken.make(ana, name="asks", scope="ask")


@pytest.fixture
def later(monkeypatch):
    """`with later(60)`: the database's clock, a minute on."""

    @contextmanager
    def move(seconds):
        class Ahead(FromNow):
            def __init__(self, more=0.0):
                super().__init__(more + seconds)

        with monkeypatch.context() as patch:
            patch.setattr(clock, "FromNow", Ahead)
            yield

    return move


def approve(pause: Pause, by: User) -> None:
    pause = Pause.objects.get(pk=pause.pk)
    payload = {"answer": "yes"} if pause.required_inputs and not pause.calls else None
    action = "answer" if payload else "approve"
    services.decide(pause.pk, Answer(action, Via.PAGE, payload=payload), by=by)


AT_EACH = ("no key, answered just now", "the key, answered before", "the key, within its time")
"""What tells that a door hands on a key and its time; all of them ask by the same function."""
ASKED = [
    *(pytest.param("REST", case, marks=pytest.mark.both_databases) for case in CASES),
    *((door, case) for door in DOORS for case in AT_EACH if door != "REST"),
    *((door, "no key, open") for door in DOORS if door in {"the primitives", "client.ask"}),
]


@pytest.mark.parametrize(("door", "case"), ASKED)
def test_an_answer_is_given_again_under_its_key_alone_and_for_its_time(
    door, case, token, ben, later
):
    before, ago, then, same = CASES[case]
    ask = DOORS[door](*token)
    first = ask(WORDS, **before)
    if ago is not None:
        approve(first, ben)
    if case == "no key, open" and door in ONE_RUN:
        same = True  # its run waits already, and no answer is there that could be given twice
    with later(ago or 0):
        again = ask(WORDS, **then)
    assert (again.pk == first.pk) == same
    assert again.status == (PauseStatus.ANSWERED if same and ago is not None else PauseStatus.OPEN)
    assert Pause.objects.count() == (1 if same else 2)
    assert door != "REST" or broken() == {}


@pytest.mark.parametrize("door", DOORS)
def test_asked_anew_a_question_is_under_its_key_from_then_on(door, token, ben, later):
    """P6: the old answer comes back to nobody; other words are another question."""
    ask = DOORS[door](*token)
    old = ask(WORDS, key="a")
    approve(old, ben)
    with later(2 * HOUR):
        new = ask(WORDS, key="a")
    assert ask(WORDS, key="a", valid_for=9 * HOUR).pk == new.pk != old.pk
    approve(new, ben)
    assert ask(WORDS, key="a", valid_for=9 * HOUR).pk == new.pk
    assert Decision.objects.count() == 2
    assert ask("Delete all rows?", key="a").status == PauseStatus.OPEN
    assert broken() == {}


@pytest.mark.parametrize("door", DOORS)
def test_a_time_without_a_key_is_refused(door, token):
    """It would be a wish that nobody hears: the answer counts once."""
    ask = DOORS[door](*token)
    for valid_for in (60, 0):
        with pytest.raises(Exception, match="name a key"):
            ask(WORDS, valid_for=valid_for)
    assert not Pause.objects.exists()


def test_a_question_whose_time_is_over_is_asked_anew_though_no_sweep_came(token, ben):
    """P8: without a key it waited no more, and was told as open."""
    ask = DOORS["REST"](*token)
    first = ask(WORDS, deadline="PT1H")
    past = clock.now() - dt.timedelta(seconds=1)
    Pause.objects.update(deadline_at=past, next_at=past)
    again = ask(WORDS, deadline="PT1H")
    assert (again.pk == first.pk, again.status) == (False, PauseStatus.OPEN)
    first.refresh_from_db()
    assert first.status == PauseStatus.EXPIRED


def test_a_refusal_counts_as_long_as_an_approval(token, ben, later):
    ask = DOORS["client.ask"](*token)
    first = ask(WORDS, key="a")
    services.decide(first.pk, Answer("cancel", Via.PAGE), by=ben)
    assert ask(WORDS, key="a").pk == first.pk
    with later(2 * HOUR):
        assert ask(WORDS, key="a").status == PauseStatus.OPEN


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("door", ["wait gate", "MCP"])
def test_programs_that_ask_at_once_where_the_answer_of_before_is_too_old_get_one_question(
    door, token, ben, later, file_database
):
    """One of them asks anew, and the others find it."""
    agent, _ = token

    def ask():
        if door == "MCP":
            call = Call(id=requests.CALL, tool="delete", arguments={"rows": 10_000})
            audience = Audience(team="platform", key="a")
            return requests.ask_approval(agent, call, audience, question=WORDS).pause.pk
        asked = waits.WaitRequest(run_id="r", question=WORDS, key="a", team="platform")
        return waits.open_wait(asked, by=agent.user)[0].pause_id

    old = ask()
    approve(Pause.objects.get(pk=old), ben)
    with later(2 * HOUR):
        asked = at_once(*[ask] * 8)
    assert not [error for error in asked if isinstance(error, Exception)], asked
    [one] = set(asked)
    assert one != old
    assert Wait.objects.count() == Pause.objects.count() == 2
    assert Pause.objects.open().get().pk == one
    assert broken() == {}


def test_words_that_somebody_asked_between_two_looks_are_found(token, ben, later, monkeypatch):
    """Of eight at once one was told that the run waits with another question: it waited with its
    own.
    """
    agent, _ = token
    asked = waits.WaitRequest(run_id="r", question=WORDS, key="a", team="platform")
    answered = waits.open_wait(asked, by=agent.user)[0]
    approve(answered.pause, ben)
    looks = []

    def look(*given):
        looks.append(found := real_look(*given))
        if len(looks) == 2:  # after the first try
            with monkeypatch.context() as other:
                other.setattr(waits, "_asked_before", real_look)
                other.setattr(waits, "_open", real_open)
                looks.append(waits.open_wait(asked, by=agent.user)[0])
        return found

    def fail(*given, **more):
        monkeypatch.setattr(waits, "_open", real_open)
        raise IntegrityError("run_one_live_per_thread")  # its last run has not ended

    real_look, real_open = waits._asked_before, waits._open
    monkeypatch.setattr(waits, "_asked_before", look)
    monkeypatch.setattr(waits, "_open", fail)
    with later(2 * HOUR):
        wait, new = waits.open_wait(asked, by=agent.user)
    assert looks[:2] == [answered, answered]
    assert (wait, new) == (looks[2], False)


def test_what_goes_on_waits_for_the_question_that_was_asked_anew(token, ana, ben, api):
    """`resume-and-continue` asks nothing: it tells what the newest question came to."""
    ask, client = DOORS["REST"](*token), api(ana)
    at = "/api/v1/workflows/deploy-42/resume-and-continue"
    approve(ask(WORDS), ben)
    assert client.post(at, {}, format="json").json()["answer"]["decision"] == "approve"
    ask(WORDS)
    waits_on = client.post(at, {}, format="json")
    assert (waits_on.status_code, waits_on.json()["code"]) == (409, "still_waiting")


def test_the_permission_prompt_of_a_host_asks_once_for_each_call_of_its(token, ben, later):
    """Its id of the call is the key: sent again, as after a crash, it finds its question."""

    def prompt(tool_use_id):
        call = CallHere(token[0], {"team": "platform"}, no_progress, as_task=True)
        found = TOOLS["permission_prompt"]
        given = {"tool_name": "Bash", "input": {"command": "rm"}, "tool_use_id": tool_use_id}
        with pytest.raises(StopIteration):
            found.run(call, found.takes.model_validate(given)).__await__().send(None)
        return Pause.objects.latest("id").pk

    first = prompt("toolu_1")
    assert prompt("toolu_1") == first
    assert prompt("toolu_2") != first
    approve(Pause.objects.get(pk=first), ben)
    prompt("toolu_1")
    assert Pause.objects.count() == 2
    with later(2 * HOUR):
        prompt("toolu_1")
    assert Pause.objects.count() == 3
