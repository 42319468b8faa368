"""Rows of the inbox: what they show, whose they are, and what may be answered in them.

Without JavaScript; with it: stories.
"""

from __future__ import annotations

import datetime as dt
import re

import pytest
from django.utils import timezone

from hitl.decisions import claims
from hitl.models import Decision
from runs.models import Pause
from runs.workflows.base import Go, Report
from tests.conftest import drive, pause_of
from tests.worlds.ruled_order import browser
from tests.worlds.ruled_order import ruled as ruled
from tests.worlds.scripted_step import order_that as order_that

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]


def row(client, pause, query=""):
    """The HTML of a question's row; "" where the list does not have it."""
    text = client.get(f"/{query}").content.decode()
    _, found, rest = text.partition(f'data-row="{pause.shown_id}"')
    return rest.partition("</li>")[0] if found else ""


def asked(order_that, report, **options):
    """What the template asks after a step that reports this."""
    rules = {"pause_after": True, "pause_phase": "awaiting_anything", **options}
    return pause_of(drive(order_that(lambda state, context: Go(report=report), **rules)))


def test_a_plain_approval_is_given_in_its_row_and_bound_to_what_the_row_showed(
    make_order, ana, ben, page
):
    """PEERS 2, P1, P6: the answer names revision and digest, and leads back to the same list."""
    first, second = pause_of(drive(make_order())), pause_of(drive(make_order()))
    shown = row(page, first)
    assert f'action="/pauses/{first.shown_id}/decide"' in shown
    fields = {"action": "approve", "revision": first.revision, "back": "whose=own&evil=1"}
    assert f'name="content_digest" value="{first.content_digest}"' in shown
    url = f"/pauses/{first.shown_id}/decide"
    refused = page.post(url, {**fields, "content_digest": "0" * 64})
    assert refused.status_code == 409
    assert not Decision.objects.exists()
    answered = page.post(url, {**fields, "content_digest": first.content_digest}, follow=True)
    assert answered.redirect_chain == [("/?whose=own", 302)]
    assert 'data-what="decided"' in answered.content.decode()
    assert re.search(r": You approved. \w+ runs next.", answered.content.decode())
    assert Decision.objects.get().content_digest == first.content_digest
    late = browser(ben).post(url, {**fields, "content_digest": first.content_digest})
    assert late.status_code == 409
    assert b"Ana" in late.content
    assert row(page, second)


@pytest.mark.parametrize(
    "review", [{"risk": "high"}, {"reason_required": ["approve"]}, "data", "claimed"]
)
def test_what_wants_care_a_reason_or_data_is_answered_on_its_page(ruled, ana, ben, page, review):
    """As with several at once, and by the same rules."""
    order = ruled(review if isinstance(review, dict) else {})
    pause = pause_of(order)
    if review == "data":
        Pause.objects.filter(pk=pause.pk).update(required_inputs={"type": "object"})
    if review == "claimed":
        assert "data-row-answer" in row(page, pause)
        claims.claim(pause.pk, by=ben)
    shown = row(page, pause)
    assert "data-row-answer" not in shown
    assert ">Review</a>" in shown
    assert ("High risk" in shown) == (review == {"risk": "high"})


def test_a_row_says_what_is_decided(order_that, page):
    """Before: "Waiting for an answer after Plan", eighty-four times."""
    report = Report(
        content="Refund **120 EUR** to Ana & Co.\n\nThe order came late.",
        facts={"Amount": "120 EUR", "Customer": "Ana & Co", "Days": 12},
    )
    pause = asked(order_that, report, question="Refund {amount} to {customer}?")
    shown = row(page, pause)
    assert "Refund 120 EUR to Ana &amp; Co?</a>" in shown
    assert '<p class="gist" dir="auto">Refund 120 EUR to Ana &amp; Co.' in shown
    assert "<span>Amount <b>120 EUR</b></span> <span>Customer <b>Ana &amp; Co</b></span>" in shown
    assert "Days" not in shown


@pytest.mark.parametrize(
    ("options", "report", "question", "says"),
    [
        ({}, {}, "Approve the result of “Anything”?", "It is fine."),
        ({}, {"title": "Refund Ana?"}, "Refund Ana?", "It is fine."),
        ({"question": "Sure?"}, {"title": "Refund Ana?"}, "Sure?", "It is fine."),
        ({}, {"summary": "120 EUR,  today"}, "Approve the result of “Anything”?", "120 EUR, today"),
    ],
)
def test_the_template_names_the_question_before_the_report_does(
    order_that, options, report, question, says
):
    pause = asked(order_that, Report(content="It is fine.", **report), **options)
    assert (pause.question, pause.summary) == (question, says)


@pytest.mark.parametrize(
    ("report", "brief"),
    [
        ({}, True),
        ({"facts": {"a": 1, "b": 2}}, True),
        ({"facts": {"a": 1, "b": 2, "c": 3}}, False),
        ({"facts": {"a": "long " * 70}}, False),
        ({"summary": "It is fine."}, True),
        ({"summary": "Only a detail."}, False),
        ({"content": "It is fine. And more."}, False),
        ({"content": "It is [fine](https://fine.example)."}, False),
        ({"content": "It is fine.\n\nAnd more.", "summary": "It is fine."}, False),
        ({"patch": "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"}, False),
        ({"effects": ["Money is paid."]}, False),
    ],
)
def test_a_row_takes_an_approval_only_where_it_shows_all_that_is_decided(
    order_that, page, report, brief
):
    shown = row(page, asked(order_that, Report(**{"content": "It is fine."} | report)))
    assert ("data-row-answer" in shown) == brief
    assert ('class="gist whole"' in shown) == brief, "what is answered here is not cut"
    assert ">Review</a>" in shown


