"""Rows of the inbox: what they show, whose they are, and what may be answered in them.

Without JavaScript; with it: stories.
"""

from __future__ import annotations

import datetime as dt
import html
import re

import pytest
from django.utils import timezone

from hitl.decisions import claims
from hitl.decisions.talk import comments
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
    assert "Look at the other one again" in " ".join(text.split())
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


def counts_of(text: str) -> dict[str, str]:
    """All that a page of the inbox says of how many there are."""
    said = " ".join(re.sub(r"<[^>]*>", "", text).split())
    wanted = {
        "found": r"(\d+) found",
        "listed": r"\d+ of (\d+) questions",
        "on page": r"(\d+) of \d+ questions",
        "to select": r"Select all (\d+)",
    }
    found = {name: re.search(pattern, said) for name, pattern in wanted.items()}
    return {name: one[1] for name, one in found.items() if one}


def test_all_counts_of_an_inbox_are_the_same_numbers(make_order, page, monkeypatch):
    """Issue 36: "84 found", "50 of 83" and "Select all 49" stood together."""
    for _ in range(5):
        drive(make_order())
    monkeypatch.setattr("hitl.views.inbox.SHOWN", 3)
    text = page.get("/?kind=approval").content.decode()
    assert counts_of(text) == {"found": "5", "listed": "5", "on page": "3", "to select": "3"}
    assert text.count("<span data-total>5</span>") == 2 and 'data-found="5"' in text
    assert "<span data-on-page>3</span>" in text
    pause = Pause.objects.order_by("pk").first()
    answer = {"action": "approve", "revision": 1}
    page.post(f"/pauses/{pause.shown_id}/decide", answer)
    text = page.get("/?kind=approval").content.decode()
    assert counts_of(text) == {"found": "4", "listed": "4", "on page": "3", "to select": "3"}
    monkeypatch.setattr("hitl.views.inbox.SHOWN", 50)
    assert counts_of(page.get("/?kind=approval").content.decode()) == {
        "found": "4",
        "to select": "4",
    }


def next_from(page, address: str, name: str) -> str:
    """The address to which a link of a page leads."""
    text = page.get(address).content.decode()
    found = re.search(rf'href="([^"]+)" data-{name}', text)
    assert found, text
    return str(page.get(html.unescape(found[1]))["Location"])


def test_a_question_leads_to_those_beside_it_in_the_list_from_which_it_was_opened(
    make_order, page, zoe
):
    """Issue 36: without JavaScript, and without an answer; also after one."""
    orders = [drive(make_order(title=f"Sort {number}")) for number in range(3)]
    drive(make_order(title="Beside the list"))
    first, second, _ = [pause_of(order) for order in orders]
    homes = [f"/work-orders/{order.shown_id}/" for order in orders]
    query = "q=sort&sort=newest"
    shown = html.unescape(row(page, second, f"?{query}"))
    opened = f"{homes[1]}?list=q%3Dsort%26sort%3Dnewest"
    assert f'href="{opened}"' in shown
    assert next_from(page, opened, "next") == opened.replace(homes[1], homes[0])
    assert next_from(page, opened, "previous") == opened.replace(homes[1], homes[2])
    last = opened.replace(homes[1], homes[0])
    assert next_from(page, last, "next") == f"/?{query}", "past the end is the list itself"
    assert (
        f'href="/?{query.replace("&", "&amp;")}">Back to the list'
        in page.get(opened).content.decode()
    )
    answer = {"action": "approve", "revision": 1, "list": query}
    said = page.post(f"/pauses/{second.shown_id}/decide", answer, follow=True)
    assert said.redirect_chain[0][0].startswith(opened)
    assert f'href="{homes[0]}?list=' in said.content.decode()
    assert "q=sort&amp;sort=newest" in said.content.decode()
    # the inbox as it is names no list; one that is not understood is this one
    assert next_from(page, homes[0], "next") == homes[2]
    at = page.get(f"/pauses/{first.shown_id}/next?list=nonsense%3D1")
    assert at["Location"].startswith(homes[2])
    assert browser(zoe).get(f"/pauses/{first.shown_id}/next").status_code == 404
    assert not Decision.objects.exclude(pause=second).exists()


def test_a_search_marks_what_it_found_and_says_where_the_rest_is(order_that, page, ana):
    """Issue 36: in the question, the summary, a fact; else in the content or in a comment."""
    report = Report(
        content="Refund <b>now</b>.\n\nThe überweisung goes to a far island, Refunding all.",
        summary="Refund of 120 EUR",
        facts={"Refunder": "Ana & Co"},
        title="Refund it? No prefund.",
    )
    pause = asked(order_that, report)
    comments.add(pause.pk, "Is the <i>zebra</i> striped?", by=ana)
    shown = row(page, pause, "?q=refund")
    assert "<mark>Refund</mark> it? No prefund.</a>" in shown
    assert "<mark>Refund</mark> of 120 EUR" in shown
    assert "<mark>Refund</mark>er <b>Ana &amp; Co</b>" in shown
    assert "In the content:" not in shown
    shown = row(page, pause, "?q=überweis refund")
    assert 'dir="auto">In the content: Refund' not in shown
    assert re.search(r"In the content: .*The <mark>überweis</mark>ung goes to", shown)
    assert "In a comment: Is the &lt;i&gt;<mark>zebra</mark>" in row(page, pause, "?q=zebra")
    assert "In the content:" in row(page, pause, "?q=island zebra")
    assert "<mark>" not in row(page, pause) and not row(page, pause, "?q=unicorn")
    assert "<mark>a</mark>" in row(page, pause, "?q=a") and "<mark>A</mark>na" not in row(
        page, pause, "?q=a"
    )


def test_a_comment_that_was_taken_back_is_found_no_more(order_that, page, ana):
    pause = asked(order_that, Report(content="It is fine."))
    said = comments.add(pause.pk, "Only the zebra knows.", by=ana)
    assert row(page, pause, "?q=zebra")
    comments.withdraw(said.pk, by=ana)
    assert not row(page, pause, "?q=zebra")
