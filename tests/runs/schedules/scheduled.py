"""Schedules of tests: on small steps, by a clock that the test holds."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User

from runs.models import Occurrence, Schedule
from runs.schedules import keeping, sweep
from tests.worlds.people import give

NOON = dt.datetime(2026, 6, 1, 12, tzinfo=dt.UTC)
"""A Monday; schedules of `scheduled` look for what occurs from then on."""
MINUTE = dt.timedelta(minutes=1)
HOUR = dt.timedelta(hours=1)


def may_schedule(user: User) -> User:
    give(user, "add_schedule")
    return User.objects.get(pk=user.pk)


@pytest.fixture
def scheduled(templates: None, ana: User) -> Callable[..., Schedule]:
    """`scheduled(cron="0 * * * *")`: Ana's schedule, which looks for what occurs after NOON."""
    owner = may_schedule(ana)

    def make(**values: Any) -> Schedule:
        given = {"name": "Report", "template": "writing", "cron": "0 * * * *", **values}
        schedule = keeping.make(given.pop("by", owner), **given)
        Schedule.objects.filter(pk=schedule.pk).update(cursor=NOON, next_at=NOON)
        return Schedule.objects.get(pk=schedule.pk)

    return make


def sweep_at(now: dt.datetime) -> int:
    return sweep.start_due(now=now)


def history(schedule: Schedule) -> list[tuple[str, str, int]]:
    """Time of the day, status and number of each occurrence, in order."""
    rows = Occurrence.objects.filter(schedule=schedule).order_by("at")
    return [(row.local[11:16], row.status, row.count) for row in rows]


def reasons(schedule: Schedule) -> list[str]:
    return [row.why for row in Occurrence.objects.filter(schedule=schedule).order_by("at")]