def test_a_row_says_when_its_time_is_over_soon(paused, page):
    """PEERS 4: under five minutes."""
    pause = pause_of(paused)
    for left, soon in ((4, True), (6, False), (-1, False)):
        at = timezone.now() + dt.timedelta(minutes=left)
        Pause.objects.filter(pk=pause.pk).update(deadline_at=at, extendable_until=at)
        shown = row(page, pause)
        assert ('<b class="soon">' in shown) == soon, left
        assert ("late" in shown) == (left < 0)


def test_questions_are_ones_own_or_ones_teams_or_those_that_one_waits_for(
    ruled, make_order, ana, ben, zoe
):
    """Issue 19: each question stands under one of the tabs, and "All" has what waits for me."""
    alone = pause_of(drive(make_order(team=None)))
    teams = pause_of(drive(make_order()))
    named = pause_of(ruled({"reviewers": {"users": ["ben"]}}))
    seen = {
        (who.username, tab): [
            name
            for name, pause in (("alone", alone), ("teams", teams), ("named", named))
            if row(browser(who), pause, f"?whose={tab}")
        ]
        for who in (ana, ben, zoe)
        for tab in ("", "own", "team", "asked")
    }
    assert seen == {
        ("ana", ""): ["alone", "teams"],
        ("ana", "own"): ["alone"],
        ("ana", "team"): ["teams"],
        ("ana", "asked"): ["named"],
        ("ben", ""): ["teams", "named"],
        ("ben", "own"): ["named"],
        ("ben", "team"): ["teams"],
        ("ben", "asked"): [],
        ("zoe", ""): [],
        ("zoe", "own"): [],
        ("zoe", "team"): [],
        ("zoe", "asked"): [],
    }
    shown = row(browser(ana), named, "?whose=asked")
    assert "waits for ben" in shown
    assert "checkbox" not in shown
    assert "2 questions in all wait for you" in browser(ben).get("/?whose=asked").content.decode()


def test_an_empty_inbox_says_what_waits_for_others(ruled, ana, ben):
    """PEERS 24."""
    ruled({"reviewers": {"users": ["ben"]}})
    said = "1 question of work that you asked for waits for others"
    assert said in browser(ana).get("/").content.decode()
    assert said not in browser(ben).get("/").content.decode()


def test_after_an_answer_the_next_question_is_offered(make_order, ana, page):
    """PEERS 5: the soonest due, by its own address."""
    first, second = drive(make_order()), drive(make_order(title="The second"))
    pause = pause_of(first)
    answered = page.post(
        f"/pauses/{pause.shown_id}/decide", {"action": "approve", "revision": 1}, follow=True
    )
    text = answered.content.decode()
    assert f'href="/work-orders/{second.shown_id}/" data-next' in text
    assert "1 waits for you" in text


def test_what_was_not_answered_with_others_can_be_chosen_again(make_order, ruled, ana, page):
    """PEERS 18: failures stay chosen."""
    first, high = pause_of(drive(make_order())), pause_of(ruled({"risk": "high"}))
    chosen = [f"{pause.shown_id}:1" for pause in (first, high)]
    text = page.post("/several", {"pause": chosen, "action": "approve"}).content.decode()
    assert "1 of 2 answered" in text
    assert "Look at the other again" in " ".join(text.split())
    assert f'name="pause" value="{high.shown_id}"' in text
    assert f'name="pause" value="{first.shown_id}"' not in text


def test_rows_are_given_alone_to_whom_they_wait_for_and_as_their_list_has_them(
    make_order, ana, zoe, page
):
    """P3: what does not wait for one, or does not fit the filters, is left out without a word."""
    pause, theirs = pause_of(drive(make_order())), pause_of(drive(make_order(by=zoe, team=None)))

    def asked(**query):
        named = f"{pause.shown_id},{theirs.shown_id}"
        return page.get("/rows", {"ids": named, **query})

    told = asked().content.decode()
    assert re.findall(r'data-row="(\w+)"', told) == [pause.shown_id]
    assert f'action="/pauses/{pause.shown_id}/decide"' in told
    assert re.search(r'name="csrfmiddlewaretoken" value="\w+"', told)
    assert 'name="back" value="risk=normal"' in asked(risk="normal").content.decode()
    assert "data-row" not in asked(risk="high").content.decode()
    assert asked(whatever="x").status_code == 422
    assert page.get("/rows").content == b"<ul></ul>"


@pytest.mark.parametrize(
    "named", ["nonsense", "pse_", "pse_x,", ",".join(["pse_" + "0" * 26] * 51)]
)
def test_rows_of_what_is_no_question_or_of_too_many_are_refused_with_words(page, named):
    answer = page.get("/rows", {"ids": named})
    assert (answer.status_code, answer["Content-Type"]) == (422, "text/plain")
    assert answer.content
