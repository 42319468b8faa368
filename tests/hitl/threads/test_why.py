"""Why does it not go on? What people have to do with it; the page, REST and the command say the
same.
"""

from __future__ import annotations

import datetime as dt
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse
from rest_framework.test import APIClient

from checkpoints.database import clock
from checkpoints.models import Thread, WhenBusy
from hitl.decisions import claims, services
from hitl.decisions.services import Answer
from hitl.models import ApiToken, Via
from hitl.threads import messages, why
from runs import services as runs
from runs.models import Pause, Run, WorkLimit
from runs.threads.reasons import Code
from runs.threads.turns import Turn
from runs.workflows.base import Go
from tests.conftest import drive, fresh, pause_of
from tests.hitl.decisions.undo_windows import patient_template
from tests.runs.engine.children.crews import ASKING, definitions_of_nested, sub, work_off
from tests.runs.engine.children.crews import crew as crew
from tests.worlds import other_engine
from tests.worlds.deadlines import asked as asked
from tests.worlds.lost_worker import claimed
from tests.worlds.scripted_step import order_that as order_that
from tests.worlds.talking_threads import thread as thread

pytestmark = pytest.mark.django_db

HOUR = dt.timedelta(hours=1)


def reasons_of(order, by=None):
    return why.of_run(fresh(order).latest_run.pk, by=by, now=clock.now())


def reason_of(order, by=None):
    [reason] = reasons_of(order, by)
    return reason


def command(shown_id):
    out = StringIO()
    call_command("why", shown_id, stdout=out)
    return out.getvalue()


def vote(order, by, **more):
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE, **more), by=by)


def test_a_question_says_who_may_answer_and_what_its_deadline_does(asked, ben):
    order = asked(
        reviewers={"users": ["ben"], "groups": ["legal"]},
        quorum=2,
        self_approval=False,
        deadline={"after": "PT4H", "outcome": "cancel"},
        escalation=[{"after": "PT2H", "users": ["root"]}],
    )
    reason = reason_of(order)
    assert (reason.code, reason.words) == (Code.PERSON, pause_of(order).question)
    assert list(reason.details[:3]) == [
        "Who may answer: ben, group legal.",
        "0 of 2 approvals so far.",
        "Who asked for the work may not approve it.",
    ]
    assert reason.details[3].startswith("From ")
    assert reason.details[3].endswith("these may answer too: root.")
    assert reason.until == pause_of(order).deadline_at
    assert reason.then == "if nobody answers by then, the work order is cancelled."
    vote(order, ben)
    assert "1 of 2 approvals so far: Ben." in reason_of(order).details


def test_a_claim_says_whose_it_is_until_it_is_over(asked, ben):
    order = asked(reviewers={"users": ["ben", "ana"]})
    claims.claim(pause_of(order).pk, by=ben)
    assert any(line.startswith("Ben has claimed it until") for line in reason_of(order).details)
    Pause.objects.update(claimed_until=clock.now())
    assert not any("claimed" in line for line in reason_of(order).details)


def test_stages_say_which_of_them_is_asked(asked, ben):
    order = asked(
        stages=[
            {"name": "legal", "reviewers": {"users": ["ben"]}},
            {"name": "money", "reviewers": {"users": ["ana"]}, "after": ["legal"]},
        ]
    )
    assert list(reason_of(order).details) == [
        "Legal: asked now, 0 of 1 approvals (ben).",
        "Money: asked after Legal (ana).",
    ]
    vote(order, ben)
    assert list(reason_of(order).details) == [
        "Legal: approved by Ben.",
        "Money: asked now, 0 of 1 approvals (ana).",
    ]


def test_a_question_that_nobody_can_answer_says_so(asked, ben):
    order = asked(reviewers={"users": ["ben"]})
    assert "Nobody of them can answer now" not in str(reason_of(order).details)
    ben.is_active = False
    ben.save()
    assert "Nobody of them can answer now" in reason_of(order).details[-1]


