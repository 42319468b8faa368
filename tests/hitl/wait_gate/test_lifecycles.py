"""`waiting_external`, `resumed` and `expired` as states that are watched: one by one, in a list,
counted, live, and on the page (S3-42).
"""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from checkpoints.events import log
from hitl.decisions import notifications, services
from hitl.decisions.services import Answer
from hitl.models import ApiToken, Via
from hitl.models.outbound import Delivery
from hitl.outbound import messages, quotas
from hitl.wait_gate import lifecycles, resume
from runs.engine.advance import advance
from runs.models import Pause, Run
from runs.states import Lifecycle
from tests.conftest import drive, pause_of
from tests.doors.html import join
from tests.worlds.other_engine import URL, answer, ask, run_out

pytestmark = pytest.mark.django_db


def where(client: Any, run_id: str) -> tuple[str, str]:
    told = client.get(f"{URL}/{run_id}").json()
    return told["status"], told["lifecycle"]


def listed(client: Any, query: str = "") -> list[str]:
    return [row["run_id"] for row in client.get(f"{URL}{query}").json()["results"]]


def test_a_wait_is_waiting_then_resumed_also_behind_its_end_until_the_next(ana, api):
    """S3-42."""
    client = api(ana)
    pause = ask(client, "booking-1")
    assert where(client, "booking-1") == ("waiting_external", "waiting_external")
    answer("booking-1")
    assert where(client, "booking-1") == ("running", "resumed")
    advance(pause.run_id, budget=5)
    assert where(client, "booking-1") == ("running", "resumed"), "it goes on elsewhere"
    ask(client, "booking-1", node_id="post")
    assert where(client, "booking-1") == ("waiting_external", "waiting_external")
    assert listed(client) == ["booking-1"]


def test_an_engine_that_speaks_while_its_question_is_answered_is_heard(ana, api, monkeypatch):
    """It was told that its question had not been answered, which it had by then."""
    client, move = api(ana), resume._move
    ask(client, "booking-1")

    def answered_by_then(*given):
        moved = move(*given)
        monkeypatch.undo()
        answer("booking-1")
        return moved

    monkeypatch.setattr(resume, "_move", answered_by_then)
    told = client.post(f"{URL}/booking-1/status", {"status": "completed"}, format="json")
    assert (told.status_code, told.json().get("lifecycle")) == (200, "completed"), told.json()


@pytest.mark.parametrize("ends", ["completed", "failed"])
def test_a_run_elsewhere_has_ended_once_its_engine_says_so(ana, ben, api, team, ends):
    """S3-6: it read `completed` as soon as its question was answered."""
    client, page = api(ana), Client()
    pause = ask(client, "booking-1", team=team.name)

    def says(status: str, of: str = "booking-1", by: Any = client) -> tuple[int, str]:
        told = by.post(f"{URL}/{of}/status", {"status": status}, format="json")
        return told.status_code, told.json().get("lifecycle") or told.json()["code"]

    def stands() -> tuple[str, str]:
        [state] = [
            state
            for state in Lifecycle.values
            if listed(client, f"?lifecycle={state}") == ["booking-1"]
        ]
        assert where(client, "booking-1")[1] == state
        return where(client, "booking-1")

    assert says("completed") == (409, "still_waiting")
    answer("booking-1")
    assert stands() == ("running", "resumed")
    gone_on = client.post(f"{URL}/booking-1/resume-and-continue", {}, format="json")
    assert (gone_on.json()["lifecycle"], stands()) == ("running", ("running", "running"))
    if ends == "failed":  # else a worker comes later
        advance(pause.run_id, budget=5)
    assert stands() == ("running", "running")
    assert says(ends, by=api(ben)) == (404, "not_found"), "a colleague is no engine"
    assert says(ends) == (200, ends)
    assert says(ends) == (200, ends), "said twice, it is kept once"
    assert stands() == (ends, ends)
    assert says("running") == (409, "not_resumed")
    advance(pause.run_id, budget=5)
    assert stands() == (ends, ends)
    page.force_login(ana)
    assert (
        "The engine that asked says so." in page.get(f"/threads/{pause.run.thread.shown_id}/").text
    )
    assert [row["run_id"] for row in client.get(URL).json()["results"]] == ["booking-1"]
    assert pause.run.thread.title in page.get(f"/threads/?status={ends}").text
    assert pause.run.thread.title not in page.get("/threads/?status=resumed").text
    lines = [event.data.get("message") for event in log.after(pause.run.thread_id, 0)]
    assert [line for line in lines if line and "as its engine says" in line] == [
        "booking-1 goes on, as its engine says",
        f"booking-1 has ended: {ends}, as its engine says",
    ]
    ask(client, "booking-1", node_id="post")
    assert stands() == ("waiting_external", "waiting_external")


