"""What a schedule's page says of times that a change of the clock leaves out, or repeats."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from runs.schedules import times
from runs.schedules.preview import Preview, preview

NOVEMBER = dt.datetime(2026, 11, 20, tzinfo=dt.UTC)
ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago"]
EXPRESSIONS = ["30 2 * * *", "0,30 2 * * *", "*/20 * * * *", "15 0-3 * * *", "*/5 1 * * SUN"]


def ahead(cron: str, zone: str, now: dt.datetime = NOVEMBER, most: int = 5) -> Preview:
    return preview(cron, zone, now=now, most=most)


def words(cron: str, zone: str, now: dt.datetime = NOVEMBER) -> list[str]:
    return [change.words for change in ahead(cron, zone, now).changes]


def test_months_ahead_it_names_the_day_without_the_hour_and_the_one_with_two_of_it():
    """F21."""
    assert words("30 2 * * *", "Europe/Berlin") == [
        "On 2027-03-28 the clock goes forward from 02:00 to 03:00. 02:30 does not exist on that "
        "day: it starts once at 03:00.",
        "On 2027-10-31 the clock goes back from 03:00 to 02:00. 02:30 comes twice on that day: it "
        "starts the first time alone.",
    ]


def test_what_goes_by_the_time_that_passes_is_left_out_and_occurs_twice():
    """F21."""
    assert words("*/10 * * * *", "Europe/Berlin") == [
        "On 2027-03-28 the clock goes forward from 02:00 to 03:00. 02:00, 02:10, 02:20 and 3 more "
        "do not exist on that day: they are left out.",
        "On 2027-10-31 the clock goes back from 03:00 to 02:00. 02:00, 02:10, 02:20 and 3 more "
        "come twice on that day: it starts both times.",
    ]


def test_a_change_that_touches_none_of_its_times_says_so_and_some_zones_have_none():
    found = ahead("0 9 * * MON-FRI", "Europe/Berlin").changes
    assert [change.touches for change in found] == [False, False]
    assert found[0].words.endswith("to 03:00. No time of this schedule is touched.")
    assert words("0 9 * * *", "Asia/Kathmandu") == words("0 9 * * *", "UTC") == []


def test_each_time_says_itself_what_becomes_of_it():
    """F21."""
    spring = ahead("0,30 2 * * *", "Europe/Berlin", dt.datetime(2026, 3, 28, 12, tzinfo=dt.UTC))
    assert [(time.local, time.note) for time in spring.coming[:2]] == [
        ("2026-03-29T03:00+02:00", "In place of 02:00 and 02:30, which do not exist on that day."),
        ("2026-03-30T02:00+02:00", ""),
    ]
    autumn = ahead("*/30 * * * *", "Europe/Berlin", dt.datetime(2026, 10, 25, 0, tzinfo=dt.UTC))
    assert [(time.local[11:], time.note[35:]) for time in autumn.coming] == [
        ("02:30+02:00", "this is the first."),
        ("02:00+01:00", "this is the second."),
        ("02:30+01:00", "this is the second."),
        ("03:00+01:00", ""),
        ("03:30+01:00", ""),
    ]


def test_a_day_that_a_country_leaves_out_is_said_with_its_dates():
    before = dt.datetime(2011, 12, 29, 12, tzinfo=dt.UTC)
    assert words("0 9 * * *", "Pacific/Apia", before)[0] == (
        "On 2011-12-30 the clock goes forward from 2011-12-30 00:00 to 2011-12-31 00:00. "
        "2011-12-30 09:00 does not exist on that day: it starts once at 2011-12-31 00:00."
    )


@settings(max_examples=40, deadline=None)
@given(
    cron=some.sampled_from(EXPRESSIONS),
    zone=some.sampled_from(ZONES),
    now=some.datetimes(
        min_value=dt.datetime(2025, 1, 1),
        max_value=dt.datetime(2027, 1, 1),
        timezones=some.just(dt.UTC),
    ),
)
def test_what_it_says_is_what_the_sweep_will_find(cron, zone, now):
    """F21: times that are said to start twice do, and no others."""
    for change in ahead(cron, zone, now).changes:
        around = times.after_until(
            cron, zone, change.at - dt.timedelta(hours=3), change.at + dt.timedelta(hours=3)
        )
        local = [at.astimezone(ZoneInfo(zone)) for at in around]
        walls = [one.replace(tzinfo=None, fold=0) for one in local]
        twice = len(walls) - len(set(walls))
        assert ("both times" in change.words) == bool(twice), change.words
        if "starts once at" in change.words:
            assert change.at in {one.astimezone(dt.UTC) for one in local}


@pytest.mark.parametrize("zone", ["Australia/Lord_Howe", "Antarctica/Troll", "Africa/Cairo"])
def test_odd_zones_have_their_changes_in_order(zone):
    found = ahead("0 * * * *", zone).changes
    assert 2 <= len(found) <= 4
    assert [change.at for change in found] == sorted(change.at for change in found)
