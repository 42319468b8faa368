"""The page of an order whose child runs work and ask."""

from __future__ import annotations

import html
import re

import pytest
from django.test import Client
from django.utils import timezone

from checkpoints.models import Thread
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Decision, Via
from hitl.views.threads import children
from runs.engine.advance import advance
from runs.models import Pause, Run
from runs.states import PENDING, RUNNING
from tests.conftest import fresh
from tests.databases.whole import rows
from tests.doors.html import fold, join
from tests.hitl.views.order_pages import text, url
from tests.runs.engine.children.crews import (
    ASKING,
    PLAYS,
    answer,
    asked,
    crew,
    definitions_of_nested,
    fails,
    kids,
    says,
    sub,
    work_off,
    worked,
)

pytestmark = pytest.mark.django_db

__all__ = ["crew"]


@pytest.fixture
def asking(crew):
    """An order of which three child runs ask and one has ended."""
    return worked(
        crew(
            [*(sub(name, **ASKING) for name in ("draft", "figures", "critique")), sub("index")],
            parallel=True,
        )
    )


def card(shown):
    return (
        shown.split('class="card pause"')[1].split("</article>")[0]
        if 'class="card pause"' in shown
        else ""
    )


def listed(shown):
    return (
        shown.split('id="children-title"')[1].split("</section>")[0]
        if 'id="children-title"' in shown
        else ""
    )


def decide(page, pause, action, **fields):
    return page.post(
        f"/pauses/{pause.shown_id}/decide", {"action": action, "revision": pause.revision, **fields}
    )


def test_an_order_without_child_runs_has_no_such_part(page, paused):
    shown = text(page.get(url(paused)))
    assert "Child runs" not in shown
    assert 'data-live="children"' in shown  # it may get some


def test_the_page_lists_the_child_runs_and_the_oldest_question_is_on_its_card(page, asking):
    """S4-5: the others are links, and the order's progress stays at the step that gathers."""
    shown = text(page.get(url(asking)))
    assert "<b>draft</b> asks" in card(shown)
    assert "2 more questions of this order" in shown
    assert "Ends this child run; the order then fails." in card(shown)
    assert "Are you sure you want to cancel the child run draft?" in card(shown)
    assert f"/pauses/{asked('draft').shown_id}/cancel" in card(shown)
    steps = join(shown).split('data-live="steps"')[1].split("</ol>")[0]
    assert re.findall(r'<li class="(\w+)(?: person)?"[^>]*><span>(\w+)</span>', steps) == [
        ("done", "Plan"), ("now", "Crew"), ("todo", "Finish"),
    ]  # fmt: skip
    assert "waiting for a person" in steps
    part = fold(listed(shown))
    assert re.findall(r"<b>(\w+)</b>", part) == ["draft", "figures", "critique", "index"]
    assert part.count("Asks: ") == 3
    assert part.count("Waiting for Plan Approval") == 3
    assert "shown above" in part
    assert "Completed" in part
    for name in ("figures", "critique"):
        assert f"{url(asking)}?pause={asked(name).shown_id}" in part


def test_nested_child_runs_stand_under_the_one_they_run_for(page, crew):
    subs = [sub("flat"), sub("nested")]
    definitions_of_nested(subs)
    order = worked(crew(subs, parallel=True))
    part = join(listed(text(page.get(url(order)))))
    assert re.findall(r'class="level-(\d)[^<]*<div class="what"><b>(\w+)</b>', part) == [
        ("1", "flat"), ("1", "nested"), ("2", "deep"), ("2", "deeper"),
    ]  # fmt: skip
    assert "of nested" in part


def test_a_child_at_work_shows_its_step(page, crew):
    order = crew([sub("one"), sub("two")])
    [(child, _)] = advance(order.latest_run_id, budget=60)
    assert "waits for a worker" in listed(text(page.get(url(order))))
    Run.objects.filter(pk=child).move(
        {PENDING}, RUNNING, lease_until=timezone.now(), lease_owner="x:1"
    )
    shown = text(page.get(url(order)))
    assert "Running" in listed(shown)
    assert "Play" in listed(shown)