def test_of_what_nobody_answered_and_of_our_own_runs_no_engine_speaks(paused, ana, api):
    """S3-6."""
    client = api(ana)
    run_out(ask(client, "late"))
    for name in ("late", paused.latest_run.shown_id):
        told = client.post(f"{URL}/{name}/status", {"status": "completed"}, format="json")
        assert (told.status_code, told.json()["code"]) == (409, "not_resumed")
    assert where(client, "late") == ("failed", "expired")


def test_a_wait_that_nobody_answered_is_expired_and_one_that_was_cancelled_failed(ana, api):
    """S3-42, S3-6: both were `failed`, told apart by a failure code alone."""
    client = api(ana)
    run_out(ask(client, "late"))
    assert where(client, "late") == ("failed", "expired")
    ask(client, "unwanted")
    client.post(f"{URL}/unwanted/resume", {"payload": "cancel"}, format="json")
    assert where(client, "unwanted") == ("failed", "failed")


def test_a_wait_that_is_asked_again_is_its_engines_again(ana, api, reachable):
    """S3-42, S3-47: whoever reopened it answered a question that its engine never heard of. The
    token that asked might answer it.
    """
    client, page, url = api(ana), Client(), "https://engine.example.org/"
    late = ask(client, "late", callback_url=url, recipients=["ana"])
    run_out(late)
    page.force_login(ana)
    assert page.post(f"/threads/{late.run.thread.shown_id}/resume").status_code == 302
    assert where(client, "late") == ("waiting_external", "waiting_external")
    assert listed(client) == ["late"]
    told = client.get(f"{URL}/late").json()
    assert told["pause_id"] != late.shown_id
    assert told["next_deadline"] > late.deadline_at.isoformat(), "it has its whole time anew"
    same: dict[str, Any] = {
        "run_id": "late",
        "node_id": "decide",
        "blocking_reason": "needs_a_word",
        "deadline": "PT1H",
        "callback_url": url,
        "recipients": ["ana"],
    }
    again = client.post(f"{URL}/wait", same, format="json")
    assert (again.status_code, again.json()["pause_id"]) == (200, told["pause_id"])
    own = client.post(f"{URL}/late/resume", {"payload": "approve"}, format="json")
    assert (own.status_code, own.json()["code"]) == (403, "own_question")
    answer("late")
    notifications.announce()
    called = Delivery.objects.filter(channel="webhook").order_by("id")
    assert [messages.payload_of(each)["lifecycle"] for each in called] == ["expired", "resumed"]
    gone_on = client.post(f"{URL}/late/resume-and-continue", {}, format="json").json()
    assert (gone_on["lifecycle"], gone_on["answer"]["decision"]) == ("running", "approve")
    assert Delivery.objects.filter(mark=quotas.CHOSEN).count() == 2, "those it named, each time"


def test_a_run_of_ours_is_resumed_while_it_goes_on_after_an_answer(paused, ana, api):
    """S3-42: of runs of Waystation's own nothing told `resumed` from `running`."""
    client, run_id = api(ana), paused.latest_run.shown_id
    assert where(client, run_id) == ("waiting_external", "waiting_external")
    services.decide(pause_of(paused).pk, Answer("approve", Via.PAGE), by=ana)
    assert where(client, run_id) == ("running", "resumed")
    while pause := Pause.objects.open().filter(run=paused.latest_run).first() or (
        drive(paused) and Pause.objects.open().first()
    ):
        services.decide(pause.pk, Answer("approve", Via.PAGE), by=ana)
    assert where(client, run_id) == ("completed", "completed")


