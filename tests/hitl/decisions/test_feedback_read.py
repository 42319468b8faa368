"""A step says what it understands of a reviewer's words before they are sent: nothing understood is
refused and costs no round, a part is said first.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.decisions.talk import comments
from hitl.models import Decision, Via
from runs.workflows import FeedbackReader, Go, Suggestion, Understood, registry
from tests.conftest import drive, fresh, pause_of
from tests.doors.html import fold
from tests.worlds.scripted_step import order_that as order_that

pytestmark = pytest.mark.django_db


class Colours(FeedbackReader):
    help = "Understood are red and blue."

    def read(self, state, words):
        known = [word for word in words.replace(";", " ").split() if word in state["colours"]]
        other = [word for word in words.replace(";", " ").split() if word not in known]
        return Understood([f"paint it {word}" for word in known], other)

    def suggestions(self, state):
        return [Suggestion(word, f"Paint it {word}", "Colours") for word in state["colours"]]


class Broken(FeedbackReader):
    def read(self, state, words):
        raise ZeroDivisionError

    def suggestions(self, state):
        raise ZeroDivisionError


@pytest.fixture
def hears(monkeypatch):
    def by(reader):
        traits = replace(registry.traits_of("test.anything"), feedback=reader)
        monkeypatch.setitem(registry._TRAITS, "test.anything", traits)

    by(Colours())
    return by


@pytest.fixture
def asked(order_that, hears):
    painted = Go(update={"colours": ["red", "blue"]})
    return drive(order_that(lambda state, context: painted, pause_after=True, pause_phase="look"))


def post(page, order, **fields):
    place = f"/pauses/{pause_of(order).shown_id}/decide"
    answered = page.post(place, {"action": "revise", "revision": "1", **fields})
    return answered.status_code, fold(answered.content.decode())


def test_words_of_which_nothing_is_understood_cost_no_round_at_any_door(asked, ana, api, page):
    """Issue 36: "don't bother with import sorting" was taken, and a round was used up."""
    pause = pause_of(asked)
    with pytest.raises(services.AnswerInvalid, match="None of this was understood: “green”") as no:
        services.decide(pause.pk, Answer("revise", Via.LINK, feedback="green"), by=ana)
    assert no.value.code == "feedback_not_understood"
    told = api(ana).post(
        f"/api/v1/pauses/{pause.shown_id}/decisions",
        {"decision": "revise", "feedback": "green", "revision": 1},
        format="json",
    )
    assert (told.status_code, told.json()["code"]) == (422, "feedback_not_understood")
    status, shown = post(page, asked, wish="green")
    assert status == 422 and "green</textarea>" in shown
    assert "Understood are red and blue." in shown
    assert not Decision.objects.exists() and pause_of(asked).revision == 1


def test_what_is_understood_in_part_is_said_before_it_is_sent(asked, page):
    status, shown = post(page, asked, wish="red green")
    assert status == 200 and "Some of what you wrote was not understood" in shown
    assert "paint it red" in shown and "<q>green</q>" in shown
    assert not Decision.objects.exists()
    assert post(page, asked, wish="red green", sure="yes")[0] == 302
    assert Decision.objects.get().feedback == "red green"


def test_what_is_understood_whole_is_taken_at_once(asked, page):
    assert post(page, asked, wish="red")[0] == 302
    assert fresh(asked).status == "pending"


def test_asking_what_will_be_understood_decides_nothing_and_keeps_the_words(asked, page):
    status, shown = post(page, asked, wish="blue green", change="read")
    assert status == 200 and "paint it blue" in shown and "<q>green</q>" in shown
    assert "blue green</textarea>" in shown and not Decision.objects.exists()


def test_what_is_ticked_is_sent_before_what_is_written(asked, page):
    shown = fold(page.get(f"/work-orders/{asked.shown_id}/").content.decode())
    assert 'name="pick" value="red" form="answer"' in shown and "Paint it red" in shown
    assert post(page, asked, pick=["red", "blue"], wish="red")[0] == 302
    assert Decision.objects.get().feedback == "red; blue;\nred"


def test_what_is_ticked_is_not_dropped_silently_by_another_answer(asked, page):
    status, shown = post(page, asked, action="approve", pick="red", wish="")
    assert status == 200 and 'data-left="Feedback for the revision">red</pre>' in shown
    assert not Decision.objects.exists()


def test_comments_that_go_along_are_no_words_for_the_step_to_read(asked, ana):
    pause = pause_of(asked)
    said = comments.add(pause.pk, "Nicer, please.", by=ana)
    answer = Answer("revise", Via.PAGE, feedback="green", comments_until=said.pk)
    services.decide(pause.pk, answer, by=ana)
    assert "Nicer, please." in Decision.objects.get().feedback


def test_a_reader_that_breaks_holds_nobody_up(asked, ana, page, hears):
    hears(Broken())
    assert page.get(f"/work-orders/{asked.shown_id}/").status_code == 200
    services.decide(pause_of(asked).pk, Answer("revise", Via.PAGE, feedback="green"), by=ana)
    assert Decision.objects.get().feedback == "green"