def test_a_deadline_that_has_passed_and_an_answer_that_did_not_fit_are_said(paused):
    Pause.objects.update(
        deadline_at=clock.now() - HOUR, extendable_until=clock.now(), attempts=1, refined="No date."
    )
    details = reason_of(paused).details
    assert "1 answer did not fit what is asked: No date." in details
    assert "Its deadline has passed: the next sweep settles it." in details


def test_a_deadline_that_should_be_there_is_missed(paused):
    Pause.objects.update(times={"problem": "There is no calendar de."})
    assert (
        "It should have a deadline and has none: There is no calendar de."
        in reason_of(paused).details
    )


def test_a_suspended_run_and_one_that_was_told_to_stop_say_so(make_order, ana):
    stopped = drive(make_order("writing-quick", interrupt_before=["review"]))
    assert reason_of(stopped).code == Code.STOPPED
    order = make_order("writing-quick")
    runs.suspend(order.pk, by=ana)
    drive(order)
    reason = reason_of(order)
    assert (reason.code, reason.words) == (Code.SUSPENDED, "Suspended by Ana Ruiz")


def test_an_answer_that_may_be_taken_back_says_whose_it_is(make_order, ana):
    order = drive(make_order(patient_template()))
    vote(order, ana)
    reason = reason_of(order)
    assert (reason.code, reason.until) == (Code.UNDO, fresh(order).latest_run.due_at)
    assert reason.words == "Ana Ruiz answered, and the rules leave time to take that back."


def test_a_wait_of_another_engine_names_its_run(api, ana):
    pause = other_engine.ask(api(ana), "nightly-7")
    [reason] = why.of_run(pause.run_id, by=ana, now=clock.now())
    assert reason.code == Code.OUTSIDE
    assert reason.details[0] == "The run nightly-7 of another engine waits for it, at decide."


def test_who_waits_for_a_place_is_told_who_holds_it_as_far_as_they_may_see(
    order_that, make_order, ana, zoe
):
    WorkLimit.objects.create(template="anything", name="crm", most=1)
    first = claimed(order_that(lambda state, context: Go()))
    second = drive(make_order("anything"))
    for by, seen in ((None, 1), (ana, 1), (zoe, 0)):
        reason = reason_of(second, by)
        assert reason.code == Code.PLACE
        assert (len(reason.holders), reason.other_holders) == (seen, 1 - seen)
    assert f"At work there: {first.shown_id}" in command(second.shown_id)


def test_a_token_that_asks_is_not_told_which_order_of_the_team_holds_the_place(
    order_that, make_order, ben
):
    WorkLimit.objects.create(template="anything", name="crm", most=1)
    first = claimed(order_that(lambda state, context: Go()))
    run = drive(make_order("anything", by=ben)).latest_run
    seen = {}
    for scope in ("ask", "read"):
        token = ApiToken.make(ben, name=scope, scope=scope)[1]
        client = APIClient(HTTP_AUTHORIZATION=f"Bearer {token}")
        [reason] = client.get(f"/api/v1/runs/{run.shown_id}/why").json()["reasons"]
        seen[scope] = (reason["holders"], reason["other_holders"])
    assert seen == {"ask": ([], 1), "read": ([first.shown_id], 0)}


def test_child_runs_say_theirs_in_a_bounded_number_of_queries(crew, django_assert_max_num_queries):
    subs = [sub(f"c{number}", **ASKING) for number in range(8)] + [sub("nest")]
    definitions_of_nested(subs)
    order = crew(subs, parallel=True)
    work_off()
    with django_assert_max_num_queries(40):
        first, *below = reasons_of(order)
    assert first.code == Code.CHILDREN
    assert [reason.run.child_name for reason in below] == ["c0", "c1", "c2", "c3", "c4"]
    assert {reason.code for reason in below} == {Code.PERSON}
    assert "(c0) person: It waits for an answer" in command(order.shown_id)


