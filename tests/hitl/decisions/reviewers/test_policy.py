"""The rules on who answers: each binds every door, and what a person is shown, counts and may do
agree.
"""

from __future__ import annotations

import datetime as dt

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from hitl.decisions import claims, services
from hitl.decisions.reviewers import policy
from hitl.decisions.reviewers.policy import ReviewContext
from hitl.decisions.services import Answer
from hitl.http.logins import Backend
from hitl.models import Decision, Delegation, Via, Vote
from runs import services as runs
from runs.models import Panel, Pause
from runs.states import PauseStatus
from tests.conftest import drive, fresh, pause_of
from tests.databases.whole import rows
from tests.doors.admin import root as root
from tests.worlds.histories.whole_story import broken
from tests.worlds.people import group, person
from tests.worlds.ruled_order import browser, by_page, rest
from tests.worlds.ruled_order import door as door
from tests.worlds.ruled_order import ruled as ruled

pytestmark = pytest.mark.django_db

HOUR = dt.timedelta(hours=1)
REVIEWERS = {"reviewers": {"users": ["cleo"], "groups": ["auditors"]}}


@pytest.fixture
def cleo(db):
    """Named by the rules; neither owner nor in the team."""
    return person("cleo", first_name="Cleo")


@pytest.fixture
def auditor(db):
    """In a group that the rules name."""
    user = User.objects.create_user("otto", first_name="Otto")
    user.groups.add(group("auditors"))
    return user


def refused(outcome, *signs):
    """Whether a door refused, in one of the ways that doors have."""
    return any(sign in outcome for sign in signs)


def test_each_door_tells_what_the_rules_refuse(ruled, ana, ben, cleo, auditor, zoe, root, door):
    """S0-22, S4-72, F4: an administrator has no way past them, who asked for the work does not
    approve it (windmill#7896, #10262: enforced on one route and skipped on another), a vote that
    does not close the question says so, and a delegate answers for a reviewer.
    """
    rules: dict[str, object] = {"reviewers": {"users": ["ana", "cleo"], "groups": ["auditors"]}}
    rules |= {"self_approval": False, "quorum": 2, "reason_required": ["cancel"]}
    pause = pause_of(ruled(rules))
    for by, action, signs in (
        (ben, "approve", ("403", "not_a_reviewer", "You may look at this question, but not")),
        (root, "approve", ("403", "not_a_reviewer", "You may look at this question, but not")),
        (ana, "approve", ("403", "self_approval", "You asked for this work")),
        (ana, "cancel", ("422", "reason_required", "Say why")),
    ):
        outcome = door(by, pause, action, "")
        assert refused(outcome, *signs), outcome
    claims.claim(pause.pk, by=auditor)
    outcome = door(cleo, pause, "approve", "")
    assert refused(outcome, "409", "claimed", "Otto has claimed this question until"), outcome
    claims.release(pause.pk, by=auditor)
    assert door(cleo, pause, "approve", "fine") == "voted"
    outcome = door(cleo, pause, "approve", "")
    assert refused(outcome, "409", "already_voted", "You have voted already"), outcome
    pause.refresh_from_db()
    assert (pause.status, pause.approvals, Decision.objects.count()) == ("open", 1, 0)
    now = timezone.now()
    times = {"starts_at": now - HOUR, "ends_at": now + HOUR}
    Delegation.objects.create(from_user=auditor, to_user=zoe, created_by=root, **times)
    assert door(zoe, pause, "approve", "as agreed") == "decided"
    decision = Decision.objects.get()
    assert (decision.decided_by, decision.on_behalf_of) == (zoe, auditor)
    assert broken() == {}


def test_at_each_door_who_asked_may_send_it_back_and_cancel_it(ruled, ana, door):
    order = ruled({"self_approval": False})
    for action in ("revise", "cancel"):
        assert door(ana, pause_of(order), action, "on second thoughts") == "decided"
        drive(order)


def test_who_asked_may_cancel_though_others_review(ruled, ana):
    """One's own order can be stopped at its question too."""
    pause = pause_of(ruled(REVIEWERS))
    decision = services.decide(pause.pk, Answer("cancel", Via.PAGE, feedback="no"), by=ana)
    assert decision.action == "cancel"


