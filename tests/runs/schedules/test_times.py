"""When schedules occur: both changes of the clock in zones that change it oddly, weeks that were
missed, and expressions that nobody should have written.
"""

from __future__ import annotations

import datetime as dt
import itertools
from contextlib import suppress
from unittest.mock import patch
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import assume, given, settings
from hypothesis import strategies as some

from runs.schedules import times

ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",  # half an hour
    "America/Santiago",  # at midnight
    "Africa/Cairo",  # at midnight
    "Asia/Kathmandu",
    "Pacific/Apia",
    "Pacific/Chatham",  # at a quarter to
]
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)


def at(text: str, zone: str = "UTC") -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).astimezone(dt.UTC)


def shown(cron: str, zone: str, since: str, count: int) -> list[str]:
    found = itertools.islice(times.after(cron, zone, at(since, zone)), count)
    return [times.local(one, zone) for one in found]


CHANGES = [
    # 2:30 does not exist on the 29th: the first moment that does, and the next day as ever
    ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00",
     ["2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"]),
    # two times that do not exist are one moment, so one occurrence
    ("0,30 2 * * *", "Europe/Berlin", "2026-03-28T12:00",
     ["2026-03-29T03:00+02:00", "2026-03-30T02:00+02:00"]),
    # 2:30 exists twice on the 25th: the first of them alone
    ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00",
     ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"]),
    # by the time that passes: both times in the hour that is there twice
    ("*/30 * * * *", "Europe/Berlin", "2026-10-25T02:00",
     ["2026-10-25T02:30+02:00", "2026-10-25T02:00+01:00", "2026-10-25T02:30+01:00",
      "2026-10-25T03:00+01:00"]),
    ("*/30 * * * *", "Europe/Berlin", "2026-03-29T01:00",
     ["2026-03-29T01:30+01:00", "2026-03-29T03:00+02:00"]),
    ("30 1 * * *", "America/New_York", "2026-10-31T12:00",
     ["2026-11-01T01:30-04:00", "2026-11-02T01:30-05:00"]),
    ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00",
     ["2026-10-04T02:30+11:00", "2026-10-05T02:15+11:00"]),
    # the day begins at 1:00
    ("0 0 * * *", "America/Santiago", "2026-09-05T12:00",
     ["2026-09-06T01:00-03:00", "2026-09-07T00:00-03:00"]),
    # by the time that passes: half an hour is there twice, and the walk goes on from full hours
    ("0 */5 * * SUN", "Australia/Lord_Howe", "2025-04-05T23:00",
     ["2025-04-06T00:00+11:00", "2025-04-06T05:00+10:30", "2025-04-06T10:00+10:30"]),
    ("45 * * * *", "Australia/Lord_Howe", "2025-04-06T01:00",
     ["2025-04-06T01:45+11:00", "2025-04-06T01:45+10:30", "2025-04-06T02:45+10:30"]),
    # of the hour from three, 15 minutes are there
    ("50 */3 * * *", "Pacific/Chatham", "2025-09-28T00:00",
     ["2025-09-28T00:50+12:45", "2025-09-28T03:50+13:45", "2025-09-28T06:50+13:45"]),
    # there was no 30th of December: its nine o'clock is the first moment of the next day
    ("0 9 * * *", "Pacific/Apia", "2011-12-29T12:00",
     ["2011-12-31T00:00+14:00", "2011-12-31T09:00+14:00"]),
]  # fmt: skip


@pytest.mark.parametrize(("cron", "zone", "since", "expected"), CHANGES)
def test_a_day_on_which_the_clock_changes_has_each_occurrence_once(cron, zone, since, expected):
    """F21."""
    assert shown(cron, zone, since, len(expected)) == expected


