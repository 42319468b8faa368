"""A search says in each line of a list where its words stand: marked in what the line shows, else
told with the words around them.
"""

from __future__ import annotations

import datetime as dt
import re
import unicodedata

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.models import Thread
from checkpoints.text import invisible
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.decisions.talk import comments
from hitl.find.fulltext import TooManyWords, words_of
from hitl.find.marks import Marks
from hitl.models import Via
from runs.models import Pause
from runs.states import PauseStatus
from runs.workflows.base import Go, Report
from tests.conftest import drive, pause_of
from tests.doors.thread_page import say as say
from tests.doors.thread_page import waiting as waiting
from tests.hitl.views.lists.copied_rows import World
from tests.worlds.ruled_order import browser
from tests.worlds.scripted_step import order_that as order_that
from tests.worlds.talking_threads import thread as thread

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
ORDERS, THREADS, HISTORY = "/work-orders/", "/threads/", "/decisions/"


def line(client, path: str, words: str) -> str:
    """The only line of a list that a search finds; "" where it finds none."""
    answer = client.get(path, {"q": words})
    assert answer.status_code == 200
    body = re.search(r'<ul class="rows card[^"]*">(.*?)</ul>', answer.content.decode(), re.DOTALL)
    found = re.findall(r"<li.*?</li>", body[1], re.DOTALL) if body else []
    assert len(found) <= 1, found
    return found[0] if found else ""


@pytest.fixture
def asks(order_that):
    """`asks(name, request, content=…)`: an order that waits for an approval of that report."""

    def make(name="", request="", **report):
        return drive(
            order_that(
                lambda state, context: Go(report=Report(**report)),
                order={"title": name, "request": request},
                pause_after=True,
                pause_phase="awaiting_anything",
            )
        )

    return make


def test_an_order_says_where_it_has_the_words(asks, page, zoe):
    """Issue 36: only the inbox did."""
    asks("Ledgers of <b>Zürich</b>", "Mend the crankshaft, please.", content="A zebra & I.")
    shown = line(page, ORDERS, "zür ledg")
    assert "<mark>Ledg</mark>ers of &lt;b&gt;<mark>Zür</mark>ich&lt;/b&gt;</a>" in shown
    assert 'class="found"' not in shown
    shown = line(page, ORDERS, "crank ledg")
    assert "In the request: Mend the <mark>crank</mark>shaft, please.</p>" in shown
    assert "In the content: A <mark>zebra</mark> &amp; I." in line(page, ORDERS, "zebra")
    assert "<mark>" not in page.get(ORDERS).content.decode()
    assert not line(browser(zoe), ORDERS, "zebra")


def test_of_many_questions_the_newest_that_has_the_word_is_told(asks, page, ana, ben, make_order):
    """And no other is read."""
    order = asks(content="The first zebra.")
    pause, now = pause_of(order), timezone.now()
    World(ana, ben, order, make_order).copies(
        pause,
        40,
        content=lambda number: f"Zebra number {number}. " + "x " * 4_000,
        **{"status": PauseStatus.EXPIRED, "closed_at": now, "deadline_at": now},
        extendable_until=now + dt.timedelta(days=1),
    )
    with CaptureQueriesContext(connection) as queries:
        shown = line(page, ORDERS, "zebra")
    assert "In the content: <mark>Zebra</mark> number 39." in shown
    assert shown.count('class="found"') == 1
    assert sum("text_0" in query["sql"] for query in queries) == 2


def test_a_thread_says_where_it_has_the_words(page, waiting):
    Thread.objects.filter(pk=waiting.pk).update(title="Chatter <about> zebras")
    shown = line(page, THREADS, "zebra")
    assert "Chatter &lt;about&gt; <mark>zebra</mark>s</a>" in shown and "found" not in shown
    question = Pause.objects.get(run__thread=waiting).question
    word = words_of(question)[-1]
    assert "In a question: " in line(page, THREADS, word)
    assert f"<mark>{word}</mark>" in line(page, THREADS, word).lower()


def test_an_answer_says_where_it_has_the_words(asks, page, ana, ben):
    order = asks("Quarterly", content="The walrus waits.", title="Pay <it>?")
    pause = pause_of(order)
    comments.add(pause.pk, "Ask the zebra.", by=ana)
    far = "x " * 80 + "wobbly <i>legs</i>"
    services.decide(pause.pk, Answer("cancel", Via.PAGE, feedback=far), by=ben)
    for path in (HISTORY, "/"):
        assert "<mark>Pay</mark> &lt;it&gt;?" in line(page, path, "pay")
        assert "<mark>Quarter</mark>ly</a>" in line(page, path, "quarter")
        shown = line(page, path, "wobbly quarterly")
        assert re.search(r"In the feedback: .*<mark>wobbly</mark> &lt;i&gt;legs", shown)
        assert "In the content: The <mark>walrus</mark>" in line(page, path, "walrus")
        assert "In a comment: Ask the <mark>zebra</mark>." in line(page, path, "zebra")
        assert "In a comment" not in line(page, path, "walrus")


def test_a_question_that_nobody_answered_says_where_it_has_the_words(asks, page, ana):
    pause = pause_of(asks("Quarterly", content="The walrus waits."))
    comments.add(pause.pk, "Ask the zebra.", by=ana)
    now = timezone.now()
    Pause.objects.filter(pk=pause.pk).update(
        **{"status": PauseStatus.EXPIRED, "closed_at": now, "deadline_at": now},
        extendable_until=now,
    )
    assert "In the content: The <mark>walrus</mark>" in line(page, HISTORY, "walrus")
    assert "In a comment: Ask the <mark>zebra</mark>." in line(page, HISTORY, "zebra")


TEXTS = st.text(st.sampled_from("aAbß<>&\"'é\u0301 -_1\u202e\0.zZ\n"), max_size=30)


@given(TEXTS, TEXTS.filter(lambda text: text.strip()))
def test_marks_add_nothing_to_a_text_but_marks(text, searched):
    """And a word that is marked nowhere is missing."""
    try:
        words = words_of(searched)
    except TooManyWords:
        return
    if not words:
        return
    marks = Marks(words)
    shown = str(marks.html(text))
    whole = unicodedata.normalize("NFC", text)
    assert re.sub(r"</?mark>", "", shown) == invisible.html(whole)
    assert ("<mark>" in shown) is (marks.missing([text]) != set(words))
    for word in set(words) - marks.missing([text]):
        around = marks.around(text, word)
        assert around is not None and "<mark>" in around