@pytest.mark.parametrize("who", ["cleo", "auditor"])
def test_whom_the_rules_name_answers_without_being_in_the_team(ruled, cleo, auditor, who):
    pause = pause_of(ruled(REVIEWERS))
    person = {"cleo": cleo, "auditor": auditor}[who]
    decision = services.decide(pause.pk, Answer("approve", Via.PAGE), by=person)
    assert decision.decided_by == person


def test_an_answer_of_the_templates_own_does_not_dodge_self_approval(ruled, ana):
    pause = pause_of(ruled({"self_approval": False}))
    with pytest.raises(policy.NotAllowed, match="somebody else must approve"):
        services.decide(pause.pk, Answer("skip", Via.PAGE), by=ana)


def test_who_forks_the_work_has_asked_for_it(ruled, ana, ben):
    """Else an edited state could be approved by who edited it."""
    order = ruled({"self_approval": False})
    services.decide(pause_of(order).pk, Answer("cancel", Via.PAGE), by=ana)
    asked = Pause.objects.get()
    services.fork(
        asked.checkpoint_id,
        by=ben,
        reason="mine",
        state={"drafts": ["mine"], "revision_feedback": ""},
    )
    again = pause_of(drive(fresh(order)))
    with pytest.raises(policy.NotAllowed, match="You asked for this work"):
        services.decide(again.pk, Answer("approve", Via.PAGE), by=ben)


def test_a_retry_asks_for_nothing_new(ruled, ana, ben, make_order):
    order = drive(make_order("writing-fail"))
    assert runs.retry(order.pk, by=ben).started_by == ana


def test_an_answer_with_its_reason_is_taken(ruled, ben):
    pause = pause_of(ruled({"reason_required": ["approve"]}))
    assert by_page(ben, pause, "approve", "The numbers add up.") == "decided"
    assert Decision.objects.get().feedback == "The numbers add up."


def test_the_page_asks_for_the_reasons_and_the_page_that_cancels_too(ruled, ben):
    pause = pause_of(ruled({"reason_required": ["approve", "cancel"]}))
    page = browser(ben).get(f"/work-orders/{pause.run.work_order.shown_id}/").content.decode()
    assert "needed for: Approve, Cancel" in page
    for address in (
        f"/pauses/{pause.shown_id}/cancel",
        f"/work-orders/{pause.run.work_order.shown_id}/cancel",
    ):
        assert 'name="feedback"' in browser(ben).get(address).content.decode()
    answered = browser(ben).post(
        f"/work-orders/{pause.run.work_order.shown_id}/cancel", {"feedback": ""}
    )
    assert answered.status_code == 422
    assert (
        browser(ben)
        .post(f"/work-orders/{pause.run.work_order.shown_id}/cancel", {"feedback": "x"})
        .status_code
        == 302
    )


def test_a_stage_of_the_escalation_counts_from_when_it_is_reached(ruled, ben, cleo, zoe):
    """Before, who is named there sees nothing; after, the team answers too."""
    order = ruled(
        {"escalation": [{"after": "P1D", "users": ["cleo"]}, {"after": "P2D", "users": ["zoe"]}]}
    )
    pause = pause_of(order)
    assert refused(by_page(cleo, pause, "approve", ""), "404")
    Pause.objects.update(stage=1)
    pause.refresh_from_db()
    assert refused(by_page(zoe, pause, "approve", ""), "404")
    assert {user.username for user in policy.answerers(pause)} == {"ana", "ben", "cleo"}
    assert [policy.waiting_for(user).count() for user in (ben, cleo, zoe)] == [1, 1, 0]
    assert by_page(cleo, pause, "approve", "") == "decided"


# What an observer sees


@pytest.fixture
def observer(ruled, cleo):
    pause = pause_of(ruled(REVIEWERS))
    return browser(cleo), rest(cleo), pause