def test_from_inside_an_hour_that_is_there_twice_nothing_occurs_in_the_past():
    """The library, asked in the second of the two hours, names times of the first one again: a
    schedule that was looked at just then would never have gone on.
    """
    second = at("2026-10-25T00:15").replace(tzinfo=dt.UTC) + HOUR  # 2:15, for the second time
    assert times.local(second, "Europe/Berlin") == "2026-10-25T02:15+01:00"
    found = next(times.after("30 2 * * *", "Europe/Berlin", second))
    assert times.local(found, "Europe/Berlin") == "2026-10-26T02:30+01:00"


FIELD = some.sampled_from(["*", "*/7", "*/20", "0", "30", "5,35", "10-12"])
HOURS = some.sampled_from(["*", "*/5", "0", "1", "2", "3", "0-4", "1,23"])
DAYS = some.sampled_from(["*", "*", "1", "L", "28-31"])
WEEK = some.sampled_from(["*", "*", "SUN", "1-5"])
MOMENTS = some.datetimes(
    min_value=dt.datetime(2025, 1, 1),
    max_value=dt.datetime(2027, 1, 1),
    timezones=some.just(dt.UTC),
)


@settings(max_examples=60, deadline=None)
@given(minute=FIELD, hour=HOURS, day=DAYS, week=WEEK, zone=some.sampled_from(ZONES), since=MOMENTS)
def test_occurrences_are_the_same_wherever_one_begins_to_look(minute, hour, day, week, zone, since):
    """A sweep looks from its cursor on, after any outage: it finds what one that never slept found,
    in order, each once.
    """
    cron = f"{minute} {hour} {day} * {week}"
    found = list(itertools.islice(times.after(cron, zone, since), 12))
    assert found == sorted(set(found))
    assert all(one > since for one in found)
    for place, one in enumerate(found[:-1]):
        assert next(times.after(cron, zone, one)) == found[place + 1]
        between = one + (found[place + 1] - one) / 2
        assert next(times.after(cron, zone, between)) == found[place + 1]


CLOCK_CHANGES = [
    (zone, change)
    for zone in ZONES
    for change in times.changes(ZoneInfo(zone), NOW - 366 * times.DAY, NOW + 366 * times.DAY)
]


@settings(max_examples=40, deadline=None)
@given(minute=FIELD, hour=HOURS, week=WEEK, change=some.sampled_from(CLOCK_CHANGES))
def test_what_goes_by_the_time_that_passes_occurs_at_each_instant_whose_wall_says_so(
    minute, hour, week, change
):
    """Over a change of half an hour, or at a quarter to, the library left out an occurrence."""
    cron, (zone, at) = f"{minute} {hour} * * {week}", change
    assume(not times.by_day(cron))
    since = at - 7 * HOUR
    expected = []
    for number in range(1, 14 * 60):
        one = since + number * dt.timedelta(minutes=1)
        wall = one.astimezone(ZoneInfo(zone)).replace(tzinfo=None, fold=0)
        if next(CronSim(cron, wall - times.SECOND)) == wall:
            expected.append(one)
    found = itertools.takewhile(lambda one: one < since + 14 * HOUR, times.after(cron, zone, since))
    assert list(found) == expected


@settings(max_examples=60, deadline=None)
@given(
    minute=some.integers(0, 59),
    hour=some.integers(0, 23),
    zone=some.sampled_from(ZONES),
    since=MOMENTS,
)
def test_a_time_of_the_day_occurs_once_on_each_day_and_at_no_other_time(minute, hour, zone, since):
    found = list(itertools.islice(times.after(f"{minute} {hour} * * *", zone, since), 40))
    local = [one.astimezone(ZoneInfo(zone)) for one in found]
    days = [one.date() for one in local]
    assert days == [days[0] + dt.timedelta(days=n) for n in range(len(days))]
    for one in local:
        wanted = one.replace(hour=hour, minute=minute, fold=0)
        exists = wanted == wanted.astimezone(dt.UTC).astimezone(ZoneInfo(zone))
        if exists:
            assert one == wanted
            assert one.fold == 0
        else:
            # the clock was put forward: a minute before there was another offset
            before = (one.astimezone(dt.UTC) - dt.timedelta(minutes=1)).astimezone(ZoneInfo(zone))
            assert before.utcoffset() != one.utcoffset()


