"""The pages as a browser without JavaScript gets them."""

from __future__ import annotations

import datetime as dt
import re

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape

from checkpoints.database.people import User
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Decision, Via
from runs import definitions
from runs.models import Pause, WorkOrder
from runs.workflows.base import Ask, Go, Report
from tests.conftest import drive, fresh, pause_of
from tests.databases.whole import rows
from tests.hitl.views.order_pages import (
    ATTACKS,
    dangerous,
    text,
    url,
)
from tests.worlds.repositories import make_repository
from tests.worlds.scripted_step import order_that as order_that
from tests.worlds.steps import on_code

pytestmark = pytest.mark.django_db


def decide(page, order, action, **fields):
    return page.post(f"/pauses/{pause_of(order).shown_id}/decide", {"action": action, **fields})


@pytest.fixture
def bens(ben):
    client = Client()
    client.force_login(ben)
    return client


# Inbox and list.


def test_an_empty_inbox_explains_itself(page):
    assert "Nothing waits for you" in text(page.get("/"))


def test_the_inbox_names_what_waits_and_the_badge_counts_the_same(page, make_order):
    """F9."""
    for title in ("Letter", "Speech"):
        drive(make_order(title=title))
    shown = text(page.get("/"))
    assert shown.count("Waiting for Plan Approval") == 2
    assert "Letter" in shown
    assert "<title>(2) Inbox" in shown
    assert "<span data-count>2</span>" in shown


def test_an_answered_question_moves_from_the_waiting_to_the_history(page, paused):
    """F9."""
    decide(page, paused, "revise", feedback="Add tests")
    waiting, history = text(page.get("/")).split('id="history"')
    assert "Waiting for Plan Approval" not in waiting
    assert "Revised" in history
    assert "Add tests" in history
    assert "Ana Ruiz" in history


def test_a_colleague_sees_the_same_question(bens, paused):
    assert url(paused) in text(bens.get("/"))


def test_the_live_part_is_the_page_without_its_frame(page, paused):
    for path in ("/", url(paused)):
        part = text(page.get(f"{path}?live"))
        assert "<html" not in part
        assert "Waiting for Plan Approval" in part


def test_the_list_shows_where_each_order_stands(page, paused):
    shown = text(page.get("/work-orders/"))
    assert url(paused) in shown
    assert "Paused" in shown
    assert "Awaiting plan approval" in shown


# A new order.


def test_an_order_is_made_from_the_form(page, templates, team):
    response = page.post(
        "/work-orders/new",
        {"template": "writing", "title": "Letter", "request": "Dear", "team": team.pk},
    )
    order = WorkOrder.objects.get()
    assert (response.status_code, response["Location"]) == (302, url(order))
    assert (order.title, order.request, order.thread.team) == ("Letter", "Dear", team)


def test_an_order_says_whatever_its_template_asks_for(page, templates, subtests):
    """Before: a number that is chosen was sent as text, and so was a list that may be left out:
    such a template could be ordered over the API alone.
    """
    texts = {"type": "string"}
    for asked, typed, meant in [
        ({"type": "integer", "enum": [1, 2]}, "2", 2),
        ({"oneOf": [{"const": 1, "title": "One"}, {"const": 2, "title": "Two"}]}, "1", 1),
        ({"type": "array", "items": {"enum": [1, 2]}}, ["1", "2"], [1, 2]),
        ({"type": "array", "items": texts}, "a, b\r\n\r\nc", ["a, b", "c"]),
        ({"type": ["array", "null"], "items": texts}, "a\r\nb", ["a", "b"]),
        ({"oneOf": [{"type": "object", "properties": {}}, {"type": "integer"}]}, "5", 5),
    ]:
        with subtests.test(str(asked)):
            schema = {"type": "object", "properties": {"a": asked}, "required": ["a"]}
            steps = definitions.current("writing").steps
            definitions.edit_template(
                "asks", steps=steps, title="Asks", input_schema=schema, needs_repository=False
            )
            sent = page.post("/work-orders/new", {"template": "asks", "input.a": typed})
            assert sent.status_code == 302, text(sent)
            assert WorkOrder.objects.latest("created_at").input == {"a": meant}


