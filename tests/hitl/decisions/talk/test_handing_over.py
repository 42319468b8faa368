"""Handing one question over to a colleague: a delegation of that question alone."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from checkpoints.models import Event
from hitl.decisions import services
from hitl.decisions.deadlines import changes
from hitl.decisions.reviewers import policy
from hitl.decisions.reviewers.delegations import DelegationRefused
from hitl.decisions.services import Answer
from hitl.decisions.talk import handing_over
from hitl.models import Decision, Delegation, Via, Vote
from hitl.outbound import sending
from hitl.threads import erasure
from runs.services import PauseClosed
from tests.conftest import drive, pause_of
from tests.doors.html import fold
from tests.worlds.histories.whole_story import broken
from tests.worlds.people import group
from tests.worlds.ruled_order import browser, rest
from tests.worlds.ruled_order import ruled as ruled

pytestmark = pytest.mark.django_db


@pytest.fixture
def carl(zoe: User, ana: User) -> User:
    """A colleague of Ana's in another team, who takes no part in her order."""
    legal = group("legal")
    zoe.groups.add(legal)
    ana.groups.add(legal)
    zoe.email = "carl@example.org"
    zoe.username = "carl"
    zoe.save()
    return zoe


@pytest.fixture
def asked(ruled, ana):
    """A question that is Ana's to answer."""
    return pause_of(ruled({"reviewers": {"users": ["ana"]}}))


def handed(by: User, pause, to: str = "carl", reason: str = "I am away"):
    return rest(by).post(
        f"/api/v1/pauses/{pause.shown_id}/hand-over", {"to": to, "reason": reason}, format="json"
    )


@pytest.mark.both_databases
def test_the_colleague_answers_in_ones_place_and_both_names_are_recorded(asked, ana, carl):
    assert list(changes.inbox(carl)) == []
    answer = handed(ana, asked)
    assert (answer.status_code, answer.json()["handed_to"]) == (200, "carl")
    assert list(changes.inbox(carl)) == [asked]
    assert list(changes.inbox(ana)) == []
    [event] = Event.objects.filter(kind="pause_updated")
    assert (event.data["what"], event.data["reason"]) == ("handed_over", "I am away")
    decision = services.decide(asked.pk, Answer("approve", Via.PAGE), by=carl)
    assert isinstance(decision, Decision)
    assert (decision.decided_by, decision.on_behalf_of) == (carl, ana)
    drive(asked.run.work_order)
    assert broken() == {}


def test_it_is_of_that_one_question_alone(asked, make_order, ruled, ana, carl):
    other = pause_of(ruled({"reviewers": {"users": ["ana"]}}))
    handed(ana, asked)
    assert rest(carl).get(f"/api/v1/pauses/{other.shown_id}").status_code == 404
    waiting = rest(carl).get("/api/v1/pauses?open=1").json()["results"]
    assert [row["id"] for row in waiting] == [asked.shown_id]
    assert waiting[0]["review"]["on_behalf_of"] == "ana"
    with pytest.raises(services.NotFound):
        services.decide(other.pk, Answer("approve", Via.PAGE), by=carl)


def test_where_everybody_of_the_thread_answers_it_is_of_that_one_question_too(
    paused, make_order, ana, carl
):
    one, other = pause_of(paused), pause_of(drive(make_order()))
    handed(ana, one)
    assert list(changes.inbox(carl)) == [one]
    assert rest(carl).get(f"/api/v1/pauses/{other.shown_id}").status_code == 404
    assert services.decide(one.pk, Answer("approve", Via.PAGE), by=carl)


def test_the_colleague_is_told_by_mail_with_the_reason(asked, ana, carl, mailoutbox):
    handed(ana, asked)
    sending.deliver(seconds=10)
    [mail] = [mail for mail in mailoutbox if mail.to == ["carl@example.org"]]
    assert "Ana Ruiz asks you to answer in their place: I am away" in mail.subject


def test_who_handed_it_over_may_still_answer_and_takes_it_back(asked, ana, carl):
    handed(ana, asked)
    taken = rest(ana).delete(f"/api/v1/pauses/{asked.shown_id}/hand-over")
    assert (taken.status_code, taken.json()["handed_to"]) == (200, None)
    assert list(changes.inbox(ana)) == [asked]
    assert list(changes.inbox(carl)) == []
    assert rest(carl).get(f"/api/v1/pauses/{asked.shown_id}").status_code == 404
    handed(ana, asked)
    assert services.decide(asked.pk, Answer("approve", Via.PAGE), by=ana)


def test_handed_to_somebody_else_it_is_taken_from_the_first(asked, ana, ben, carl):
    handed(ana, asked)
    handed(ana, asked, to="ben")
    assert list(changes.inbox(carl)) == []
    assert list(changes.inbox(ben)) == [asked]
    assert Delegation.objects.filter(pause=asked).count() == 2


