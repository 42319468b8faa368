"""Answers that come after the deadline, where no sweep has looked since: none is taken at any door,
and the rules act right there (P8).
"""

from __future__ import annotations

import datetime as dt
from functools import partial

import pytest
from django.utils import timezone

from checkpoints.models import Event
from hitl.decisions import bulk, claims, services, undo
from hitl.decisions.deadlines import changes
from hitl.decisions.reviewers.outsiders import Outsider
from hitl.decisions.services import Answer, pauses
from hitl.models import Decision, Via, Vote
from hitl.models.outbound import Link
from hitl.operations import invariants
from runs.definitions import due_times
from runs.models import Pause
from runs.services.undo import TooLate
from tests.conftest import drive, fresh, kinds, pause_of
from tests.databases.whole import at_once, rows
from tests.databases.whole import file_database as file_database
from tests.worlds.deadlines import HOUR, overdue, updates
from tests.worlds.deadlines import asked as asked
from tests.worlds.mailing import relay
from tests.worlds.outsiders import SUPPLIER, browser, link_to

pytestmark = pytest.mark.django_db

FOUR = {"after": "PT4H"}
DOORS = {
    "service": lambda pause, ana, api: services.decide(
        pause.pk, Answer("approve", Via.PAGE), by=ana
    ),
    "revise": lambda pause, ana, api: services.decide(
        pause.pk, Answer("revise", Via.PAGE, feedback="x"), by=ana
    ),
    "cancel": lambda pause, ana, api: services.cancel_order(
        pause.run.work_order_id, by=ana, via=Via.PAGE
    ),
    "order": lambda pause, ana, api: services.answer_order(
        pause.run.work_order_id, Answer("approve", Via.PAGE), by=ana
    ),
    "claim": lambda pause, ana, api: claims.claim(pause.pk, by=ana),
    "extend": lambda pause, ana, api: changes.extend(
        pause.pk, by=ana, until=pause.deadline_at + 2 * HOUR, reason="please"
    ),
    "snooze": lambda pause, ana, api: changes.snooze(pause.pk, by=ana, until=timezone.now() + HOUR),
}


def whole():
    found = invariants.check(now=timezone.now(), late=dt.timedelta(hours=9), deep=True)
    return [one.invariant.code for one in found if one.count]


@pytest.mark.parametrize(("ahead", "looks"), [(4 * HOUR, 0), (dt.timedelta(seconds=1), 1)])
def test_a_deadline_far_ahead_is_not_looked_at_again(
    asked, ahead, looks, django_assert_num_queries
):
    """What closes a question asks for its deadline anyway. One that is near may have passed by the
    database's clock, whatever this host's says.
    """
    pause = pause_of(asked(deadline=FOUR))
    pause.deadline_at = timezone.now() + ahead
    pause.save(update_fields=["deadline_at"])
    with django_assert_num_queries(looks):
        services.check_open(pause)


@pytest.mark.parametrize("door", DOORS)
def test_nothing_that_people_do_is_taken_after_the_deadline(asked, ana, api, door):
    """Each of these was taken until the sweep came; an extension revived the question."""
    order = asked(deadline=FOUR)
    pause = overdue(pause_of(order))
    with pytest.raises(
        services.DeadlinePassed,
        match=r"The time to answer was over at .* By its rules the question expires",
    ):
        DOORS[door](pause, ana, api)
    assert (fresh(order).latest_run.status, Decision.objects.count(), Vote.objects.count()) == (
        "expired",
        0,
        0,
    )
    with pytest.raises(services.AlreadyAnswered, match="It expired at"):
        services.decide(pause.pk, Answer("approve", Via.PAGE), by=ana)
    assert (kinds(order).count("run_expired"), whole()) == (1, [])


def test_rest_and_page_say_which_deadline_it_was_and_what_the_rules_say(asked, ana, api, page):
    """One code at every route, with the outcome."""
    routes = {
        "pauses/{pause}/decisions": {"decision": "approve"},
        "work-orders/{order}/resume": {"decision": "approve"},
        "runs/{run}/input": {"input": {"content": "APPROVE"}},
        "workflows/{run}/resume": {"payload": "approve"},
        "pauses/{pause}/claim": {},
    }
    for route, body in routes.items():
        order = asked(deadline={**FOUR, "outcome": "cancel"})
        pause = overdue(pause_of(order))
        named = {"pause": pause.shown_id, "order": order.shown_id, "run": pause.run.shown_id}
        late = api(ana).post(f"/api/v1/{route.format(**named)}", body, format="json")
        told = late.json()
        assert (late.status_code, told["code"], told["outcome"], told["state"]) == (
            409,
            "deadline_passed",
            "cancel",
            "cancelled",
        ), route
        assert dt.datetime.fromisoformat(told["deadline_at"]) == pause.deadline_at
        assert Decision.objects.get(pause=pause).via == Via.POLICY
    order = asked(deadline={**FOUR, "outcome": "approve"})
    pause = overdue(pause_of(order))
    shown = page.get(f"/work-orders/{order.shown_id}/").content.decode()
    assert "The time to answer is over" in shown
    late = page.post(f"/pauses/{pause.shown_id}/decide", {"action": "cancel", "revision": 1})
    assert (late.status_code, "silence approves" in late.content.decode()) == (409, True)
    assert (drive(order).status, whole()) == ("completed", [])