def plan(cron: str, since: str, now: str, catch_up: str, most: int = 10) -> times.Plan:
    return times.plan(cron, "UTC", since=at(since), now=at(now), catch_up=catch_up, most=most)


def test_after_weeks_the_latest_alone_or_so_many_or_none_are_started():
    weeks = ("0 9 * * *", "2026-01-01T10:00", "2026-02-01T10:00")
    latest = plan(*weeks, "latest")
    assert latest.starts == (at("2026-02-01T09:00"),)
    assert latest.skipped == times.Skipped(at("2026-01-02T09:00"), at("2026-01-31T09:00"), 30)
    several = plan(*weeks, "all", 3)
    assert [one.day for one in several.starts] == [30, 31, 1]
    assert (several.skipped.count, several.last) == (28, at("2026-02-01T09:00"))
    none = plan(*weeks, "none")
    assert (none.starts, none.skipped.count) == ((), 31)
    assert plan("0 9 * * *", "2026-01-01T10:00", "2026-01-02T08:59", "all").last is None


def test_one_that_catches_up_on_none_still_starts_what_is_a_moment_late():
    """A sweep comes seconds after the time: that is no miss."""
    assert plan("0 9 * * *", "2026-01-01T10:00", "2026-01-02T09:04", "none").starts
    assert not plan("0 9 * * *", "2026-01-01T10:00", "2026-01-02T09:06", "none").starts


@pytest.mark.parametrize("catch_up", ["latest", "all", "none"])
def test_years_of_minutes_cost_no_more_than_a_glance(catch_up):
    """P12: half a million missed occurrences are not looked at one by one."""
    long = plan("* * * * *", "2025-01-01T00:00", "2026-06-01T00:00", catch_up, 100)
    assert long.last == at("2026-06-01T00:00")
    assert [len(long.starts), long.skipped.more] == [
        {"latest": 1, "all": 100, "none": 6}[catch_up],
        True,
    ]
    assert long.skipped.count < 10_000


@pytest.mark.parametrize(
    ("cron", "words"),
    [
        ("", "Five fields"),
        ("* * * *", "Five fields"),
        ("0 * * * * *", "Five fields"),
        ("@daily", "Five fields"),
        ("60 * * * *", "no cron expression"),
        ("* * * * MON#9", "no cron expression"),
        ("L/2 * * * *", "no cron expression"),
        ("0 0 31 2 *", "no cron expression"),
        ("0 0 */31 * MON#5", "never occurs"),
        ("*/0 * * * *", "no cron expression"),
        ("1" * 101 + " * * * *", "Five fields"),
        ("٣ * * * *", "no cron expression"),
    ],
)
def test_an_expression_that_is_none_is_refused_with_words(cron, words):
    with pytest.raises(times.CronInvalid, match=words):
        times.check(cron, "UTC", now=NOW)


def test_one_whose_hour_the_clock_leaves_out_each_year_is_refused_after_fifty():
    """In Cairo the last Friday of April has no first hour. Up to the year 9999 that took 4 s."""
    with (
        patch.object(times, "changes", wraps=times.changes) as looked,
        pytest.raises(times.CronInvalid, match="never occurs"),
    ):
        times.check("*/30 0 * 4 5L", "Africa/Cairo", now=NOW)
    assert 50 < looked.call_count < 200


@settings(max_examples=200, deadline=None)
@given(some.text(alphabet="0123456789*/-,#LW MONSUN", max_size=20))
def test_no_text_breaks_the_reading_of_an_expression(text):
    with suppress(times.CronInvalid):
        times.check(text, "Europe/Berlin", now=NOW)


def test_a_zone_that_is_none_is_refused():
    for name in ("Mars/Phobos", "", "../etc/passwd", "europe/berlin"):
        with pytest.raises(times.CronInvalid, match="no time zone"):
            times.check("* * * * *", name, now=NOW)
