"""Votes and claims at the same moment, with real threads and connections."""

from __future__ import annotations

from functools import partial

import pytest
from django.contrib.auth.models import User

from checkpoints.models import Event
from hitl.decisions import claims, services
from hitl.decisions.reviewers import policy
from hitl.decisions.services import Answer
from hitl.models import Decision, Via, Vote
from runs.models import Pause
from tests.conftest import pause_of
from tests.databases.whole import at_once
from tests.databases.whole import file_database as file_database
from tests.worlds.histories.whole_story import broken
from tests.worlds.ruled_order import ruled as ruled

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("file_database"),
    pytest.mark.both_databases,
]


@pytest.fixture
def crowd(team, ana, ben):
    """Six of the team."""
    more = [
        User.objects.create_user(name, first_name=name.capitalize())
        for name in ("cleo", "dora", "egon", "fay")
    ]
    for one in more:
        one.groups.add(team)
    return [ana, ben, *more]


def vote(pause, by, action="approve"):
    return partial(services.decide, pause.pk, Answer(action, Via.REST, feedback="x"), by=by)


def test_one_person_at_four_doors_at_once_has_one_vote(ruled, ana):
    pause = pause_of(ruled({"quorum": 2}))
    results = at_once(*[vote(pause, ana)] * 4)
    assert sorted(type(result).__name__ for result in results) == [
        "NotNow",
        "NotNow",
        "NotNow",
        "Vote",
    ]
    assert (Vote.objects.count(), Pause.objects.get().approvals) == (1, 1)
    assert Event.objects.filter(kind="pause_updated").count() == 1


def test_a_refusal_meets_the_last_votes(ruled, crowd):
    """Either way one decision, and what it names is what there is."""
    pause = pause_of(ruled({"quorum": 2}))
    results = at_once(*(vote(pause, by) for by in crowd[:3]), vote(pause, crowd[3], "cancel"))
    assert all(
        isinstance(result, Decision | Vote | services.AlreadyAnswered) for result in results
    ), results
    assert len(Decision.objects.get().votes) == Vote.objects.count()
    assert broken() == {}


def test_of_four_who_claim_at_once_one_has_it(ruled, crowd):
    pause = pause_of(ruled({}))
    results = at_once(*(partial(claims.claim, pause.pk, by=by) for by in crowd[:4]))
    [won] = [result for result in results if isinstance(result, Pause)]
    assert all(
        isinstance(result, policy.NotNow) and result.code == "claimed"
        for result in results
        if result is not won
    ), results
    assert Pause.objects.get().claimed_by == won.claimed_by
    assert Event.objects.filter(kind="pause_updated").count() == 1


def test_a_claim_meets_an_answer(ruled, ana, ben):
    """Whoever was first counts; the other is told."""
    pause = pause_of(ruled({}))
    claimed, answered = at_once(partial(claims.claim, pause.pk, by=ana), vote(pause, ben))
    if isinstance(claimed, Pause) and not isinstance(answered, Decision):
        assert isinstance(answered, policy.NotNow)
        assert not Decision.objects.exists()
    else:
        assert isinstance(answered, Decision), (claimed, answered)
        assert isinstance(claimed, services.AlreadyAnswered | services.NotFound | Pause)
    assert broken() == {}
