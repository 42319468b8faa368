"""More time for everybody, and a while without the question for oneself: by page without
JavaScript, and over REST.
"""

from __future__ import annotations

import datetime as dt

import pytest
from django.utils import timezone

from hitl.decisions import services
from hitl.decisions.deadlines import changes, outcomes
from hitl.decisions.services import Answer
from hitl.models import Snooze, Via
from tests.conftest import fresh, kinds, pause_of
from tests.databases.whole import rows
from tests.doors.html import fold
from tests.worlds.deadlines import HOUR, at, updates
from tests.worlds.deadlines import asked as asked
from tests.worlds.ruled_order import browser

pytestmark = pytest.mark.django_db
FOUR = {"after": "PT4H"}


@pytest.fixture
def order(asked):
    """It waits for Ben, who has four hours and is reminded after three."""
    return asked(deadline=FOUR, reminders=["PT3H"], reviewers={"users": ["ben"]})


def move(user, pause, until, reason="Ana is ill"):
    return browser(user).post(
        f"/pauses/{pause.shown_id}/extend", {"until": until.isoformat(), "reason": reason}
    )


def test_a_deadline_is_moved_with_a_reason_and_everybody_sees_who_and_why(order, ben):
    """C21, PEERS: warn before it expires, and give more time."""
    pause = pause_of(order)
    assert move(ben, pause, at(pause, 7)).status_code == 302
    moved = pause_of(order)
    assert (moved.deadline_at, moved.next_at, moved.extendable_until) == (
        at(pause, 7),
        at(pause, 3),
        at(pause, 8),
    )
    [told] = updates(order)
    assert (told["what"], told["by"], told["reason"]) == ("extended", "Ben", "Ana is ill")
    assert (told["was"], told["deadline_at"]) == (
        at(pause, 4).isoformat(),
        at(pause, 7).isoformat(),
    )
    outcomes.fire_due(now=at(pause, 4))
    assert fresh(order).status == "paused"
    shown = browser(ben).get(f"/work-orders/{order.shown_id}/").content.decode()
    assert "moved the deadline to" in shown
    assert "Reminded ben" in shown
    outcomes.fire_due(now=at(pause, 7))
    assert fresh(order).latest_run.status == "expired"


def test_it_goes_no_further_than_the_rules_allow_and_not_without_a_reason(order, ben):
    pause = pause_of(order)
    before = rows()
    for hours, reason, words in (
        (4, "x", "choose a later time"),
        (3, "x", "choose a later time"),
        (8.1, "x", "at the latest"),
        (6, "  ", "Say why"),
        (6, "a\0b", "Say why"),
    ):
        with pytest.raises(changes.PostponingInvalid, match=words):
            changes.extend(pause.pk, by=ben, until=at(pause, hours), reason=reason)
    assert rows() == before


def test_how_far_it_goes_is_a_setting(asked, ben, settings):
    settings.WAYSTATION_EXTEND = 0
    pause = pause_of(asked(deadline=FOUR))
    with pytest.raises(changes.PostponingInvalid):
        changes.extend(pause.pk, by=ben, until=at(pause, 4.1), reason="x")


def test_who_may_not_answer_may_not_move_it_nor_hide_it(order, ana, zoe, api):
    """F4: Ana sees it, since it is hers; Zoe does not even see it."""
    pause = pause_of(order)
    later = {"until": at(pause, 6).isoformat()}
    for user, status, code in ((ana, 403, "not_an_answerer"), (zoe, 404, "not_found")):
        for act, body in (("extend", {**later, "reason": "x"}), ("snooze", later)):
            answer = api(user).post(f"/api/v1/pauses/{pause.shown_id}/{act}", body, format="json")
            assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert move(ana, pause, at(pause, 6)).status_code == 403
    assert move(zoe, pause, at(pause, 6)).status_code == 404
    assert pause_of(order).deadline_at == at(pause, 4)


def test_a_reviewer_who_takes_no_part_moves_it_and_hides_it_too(asked, zoe, api):
    """F4, C20: who may answer may ask for more time, whichever way they came to be asked."""
    order = asked(deadline=FOUR, reviewers={"users": ["zoe"]})
    pause = pause_of(order)
    assert move(zoe, pause, at(pause, 7)).status_code == 302
    until = {"until": at(pause, 1).isoformat()}
    assert (
        api(zoe).post(f"/api/v1/pauses/{pause.shown_id}/snooze", until, format="json").status_code
        == 200
    )
    assert (pause_of(order).deadline_at, changes.inbox(zoe).count()) == (at(pause, 7), 0)