@pytest.mark.both_databases
def test_runs_are_listed_by_their_state_and_each_in_exactly_one(ana, ben, zoe, api, make_order):
    """S3-42: no list had `resumed`, and another engine's runs were in none by their own names."""
    client = api(ana)
    begun = make_order().latest_run.shown_id
    asking = drive(make_order()).latest_run.shown_id
    done = drive(make_order("writing-quick")).latest_run.shown_id
    run_out(ask(client, "late"))
    for name in ("answered", "asks-again"):
        ask(client, name)
        answer(name)
    ask(client, "asks-again", node_id="post")
    ask(client, "unwanted")
    client.post(f"{URL}/unwanted/resume", {"payload": "cancel"}, format="json")
    found = {state: listed(client, f"?lifecycle={state}") for state in Lifecycle.values}
    assert found == {
        "running": [begun],
        "waiting_external": ["asks-again", asking],
        "resumed": ["answered"],
        "expired": ["late"],
        "completed": [done],
        "failed": ["unwanted"],
    }
    assert sorted(listed(client)) == sorted(name for names in found.values() for name in names)
    assert all(where(client, name)[1] == state for state, names in found.items() for name in names)
    assert listed(api(zoe)) == []
    row = client.get(f"{URL}?lifecycle=waiting_external&limit=1").json()["results"][0]
    assert (row["blocking_reason"], row["next_deadline"] is not None) == ("needs_a_word", True)
    assert client.get(f"{URL}?lifecycle=asleep").json()["code"] == "invalid"


@pytest.mark.both_databases
def test_the_list_says_of_each_run_what_it_says_of_it_alone(
    ana, api, make_order, django_assert_max_num_queries
):
    """S3-42: one rule in two forms, a query and a function."""
    client = api(ana)
    for number in range(4):
        ask(client, f"run-{number}")
        drive(make_order())
    for run in Run.objects.select_related("definition"):
        state = lifecycles.of(run, run.pauses.order_by("-id").first())
        assert [
            each
            for each in Lifecycle
            if lifecycles.among(Run.objects.filter(pk=run.pk), each).exists()
        ] == [state]
    with django_assert_max_num_queries(8):
        assert len(listed(client)) == 8


@pytest.mark.both_databases
def test_what_waits_was_resumed_and_has_expired_is_counted_for_who_sees_it(ana, zoe, api):
    """S3-42: the counters were on the operators' page alone, and no program could read them."""
    client = api(ana)
    run_out(ask(client, "late"))
    ask(client, "answered")
    answer("answered")
    ask(client, "unwanted")
    client.post(f"{URL}/unwanted/resume", {"payload": "cancel"}, format="json")
    ask(client, "open")
    told = client.get(f"{URL}/wait/counts").json()
    assert {name: told[name] for name in ("waiting_external", "resumed", "expired")} == {
        "waiting_external": 1,
        "resumed": 1,
        "expired": 1,
    }
    nothing = client.get(f"{URL}/wait/counts?hours=0").json()
    assert (nothing["waiting_external"], nothing["resumed"]) == (1, 0)
    others = api(zoe).get(f"{URL}/wait/counts").json()
    assert (others["waiting_external"], others["resumed"], others["expired"]) == (0, 0, 0)
    for wrong in ("-1", "many", "745"):
        assert client.get(f"{URL}/wait/counts?hours={wrong}").status_code == 400


def test_a_token_that_asks_is_told_of_its_persons_own_alone(ana, ben, api, team):
    """S3-42, F4."""
    ask(api(ben), "bens", team=team.name)
    assert listed(api(ana)) == ["bens"]
    program = Client(
        headers={"authorization": f"Bearer {ApiToken.make(ana, name='asks', scope='ask')[1]}"}
    )
    assert program.get(URL).json()["results"] == []
    assert program.get(f"{URL}/wait/counts").json()["waiting_external"] == 0


def test_the_page_of_an_answered_wait_says_resumed_and_no_message_is_promised(ana, api):
    """S3-42."""
    client, page = api(ana), Client()
    pause = ask(client, "booking-1")
    answer("booking-1")
    advance(pause.run_id, budget=5)
    page.force_login(ana)
    shown = join(page.get(f"/threads/{pause.run.thread.shown_id}/").content.decode())
    assert "The question was answered" in shown
    assert '<span class="status good">Resumed</span>' in shown
    assert "The run is complete" not in shown
    assert '<span class="status good">Resumed</span>' in join(
        page.get("/threads/").content.decode()
    )