def test_who_is_asked_sees_the_page_the_question_and_its_news(observer):
    page, api, pause = observer
    order = pause.run.work_order.shown_id
    for address in (
        f"/work-orders/{order}/",
        f"/work-orders/{order}/?live",
        f"/pauses/{pause.shown_id}/cancel",
    ):
        assert page.get(address).status_code == 200, address
    for address in (
        f"pauses/{pause.shown_id}",
        f"work-orders/{order}",
        f"work-orders/{order}/pause-state",
        "pauses?open=1",
    ):
        assert api.get(f"/api/v1/{address}").status_code == 200, address
    assert [one["id"] for one in api.get("/api/v1/pauses?open=1").json()["results"]] == [
        pause.shown_id
    ]


def test_who_is_only_asked_sees_and_does_nothing_else(observer):
    """F4: acts, states and checkpoints are for those who take part."""
    page, api, pause = observer
    order, thread, checkpoint = (
        pause.run.work_order.shown_id,
        pause.run.thread.shown_id,
        pause.checkpoint.shown_id,
    )
    html = page.get(f"/work-orders/{order}/").content.decode()
    assert "History and branches" not in html and f"/work-orders/{order}/cancel" not in html
    before = rows()
    for address in (
        f"threads/{thread}/history",
        f"checkpoints/{checkpoint}/",
        f"work-orders/{order}/cancel",
    ):
        assert page.get(f"/{address}").status_code == 404, address
    for address in (
        f"threads/{thread}/state",
        f"threads/{thread}/export",
        f"threads/{thread}",
        f"checkpoints/{checkpoint}",
    ):
        assert api.get(f"/api/v1/{address}").status_code == 404, address
    why = {"reason": "x"}
    for address, body in (
        (f"work-orders/{order}/cancel", why),
        (f"checkpoints/{checkpoint}/fork", why),
    ):
        assert api.post(f"/api/v1/{address}", body, format="json").status_code == 404, address
    assert rows() == before


def test_an_observer_begins_no_run_on_a_thread(observer, ana):
    _, api, pause = observer
    services.decide(pause.pk, Answer("cancel", Via.PAGE), by=ana)
    begun = api.post(
        f"/api/v1/threads/{pause.run.thread.shown_id}/runs",
        {"input": {"a": 1}, "template": "writing"},
        format="json",
    )
    assert begun.status_code == 404


def test_who_was_asked_learns_what_became_of_it(observer, ana, cleo):
    """F4, F8: the loser is told who won, also one from outside the team."""
    page, api, pause = observer
    services.decide(pause.pk, Answer("cancel", Via.PAGE), by=ana)
    lost = api.post(
        f"/api/v1/pauses/{pause.shown_id}/decisions", {"decision": "approve"}, format="json"
    )
    assert (lost.status_code, lost.json()["code"], lost.json()["decided_by"]) == (
        409,
        "pause_closed",
        "ana",
    )
    assert page.get(f"/work-orders/{pause.run.work_order.shown_id}/").status_code == 200


def test_a_guests_own_answers_are_in_his_history(observer, cleo):
    page, _, pause = observer
    assert page.post(f"/pauses/{pause.shown_id}/decide", {"action": "approve"}).status_code == 302
    assert pause.run.work_order.title in page.get("/").content.decode()


def test_who_is_not_asked_any_more_sees_nothing(observer, ruled, auditor):
    pause = observer[2]
    address = f"/work-orders/{pause.run.work_order.shown_id}/"
    assert browser(auditor).get(address).status_code == 200
    auditor.groups.clear()
    assert browser(auditor).get(address).status_code == 404


# What is shown and counted


def test_buttons_are_off_with_the_reason_and_never_hidden(ruled, ben, ana, cleo):
    """SPEC §5: why you may or may not."""
    order = ruled(REVIEWERS)
    page = browser(ben).get(f"/work-orders/{order.shown_id}/").content.decode()
    # approve, revise, the template's own, cancel
    assert page.count('disabled aria-describedby="why-not"') == 4
    assert (
        "You may look at this question, but not answer it. Reviewers: cleo, group auditors." in page
    )
    assert (
        'disabled aria-describedby="why-not"'
        not in browser(cleo).get(f"/work-orders/{order.shown_id}/").content.decode()
    )