def test_a_bad_repository_is_refused_beside_its_field_and_what_was_typed_is_kept(
    page, templates, subtests
):
    for place in [
        "/etc",
        "/nonexistent",
        "relative",
        "https://evil.example/x",
        "file:///etc",
        "ext::sh -c id",
        "-oProxyCommand=x",
    ]:
        with subtests.test(ascii(place)[:60]):
            response = page.post(
                "/work-orders/new",
                {"template": on_code(), "repository_url": place, "request": "Do this"},
            )
            shown = text(response)
            assert response.status_code == 422
            assert "The order was not made." in shown
            # below what is said, not in a column beside it
            assert re.search(r"<div>\s*<p>\s*<b>The order[^§]*?</p>\s*<ul class=\"wrong\">", shown)
            assert 'class="errorlist"' in shown
            assert escape(place) in shown
            assert "Do this" in shown
            assert not WorkOrder.objects.exists()


def test_what_is_missing_or_too_much_is_said_on_the_form(page, templates, subtests):
    for fields in [
        {},
        {"repository_url": ""},
        {"title": "x" * 201},
        {"request": "x" * 20_001},
        {"title": "a\x00"},
        {"team": "99"},
        {"team": "x"},
        {"input.rules": "\x00"},
    ]:
        with subtests.test(ascii(fields)[:60]):
            response = page.post("/work-orders/new", {"template": on_code(), **fields})
            assert response.status_code == 422
            assert 'class="errorlist"' in text(response)
            assert not WorkOrder.objects.exists()


def test_an_order_on_a_real_repository_is_made(page, templates, tmp_path):
    folder = make_repository(tmp_path / "repository", {"a.py": "import os\n"})
    page.post("/work-orders/new", {"template": on_code(), "repository_url": str(folder)})
    assert WorkOrder.objects.get().repository_url == str(folder)


# The page of an order.


def test_the_card_says_how_long_ago_its_pause_began(page, paused, subtests):
    """S4-40 as the server says it; the rest is in `stories/test_card_story.py`."""
    for seconds, words in [
        (30, "just now"),
        (60, "1 minute ago"),
        (5 * 60, "5 minutes ago"),
        (2 * 3600, "2 hours ago"),
        (86_400, "1 day ago"),
    ]:
        with subtests.test(ascii(seconds)[:60]):
            # a second more: this clock and the database's differ by milliseconds
            Pause.objects.update(opened_at=timezone.now() - dt.timedelta(seconds=seconds + 1))
            assert f">Paused {words}</time>" in text(page.get(url(paused)))


def test_the_card_asks_for_feedback_and_for_confirmation(page, paused):
    """The words of S4-60 and S4-61, as they reach a browser without JavaScript."""
    shown = text(page.get(url(paused)))
    for words in (
        "Provide feedback for revision...",
        "Submit Revision",
        "Are you sure you want to cancel this work order?",
        "Yes, Cancel",
    ):
        assert words in shown


def test_each_phase_has_its_heading(page, paused):
    """S4-37, S4-62."""
    for heading in ("Implementation Review", "Review Decision"):
        decide(page, paused, "approve")
        drive(paused)
        assert f"⏸️ Waiting for {heading}" in text(page.get(url(paused)))


def test_the_patch_and_the_extra_answer_are_on_the_card(page, paused):
    """S4-2, S4-38."""
    decide(page, paused, "approve")
    drive(paused)
    shown = text(page.get(url(paused)))
    assert "1 file changed" in shown
    assert "Approve and skip review" in shown
    patch = page.get(f"/pauses/{pause_of(paused).shown_id}/patch")
    assert (patch["Content-Type"], patch["X-Content-Type-Options"]) == (
        "text/plain; charset=utf-8",
        "nosniff",
    )
    assert text(patch).startswith("diff --git a/x b/x")


