"""Who answers for whom: for a time, with both names in the trail, and no way around the rules."""

from __future__ import annotations

import datetime as dt

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from checkpoints.models import Event
from hitl.decisions import services
from hitl.decisions.reviewers import delegations, policy
from hitl.decisions.services import Answer
from hitl.identity import service_accounts
from hitl.models import Delegation, Via, Vote
from tests.conftest import drive, pause_of
from tests.doors.html import fold
from tests.worlds.histories.whole_story import broken
from tests.worlds.ruled_order import browser, rest
from tests.worlds.ruled_order import ruled as ruled

pytestmark = pytest.mark.django_db

HOUR = dt.timedelta(hours=1)


def delegate(by, to_user, *, begins=-HOUR, lasts=2 * HOUR):
    """As an operator may: also to somebody who is in no team of theirs."""
    now = timezone.now()
    return Delegation.objects.create(
        from_user=by,
        to_user=to_user,
        starts_at=now + begins,
        ends_at=now + begins + lasts,
        created_by=by,
    )


def decide(pause, by, action="approve", **kwargs):
    return services.decide(pause.pk, Answer(action, Via.PAGE, **kwargs), by=by)


def test_a_delegate_answers_and_both_names_are_in_the_trail(ruled, ben, zoe):
    """Zoe takes no part in the thread."""
    pause = pause_of(ruled({"reviewers": {"users": ["ben"]}}))
    delegate(ben, zoe)
    decision = decide(pause, zoe)
    assert (decision.decided_by, decision.on_behalf_of) == (zoe, ben)
    before, decision.on_behalf_of = decision.intact, None
    assert (before, decision.intact) == (True, False)
    assert Event.objects.get(kind="approval_received").data["on_behalf_of"] == "Ben"
    with pytest.raises(services.AlreadyAnswered, match="approved by zoe for Ben"):
        decide(pause, ben)


def test_a_delegate_of_a_team_member_answers_what_has_no_rules(paused, ben, zoe):
    delegate(ben, zoe)
    assert policy.waiting_for(zoe).count() == 1
    assert browser(zoe).get(f"/work-orders/{paused.shown_id}/").status_code == 200
    assert decide(pause_of(paused), zoe).on_behalf_of == ben


@pytest.mark.both_databases
@pytest.mark.parametrize(("begins", "lasts"), [(HOUR, HOUR), (-2 * HOUR, HOUR)])
def test_before_and_after_its_time_a_delegation_gives_nothing(ruled, ben, zoe, begins, lasts):
    pause = pause_of(ruled({"reviewers": {"users": ["ben"]}}))
    delegate(ben, zoe, begins=begins, lasts=lasts)
    assert policy.waiting_for(zoe).count() == 0
    with pytest.raises(services.NotFound):
        decide(pause, zoe)


def test_of_an_account_that_is_closed_nothing_is_delegated(ruled, ben, zoe):
    pause = pause_of(ruled({"reviewers": {"users": ["ben"]}}))
    delegate(ben, zoe)
    User.objects.filter(pk=ben.pk).update(is_active=False)
    with pytest.raises(services.NotFound):
        decide(pause, zoe)


def test_what_was_delegated_is_not_delegated_on(ruled, ben, zoe):
    """One level."""
    pause = pause_of(ruled({"reviewers": {"users": ["ben"]}}))
    delegate(ben, zoe)
    third = User.objects.create_user("yan")
    delegate(zoe, third)
    with pytest.raises(services.NotFound):
        decide(pause, third)


def test_a_delegate_of_a_superuser_does_not_see_everything(paused, zoe):
    delegate(User.objects.create_superuser("root"), zoe)
    assert policy.waiting_for(zoe).count() == 0
    with pytest.raises(services.NotFound):
        decide(pause_of(paused), zoe)


def test_who_is_in_the_team_himself_answers_for_himself(paused, ana, ben):
    delegate(ana, ben)
    assert decide(pause_of(paused), ben).on_behalf_of is None


def test_self_approval_is_not_dodged_by_a_delegate(ruled, ana, ben, zoe):
    """F4: neither of the asker, nor by the asker for a reviewer."""
    pause = pause_of(ruled({"self_approval": False}))
    delegate(ana, zoe)
    delegate(ben, ana)
    with pytest.raises(policy.NotAllowed, match="You stand in for who asked for this work"):
        decide(pause, zoe)
    with pytest.raises(policy.NotAllowed, match="You asked for this work"):
        decide(pause, ana)
    assert (
        policy.waiting_for(zoe).count(),
        policy.waiting_for(ana).count(),
        policy.waiting_for(ben).count(),
    ) == (0, 0, 1)
    assert {user.username for user in policy.answerers(pause)} == {"ben"}


@pytest.mark.both_databases
def test_one_person_is_one_vote_and_so_is_one_seat(ruled, ana, ben, zoe):
    """Who is delegated to does not count twice, and who delegated does not vote once more."""
    pause = pause_of(ruled({"quorum": 3}))
    delegate(ana, ben)
    delegate(ana, zoe)
    assert decide(pause, ben).seat == ben
    with pytest.raises(policy.NotNow, match="You have voted already"):
        decide(pause, ben)
    assert decide(pause, zoe).seat == ana
    with pytest.raises(policy.NotNow, match="Your vote was given by who stands in for you"):
        decide(pause, ana)
    assert Vote.objects.count() == 2
    assert [policy.waiting_for(user).count() for user in (ana, ben, zoe)] == [0, 0, 0]
    assert broken() == {}


