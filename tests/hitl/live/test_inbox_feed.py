"""What open inboxes find by themselves, where a hint was lost: every change to whom a question
waits for leaves its time on it.
"""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from hitl.decisions import services
from hitl.decisions.deadlines import changes, outcomes
from hitl.decisions.services import Answer
from hitl.live import inbox_feed
from hitl.models import Via
from tests.conftest import pause_of
from tests.worlds.deadlines import HOUR, at
from tests.worlds.deadlines import asked as asked

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
RULES = {
    "deadline": {"after": "PT8H"},
    "reminders": ["PT1H"],
    "escalation": [{"after": "PT2H", "users": ["zoe"]}],
    "quorum": 2,
}


@pytest.fixture
def changed():
    """`changed()`: which questions a look finds that the one before did not."""
    seen = [inbox_feed.changes_of_late()]

    def look():
        seen.append(inbox_feed.changes_of_late())
        return {pk for pk, _ in seen[-1] - seen[-2]}

    return look


def test_whatever_changes_for_whom_a_question_waits_is_found(asked, changed, ana, ben, zoe, api):
    """F27: opened, voted on, reminded of, put to others, moved, answered."""
    order = asked(**RULES)
    pause = pause_of(order)
    assert changed() == {pause.pk}
    assert changed() == set()
    services.decide(pause.pk, Answer("approve", Via.PAGE), by=ana)
    assert changed() == {pause.pk}
    outcomes.fire_due(now=at(pause, 1))
    assert changed() == {pause.pk}
    outcomes.fire_due(now=at(pause, 2))
    assert changed() == {pause.pk}
    changes.extend(pause.pk, by=ben, until=at(pause, 9), reason="Ana is ill")
    assert changed() == {pause.pk}
    services.decide(pause.pk, Answer("approve", Via.PAGE), by=ben)
    assert changed() == {pause.pk}


def test_an_end_without_an_answer_is_found(asked, changed, ana):
    late, cancelled = asked(deadline={"after": "PT1H"}), asked()
    pauses = {pause_of(late).pk, pause_of(cancelled).pk}
    assert changed() == pauses
    outcomes.fire_due(now=pause_of(late).opened_at + 2 * HOUR)
    services.decide(pause_of(cancelled).pk, Answer("cancel", Via.PAGE), by=ana)
    assert changed() == pauses


def test_a_look_is_one_query_of_bounded_size_however_many_inboxes_there_are(
    asked, monkeypatch, django_assert_num_queries
):
    monkeypatch.setattr(inbox_feed, "LOOKED_AT", 2)
    asked()
    asked()
    newest = asked()
    User.objects.bulk_create(User(username=f"user{number}") for number in range(50))
    with django_assert_num_queries(1):
        found = inbox_feed.changes_of_late()
    assert len(found) == 2
    assert pause_of(newest).pk in {pk for pk, _ in found}


def test_each_persons_questions_are_counted_in_one_query_up_to_so_many(
    asked, ana, monkeypatch, django_assert_max_num_queries
):
    """However long a list: the first of it, as the inbox shows it."""
    monkeypatch.setattr(inbox_feed, "MOST_COUNTED", 3)
    pauses = [pause_of(asked()).pk for _ in range(4)]
    with django_assert_max_num_queries(10):
        counts, rights = inbox_feed.waiting_now([ana.pk, 0])
    assert [list(counts[key]) for key in (ana.pk, 0)] == [pauses[:3], []]
    assert rights.keys() == {ana.pk}
    services.decide(pauses[1], Answer("approve", Via.PAGE), by=ana)
    assert list(inbox_feed.waiting_now([ana.pk])[0][ana.pk]) == [pauses[0], *pauses[2:]]
