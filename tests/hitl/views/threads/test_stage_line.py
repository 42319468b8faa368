"""The line of a card that says which stage of a review its reader is asked for: as things stand."""

from __future__ import annotations

import re

import pytest

from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from tests.conftest import pause_of
from tests.worlds.people import person
from tests.worlds.ruled_order import browser
from tests.worlds.ruled_order import ruled as ruled

pytestmark = pytest.mark.django_db
STAGES = {
    "stages": [
        {"name": "legal", "title": "Legal", "reviewers": {"users": ["lea", "lou", "both"]}},
        {
            "name": "money",
            "title": "Finance",
            "reviewers": {"users": ["fin", "both"]},
            "question": "Can we pay for it?",
        },
        {"name": "last", "title": "CFO", "reviewers": {"users": ["carl"]}, "after": ["legal"]},
    ]
}
LINE = re.compile(r'<p class="your-stage" data-live="stage"( hidden)?>(.*?)</p>', re.DOTALL)


@pytest.fixture
def people(db):
    return {name: person(name) for name in ("lea", "lou", "fin", "carl", "both")}


def line(page):
    """What the line says; "" where it is hidden, None where the page has none."""
    found = LINE.search(page.content.decode())
    if found is None:
        return None
    words = " ".join(re.sub(r"<[^>]*>", "", found[2]).split())
    return "" if found[1] else words.replace(" :", ":")


def lines(order, people):
    url = f"/work-orders/{order.shown_id}/"
    return {name: line(browser(user).get(url)) for name, user in people.items()}


def approve(order, by, **more):
    pause = pause_of(order)
    given = Answer("approve", Via.PAGE, revision=pause.revision, **more)
    services.decide(pause.pk, given, by=by)


def test_the_line_names_the_stage_that_waits_for_its_reader_and_no_other(ruled, people):
    """Issue 36: "You are asked for Legal" stood there after Legal had approved."""
    order = ruled(STAGES)
    legal, money = "You are asked for Legal", "You are asked for Finance: Can we pay for it?"
    cfo = "You are asked for CFO"
    # who is asked at several chooses one
    assert lines(order, people) == {
        "lea": legal,
        "lou": legal,
        "fin": money,
        "carl": "",
        "both": "",
    }

    approve(order, people["lou"])
    assert lines(order, people) == {"lea": "", "lou": "", "fin": money, "carl": cfo, "both": money}

    approve(order, people["carl"])
    assert lines(order, people) == {"lea": "", "lou": "", "fin": money, "carl": "", "both": money}


def test_who_approved_a_stage_that_needs_more_is_not_asked_for_it_again(ruled, people):
    first = {**STAGES["stages"][0], "quorum": 2}
    order = ruled({"stages": [first, STAGES["stages"][1]]})
    approve(order, people["lea"])
    found = lines(order, people)
    assert (found["lea"], found["lou"]) == ("", "You are asked for Legal")


def test_a_page_that_stands_is_told_that_its_stage_is_done(ruled, people):
    order = ruled(STAGES)
    client, url = browser(people["lea"]), f"/work-orders/{order.shown_id}/"
    shown = client.get(f"{url}?live")
    assert line(shown) == "You are asked for Legal"
    approve(order, people["lou"])
    news = client.get(f"{url}?live", headers={"if-none-match": shown["ETag"]})
    assert news.status_code == 200 and line(news) == ""