def test_in_bulk_each_one_says_so_by_itself(asked, ana):
    late, good = asked(deadline=FOUR), asked()
    late, good = overdue(pause_of(late)), pause_of(good)
    found = bulk.decide(
        [bulk.Chosen(late.pk, 1), bulk.Chosen(good.pk, 1)], Answer("approve", Via.PAGE), by=ana
    )
    assert [one.decision is not None for one in found] == [False, True]
    assert "over" in found[0].words


@pytest.mark.usefixtures("reachable")
def test_who_answers_by_a_link_is_told_that_the_time_is_over(asked):
    """Before, the supplier's answer was taken days later."""
    order = asked(deadline=FOUR, external=[SUPPLIER])
    relay()
    overdue(pause_of(order))
    late = browser().post(link_to(), {"action": "approve", "me": "yes"})
    assert (late.status_code, "The time to answer this is over" in late.content.decode()) == (
        409,
        True,
    )
    assert (fresh(order).latest_run.status, Link.objects.get(recipient=None).used_at) == (
        "expired",
        None,
    )


def test_a_vote_after_the_deadline_does_not_count(asked, ana, ben):
    """Before, the second of two votes closed the question long after its time."""
    order = asked(deadline=FOUR, quorum=2)
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
    pause = overdue(pause_of(order))
    with pytest.raises(services.DeadlinePassed):
        services.decide(pause.pk, Answer("approve", Via.PAGE), by=ben)
    assert (Vote.objects.count(), fresh(order).latest_run.status) == (1, "expired")


def test_an_answer_is_not_taken_back_once_nobody_could_answer_again(asked, ana):
    """An undo asked once more, with its whole time anew."""
    order = asked(deadline=FOUR, undo=600)
    decision = services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
    overdue(Pause.objects.get())
    with pytest.raises(TooLate, match="the answer holds"):
        undo.undo(decision.pk, by=ana, via=Via.PAGE)
    assert (Pause.objects.count(), Decision.objects.count()) == (1, 1)


ESCALATE = {
    "deadline": {**FOUR, "outcome": "escalate"},
    "reviewers": {"users": ["ben"]},
    "escalation": [{"after": "PT9H", "users": ["zoe"]}],
}


@pytest.mark.parametrize("door", ["service", "order"])
def test_where_the_rules_ask_further_people_their_answer_counts_and_the_first_ones_are_told(
    asked, ana, ben, zoe, api, door
):
    """The deadline was Ben's; Zoe is asked from then on, told or not."""
    order = asked(**ESCALATE)
    pause = overdue(pause_of(order))
    assert isinstance(DOORS[door](pause, zoe, api), Decision)
    assert [one["what"] for one in updates(order)] == ["escalated"]
    order = asked(**ESCALATE)
    overdue(pause_of(order))
    with pytest.raises(services.DeadlinePassed, match="further people are asked, until"):
        services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ben)
    pause = pause_of(order)
    assert (pause.status, pause.stage, pause.overdue) == ("open", 1, False)
    assert isinstance(services.decide(pause.pk, Answer("approve", Via.PAGE), by=ben), Decision), (
        "they have as long again"
    )


def test_who_takes_part_and_is_asked_from_the_deadline_on_answers_then(asked, ana):
    order = asked(**{**ESCALATE, "escalation": [{"after": "PT9H", "users": ["ana"]}]})
    pause = overdue(pause_of(order))
    assert services.decide(pause.pk, Answer("approve", Via.PAGE), by=ana).decided_by == ana


def test_whoever_may_not_see_a_question_learns_nothing_of_its_deadline(asked, zoe):
    pause = overdue(pause_of(asked(deadline=FOUR)))
    with pytest.raises(services.NotFound):
        services.decide(pause.pk, Answer("approve", Via.PAGE), by=zoe)


def test_the_statement_that_closes_a_question_holds_its_deadline_itself(asked, ana, monkeypatch):
    """The time may run out between the look and the write."""
    order = asked(deadline=FOUR)
    pause = pause_of(order)
    record = pauses._record

    def late(*args, **kwargs):
        overdue(pause_of(order))
        return record(*args, **kwargs)

    monkeypatch.setattr(pauses, "_record", late)
    with pytest.raises(services.DeadlinePassed):
        services.decide(pause.pk, Answer("approve", Via.PAGE), by=ana)
    assert (fresh(order).latest_run.status, Decision.objects.count()) == ("expired", 0)


def test_of_many_who_come_too_late_one_lets_the_rules_act(file_database, asked, ana, ben):
    order = asked(deadline={**FOUR, "outcome": "approve"})
    pause = overdue(pause_of(order))
    found = at_once(
        *[
            partial(services.decide, pause.pk, Answer("cancel", Via.PAGE), by=by)
            for by in (ana, ben)
        ]
        * 3
    )
    assert {type(one) for one in found} <= {services.DeadlinePassed, services.AlreadyAnswered}, (
        found
    )
    assert (
        Decision.objects.get().action,
        Event.objects.filter(kind="approval_received").count(),
    ) == ("approve", 1)


def test_a_question_without_a_deadline_costs_no_look_at_the_clock(
    asked, ana, django_assert_num_queries
):
    pause = pause_of(asked())
    assert due_times.outcome_of(pause) == ""
    with django_assert_num_queries(0):
        services.check_open(pause)
    before = rows()
    with pytest.raises(services.NotFound):
        services.decide(pause.pk, Answer("approve", Via.LINK), by=Outsider(SUPPLIER))
    assert rows() == before