def test_a_superuser_whom_the_rules_do_not_name_moves_nothing(order, admin_user):
    """F4: the rules bind superusers for this too."""
    pause = pause_of(order)
    assert move(admin_user, pause, at(pause, 7)).status_code == 403
    assert pause_of(order).deadline_at == pause.deadline_at


def test_what_is_over_is_not_moved(order, ben, api):
    """F8: the loser is told what happened."""
    pause = pause_of(order)
    outcomes.fire_due(now=at(pause, 4))
    late = api(ben).post(
        f"/api/v1/pauses/{pause.shown_id}/extend",
        {"until": at(pause, 6).isoformat(), "reason": "x"},
        format="json",
    )
    assert (late.status_code, late.json()["code"], late.json()["state"]) == (
        409,
        "pause_closed",
        "expired",
    )
    page = move(ben, pause, at(pause, 6))
    assert page.status_code == 409
    assert "It expired at" in page.content.decode()


def test_a_deadline_that_moved_meanwhile_is_not_moved_from_where_it_was(order, ben, monkeypatch):
    pause = pause_of(order)
    stale = changes._find_open(pause.pk, ben)
    changes.extend(pause.pk, by=ben, until=at(pause, 7), reason="first")
    with pytest.raises(changes.DeadlineMoved):
        changes._extend(stale, by=ben, until=at(pause, 5), reason="second")
    assert pause_of(order).deadline_at == at(pause, 7)


def test_without_a_deadline_there_is_none_to_move(paused, ana, api):
    pause = pause_of(paused)
    later = {"until": (timezone.now() + HOUR).isoformat(), "reason": "x"}
    answer = api(ana).post(f"/api/v1/pauses/{pause.shown_id}/extend", later, format="json")
    assert (answer.status_code, answer.json()["code"]) == (409, "no_deadline")


def test_what_is_no_time_is_refused_at_both_doors(order, ben, api, subtests):
    address, client, page = f"pauses/{pause_of(order).shown_id}", api(ben), browser(ben)
    for until in ("", "tomorrow", "2026-13-01T00:00", None):
        with subtests.test(str(until)):
            for act, why in (("extend", {"reason": "x"}), ("snooze", {})):
                body = {"until": until, **why}
                answer = client.post(f"/api/v1/{address}/{act}", body, format="json")
                assert answer.status_code == (200 if until is None and act == "snooze" else 400)
            form = {"until": until or "", "reason": "x"}
            said = page.post(f"/{address}/extend", form)
            assert said.status_code == 422
            assert "The deadline was not moved" in said.content.decode()
            said = page.post(f"/{address}/snooze", {"hours": until or "99999999"})
            assert said.status_code == 422
            assert "Nothing was hidden" in said.content.decode()


def test_a_program_reads_and_moves_it(order, ben, api):
    """S3-9: what REST says of time."""
    pause = pause_of(order)
    shown = api(ben).get(f"/api/v1/pauses/{pause.shown_id}").json()
    assert (shown["deadline_outcome"], shown["stage"], shown["state"]) == ("expire", 0, "open")
    times = {
        name: dt.datetime.fromisoformat(shown[name])
        for name in ("deadline_at", "next_deadline", "extendable_until")
    }
    assert times == {
        "deadline_at": at(pause, 4),
        "next_deadline": at(pause, 3),
        "extendable_until": at(pause, 8),
    }
    assert [dt.datetime.fromisoformat(one) for one in shown["reminders"]] == [at(pause, 3)]
    moved = api(ben).post(
        f"/api/v1/pauses/{pause.shown_id}/extend",
        {"until": at(pause, 6).isoformat(), "reason": "x"},
        format="json",
    )
    assert (moved.status_code, dt.datetime.fromisoformat(moved.json()["deadline_at"])) == (
        200,
        at(pause, 6),
    )
    outcomes.fire_due(now=at(pause, 6))
    over = api(ben).get(f"/api/v1/pauses/{pause.shown_id}").json()
    assert (over["status"], over["state"], over["user_decision"], over["next_deadline"]) == (
        "resolved",
        "expired",
        None,
        None,
    )
    order = api(ben).get(f"/api/v1/work-orders/{order.shown_id}").json()
    assert (order["status"], order["failure_code"]) == ("failed", "expired")