def test_a_question_without_rules_says_as_little_as_before(paused, ben):
    page = browser(ben).get(f"/work-orders/{paused.shown_id}/").content.decode()
    assert "approvals. One" not in page
    assert 'id="why-not"' not in page


def test_the_api_says_who_answers_and_whether_you_may(ruled, ben, cleo):
    order = ruled({**REVIEWERS, "self_approval": False, "reason_required": ["cancel"]})
    review = rest(ben).get(f"/api/v1/work-orders/{order.shown_id}/pause-state").json()["review"]
    assert (review["reviewers"], review["quorum"], review["self_approval"]) == (
        REVIEWERS["reviewers"],
        1,
        False,
    )
    assert review["may_answer"] == []
    assert {one["code"] for one in review["why_not"].values()} == {"not_a_reviewer"}
    mine = rest(cleo).get(f"/api/v1/work-orders/{order.shown_id}/pause-state").json()["review"]
    assert mine["may_answer"] == ["approve", "revise", "skip", "cancel"]


RULES = [
    {},
    {"deadline": {"after": "P2D"}},
    REVIEWERS,
    {"self_approval": False},
    {"quorum": 2},
    {**REVIEWERS, "quorum": 2, "self_approval": False},
    {"escalation": [{"after": "P1D", "users": ["cleo"]}]},
]


def test_inbox_badge_api_and_decide_agree(ruled, ana, ben, cleo, auditor, zoe, root):
    """F9: what is listed can be approved, and the other way round; also after a vote."""
    people = [ana, ben, cleo, auditor, zoe, root]
    for rules in RULES:
        ruled(rules, order={"by": ana})
    Pause.objects.filter(review__contains="escalation").update(stage=1)
    for pause in Pause.objects.open():
        if pause.review.get("quorum") == 2:
            services.decide(
                pause.pk,
                Answer("approve", Via.PAGE),
                by=cleo if pause.review.get("reviewers") else ben,
            )
    assert Vote.objects.count() == 2
    for one in people:
        able = {
            pause.pk
            for pause in Pause.objects.open().answerable()
            if ReviewContext(pause, one).refusal("approve") is None
        }
        assert set(policy.waiting_for(one).values_list("pk", flat=True)) == able, one
        told = {
            pause.pk
            for pause in Pause.objects.open().answerable()
            if one in policy.answerers(pause)
        }
        # a superuser may answer more than he is told of
        assert told == (set() if one == root else able)
        page = browser(one).get("/").content.decode()
        assert page.count("data-row=") == len(able)
        assert f"<span data-count>{len(able)}</span>" in page
        assert len(rest(one).get("/api/v1/pauses?open=1").json()["results"]) == len(able)


def test_the_badge_costs_two_queries_whatever_the_rules(ruled, ben, django_assert_num_queries):
    """One finds his teams, whether rules name him and whether he answers for others, one counts."""
    for rules in RULES:
        ruled(rules)
    by = as_session_has(ben)
    with django_assert_num_queries(2):
        policy.waiting_for(by).count()


def as_session_has(user):
    """The person as a login or a token brings them: with whether they are one."""
    return Backend().get_user(user.pk)


def test_rules_that_say_the_same_are_one_panel(ruled):
    ruled(REVIEWERS)
    ruled({"reviewers": {"groups": ["auditors"], "users": ["cleo"]}, "reason_required": ["cancel"]})
    assert Panel.objects.count() == 1
    ruled({"reason_required": ["cancel"], "deadline": {"after": "P1D"}})
    assert Panel.objects.count() == 1
    assert Pause.objects.filter(panel=None, status=PauseStatus.OPEN).count() == 1


def test_an_answer_without_rules_costs_no_query_more(paused, ana, ben, django_assert_num_queries):
    """The usual question is answered as quickly as before there were rules."""
    standing = ReviewContext(pause_of(paused), as_session_has(ben), takes_part=True)
    standing.pause.run.thread, standing.pause.run.work_order  # noqa: B018  # read, as by `answerable`
    with django_assert_num_queries(0):
        assert standing.seat_for("approve") == ben


def test_a_visitor_has_nothing_waiting():
    assert Client().get("/").status_code == 302