def test_an_approval_leads_back_to_the_order_without_its_card(page, paused):
    """S4-49, C5, S4-59 without JavaScript, but for its spinner."""
    response = page.post(
        f"/pauses/{pause_of(paused).shown_id}/decide",
        {"action": "approve", "revision": "1"},
        follow=True,
    )
    assert response.redirect_chain == [(url(paused), 302)]
    assert "⏸️" not in text(response)
    assert "Workflow resumed with decision: approve" in text(response)


def test_while_the_step_runs_again_the_page_says_so(page, paused):
    """S4-60, C25: with the feedback that was given, until the next card."""
    decide(page, paused, "revise", feedback="Add error handling")
    shown = text(page.get(url(paused)))
    assert "Re-running planning with feedback..." in shown
    assert "Add error handling" in shown
    drive(paused)
    assert "Re-running planning with feedback..." not in text(page.get(url(paused)))
    assert "Plan 2" in text(page.get(url(paused)))


def test_a_revision_without_feedback_keeps_the_page_and_says_why(page, paused, subtests):
    before = rows()
    for feedback in ["", "  "]:
        with subtests.test(ascii(feedback)[:60]):
            response = decide(page, paused, "revise", feedback=feedback, revision="1")
            assert response.status_code == 422
            assert "a revision needs feedback" in text(response)
            assert "⏸️ Waiting for Plan Approval" in text(response)
    assert rows() == before


def test_a_form_that_makes_no_sense_decides_nothing(page, paused, subtests):
    before = rows()
    for fields in [
        {},
        {"action": ""},
        {"action": "maybe"},
        {"action": "approve", "revision": "x"},
        {"action": "approve", "revision": "0"},
        {"action": "approve", "revision": "9" * 30},
        {"action": "a\x00"},
        {"action": "revise", "feedback": "a\x00"},
        {"action": "revise", "feedback": "x" * 20_001},
    ]:
        with subtests.test(ascii(fields)[:60]):
            response = page.post(f"/pauses/{pause_of(paused).shown_id}/decide", fields)
            assert response.status_code in {400, 422}
            assert "Nothing was decided" in text(response)
            assert "⏸️ Waiting for Plan Approval" in text(response)
    assert rows() == before


def test_the_second_answer_gets_a_calm_page_that_names_the_first(page, bens, paused):
    """P1, F0, F8, F18."""
    pause = pause_of(paused).shown_id
    decide(page, paused, "approve")
    before = rows()
    for second in ("approve", "cancel", "revise"):
        response = bens.post(f"/pauses/{pause}/decide", {"action": second, "feedback": "x"})
        assert response.status_code == 409
        assert "Already approved by Ana Ruiz at" in text(response)
        assert "Your answer was not recorded" in text(response)
    assert rows() == before


def test_an_answer_to_an_older_revision_shows_the_new_one(page, bens, paused):
    """F16."""
    decide(page, paused, "revise", feedback="Add tests")
    drive(paused)
    response = decide(bens, paused, "approve", revision="1")
    assert response.status_code == 409
    assert "at revision 2 by now" in text(response)
    assert "Plan 2" in text(response)
    assert Decision.objects.count() == 1


def test_after_the_last_round_the_card_says_why_revise_is_closed(page, paused):
    for number in (1, 2, 3):
        decide(page, paused, "revise", feedback=str(number))
        drive(paused)
    shown = text(page.get(url(paused)))
    assert "Revise is closed: this was sent back 3 times already" in shown
    assert "Submit Revision" not in shown
    assert decide(page, paused, "revise", feedback="4").status_code == 422


def test_cancelling_asks_first_and_asking_changes_nothing(page, paused):
    """S4-43, S4-61, F1."""
    before = rows()
    shown = text(page.get(url(paused, "cancel")))
    assert "Are you sure you want to cancel this work order?" in shown
    assert "Yes, Cancel" in shown
    assert rows() == before


