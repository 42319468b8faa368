"""Deadlines of the stages of a review: each counts from its own turn, and the question is due when
the first of its open stages is.
"""

from __future__ import annotations

import datetime as dt
from functools import partial
from typing import Any

import pytest

from checkpoints.database import clock
from hitl.decisions import services, undo
from hitl.decisions.deadlines import changes, outcomes
from hitl.decisions.services import Answer
from hitl.models import Decision, Via, Vote
from runs.definitions import TemplateInvalid, due_times
from runs.models import Pause
from runs.services import PauseClosed
from tests.conftest import fresh
from tests.conftest import pause_of as question_of
from tests.databases.whole import at_once
from tests.databases.whole import file_database as file_database
from tests.worlds.deadlines import HOUR, at, fire, updates
from tests.worlds.deadlines import asked as asked
from tests.worlds.histories.whole_story import broken
from tests.worlds.people import person
from tests.worlds.ruled_order import browser, rest

pytestmark = pytest.mark.django_db
DAY = {"after": "P1D"}


def pause_of(order) -> Any:
    """Its open question."""
    return question_of(order)


def stage(name, who, hours=0, **more):
    rule = {"deadline": {"after": f"PT{hours}H"}} if hours else {}
    return {"name": name, "reviewers": {"users": [who]}, **rule, **more}


LEGAL = stage("legal", "lea", 4)
FINANCE = stage("finance", "fin", 6)
CFO = stage("cfo", "carl", 2, after=["legal", "finance"])


@pytest.fixture
def people(db):
    return {name: person(name) for name in ("lea", "fin", "carl", "zoe")}


def approve(pause, by, action="approve", **more):
    return services.decide(pause.pk, Answer(action, Via.REST, **more), by=by)


def since(pause, name, hours):
    """When the turn of a stage began, by what it is due."""
    return due_times.of_stages(pause)[name] - hours * HOUR


@pytest.mark.both_databases
def test_the_first_open_stage_says_when_the_question_is_due(asked, people):
    pause = pause_of(asked(stages=[LEGAL, FINANCE, CFO], deadline=DAY))
    assert due_times.of_stages(pause) == {"legal": at(pause, 4), "finance": at(pause, 6)}
    assert (pause.deadline_at, pause.next_at) == (at(pause, 4), at(pause, 4))
    assert pause.deadline_at < pause.extendable_until == at(pause, 8)
    approve(pause, people["lea"])
    pause = pause_of(fresh(pause.run.work_order))
    assert (pause.deadline_at, pause.next_at) == (at(pause, 6), at(pause, 6))
    before = clock.now()
    approve(pause, people["fin"])
    pause.refresh_from_db()
    assert before <= since(pause, "cfo", 2) <= clock.now()
    assert pause.deadline_at == due_times.of_stages(pause)["cfo"] == pause.next_at
    assert broken() == {}
    assert isinstance(approve(pause, people["carl"]), Decision)
    pause.refresh_from_db()
    assert pause.deadline_at == at(pause, 24)  # the question's own
    assert broken() == {}


def test_without_a_deadline_of_the_question_a_stage_may_have_none_or_the_only_one(asked, people):
    pause = pause_of(
        asked(stages=[stage("legal", "lea"), stage("cfo", "carl", 2, after=["legal"])])
    )
    assert (pause.deadline_at, pause.next_at) == (None, None)
    approve(pause, people["lea"])
    pause.refresh_from_db()
    assert pause.deadline_at == due_times.of_stages(pause)["cfo"]
    assert outcomes.fire_due(now=pause.deadline_at - dt.timedelta(seconds=1)) == 0
    assert outcomes.fire_due(now=pause.deadline_at) == 1
    pause.refresh_from_db()
    assert (pause.status, fresh(pause.run.work_order).latest_run.status) == ("expired", "expired")
    assert Vote.objects.count() == 1
    assert broken() == {}


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("outcome", "status"), [("expire", "expired"), ("cancel", "cancelled"), ("approve", "answered")]
)
def test_a_late_stage_does_what_the_question_says(asked, people, outcome, status):
    """P8: once, never early."""
    rules = {"stages": [LEGAL, FINANCE], "deadline": {**DAY, "outcome": outcome}}
    pause = pause_of(asked(**rules))
    approve(pause, people["fin"])
    assert outcomes.fire_due(now=at(pause, 3.9)) == 0
    assert outcomes.fire_due(now=at(pause, 4)) == 1
    assert outcomes.fire_due(now=at(pause, 30)) == 0
    pause.refresh_from_db()
    assert pause.status == status