def test_an_order_that_waits_says_for_how_many(page, crew):
    order = crew([sub("one"), sub("two"), sub("three")], parallel=True)
    wanted = advance(order.latest_run_id, budget=60)
    shown = text(page.get(url(order)))
    assert "Waiting for 3 child runs" in shown
    assert "None of 3 has ended yet" in shown
    assert "A worker is on it" not in shown
    advance(wanted[0][0], budget=60)
    shown = text(page.get(url(order)))
    assert "Waiting for 2 child runs" in shown
    assert "1 of 3 has ended" in shown
    advance(wanted[1][0], budget=60)
    assert "Waiting for 1 child run<" in join(text(page.get(url(order))))
    assert 'data-gathers="true"' in shown


@pytest.mark.parametrize("end", ["completed", "failed"])
def test_the_time_in_which_an_order_waits_for_child_runs_is_told_apart(page, ana, api, crew, end):
    order = crew([sub("one"), sub("two")], parallel=True)
    PLAYS["two"] = says("two") if end == "completed" else fails
    client, address = api(ana), f"/api/v1/work-orders/{order.shown_id}/time"
    one, two = (key for key, _ in advance(order.latest_run_id, budget=60))
    assert client.get(address).json()["now"] == "children"
    advance(one, budget=60)
    assert client.get(address).json()["now"] == "children"
    advance(two, budget=60)
    assert client.get(address).json()["now"] == "queue"
    worked(order)
    spent = client.get(address).json()
    assert spent["now"] is None
    assert spent["children"] > 0
    assert [step["step"] for step in spent["steps"] if step["children"]] == ["crew"]
    shown = text(page.get(f"{url(order)}picture"))
    assert 'class="bar children"' in shown
    assert "Waiting for child runs" in shown


def test_a_choice_that_makes_no_sense_shows_the_oldest(page, asking, crew):
    """Nor is a question of another order shown here."""
    worked(crew([sub("other", **ASKING)]))
    for odd in ("x", "pse_1", "\x00", "pse_" + "z" * 26, asked("crew").shown_id):
        response = page.get(url(asking), {"pause": odd})
        assert response.status_code == 200
        assert "<b>draft</b> asks" in card(text(response)), odd


def test_a_question_can_be_chosen_and_the_live_part_keeps_the_choice(page, asking):
    wanted = asked("critique")
    shown = text(page.get(url(asking), {"pause": wanted.shown_id}))
    assert "<b>critique</b> asks" in card(shown)
    [again] = re.findall(r'data-page="([^"]+)"', shown)
    assert again == f"{url(asking)}?pause={wanted.shown_id}"
    part = text(page.get(again + "&live="))
    assert "<html" not in part
    assert "<b>critique</b> asks" in card(part)
    assert f"/pauses/{wanted.shown_id}/decide" in part


def test_a_question_that_was_answered_meanwhile_gives_way_to_the_next(page, asking, ana):
    gone = asked("critique")
    answer(gone, ana)
    shown = text(page.get(url(asking), {"pause": gone.shown_id}))
    assert "not open any more" in shown
    assert "<b>draft</b> asks" in card(shown)
    assert f'data-page="{url(asking)}"' in shown


def test_an_answer_leads_back_to_the_order_and_its_next_question(page, asking):
    first = asked("draft")
    response = decide(page, first, "approve")
    assert (response.status_code, response["Location"]) == (302, url(asking))
    assert "<b>figures</b> asks" in card(text(page.get(url(asking))))


def test_a_refused_answer_keeps_the_question_and_the_words(page, asking):
    pause = asked("figures")
    before = rows()
    response = decide(page, pause, "revise", feedback=" ")
    assert response.status_code == 422
    assert "<b>figures</b> asks" in card(text(response))
    assert rows() == before


def test_the_second_answer_gets_the_calm_truth_and_no_words_on_anothers_card(page, asking, ben):
    pause = asked("draft")
    services.decide(pause.pk, Answer("approve", Via.REST), by=ben)
    before = rows()
    response = decide(page, pause, "revise", feedback="make it louder")
    assert response.status_code == 409
    assert "Already approved by Ben" in text(response)
    assert "<b>figures</b> asks" in card(text(response))
    assert "make it louder" not in card(text(response))
    assert rows() == before


def test_the_card_speaks_of_the_childs_own_steps(page, crew):
    """Titles and progress are those of the steps that the child takes, not of the order's."""
    subs = [sub("research", **ASKING), sub("summary")]
    order = worked(crew(subs))
    shown = card(text(page.get(url(order))))
    assert "<b>crew</b> asks" in shown
    assert "Play runs next." in shown
    assert 'aria-label="Progress of crew"' in shown
    answer(Pause.objects.open().get(), order.created_by)
    order = worked(crew([sub("last", **ASKING)]))
    assert "This child run is complete." in card(text(page.get(url(order))))