def test_a_cancelled_order_shows_that_it_was_cancelled_and_why(page, api, ana, paused):
    """S4-61: its status is `failed` over REST; a page calls no cancelled work a failure."""
    response = page.post(url(paused, "cancel"), follow=True)
    shown = text(response)
    assert "⏸️" not in shown
    assert 'class="status calm">Cancelled</span>' in shown and "Failed" not in shown
    assert 'class="card ended calm"' in shown
    told = api(ana).get(f"/api/v1/work-orders/{paused.shown_id}").json()
    assert told["status"] == "failed"
    assert "Cancelled by user at planning phase" in shown
    assert "Cancelled by Ana Ruiz while waiting for Plan Approval" in shown
    assert page.post(url(paused, "cancel")).status_code == 409


def test_a_failed_order_says_what_happened_and_can_be_retried(page, make_order):
    order = drive(make_order("writing-fail"))
    assert "The shop is closed. Try again in the morning." in text(page.get(url(order)))
    assert page.post(url(order, "retry")).status_code == 302
    assert fresh(order).status == "pending"
    assert "Only a failed work order can be retried" in text(
        page.post(url(order, "retry"), follow=True)
    )


def test_an_order_whose_state_was_damaged_still_has_a_page(page, paused):
    """C24: it says so, loses nothing, and can be cancelled."""
    from tests.runs.accidents.losses import damage_head

    damage_head(paused, "{")
    response = decide(page, paused, "approve")
    assert response.status_code == 409
    assert "does not match its digest" in text(response)
    assert page.get("/work-orders/").status_code == 200
    assert page.post(url(paused, "cancel")).status_code == 302


# What others wrote never runs.


@pytest.mark.parametrize("attack", ["\n".join(ATTACKS[place::3]) for place in range(3)])
def test_what_a_person_or_a_step_writes_never_runs(page, order_that, attack):
    report = Report(
        content=f"# Plan\n\n{attack}\n",
        patch="".join(
            f"diff --git a/{one} b/{one}\n@@ -1 +1 @@\n+{one}\n" for one in attack.split("\n")
        ),
        facts={attack: attack},
        effects=[attack],
    )
    answers = {"approve": "finish", "revise": "planning", "other": "finish"}
    order = order_that(
        lambda state, context: (
            context.log(attack)
            or Ask(question=attack[:200], answers=answers, labels={"other": attack}, report=report)
        )
    )
    WorkOrder.objects.update(
        title=attack[:200], request=attack, input={attack: attack}, repository_url=attack
    )
    drive(order)
    for path in (url(order), "/", "/work-orders/", url(order, "cancel")):
        assert dangerous(text(page.get(path))) == [], path
    decide(page, order, "revise", feedback=attack)
    for path in (url(order), "/"):
        assert dangerous(text(page.get(path))) == [], path


def test_the_form_shows_what_was_typed_and_runs_none_of_it(page, templates):
    for attack in ATTACKS:
        fields = {
            "template": on_code(),
            "title": attack,
            "request": attack,
            "repository_url": attack,
        }
        assert dangerous(text(page.post("/work-orders/new", fields))) == []


def test_the_check_for_dangerous_markup_would_notice():
    for attack in (
        "<script>x",
        "<script>alert(1)</script>",
        "<img src=x onerror=y>",
        "<p onclick=x>",
        '<a href="javascript:x">',
        "<svg onload=x>",
        '<img src="https://evil.example/a">',
    ):
        assert dangerous(attack + ">"), attack


def test_every_page_forbids_foreign_and_inline_scripts(page, subtests):
    for path in ["/", "/work-orders/", "/work-orders/new", "/login", "/nothing"]:
        with subtests.test(ascii(path)[:60]):
            response = page.get(path)
            policy = response["Content-Security-Policy"]
            assert "script-src 'self'" in policy
            assert "unsafe-inline" not in policy
            assert "frame-ancestors 'none'" in policy
            assert response["X-Content-Type-Options"] == "nosniff"