def test_a_late_stage_escalates_and_all_open_stages_get_as_long_as_the_question_had(asked, people):
    rules = {"stages": [LEGAL, FINANCE], "escalation": [{"after": "P2D", "users": ["zoe"]}]}
    pause = pause_of(asked(**rules, deadline={**DAY, "outcome": "escalate"}))
    fire(pause.pk, now=at(pause, 4))
    pause.refresh_from_db()
    assert (pause.status, pause.stage, pause.deadline_at) == ("open", 1, at(pause, 28))
    assert set(due_times.of_stages(pause).values()) == {at(pause, 28)}
    approve(pause, people["zoe"], stage="legal")
    pause.refresh_from_db()
    assert pause.deadline_at == at(pause, 28)
    assert broken() == {}
    fire(pause.pk, now=at(pause, 28))
    pause.refresh_from_db()
    assert pause.status == "expired"


@pytest.mark.both_databases
def test_who_moves_the_deadline_moves_each_that_comes_before_it(asked, people):
    pause = pause_of(asked(stages=[LEGAL, FINANCE, CFO], deadline=DAY))
    changes.extend(pause.pk, by=people["lea"], until=at(pause, 7), reason="holidays")
    pause.refresh_from_db()
    assert due_times.of_stages(pause) == {"legal": at(pause, 7), "finance": at(pause, 7)}
    assert (pause.deadline_at, pause.next_at) == (at(pause, 7), at(pause, 7))
    with pytest.raises(changes.PostponingInvalid, match="at the latest"):
        changes.extend(pause.pk, by=people["lea"], until=at(pause, 9), reason="more")
    for name in ("lea", "fin"):
        approve(pause, people[name])
    pause.refresh_from_db()
    assert clock.now() < pause.deadline_at < clock.now() + 2 * HOUR
    assert broken() == {}


def test_a_revision_and_an_answer_taken_back_begin_all_stages_anew(asked, people, ana):
    order = asked(stages=[LEGAL, CFO | {"after": ["legal"]}], undo=60)
    first = pause_of(order)
    approve(first, people["lea"])
    decision = approve(first, people["carl"])
    undo.undo(decision.pk, by=people["carl"], via=Via.REST)
    again = pause_of(order)
    assert again.pk != first.pk
    assert due_times.of_stages(again) == {"legal": at(again, 4)}
    assert again.deadline_at == at(again, 4)
    assert broken() == {}


def test_a_stage_counts_in_the_questions_calendar_or_in_its_own(asked, people, settings):
    settings.WAYSTATION_CALENDARS = {
        "never on mondays": {"days": ["tue"]},
        "all": {"days": ["mon"]},
    }
    settings.TIME_ZONE = "UTC"
    zone = {"zone": "Asia/Tokyo", "calendar": "never on mondays"}
    own = {"deadline": {"after": "PT1H", "calendar": "all"}}
    rules = [stage("legal", "lea", 1), stage("finance", "fin") | own]
    pause = pause_of(asked(stages=rules, deadline={"after": "P1D", **zone}))
    tokyo = dt.timezone(dt.timedelta(hours=9))
    just_before = dt.timedelta(microseconds=1)  # an end at midnight is of the day before
    days = {
        name: (due - just_before).astimezone(tokyo).weekday()
        for name, due in due_times.of_stages(pause).items()
    }
    assert days == {"legal": 1, "finance": 0}


def test_a_deadline_that_cannot_be_counted_is_refused_at_its_field(asked, people, subtests):
    for deadline, field, words in [
        ({"after": "soon"}, "after", "no duration"),
        ({}, "after", "This is needed"),
        ({"after": "P1D", "calendar": "moon"}, "calendar", "There is no calendar"),
        ({"after": "P1D", "zone": "Mars"}, "zone", "There is no time zone"),
        ({"after": "P1D", "outcome": "approve"}, "", 'no key "outcome"'),
    ]:
        with subtests.test(words):
            with pytest.raises(TemplateInvalid, match=words) as refused:
                asked(stages=[LEGAL, stage("finance", "fin") | {"deadline": deadline}])
            place = f"steps.0.review.stages.1.deadline.{field}".rstrip(".")
            assert list(refused.value.errors) == [place]


def test_a_calendar_that_is_gone_when_a_stage_begins_makes_no_early_deadline(
    asked, people, settings
):
    rules = [stage("legal", "lea"), stage("cfo", "carl", after=["legal"])]
    rules[1]["deadline"] = {"after": "PT1H", "calendar": "business"}
    pause = pause_of(asked(stages=rules))
    settings.WAYSTATION_CALENDARS = {}
    approve(pause, people["lea"])
    pause.refresh_from_db()
    assert (pause.deadline_at, pause.turn) == (None, 2)
    assert 'no calendar "business"' in pause.times["problem"]


