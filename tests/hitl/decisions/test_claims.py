"""Claiming a question: others wait, for a time that ends by itself."""

from __future__ import annotations

import datetime as dt

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils import timezone

from checkpoints.models import Event
from checkpoints.text import dates
from hitl.decisions import claims, services
from hitl.decisions.reviewers import policy
from hitl.decisions.services import Answer, pauses
from hitl.models import Decision, Via
from runs.models import Pause
from tests.conftest import drive, pause_of
from tests.databases.whole import rows
from tests.worlds.histories.whole_story import broken
from tests.worlds.ruled_order import browser, rest
from tests.worlds.ruled_order import ruled as ruled

pytestmark = pytest.mark.django_db


def told():
    return [
        event.data["what"] for event in Event.objects.filter(kind="pause_updated").order_by("seq")
    ]


def test_while_somebody_holds_it_others_are_told_who_and_until_when(paused, ana, ben):
    pause = claims.claim(pause_of(paused).pk, by=ana)
    assert pause.claimed_until is not None
    until = dates.told(pause.claimed_until)
    with pytest.raises(
        policy.NotNow, match=f"Ana Ruiz has claimed this question until {until}"
    ) as refused:
        services.decide(pause.pk, Answer("cancel", Via.PAGE), by=ben)
    assert refused.value.code == "claimed"
    assert not Decision.objects.exists()
    assert services.decide(pause.pk, Answer("approve", Via.PAGE), by=ana).decided_by == ana


@pytest.mark.both_databases
def test_a_claim_past_its_time_is_none(paused, ana, ben):
    """No job ends it."""
    pause = claims.claim(pause_of(paused).pk, by=ana)
    Pause.objects.update(claimed_until=timezone.now() - dt.timedelta(seconds=1))
    assert rest(ben).get(f"/api/v1/pauses/{pause.shown_id}").json()["review"]["claim"] is None
    assert claims.claim(pause.pk, by=ben).claimed_by == ben


@pytest.mark.both_databases
def test_once_its_time_is_over_others_answer(paused, ana, ben):
    """Found by a planted fault: nobody tried it."""
    pause = claims.claim(pause_of(paused).pk, by=ana)
    Pause.objects.update(claimed_until=timezone.now() - dt.timedelta(seconds=1))
    decision = services.decide(pause.pk, Answer("approve", Via.PAGE), by=ben)
    assert decision.decided_by == ben


@pytest.mark.both_databases
def test_claiming_once_more_begins_the_time_anew(paused, ana, settings):
    first = claims.claim(pause_of(paused).pk, by=ana).claimed_until
    settings.WAYSTATION_CLAIM_SECONDS = 3600
    again = claims.claim(pause_of(paused).pk, by=ana).claimed_until
    assert first
    assert again
    assert again > first + dt.timedelta(minutes=30)


@pytest.mark.both_databases
def test_who_holds_it_releases_it_and_nobody_else(paused, ana, ben):
    pause = claims.claim(pause_of(paused).pk, by=ana)
    claims.release(pause.pk, by=ben)
    assert pause_of(paused).claimed_by == ana
    claims.release(pause.pk, by=ana)
    assert (pause_of(paused).claimed_by, pause_of(paused).claimed_until) == (None, None)
    assert told() == ["claimed", "released"]


def test_a_superuser_takes_over_and_the_log_says_so(paused, ana, ben):
    root = User.objects.create_superuser("root")
    pause = claims.claim(pause_of(paused).pk, by=ana)
    with pytest.raises(policy.NotAllowed):
        claims.claim(pause.pk, by=ben, take_over=True)
    with pytest.raises(policy.NotNow):
        claims.claim(pause.pk, by=root)
    assert claims.claim(pause.pk, by=root, take_over=True).claimed_by == root
    assert Event.objects.filter(kind="pause_updated").last().data["from"] == "Ana Ruiz"


def test_who_could_not_approve_cannot_claim(ruled, ana, ben):
    """Else who asked for the work could keep the reviewers from it."""
    pause = pause_of(ruled({"self_approval": False}))
    before = rows()
    with pytest.raises(policy.NotAllowed):
        claims.claim(pause.pk, by=ana)
    assert rows() == before
    assert claims.claim(pause.pk, by=ben).claimed_by == ben


