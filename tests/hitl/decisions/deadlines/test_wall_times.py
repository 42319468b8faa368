"""Deadlines that are a time of the clock: `until 12:00`, `next working day 17:00`."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone

from runs import definitions
from runs.definitions import due_times
from runs.workflows.reviews import deadlines, rules
from tests.conftest import drive, pause_of

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]
BERLIN = ZoneInfo("Europe/Berlin")
FRIDAY = dt.datetime(2026, 6, 5, 15, tzinfo=BERLIN)
SHOP = {"shop": {"days": ["sat"], "hours": ["08:00", "12:00"]}}


def deadline(after, **more):
    return {"deadline": {"after": after, "zone": "Europe/Berlin", **more}}


def due(review, **more):
    columns = due_times.columns(review, FRIDAY, **more)
    return columns["deadline_at"].astimezone(BERLIN).isoformat()


def test_a_working_day_is_of_the_named_calendar_else_of_the_teams_else_of_business(settings):
    settings.WAYSTATION_CALENDARS = {**settings.WAYSTATION_CALENDARS, **SHOP}
    review = deadline("next working day 17:00")
    assert due(review) == "2026-06-08T17:00:00+02:00"
    assert due(review, team="shop") == "2026-06-06T17:00:00+02:00"
    assert due(review, team="nobody") == "2026-06-08T17:00:00+02:00"
    assert due(deadline("next working day 17:00", calendar="business"), team="shop") == (
        "2026-06-08T17:00:00+02:00"
    )
    assert deadlines.by_team(review)
    assert not deadlines.by_team(deadline("until 12:00"))
    assert not deadlines.by_team(deadline("next working day 17:00", calendar="business"))


def test_a_question_is_due_at_that_time_of_its_teams_calendar(make_order, team, settings):
    """And a deadline that escalates gets the next such time: it is kept whose days were counted."""
    calendar = {team.name: {"days": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]}}
    settings.WAYSTATION_CALENDARS = {**settings.WAYSTATION_CALENDARS, **calendar}
    steps = [
        {
            "step_type": "planning",
            "step_template_slug": "test-plan",
            "pause_after": True,
            "pause_phase": "awaiting_plan_approval",
            "review": deadline("next working day 17:00"),
        },
        {"step_type": "deliver", "step_template_slug": "test-finish"},
    ]
    definitions.edit_template("walled", title="Walled", needs_repository=False, steps=steps)
    pause = pause_of(drive(make_order("walled")))
    here = pause.deadline_at.astimezone(BERLIN)
    tomorrow = pause.opened_at.astimezone(BERLIN).date() + dt.timedelta(days=1)
    assert (here.date(), here.hour) == (tomorrow, 17)
    assert pause.times["team"] == team.name
    again = due_times.longer(pause, timezone.now() + dt.timedelta(days=3))
    assert again.astimezone(BERLIN).hour == 17


@pytest.mark.parametrize("after", ["until noon", "next working day", "until 24:30"])
def test_what_is_no_time_is_refused_with_what_is_one(after):
    with pytest.raises(rules.ReviewInvalid, match="until 12:00") as refused:
        rules.check(deadline(after), {})
    assert refused.value.field == "deadline.after"


def test_a_stage_may_be_due_at_a_time_too():
    asked = {"reviewers": {"users": ["ana"]}}
    stages = [
        {"name": "legal", **asked},
        {"name": "cfo", "reviewers": {"users": ["ben"]}, "deadline": {"after": "until 16:00"}},
    ]
    checked = rules.check({"stages": stages, **deadline("next day 09:00")}, {})
    columns = due_times.columns(checked, FRIDAY)
    assert columns["deadline_at"].astimezone(BERLIN).isoformat() == "2026-06-05T16:00:00+02:00"
