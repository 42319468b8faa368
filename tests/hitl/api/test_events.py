"""The log for who polls, and what pages show of what a step says."""

from __future__ import annotations

import pytest
from django.db import transaction

from checkpoints.events import log
from checkpoints.models import EventKind
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs import services as runs
from tests.conftest import drive, head_of, pause_of

pytestmark = pytest.mark.django_db


def say(order, *facts):
    with transaction.atomic():
        log.append(order.thread_id, order.latest_run_id, facts)


@pytest.fixture(params=["threads", "runs"])
def url(request, paused):
    name = paused.thread.shown_id if request.param == "threads" else paused.latest_run.shown_id
    return f"/api/v1/{request.param}/{name}/events"


def test_who_polls_gets_304_while_nothing_happened(url, paused, api, ana):
    """S4-47, S4-67."""
    client = api(ana)
    first = client.get(f"{url}?after=2")
    assert [event["seq"] for event in first.json()["results"]] == list(
        range(3, paused.thread.last_seq + 1)
    )
    assert client.get(url, HTTP_IF_NONE_MATCH=first["ETag"]).status_code == 304
    say(paused, (EventKind.LOG, {"message": "new"}))
    again = client.get(f"{url}?after={paused.thread.last_seq}", HTTP_IF_NONE_MATCH=first["ETag"])
    assert (again.status_code, [event["data"] for event in again.json()["results"]]) == (
        200,
        [{"message": "new"}],
    )
    assert again["ETag"] != first["ETag"]


def test_pages_of_a_log_are_read_one_after_another(url, paused, api, ana):
    client = api(ana)
    seen: list[int] = []
    while found := client.get(f"{url}?limit=4&after={seen[-1] if seen else 0}").json()["results"]:
        assert len(found) <= 4
        seen += [event["seq"] for event in found]
    assert seen == list(range(1, paused.thread.last_seq + 1))


def test_a_number_that_is_none_is_refused(url, api, ana, subtests):
    for query in ["after=x", "after=-1", "limit=5000", "limit=x"]:
        with subtests.test(ascii(query)[:60]):
            answer = api(ana).get(f"{url}?{query}")
            assert (answer.status_code, answer.json()["code"]) == (400, "invalid")


def test_a_runs_events_are_its_own(make_order, api, ana):
    first = drive(make_order("writing-quick"))
    before = head_of(first).parent
    assert before is not None
    second = runs.fork(before.pk, by=ana, reason="again")
    for run in (first.latest_run, second):
        assert {
            event["run_id"]
            for event in api(ana).get(f"/api/v1/runs/{run.shown_id}/events").json()["results"]
        } == {run.shown_id}


def test_a_page_begins_with_what_the_step_at_work_has_said(paused, page):
    """S0-3: who opens the page in the middle sees the beginning too; when the step is done, it is
    gone.
    """
    url = f"/work-orders/{paused.shown_id}/"
    say(paused, (EventKind.STREAMING_CHUNK, {"content": "of before"}))
    assert "of before" not in page.get(url).content.decode()
    say(
        paused,
        (EventKind.STEP_STARTED, {"step": "execute", "loop_num": 1}),
        (EventKind.LOG, {"message": "x"}),
    )
    say(
        paused,
        *((EventKind.STREAMING_CHUNK, {"content": f"token {number} <b> "}) for number in range(3)),
    )
    assert (
        "token 0 &lt;b&gt; token 1 &lt;b&gt; token 2 &lt;b&gt; </pre>"
        in page.get(f"{url}?live").content.decode()
    )
    say(paused, (EventKind.STEP_COMPLETED, {"step": "execute"}))
    assert "token 0" not in page.get(url).content.decode()


def test_the_inbox_tells_which_question_a_decision_closed(paused, page, ana):
    """F9: so that a row that was answered elsewhere can say by whom."""
    pause = pause_of(paused)
    assert f'data-row="{pause.shown_id}"' in page.get("/").content.decode()
    services.decide(pause.pk, Answer("approve", Via.REST), by=ana)
    told = page.get("/?live").content.decode()
    assert f'data-of="{pause.shown_id}"' in told
    assert 'data-inbox="0"' in told
