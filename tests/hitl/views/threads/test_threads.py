"""The pages of threads without a work order, as a browser without JavaScript gets them."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.utils.html import escape

from checkpoints.models import Thread
from hitl.models import Decision
from hitl.rendering.paging import ListAddress
from hitl.views.threads import pages as pages
from runs import definitions
from runs.engine.advance import advance
from runs.models import Pause, Run
from runs.models.frequency import PROMISES
from runs.states import SUSPENDED
from runs.threads import turns as turns
from runs.threads.turns import Turn
from runs.workflows.base import Child, Gather, Go
from tests.databases.whole import rows
from tests.doors.html import join
from tests.doors.thread_page import say as say
from tests.doors.thread_page import spoken, url
from tests.doors.thread_page import waiting as waiting
from tests.hitl.views.order_pages import ATTACKS, dangerous, text
from tests.hitl.views.order_pages import url as url_of_order
from tests.runs.engine.children.crews import ASKING, PLAYS, asked, says, sub, work_off
from tests.worlds.scripted_step import order_that
from tests.worlds.steps import on_code
from tests.worlds.talking_threads import drive, state_of, thread

pytestmark = pytest.mark.django_db

__all__ = ["order_that", "thread"]


# List and new


def test_an_empty_list_explains_itself(page):
    assert "No threads yet" in text(page.get("/threads/"))
    assert 'aria-current="page">Threads' in join(text(page.get("/threads/")))


def test_a_thread_is_opened_from_the_form(page, team):
    response = page.post("/threads/", {"title": "Support", "team": team.pk})
    thread = Thread.objects.get()
    assert (response.status_code, response["Location"]) == (302, url(thread))
    assert (thread.title, thread.team, thread.owner.username) == ("Support", team, "ana")
    shown = text(page.get("/threads/"))
    assert url(thread) in shown
    assert "Not begun" in shown


@pytest.mark.parametrize(
    "fields",
    [
        {"title": ""},
        {"title": "x" * 201},
        {"title": "a\x00"},
        {"title": "x", "team": "99"},
        {"title": "x", "team": "x"},
    ],
)
def test_what_is_wrong_with_a_new_thread_is_said_on_its_form(page, fields):
    response = page.post("/threads/", fields)
    assert response.status_code == 422
    assert 'class="errorlist"' in text(response)
    assert not Thread.objects.exists()


def test_the_list_shows_threads_of_their_own_and_where_they_stand(page, waiting, paused):
    shown = text(page.get("/threads/"))
    assert "Paused" in shown
    assert url(waiting) in shown
    assert paused.thread.shown_id not in shown


# The page


def test_a_thread_that_has_not_run_offers_the_templates_that_need_no_repository(page, thread):
    on_code()
    shown = text(page.get(url(thread)))
    assert '<option value="talk">' in shown
    assert "on-code" not in shown
    assert "A talk" in shown


def test_without_a_template_the_page_says_so(page, ana):
    thread = turns.open_thread(by=ana, title="Alone")
    assert "There is no template for a thread yet" in text(page.get(url(thread)))
    assert page.post(url(thread, "say"), {"text": "Hello"}).status_code == 422


def test_a_first_message_begins_a_run_and_what_was_said_is_shown(say, thread):
    shown = text(say("Hello", template="talk"))
    assert "A new run began." in shown
    assert "The run is complete" in shown
    assert re.findall(r"step\d heard \d", spoken(shown)) == [
        "step1 heard 0",
        "step2 heard 1",
        "step3 heard 2",
    ]
    assert state_of(thread)["input"] == "Hello"
    assert "Execution log" in shown
    assert "Run completed" in shown
    assert "Work order" not in shown.split("<main")[1]
    assert '<option value="talk">' not in shown


def test_a_page_that_is_made_while_the_run_ends_does_not_say_complete_above_what_was_said_before(
    say, thread, ana
):
    """S0-38, P9: it is of one moment."""
    before = Thread.objects.select_related("head").get(pk=thread.pk)
    say("Hello", template="talk")
    shown = pages.page_of(before, ListAddress("/"), by=ana)
    assert shown["status"] == "completed"
    assert [one.message.content for one in shown["said"]][-1] == "step3 heard 2"


def test_the_page_says_what_holds_of_its_runs_steps(say, thread, page):
    """S0-65: as the page of a work order does; nothing before there is a run."""
    assert escape(PROMISES["step"]) not in text(page.get(url(thread)))
    assert escape(PROMISES["step"]) in text(say("Hello", template="talk"))


def test_the_next_message_begins_the_next_run_and_the_runs_are_listed_newest_first(say, thread):
    say("Hello", template="talk")
    shown = text(say("And again"))
    listed = shown.split('data-live="runs"')[1].split("</section>")[0]
    newest, oldest = Run.objects.filter(thread=thread).order_by("-id")
    assert listed.index(newest.shown_id) < listed.index(oldest.shown_id)


def test_what_was_said_is_sanitised(page, thread, ana):
    said = [
        {"id": str(number), "role": attack, "content": attack}
        for number, attack in enumerate(ATTACKS)
    ]
    drive(turns.invoke(thread.pk, Turn(template="talk", input={"messages": said}), by=ana))
    Thread.objects.filter(pk=thread.pk).update(title=ATTACKS[0])
    for path in (url(thread), "/threads/", "/"):
        assert dangerous(text(page.get(path))) == []


def test_messages_of_another_shape_are_not_shown_and_break_nothing(
    page, ana, templates, order_that, subtests
):
    order_that(lambda state, context: Go(update={"messages": state["odd"]}))
    for odd in [
        "text",
        3,
        None,
        {"role": "user"},
        [],
        ["text"],
        [{"role": 1}],
        [{"content": ["x"]}],
        [{"role": ["x"], "content": "y"}],
    ]:
        with subtests.test(ascii(odd)[:60]):
            thread = turns.open_thread(by=ana)
            drive(turns.invoke(thread.pk, Turn(template="anything", input={"odd": odd}), by=ana))
            assert page.get(url(thread)).status_code == 200


def test_a_waiting_thread_shows_its_card_and_the_inbox_leads_to_it(page, waiting):
    shown = text(page.get(url(waiting)))
    assert "⏸️ Waiting for Plan Approval" in shown
    assert "Ends this run. The thread stays" in shown
    assert "Answer in words" in shown
    inbox = text(page.get("/"))
    assert f'href="{url(waiting)}"' in inbox
    assert "A talk" in inbox
    assert "asked by Ana Ruiz" in inbox


def test_an_answer_on_the_card_leads_back_to_the_thread(page, waiting):
    pause = Pause.objects.open().get()
    response = page.post(f"/pauses/{pause.shown_id}/decide", {"action": "approve", "revision": "1"})
    assert (response.status_code, response["Location"]) == (302, url(waiting))
    assert "⏸️" not in text(page.get(url(waiting)))
    history = text(page.get("/")).split('id="history"')[1]
    assert f'href="{url(waiting)}"' in history


def test_a_refused_answer_is_a_notice_on_the_thread(page, waiting, subtests):
    before = rows()
    for fields, status in [
        ({"action": "revise"}, 422),
        ({}, 400),
        ({"action": "approve", "revision": "2"}, 409),
    ]:
        with subtests.test(ascii(fields)[:60]):
            response = page.post(f"/pauses/{Pause.objects.open().get().shown_id}/decide", fields)
            assert response.status_code == status
            assert "data-problem" in text(response)
            assert "⏸️ Waiting for Plan Approval" in text(response)
    assert rows() == before


def test_the_live_part_is_the_page_without_its_frame(page, waiting):
    part = text(page.get(f"{url(waiting)}?live="))
    assert "<html" not in part
    assert "⏸️ Waiting for Plan Approval" in part
    assert f'data-page="{url(waiting)}"' in part


# Resume and cancel


@pytest.mark.parametrize(
    ("checkpoint", "status"), [("x", 404), ("ckpt_" + "0" * 26, 404), ("", 409)]
)
def test_what_cannot_be_resumed_is_refused(page, thread, checkpoint, status):
    assert page.post(url(thread, "resume"), {"checkpoint": checkpoint}).status_code == status


def test_a_completed_run_leaves_nothing_to_resume(page, say, thread):
    say("Hello", template="talk")
    response = page.post(url(thread, "resume"))
    assert response.status_code == 409
    assert "nothing to go on with" in text(response)


def test_a_run_at_work_stops_at_the_next_boundary_when_a_person_wishes_and_goes_on_later(
    page, say, thread
):
    """Issue 3, 5: also without a work order."""
    assert page.post(url(thread, "suspend")).status_code == 409
    say("Hello", template="talk", work=False)
    assert "Suspend after this step" in text(page.get(url(thread)))
    assert page.post(url(thread, "suspend")).status_code == 302
    assert "Stops after the current step, as Ana Ruiz asked." in text(page.get(url(thread)))
    run = Run.objects.get()
    advance(run.pk, budget=20)
    pause = Pause.objects.open().get()
    assert (pause.run, pause.phase) == (run, SUSPENDED)
    assert page.post(url(thread, "suspend")).status_code == 409
    page.post(f"/pauses/{pause.shown_id}/decide", {"action": "approve"})
    advance(run.pk, budget=20)
    assert Run.objects.get().status == "completed"


def test_a_run_at_work_is_cancelled_after_being_asked(page, say, thread):
    assert page.get(url(thread, "cancel")).status_code == 409
    say("Hello", template="talk", work=False)
    assert url(thread, "cancel") in text(page.get(url(thread)))
    before = rows()
    assert "Are you sure you want to cancel this run?" in text(page.get(url(thread, "cancel")))
    assert rows() == before
    assert page.post(url(thread, "cancel")).status_code == 302
    assert Run.objects.get().status == "cancelled"
    response = page.post(url(thread, "cancel"))
    assert response.status_code == 409
    assert "Cancelled already by ana" in text(response)


def test_cancel_on_a_waiting_threads_card_is_a_decision(page, waiting):
    page.post(url(waiting, "cancel"))
    assert Decision.objects.get().action == "cancel"


# With child runs


@pytest.fixture
def gathering(templates, ana, team):
    """A thread whose run has two child runs; both ask."""
    PLAYS.clear()
    PLAYS.update({name: says(name) for name in ("left", "right")})
    PLAYS["crew"] = lambda state, context: Gather(
        children=[Child(name=name, steps=[name]) for name in ("left", "right")]
    )
    subs = [sub("left", **ASKING), sub("right", **ASKING)]
    definitions.edit_step_template("test-play", title="Play", function="test.play", config={})
    definitions.edit_step_template(
        "test-crew", title="Crew", function="test.play", config={}, sub_steps=subs
    )
    listed = [{"step_type": "execute", "name": "crew", "step_template_slug": "test-crew"}]
    definitions.edit_template(
        "crew", steps=listed, title="Crew", needs_repository=False, reducers={"said": "append"}
    )
    thread = turns.open_thread(by=ana, title="With others", team=team)
    turns.invoke(thread.pk, Turn(template="crew", input={}), by=ana)
    work_off()
    return thread


def test_the_questions_of_child_runs_are_on_the_page_of_the_thread(page, gathering):
    right = asked("right")
    inbox = text(page.get("/"))
    assert f"{url(gathering)}?pause={right.shown_id}" in inbox
    shown = text(page.get(url(gathering), {"pause": right.shown_id}))
    assert "<b>right</b> asks" in shown
    assert "1 more question of this thread" in shown
    assert "Ends this child run; the run then fails." in shown
    assert "Child runs" in shown
    response = page.get(f"/threads/{right.run.thread.shown_id}/")
    assert response["Location"] == f"{url(gathering)}?pause={right.shown_id}"
    assert right.run.thread.shown_id not in text(page.get("/threads/"))
    assert "Paused" in text(page.get("/threads/"))


def test_one_message_cannot_answer_two_questions(page, gathering):
    before = rows()
    response = page.post(url(gathering, "say"), {"text": "APPROVE"})
    assert response.status_code == 409
    assert "Several questions are open here" in text(response)
    assert rows() == before
    page.post(f"/pauses/{asked('left').shown_id}/decide", {"action": "approve"})
    response = page.post(url(gathering, "say"), {"text": "APPROVE"}, follow=True)
    assert "Taken as approval." in text(response)
    work_off()
    assert "The run is complete" in text(page.get(url(gathering)))


# Who may, and what belongs elsewhere


def test_a_work_orders_thread_leads_to_the_order(page, paused):
    for path, method in (
        ("", page.get),
        ("say", page.post),
        ("resume", page.post),
        ("cancel", page.get),
        ("cancel", page.post),
    ):
        response = method(url(paused.thread, path))
        assert (response.status_code, response["Location"]) == (302, url_of_order(paused))
    assert not Decision.objects.exists()


def test_a_colleague_of_the_team_sees_and_answers(waiting, ben):
    client = Client()
    client.force_login(ben)
    assert url(waiting) in text(client.get("/threads/"))
    assert "Taken as approval." in text(
        client.post(url(waiting, "say"), {"text": "APPROVE"}, follow=True)
    )


def test_no_page_has_inline_scripts_or_styles(page, waiting, gathering):
    for path in ("/threads/", url(waiting), url(waiting, "cancel"), url(gathering)):
        assert not re.search(
            r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son[a-z]+=", text(page.get(path))
        ), path


def test_the_admin_shows_runs_and_questions_without_an_order(gathering, waiting, client, ana):
    type(ana).objects.filter(pk=ana.pk).update(is_staff=True, is_superuser=True)
    client.force_login(type(ana).objects.get(pk=ana.pk))
    for path in ("runs/run", "runs/pause", "checkpoints/thread", "hitl/decision"):
        assert client.get(f"/admin/{path}/").status_code == 200
    for kind, found in (("run", Run), ("pause", Pause)):
        for row in found.objects.all():
            assert client.get(f"/admin/runs/{kind}/{row.pk}/change/").status_code == 200