def test_it_goes_no_further(asked, ana, ben, carl):
    """Who stands in for somebody hands nothing on."""
    carl.groups.add(*ben.groups.all())
    handed(ana, asked)
    refused = handed(carl, asked, to="ben")
    assert (refused.status_code, refused.json()["code"]) == (403, "not_a_reviewer")


def test_who_is_not_asked_hands_nothing_over(asked, ben, carl):
    refused = handed(ben, asked)
    assert (refused.status_code, refused.json()["code"]) == (403, "not_a_reviewer")


def test_what_cannot_be_handed_over_is_named(asked, ana, carl):
    for to, reason, words in (
        ("nobody", "away", "one of your teams"),
        ("ana", "away", "one of your teams"),
        ("carl", "a\ufffe\x01" * 200, "200"),
    ):
        refused = handed(ana, asked, to=to, reason=reason)
        assert refused.status_code in {400, 422}
        assert words in refused.content.decode()
        assert not Delegation.objects.exists()


def test_it_needs_a_reason(asked, ana, carl):
    with pytest.raises(DelegationRefused, match="Say why"):
        handing_over.hand_over(asked.pk, by=ana, to="carl", reason=" ")


def test_it_is_no_way_round_four_eyes(ruled, ana, ben, carl):
    """Neither to who asked for the work, nor by them."""
    rules = {"reviewers": {"users": ["ben", "ana"]}, "self_approval": False}
    pause = pause_of(ruled(rules))
    refused = handed(ben, pause, to="ana")
    assert (refused.status_code, refused.json()["code"]) == (422, "delegation_refused")
    assert list(refused.json()["errors"]) == ["to"]
    refused = handed(ana, pause)
    assert (refused.status_code, refused.json()["code"]) == (403, "self_approval")
    Delegation.objects.create(
        pause=pause,
        from_user=ben,
        to_user=ana,
        starts_at=pause.opened_at,
        ends_at=pause.opened_at.replace(year=2999),
        created_by=ben,
    )
    with pytest.raises(policy.Refused):
        services.decide(pause.pk, Answer("approve", Via.PAGE), by=ana)


@pytest.mark.both_databases
def test_one_person_votes_once_however_many_hand_over_to_them(ruled, ana, ben, carl):
    carl.groups.add(*ben.groups.all())
    pause = pause_of(ruled({"reviewers": {"users": ["ana", "ben"]}, "quorum": 2}))
    handed(ana, pause)
    handed(ben, pause)
    assert isinstance(services.decide(pause.pk, Answer("approve", Via.PAGE), by=carl), Vote)
    with pytest.raises(policy.Refused):
        services.decide(pause.pk, Answer("approve", Via.PAGE), by=carl)


@pytest.mark.both_databases
def test_an_answer_at_the_same_moment_wins(asked, ana, carl, monkeypatch):
    checked = handing_over._checked

    def answered_meanwhile(*args):
        services.decide(asked.pk, Answer("approve", Via.PAGE), by=ana)
        return checked(*args)

    monkeypatch.setattr(handing_over, "_checked", answered_meanwhile)
    with pytest.raises(PauseClosed):
        handing_over.hand_over(asked.pk, by=ana, to="carl", reason="away")
    assert not Delegation.objects.exists()


def test_the_page_hands_over_and_takes_back_without_javascript(asked, ana, carl):
    order = f"/work-orders/{asked.run.work_order.shown_id}/"
    address = f"/pauses/{asked.shown_id}/hand-over"
    assert 'list="hand-colleagues"' in browser(ana).get(order).content.decode()
    wrong = browser(ana).post(address, {"to": "nobody", "reason": "I am away"})
    assert wrong.status_code == 422
    assert "I am away" in wrong.content.decode()
    assert browser(ana).post(address, {"to": "carl", "reason": "I am away"}).status_code == 302
    page = browser(ana).get(order).content.decode()
    assert "You asked <b>carl</b> to answer in your place." in page
    theirs = fold(browser(carl).get(order).content.decode())
    assert "You are answering for <b>Ana Ruiz</b>" in theirs
    assert 'list="hand-colleagues"' not in theirs
    assert browser(ana).post(address, {"take_back": "1"}).status_code == 302
    assert "You asked" not in browser(ana).get(order).content.decode()


@pytest.mark.both_databases
def test_it_goes_with_its_thread(asked, ana, carl):
    handed(ana, asked)
    services.decide(asked.pk, Answer("cancel", Via.PAGE), by=ana)
    drive(asked.run.work_order)
    erasure.erase(asked.run.thread_id, by="ana", reason="asked to")
    assert not Delegation.objects.exists()