def test_a_hidden_question_is_out_of_the_own_inbox_only_and_comes_back(asked, ana, ben):
    """F9: list, badge and socket agree; the deadline stays."""
    pause = pause_of(order := asked(deadline=FOUR))
    assert browser(ana).post(f"/pauses/{pause.shown_id}/snooze", {"hours": 1}).status_code == 302
    assert [user.username for user in (ana, ben) if changes.inbox(user).exists()] == ["ben"]
    inbox = browser(ana).get("/").content.decode()
    assert "1 hidden until later" in fold(inbox)
    assert f'data-row="{pause.shown_id}"' not in inbox
    Snooze.objects.update(until=timezone.now())
    assert changes.inbox(ana).get() == pause
    assert pause_of(order).deadline_at == pause.deadline_at


def test_it_is_shown_again_on_demand_and_when_people_are_reminded(order, ben, api):
    pause = pause_of(order)
    for again in (
        lambda: browser(ben).post(f"/pauses/{pause.shown_id}/snooze", {"hours": 0}),
        lambda: outcomes.fire_due(now=at(pause, 3)),
    ):
        until = at(pause, 3.5).isoformat()
        assert (
            api(ben)
            .post(f"/api/v1/pauses/{pause.shown_id}/snooze", {"until": until}, format="json")
            .status_code
            == 200
        )
        assert not changes.inbox(ben).exists()
        again()
        assert changes.inbox(ben).get() == pause


def test_nothing_is_hidden_past_its_deadline(order, ben):
    pause = pause_of(order)
    for until in (
        at(pause, 4),
        at(pause, 5),
        timezone.now(),
        timezone.now() + dt.timedelta(days=400),
    ):
        with pytest.raises(changes.PostponingInvalid):
            changes.snooze(pause.pk, by=ben, until=until)
    assert changes.naps(pause, now=at(pause, 0)) == [HOUR]


def test_a_hidden_question_can_still_be_found_and_answered(order, ben):
    pause = pause_of(order)
    changes.snooze(pause.pk, by=ben, until=at(pause, 1))
    services.decide(pause.pk, Answer("approve", Via.PAGE), by=ben)
    assert kinds(order).count("approval_received") == 1
    assert not changes.snoozed(ben).exists()


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ({}, "it expires: the work order ends without an answer"),
        ({"outcome": "cancel"}, "the work order is cancelled"),
        ({"outcome": "approve"}, "it counts as approved, by nobody"),
        ({"outcome": "escalate"}, "zoe, bosses may answer too, and get as long again"),
    ],
)
def test_the_card_says_what_the_deadline_will_do_and_when(asked, ben, outcome, words):
    """S4 consequence on the card: before anybody answers."""
    stages = (
        {"escalation": [{"after": "PT2H", "users": ["zoe"], "groups": ["bosses"]}]}
        if "escalate" in outcome.values()
        else {}
    )
    order = asked(deadline={**FOUR, **outcome}, reminders=["PT3H"], **stages)
    shown = browser(ben).get(f"/work-orders/{order.shown_id}/").content.decode()
    assert "in 3 hours" in shown
    assert words in shown
    assert f'datetime="{timezone.localtime(pause_of(order).deadline_at).isoformat()}"' in shown


def test_the_card_offers_later_deadlines_to_those_who_may_answer_only(order, ana, ben):
    for user, offered in ((ben, True), (ana, False)):
        shown = browser(user).get(f"/work-orders/{order.shown_id}/").content.decode()
        assert ("Move the deadline" in shown) is offered
    assert changes.choices(pause_of(order), now=timezone.now()) == [
        at(pause_of(order), 5),
        at(pause_of(order), 8),
    ]


def test_the_inbox_says_when_things_are_due_and_what_expired(order, ben):
    """S3-42, F9: expired is in the history, with no button, and apart from what was cancelled."""
    client = browser(ben)
    assert "Due in 3 hours" in client.get("/").content.decode()
    outcomes.fire_due(now=at(pause_of(order), 4))
    inbox = client.get("/").content.decode()
    assert "Nothing waits for you" in inbox
    assert "Expired" in inbox
    assert "Nobody answered in time" in inbox
    shown = client.get(f"/work-orders/{order.shown_id}/").content.decode()
    assert "Nobody answered in time" in shown
    assert "Reopen question" in shown
    assert "data-approve" not in shown