def test_a_thread_without_a_run_and_one_with_messages_in_line(thread, ana):
    [reason] = why.of_thread(thread.pk, by=ana, now=clock.now())
    assert (reason.code, reason.run) == (Code.NOT_BEGUN, None)
    Thread.objects.filter(pk=thread.pk).update(when_busy=WhenBusy.QUEUE)
    for words in ("one", "two"):
        messages.say(thread.pk, Turn(template="talk", input={"input": words}), by=ana, via=Via.REST)
    _, turn = why.of_thread(thread.pk, by=ana, now=clock.now())
    assert (turn.code, turn.words) == (Code.TURN, "1 message waits for its turn on the thread.")
    assert "when the run before each has ended" in turn.advice
    live = Run.objects.live().get(thread=thread)
    Run.objects.filter(pk=live.pk).update(status="completed", ended_at=clock.now())
    assert "next sweep begins" in why.of_thread(thread.pk, by=ana, now=clock.now())[-1].advice
    assert "turn: A message waits for its turn" in command(thread.shown_id)


def test_the_command_takes_the_ids_of_all_four_and_says_what_is_none(paused):
    pause = pause_of(paused)
    told = {command(one.shown_id) for one in (paused, paused.latest_run, paused.thread, pause)}
    assert len(told) == 1
    [text] = told
    assert text.startswith(f"{pause.run.shown_id} person: It waits for an answer\n  ")
    with pytest.raises(CommandError, match="is no id of a run"):
        call_command("why", "order 7")
    with pytest.raises(CommandError, match="is no wo_ id"):
        call_command("why", "wo_7")
    gone = paused.shown_id[:-1] + ("0" if paused.shown_id[-1] != "0" else "1")
    with pytest.raises(CommandError, match="There is no"):
        call_command("why", gone)


def test_rest_says_the_same_to_who_may_see_the_run(paused, api, ana, zoe):
    url = f"/api/v1/runs/{paused.latest_run.shown_id}/why"
    told = api(ana).get(url).json()
    assert (told["run_id"], told["status"]) == (paused.latest_run.shown_id, "paused")
    [reason] = told["reasons"]
    assert (reason["code"], reason["title"]) == ("person", "It waits for an answer")
    assert reason["pause_id"] == pause_of(paused).shown_id
    assert reason["details"] == list(reason_of(paused).details)
    assert (reason["holders"], reason["other_holders"], reason["child_name"]) == ([], 0, "")
    assert api(zoe).get(url).status_code == 404


def test_the_page_of_an_order_says_it_once_and_follows(make_order, page, zoe, client):
    order = make_order()
    url = reverse("hitl:order", args=[order.pk])
    told = page.get(url).content.decode()
    words = reason_of(order).words
    assert told.count(words) == 1
    before = reason_of(order).key
    assert f":{before}" in told
    claimed(order)
    told = page.get(url + "?live").content.decode()
    assert words not in told
    assert f":{reason_of(order).key}" in told
    assert reason_of(order).key != before
    why_page = reverse("hitl:order_why", args=[order.pk])
    assert why_page in told
    client.force_login(zoe)
    assert client.get(why_page).status_code == 404


def test_the_page_of_reasons_shows_each_with_its_question(crew, page):
    order = crew([sub("a", **ASKING), sub("b", **ASKING)], parallel=True)
    work_off()
    told = page.get(reverse("hitl:order_why", args=[order.pk])).content.decode()
    assert told.count("It waits for an answer") == 2
    assert "a: It waits for an answer" in told
    assert "0 of its 2 child runs have ended." in told
    assert told.count("Go to the question") == 2
    german = page.get(
        reverse("hitl:order_why", args=[order.pk]), HTTP_ACCEPT_LANGUAGE="de"
    ).content.decode()
    assert "a: Wartet auf eine Antwort" in german
    assert "0 seiner 2 Unterläufe sind beendet." in german