def test_a_closed_question_is_claimed_by_nobody(paused, ana, ben):
    pause = pause_of(paused)
    services.decide(pause.pk, Answer("approve", Via.PAGE), by=ana)
    with pytest.raises(services.AlreadyAnswered):
        claims.claim(pause.pk, by=ben)


def test_a_vote_lets_the_others_vote(ruled, ana, ben):
    pause = claims.claim(pause_of(ruled({"quorum": 2})).pk, by=ana)
    services.decide(pause.pk, Answer("approve", Via.PAGE), by=ana)
    assert isinstance(services.decide(pause.pk, Answer("approve", Via.PAGE), by=ben), Decision)
    assert broken() == {}


def test_pages_and_api_claim_and_release(paused, ana, ben):
    pause = pause_of(paused)
    address = f"/work-orders/{paused.shown_id}/"
    assert browser(ana).post(f"/pauses/{pause.shown_id}/claim").status_code == 302
    own = browser(ana).get(address).content.decode()
    assert "You claimed this until" in own
    assert 'aria-labelledby="who-answers" hidden' not in own
    other = browser(ben).get(address).content.decode()
    assert "has claimed this until" in other and 'disabled aria-describedby="why-not"' in other
    assert "claimed by Ana Ruiz" in browser(ben).get("/").content.decode().replace("\n", "")
    assert browser(ben).post(f"/pauses/{pause.shown_id}/claim").status_code == 409
    refused = rest(ben).post(f"/api/v1/pauses/{pause.shown_id}/claim")
    assert (refused.status_code, refused.json()["code"]) == (409, "claimed")
    assert rest(ana).post(f"/api/v1/pauses/{pause.shown_id}/release").json()["claim"] is None
    assert rest(ben).post(f"/api/v1/pauses/{pause.shown_id}/claim").json()["claim"]["by"] == "ben"
    assert browser(ben).post(f"/pauses/{pause.shown_id}/release").status_code == 302
    assert pause_of(paused).claimed_by is None


@pytest.fixture
def comes_and_goes(monkeypatch, ben):
    """Ben claims what is answered so many times, and has released it when that is looked at."""

    def make(times):
        write, left = pauses._write, iter(range(times))

        def held(judged):
            if next(left, None) is not None:  # taken back as the answer is
                until = timezone.now() + dt.timedelta(hours=1)
                Pause.objects.filter(pk=judged.pause.pk).update(claimed_by=ben, claimed_until=until)
            return write(judged)

        monkeypatch.setattr(pauses, "_write", held)

    return make


@pytest.mark.parametrize("quorum", [1, 2])
def test_a_claim_that_came_and_went_between_two_looks_costs_no_answer(
    ruled, ana, ben, comes_and_goes, quorum
):
    """P1: whoever answered at that moment was told that the question was closed, "open"."""
    order = ruled({"quorum": quorum})
    comes_and_goes(pauses.TRIES - 1)
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
    if quorum == 2:
        assert not Decision.objects.exists()
        services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ben)
    assert Decision.objects.get().action == "approve"
    assert broken() == {}


def test_claims_that_come_and_go_again_and_again_end_in_a_calm_truth(paused, ana, comes_and_goes):
    """And not in a request that never ends."""
    comes_and_goes(100)
    answer = Answer("approve", Via.PAGE)
    with pytest.raises(policy.NotNow, match="changed at the same moment") as refused:
        services.decide(pause_of(paused).pk, answer, by=ana)
    assert refused.value.code == "claimed" and not Decision.objects.exists()


def test_of_several_answers_at_once_each_survives_a_claim_that_came_and_went(
    make_order, ana, comes_and_goes
):
    asked = [pause_of(drive(make_order())) for _ in range(2)]
    comes_and_goes(3)  # the first twice, then the second
    answer = Answer("approve", Via.PAGE)
    services.decide_all([(pause.pk, answer) for pause in asked], by=ana)
    assert {decision.pause_id for decision in Decision.objects.all()} == {p.pk for p in asked}


@pytest.mark.both_databases
def test_half_a_claim_cannot_be_kept(paused, ana):
    with (
        pytest.raises(IntegrityError, match=r"pause_claim_is_whole|CHECK constraint failed"),
        transaction.atomic(),
    ):
        Pause.objects.update(claimed_by=ana)