def test_cancel_on_the_card_of_an_optional_child_says_that_the_order_goes_on(page, crew, ana):
    order = worked(crew([sub("extra", **ASKING), sub("main")], parallel=True, on_failure="collect"))
    assert "Ends this child run; the order goes on without it." in card(text(page.get(url(order))))
    decide(page, asked("extra"), "cancel")
    work_off()
    assert fresh(order).status == "completed"


def test_cancel_on_a_nested_card_names_what_falls_with_it(page, crew):
    subs = [sub("flat"), sub("nested")]
    definitions_of_nested([*subs])
    from runs import definitions

    definitions.edit_step_template(
        "test-nested", title="Nested", config={"parallel": True}, sub_steps=[sub("deep", **ASKING)]
    )
    subs[-1] = {**subs[-1], "step_template_slug": "test-nested"}
    PLAYS["deep"] = says("deep")
    order = worked(crew(subs, parallel=True, on_failure="collect"))
    shown = card(text(page.get(url(order))))
    assert "<b>nested / deep</b> asks" in shown
    assert "Ends this child run and with it nested; the order goes on without them." in shown


def test_without_javascript_cancel_asks_first_and_asking_changes_nothing(page, asking):
    """F1."""
    before = rows()
    pause = asked("draft")
    shown = text(page.get(f"/pauses/{pause.shown_id}/cancel"))
    assert "Ends this child run; the order then fails." in shown
    assert rows() == before
    response = decide(page, pause, "cancel")
    work_off()
    assert response["Location"] == url(asking)
    assert fresh(asking).latest_run.failure_code == "child_failed"
    assert page.get(f"/pauses/{pause.shown_id}/cancel").status_code == 302


def test_the_whole_order_can_be_cancelled_while_its_child_runs_work_or_ask(page, crew, asking):
    """F23."""
    assert "Cancel this order" in text(page.get(url(asking)))
    working = crew([sub("one"), sub("two")], parallel=True)
    advance(working.latest_run_id, budget=60)
    assert "Cancel this order" in text(page.get(url(working)))
    for order in (asking, working):
        assert page.post(url(order, "cancel")).status_code == 302
        assert fresh(order).latest_run.failure_code == "cancelled_by_user"
        assert not Run.objects.live().filter(work_order=order).exists()
        shown = text(page.get(url(order)))
        assert "Cancelled with its parent run" in listed(shown)
        assert "Cancel this order" not in shown


def test_a_failed_child_is_listed_with_its_reason_and_a_retry_shows_the_newest_run_of_each(
    page, crew, ana
):
    PLAYS["bad"] = fails
    order = worked(crew([sub("good"), sub("bad")], parallel=True))
    assert "No paper left." in listed(text(page.get(url(order))))
    PLAYS["bad"] = says("bad")
    assert page.post(url(order, "retry")).status_code == 302
    order = worked(order)
    part = listed(text(page.get(url(order))))
    assert re.findall(r"<b>(\w+)</b>", part) == ["good", "bad"]
    assert "No paper left." not in part
    assert part.count("Completed") == 2


def test_a_revised_child_is_listed_once_and_said_to_run_again(page, crew):
    order = worked(crew([sub("draft", **ASKING)]))
    decide(page, asked("crew"), "revise", feedback="louder")
    shown = text(page.get(url(order)))
    assert "Re-running crew: draft with feedback..." in shown
    assert "louder" in shown
    work_off()
    shown = text(page.get(url(order)))
    assert len(re.findall(r"<b>crew</b>", listed(shown))) == 1
    assert "Revision <b>2</b>" in card(shown)


def test_a_suspension_of_the_child_runs_is_told(page, crew):
    order = crew([sub("one"), sub("two")])
    advance(order.latest_run_id, budget=60)
    assert "Suspend after this step" in text(page.get(url(order)))
    page.post(url(order, "suspend"))
    assert "Stops after the current step, as Ana Ruiz asked." in text(page.get(url(order)))
    work_off()
    shown = text(page.get(url(order)))
    assert "Stops at the next" not in shown
    assert "Suspended by Ana Ruiz" in card(shown)