def test_no_page_has_inline_scripts_or_styles(page, paused):
    """What the policy forbids is not there to begin with."""
    for path in ("/", "/work-orders/", "/work-orders/new", url(paused), url(paused, "cancel")):
        shown = text(page.get(path))
        assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son[a-z]+=", shown), path


@pytest.mark.parametrize("odd", ["a\x00b", "caf\udce9.py"], ids=["nul", "surrogate"])
def test_a_log_line_with_odd_text_does_not_break_the_page(page, order_that, odd):
    order = drive(
        order_that(lambda state, context: context.log(odd, level="warning", file=odd) or Go())
    )
    assert page.get(url(order)).status_code == 200


def test_the_login_leads_to_the_page_that_was_asked_for(client, ana, paused):
    response = client.get(url(paused))
    assert response["Location"] == f"/login?next={url(paused)}"
    response = client.post(
        response["Location"],
        {"username": "ana", "password": "ana's long password", "next": url(paused)},
    )
    assert response["Location"] == url(paused)


def test_the_login_leads_to_no_other_site(client, ana):
    response = client.post(
        "/login",
        {"username": "ana", "password": "ana's long password", "next": "https://evil.example/"},
    )
    assert response["Location"] == "/"


def test_a_wrong_password_is_refused_without_saying_what_was_wrong(client, ana):
    said = [
        text(client.post("/login", {"username": name, "password": "wrong"}))
        for name in ("ana", "nobody")
    ]
    tokens = re.compile(r'name="csrfmiddlewaretoken" value="\w+"|value="(ana|nobody)"')
    assert tokens.sub("", said[0]) == tokens.sub("", said[1])
    assert "Please enter a correct username and password" in said[0]


def test_the_history_has_a_picture_of_the_path_with_links_to_its_checkpoints(paused, ana, page):
    """Which checkpoint came of which step, and how often each was done; in words as well."""
    services.decide(pause_of(paused).pk, Answer("revise", Via.PAGE, feedback="shorter"), by=ana)
    drive(paused)
    text = page.get(reverse("hitl:history", args=[paused.thread_id])).content.decode()
    picture = text.partition("The path through the workflow")[2].partition("</section>")[0]
    assert 'class="node pause now"' in picture
    assert "Plan, done, done 2 times" in picture
    head = fresh(paused).thread.head
    assert reverse("hitl:checkpoint", args=[head.pk]) in picture
    assert "style=" not in picture


def test_an_order_has_a_picture_of_its_steps_and_of_where_its_time_went(paused, page):
    """Time at work and time waiting for people are told apart, also in words."""
    place = url(paused, "picture")
    assert place in page.get(url(paused)).content.decode()
    picture = page.get(place).content.decode()
    assert 'class="node pause now"' in picture
    assert "(waiting for an answer)" in picture
    assert "Waiting for people" in picture
    assert "style=" not in picture.partition("<main")[2]
    stranger = Client()
    stranger.force_login(User.objects.create_user("stranger"))
    assert stranger.get(place).status_code == 404


def test_the_page_of_a_new_order_takes_a_priority_and_another_page_changes_it(page, templates, ana):
    sent = page.post("/work-orders/new", {"template": "writing", "priority": "-3"})
    order = WorkOrder.objects.get()
    assert (sent.status_code, order.priority) == (302, -3)
    url = f"/work-orders/{order.shown_id}/priority"
    assert url in page.get(f"/work-orders/{order.shown_id}/").content.decode()
    assert page.get(url).status_code == 200
    too_high = page.post(url, {"priority": "4"})
    assert too_high.status_code == 422
    assert page.post(url, {"priority": "-1"}).status_code == 302
    order.refresh_from_db()
    assert order.priority == -1