def test_the_api_names_for_whom_one_would_answer(ruled, ben, zoe):
    order = ruled({"reviewers": {"users": ["ben"]}})
    delegate(ben, zoe)
    assert (
        rest(zoe)
        .get(f"/api/v1/work-orders/{order.shown_id}/pause-state")
        .json()["review"]["on_behalf_of"]
        == "ben"
    )
    shown = browser(zoe).get(f"/work-orders/{order.shown_id}/").content.decode()
    assert "You are answering for <b>" in fold(shown)


@pytest.mark.both_databases
def test_a_delegate_learns_what_became_of_what_was_open_in_his_time(make_order, ana, ben, zoe):
    old, new = drive(make_order()), drive(make_order())
    decide(pause_of(old), ana)
    delegate(ben, zoe, begins=dt.timedelta())
    decide(pause_of(new), ana)
    page = browser(zoe)
    assert page.get(f"/work-orders/{old.shown_id}/").status_code == 404
    assert page.get(f"/work-orders/{new.shown_id}/").status_code == 200
    Delegation.objects.update(ends_at=timezone.now())
    assert page.get(f"/work-orders/{new.shown_id}/").status_code == 404


# The page


@pytest.fixture
def days():
    today = timezone.localdate()
    return {"first": today.isoformat(), "last": (today + dt.timedelta(days=7)).isoformat()}


def test_one_delegates_and_ends_it_on_a_page(ana, ben, days):
    page = browser(ana)
    assert (
        page.post("/delegations/", {"to_user": ben.pk, **days, "reason": "Holidays"}).status_code
        == 302
    )
    made = Delegation.objects.get()
    assert (made.from_user, made.to_user, made.created_by, made.ends_at - made.starts_at) == (
        ana,
        ben,
        ana,
        dt.timedelta(days=8),
    )
    assert "Holidays" in page.get("/delegations/").content.decode()
    assert "Holidays" in browser(ben).get("/delegations/").content.decode()
    assert browser(ben).post(f"/delegations/{made.pk}/end").status_code == 404
    assert page.post(f"/delegations/{made.pk}/end").status_code == 302
    assert delegations.to(ben, now=timezone.now()) == []


def test_a_delegation_that_has_not_begun_is_ended_too(ana, ben):
    made = delegate(ana, ben, begins=HOUR)
    assert delegations.end(made.pk, by=ana)
    assert not Delegation.objects.active(now=timezone.now() + HOUR).exists()


def test_only_colleagues_are_named(ana, ben, zoe, days):
    """A delegate sees what is asked: a person cannot show a stranger what belongs to a team."""
    page = browser(ana)
    assert page.post("/delegations/", {"to_user": zoe.pk, **days}).status_code == 422
    now = timezone.now()
    with pytest.raises(delegations.DelegationRefused, match="one of your teams"):
        delegations.delegate(ana, to_user=zoe, starts_at=now, ends_at=now + HOUR)
    assert not Delegation.objects.exists()
    assert "Nobody to delegate to" in browser(zoe).get("/delegations/").content.decode()


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("2026-01-02", "2026-01-01"),
        ("2020-01-01", "2020-01-02"),
        ("2026-01-01", "9999-12-31"),
        ("x", ""),
    ],
)
def test_dates_that_make_no_sense_are_refused_in_words(ana, ben, first, last):
    answered = browser(ana).post("/delegations/", {"to_user": ben.pk, "first": first, "last": last})
    assert (answered.status_code, Delegation.objects.count()) == (422, 0)
    assert "errorlist" in answered.content.decode()


def test_an_operator_delegates_for_anybody_and_nobody_edits(zoe, ben):
    root = User.objects.create_superuser("root")
    page = browser(root)
    now = timezone.now()
    times = {
        f"{name}_{part}": value
        for name, at in (("starts_at", now), ("ends_at", now + 2 * HOUR))
        for part, value in (("0", at.date()), ("1", at.strftime("%H:%M:%S")))
    }
    add = "/admin/hitl/delegation/add/"
    whom = {"from_user": ben.pk, "to_user": zoe.pk, "reason": "", **times}
    bot = service_accounts.make("bot", purpose="Asks.")
    for wrong, field in (
        ({"to_user": ben.pk}, "to_user"),
        ({"to_user": bot.pk}, "to_user"),
        ({"ends_at_0": now.date().replace(year=now.year + 2)}, "ends_at"),
        ({"ends_at_0": now.date().replace(year=now.year - 1)}, "ends_at"),
    ):
        refused = page.post(add, {**whom, **wrong})
        assert [*refused.context["adminform"].form.errors] == [field]
    answered = page.post(add, whom)
    assert answered.status_code == 302, answered.content.decode()[:2000]
    made = Delegation.objects.get()
    assert made.created_by == root
    assert page.post(f"/admin/hitl/delegation/{made.pk}/change/", {"reason": "x"}).status_code in {
        302,
        403,
    }
    made.refresh_from_db()
    assert made.reason == ""