def test_the_inbox_names_the_order_and_the_child(page, asking, ana):
    shown = text(page.get("/")).split('id="history"')[0]
    assert shown.count(asking.title) >= 3
    for name in ("draft", "figures", "critique"):
        assert f"child run {name}" in shown
        assert f"{url(asking)}?pause={asked(name).shown_id}" in shown
    answer(asked("draft"), ana)
    history = text(page.get("/")).split('id="history"')[1]
    assert "draft: " in history
    assert asking.title in history


def test_a_childs_thread_has_no_page_of_its_own(page, asking):
    pause = asked("critique")
    response = page.get(f"/threads/{pause.run.thread.shown_id}/")
    assert (response.status_code, response["Location"]) == (
        302,
        f"{url(asking)}?pause={pause.shown_id}",
    )
    ended = kids(asking)["index"]
    assert page.get(f"/threads/{ended.thread.shown_id}/")["Location"] == url(asking)
    assert (
        page.post(f"/threads/{pause.run.thread.shown_id}/say", {"text": "APPROVE"}).status_code
        == 302
    )
    assert not Decision.objects.exists()
    assert asking.thread.shown_id not in text(page.get("/threads/"))
    assert Thread.objects.count() == 5
    assert "No threads yet" in text(page.get("/threads/"))


def test_a_stranger_finds_none_of_it(asking, zoe):
    client = Client()
    client.force_login(zoe)
    pause = asked("draft")
    before = rows()
    for path in (
        url(asking),
        f"{url(asking)}?pause={pause.shown_id}",
        f"/pauses/{pause.shown_id}/cancel",
    ):
        assert client.get(path).status_code == 404
    assert client.get(f"/threads/{pause.run.thread.shown_id}/").status_code == 404
    assert client.post(f"/pauses/{pause.shown_id}/decide", {"action": "approve"}).status_code == 404
    assert rows() == before


def test_a_page_with_many_children_costs_no_query_per_child(
    page, crew, django_assert_max_num_queries
):
    order = worked(crew([sub(f"part{number}", **ASKING) for number in range(12)], parallel=True))
    with django_assert_max_num_queries(30):
        shown = text(page.get(url(order)))
    assert fold(listed(shown)).count("Asks: ") == 12


def test_many_child_runs_are_counted_chosen_and_paged(page, crew, monkeypatch):
    """An order with 200 of them was fifteen screens long."""
    monkeypatch.setattr(children, "SHOWN", 3)
    names = "abcde"
    order = worked(
        crew(
            [sub("a", **ASKING), sub("b", **ASKING), *(sub(name) for name in "cde")],
            parallel=True,
        )
    )
    shown = text(page.get(url(order)))
    part = join(listed(shown))
    counts = dict(re.findall(r'<a class="chip"[^>]*>([^<]+)<b>(\d+)</b>', part))
    assert counts == {
        "All": "5",
        "Waiting for people": "2",
        "Under way": "0",
        "Not completed": "0",
        "Completed": "3",
    }
    assert re.findall(r'<div class="what"><b>(\w)</b>', part) == list(names[:3])
    [onward] = re.findall(r'href="([^"]*child=[^"]*)"', part)
    there = text(page.get(html.unescape(onward)))
    assert re.findall(r'<div class="what"><b>(\w)</b>', join(listed(there))) == list(names[3:])
    [address] = re.findall(r'data-page="([^"]*)"', there)
    assert "child=run_" in address, "the live part looks there again"
    live = text(page.get(f"{html.unescape(address)}&live"))
    assert re.findall(r'<div class="what"><b>(\w)</b>', join(listed(live))) == list(names[3:])
    done = text(page.get(f"{url(order)}?children=done"))
    assert re.findall(r'<div class="what"><b>(\w)</b>', join(listed(done))) == list("cde")
    assert "No child run has this status" in text(page.get(f"{url(order)}?children=work"))
    odd = text(page.get(f"{url(order)}?children=odd&child=&live"))
    assert re.findall(r'<div class="what"><b>(\w)</b>', join(listed(odd))) == list(names[:3])
    assert page.get(f"{url(order)}?child=nonsense").status_code == 404


def test_many_open_questions_are_folded(page, crew):
    order = worked(crew([sub(f"q{n}", **ASKING) for n in range(8)], parallel=True))
    shown = join(text(page.get(url(order))))
    assert "7 more questions of this order" in shown
    assert "Show 2 more" in shown