def test_the_card_and_rest_tell_when_each_stage_is_due(asked, people):
    order = asked(stages=[LEGAL, FINANCE, CFO])
    pause = pause_of(order)
    card = browser(people["lea"]).get(f"/work-orders/{order.shown_id}/").content.decode()
    lines = card.split('<ol class="review-stages">')[1].split("</ol>")[0].split("<li")[1:]
    assert ["· due" in line for line in lines] == [True, True, False]
    shown = rest(people["lea"]).get(f"/api/v1/pauses/{pause.shown_id}").json()["review"]["stages"]
    told = [(one["deadline"], one["due_at"]) for one in shown]
    due = [due_times.of_stages(pause).get(name) for name in ("legal", "finance", "cfo")]
    assert [deadline for deadline, _ in told] == [
        {"after": "PT4H"}, {"after": "PT6H"}, {"after": "PT2H"},
    ]  # fmt: skip
    assert [at and dt.datetime.fromisoformat(at) for _, at in told] == due


@pytest.mark.both_databases
def test_a_question_that_is_due_at_another_time_than_its_stage_is_found(asked, people):
    pause = pause_of(asked(stages=[LEGAL, FINANCE]))
    Pause.objects.filter(pk=pause.pk).update(deadline_at=at(pause, 5))
    assert set(broken()) == {"deadline_of_stage_missing"}


@pytest.mark.both_databases
def test_stages_begun_by_two_votes_at_once_are_told_and_timed_once(
    transactional_db, file_database, asked, people
):
    """F8: real threads; each vote begins what comes after it, in its own time."""
    after = [stage("after-legal", "carl", 2, after=["legal"])]
    after += [stage("after-finance", "zoe", 3, after=["finance"])]
    pause = pause_of(asked(stages=[LEGAL, FINANCE, *after]))
    results = at_once(*(partial(approve, pause, people[name]) for name in ("lea", "fin")))
    assert [type(result).__name__ for result in results] == ["Vote", "Vote"]
    pause.refresh_from_db()
    begun = [name for update in updates(pause.run.work_order) for name in update.get("begun", [])]
    assert sorted(begun) == ["after-finance", "after-legal"]
    votes = {vote.stage: vote.voted_at for vote in Vote.objects.all()}
    for name, before, hours in (("after-legal", "legal", 2), ("after-finance", "finance", 3)):
        assert abs(since(pause, name, hours) - votes[before]) < dt.timedelta(seconds=30)
    assert pause.deadline_at == due_times.of_stages(pause)["after-legal"]
    assert broken() == {}


@pytest.mark.both_databases
def test_a_vote_meets_the_sweep_and_one_of_them_acts(
    transactional_db, file_database, asked, people
):
    """P1, P8: the stage is complete, and the question open with the later deadline; or expired."""
    for _ in range(4):
        pause = pause_of(asked(stages=[LEGAL, FINANCE]))
        sweep = partial(fire, pause.pk, now=at(pause, 4))
        results = at_once(partial(approve, pause, people["lea"]), sweep, sweep)
        pause.refresh_from_db()
        voted = [result for result in results if isinstance(result, Vote)]
        if pause.status == "open":
            assert len(voted) == 1
            assert pause.deadline_at == at(pause, 6)
        else:
            # a vote before the sweep, which read the question after it, never makes it expire
            assert (pause.status, voted) == ("expired", [])
        unexpected = [one for one in results if isinstance(one, Exception)]
        assert all(
            isinstance(one, PauseClosed | services.AlreadyAnswered | services.DeadlinePassed)
            for one in unexpected
        )


def test_who_votes_after_the_time_of_their_stage_lets_the_rules_act(asked, people, monkeypatch):
    pause = pause_of(asked(stages=[LEGAL, FINANCE], deadline=DAY))
    back = dt.timedelta(hours=5)
    due = {
        name: [(dt.datetime.fromisoformat(one) - back).isoformat() for one in limit]
        for name, limit in pause.times["due"].items()
    }
    Pause.objects.filter(pk=pause.pk).update(
        opened_at=pause.opened_at - back,
        deadline_at=pause.deadline_at - back,
        extendable_until=pause.extendable_until - back,
        times={**pause.times, "due": due},
    )
    with pytest.raises(services.DeadlinePassed):
        approve(pause, people["fin"])
    pause.refresh_from_db()
    assert pause.status == "expired"
    assert broken() == {}
