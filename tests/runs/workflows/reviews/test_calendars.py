"""Deadlines on a virtual clock: both changes of the clock in four zones, leap days, zones 26 hours
apart, weeks with weekends.
"""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest
from django.core.exceptions import ImproperlyConfigured
from hypothesis import given, settings
from hypothesis import strategies as some

from runs import env
from runs.workflows import timing
from runs.workflows.reviews import calendars
from runs.workflows.reviews.calendars import (
    Calendar,
    CalendarInvalid,
    DurationInvalid,
    add,
    next_at,
    parse,
    read,
    wall_time,
)

WEEK = read({"days": ["mon", "tue", "wed", "thu", "fri"], "hours": ["09:00", "17:00"]})


def local(text: str, zone: str, fold: int = 0) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold)


def after(start: dt.datetime, span: str, calendar: Calendar | None = None) -> str:
    zone = start.tzinfo
    assert isinstance(zone, ZoneInfo)
    return add(start, parse(span), zone=zone, calendar=calendar).astimezone(zone).isoformat()


CHANGES = [
    # zone, start, span, end
    ("Europe/Berlin", "2026-03-28T12:00", "P1D", "2026-03-29T12:00:00+02:00"),  # 23 hours
    ("Europe/Berlin", "2026-03-28T12:00", "PT24H", "2026-03-29T13:00:00+02:00"),
    ("Europe/Berlin", "2026-03-28T02:30", "P1D", "2026-03-29T03:30:00+02:00"),  # there is no 2:30
    ("Europe/Berlin", "2026-10-24T12:00", "P1D", "2026-10-25T12:00:00+01:00"),  # 25 hours
    ("Europe/Berlin", "2026-10-24T12:00", "PT24H", "2026-10-25T11:00:00+01:00"),
    ("Europe/Berlin", "2026-10-24T02:30", "P1D", "2026-10-25T02:30:00+01:00"),  # the second 2:30
    ("America/New_York", "2026-03-07T02:30", "P1D", "2026-03-08T03:30:00-04:00"),
    ("America/New_York", "2026-03-07T09:00", "PT24H", "2026-03-08T10:00:00-04:00"),
    ("America/New_York", "2026-10-31T01:30", "P1D", "2026-11-01T01:30:00-05:00"),
    ("America/New_York", "2026-10-31T09:00", "P1D", "2026-11-01T09:00:00-05:00"),
    # half an hour is left out
    ("Australia/Lord_Howe", "2026-10-03T02:15", "P1D", "2026-10-04T02:45:00+11:00"),
    ("Australia/Lord_Howe", "2026-10-03T12:00", "PT24H", "2026-10-04T12:30:00+11:00"),
    # half an hour is there twice
    ("Australia/Lord_Howe", "2026-04-04T01:45", "P1D", "2026-04-05T01:45:00+10:30"),
    ("Australia/Lord_Howe", "2026-04-04T12:00", "P1D", "2026-04-05T12:00:00+10:30"),
    # the day begins at 1:00
    ("America/Santiago", "2026-09-05T00:30", "P1D", "2026-09-06T01:30:00-03:00"),
    ("America/Santiago", "2026-09-05T12:00", "PT24H", "2026-09-06T13:00:00-03:00"),
    # the day's last hour is there twice
    ("America/Santiago", "2026-04-03T23:30", "P1D", "2026-04-04T23:30:00-04:00"),
    ("America/Santiago", "2026-04-03T12:00", "P2D", "2026-04-05T12:00:00-04:00"),
    ("Pacific/Kiritimati", "2026-12-31T23:00", "P1D", "2027-01-01T23:00:00+14:00"),
    ("Etc/GMT+12", "2026-12-31T23:00", "PT2H", "2027-01-01T01:00:00-12:00"),
    ("Pacific/Apia", "2011-12-29T10:00", "P1D", "2011-12-31T10:00:00+14:00"),  # there was no 30th
    ("UTC", "2028-02-28T08:00", "P1D", "2028-02-29T08:00:00+00:00"),
    ("UTC", "2028-02-29T08:00", "P366D", "2029-03-01T08:00:00+00:00"),
    ("UTC", "2027-02-28T08:00", "P1DT30M", "2027-03-01T08:30:00+00:00"),
    ("UTC", "2026-11-22T08:00", "P2W", "2026-12-06T08:00:00+00:00"),
]


@pytest.mark.parametrize(("zone", "start", "span", "end"), CHANGES)
def test_days_keep_the_wall_time_and_hours_really_pass(zone, start, span, end):
    """F21: an hour or a day was lost or won in others' products; what comes out is one instant, in
    UTC.
    """
    assert add(local(start, zone), parse(span), zone=ZoneInfo(zone)).tzinfo is dt.UTC
    """P8, C21."""
    assert after(local(start, zone), span) == end


@pytest.mark.parametrize("fold", [0, 1])
def test_a_day_after_an_hour_that_is_there_twice_is_one_moment(fold):
    assert (
        after(local("2026-10-25T02:30", "Europe/Berlin", fold), "P1D")
        == "2026-10-26T02:30:00+01:00"
    )


def test_the_same_moment_is_another_day_in_zones_26_hours_apart():
    # Saturday on Kiritimati, Thursday evening in the west
    moment = dt.datetime(2026, 11, 20, 10, 30, tzinfo=dt.UTC)
    ends = {
        name: add(moment, parse("PT1H"), zone=ZoneInfo(name), calendar=WEEK)
        for name in ("Pacific/Kiritimati", "Etc/GMT+12")
    }
    assert (
        ends["Pacific/Kiritimati"].astimezone(ZoneInfo("Pacific/Kiritimati")).isoformat()
        == "2026-11-23T10:00:00+14:00"
    )
    assert (
        ends["Etc/GMT+12"].astimezone(ZoneInfo("Etc/GMT+12")).isoformat()
        == "2026-11-20T10:00:00-12:00"
    )


WORK = [
    # 2026-11-20 is a Friday
    ("2026-11-20T10:00", "PT4H", "2026-11-20T14:00:00+01:00"),
    ("2026-11-20T15:00", "PT4H", "2026-11-23T11:00:00+01:00"),
    ("2026-11-20T09:00", "PT8H", "2026-11-20T17:00:00+01:00"),  # until they close
    ("2026-11-20T10:00", "P1D", "2026-11-23T10:00:00+01:00"),
    # asked on a Saturday, it begins on Monday
    ("2026-11-21T22:00", "P1D", "2026-11-24T09:00:00+01:00"),
    ("2026-11-20T17:00", "PT1H", "2026-11-23T10:00:00+01:00"),
    ("2026-11-20T06:00", "PT1H", "2026-11-20T10:00:00+01:00"),
    ("2026-11-20T16:00", "P1DT2H", "2026-11-24T10:00:00+01:00"),
    ("2026-03-27T16:00", "PT2H", "2026-03-30T10:00:00+02:00"),  # the clock changes over the weekend
    ("2026-03-27T16:00", "P1D", "2026-03-30T16:00:00+02:00"),
    ("2026-10-23T12:00", "P1D", "2026-10-26T12:00:00+01:00"),
    ("2028-02-28T10:00", "P1D", "2028-02-29T10:00:00+01:00"),
]


@pytest.mark.parametrize(("start", "span", "end"), WORK)
def test_with_a_calendar_only_hours_of_work_count(start, span, end):
    """P8, PEERS: a weekend kills no run."""
    assert after(local(start, "Europe/Berlin"), span, WEEK) == end


def test_holidays_are_no_days_of_work():
    named = read({"hours": ["09:00", "17:00"], "holidays": ["2026-12-24", "2026-12-25"]})
    assert (
        after(local("2026-12-23T16:00", "Europe/Berlin"), "PT2H", named)
        == "2026-12-28T10:00:00+01:00"
    )
    public = read({"hours": ["09:00", "17:00"], "country": "DE", "subdivision": "BY"})
    # Epiphany
    assert (
        after(local("2027-01-05T16:00", "Europe/Berlin"), "PT2H", public)
        == "2027-01-07T10:00:00+01:00"
    )
    elsewhere = read({"hours": ["09:00", "17:00"], "country": "DE", "subdivision": "BE"})
    assert (
        after(local("2027-01-05T16:00", "Europe/Berlin"), "PT2H", elsewhere)
        == "2027-01-06T10:00:00+01:00"
    )


def test_a_night_shift_meets_both_changes_of_the_clock():
    """Its hours really pass: three where an hour is left out, five where one is there twice."""
    nights = read({"days": list(calendars.DAYS), "hours": ["00:00", "04:00"]})
    assert (
        after(local("2026-03-29T00:00", "Europe/Berlin"), "PT4H", nights)
        == "2026-03-30T01:00:00+02:00"
    )
    assert (
        after(local("2026-10-25T00:00", "Europe/Berlin"), "PT5H", nights)
        == "2026-10-25T04:00:00+01:00"
    )
    assert (
        after(local("2026-03-28T02:30", "Europe/Berlin"), "P1D", nights)
        == "2026-03-29T03:30:00+02:00"
    )


ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Santiago",
    "Pacific/Kiritimati",
    "Pacific/Apia",
]
CALENDARS = [
    None,
    WEEK,
    read({"days": list(calendars.DAYS), "hours": ["00:00", "24:00"]}),
    read({"days": ["sat", "sun"], "hours": ["00:00", "04:00"]}),
    read({"days": ["mon", "fri"], "hours": ["22:00", "24:00"], "country": "US"}),
]
starts = some.datetimes(
    dt.datetime(2005, 1, 1), dt.datetime(2040, 1, 1), timezones=some.just(dt.UTC)
)
spans = some.builds(
    calendars.Span, some.integers(0, 40), some.timedeltas(dt.timedelta(0), dt.timedelta(hours=60))
)


@settings(max_examples=150, deadline=None)
@given(
    start=starts,
    span=spans,
    more=spans,
    zone=some.sampled_from(ZONES),
    calendar=some.sampled_from(CALENDARS),
)
def test_a_deadline_is_never_in_the_past_within_hours_of_work_and_no_sooner_for_a_longer_time(
    start, span, more, zone, calendar
):
    """P8."""
    where = ZoneInfo(zone)
    end = add(start, span, zone=where, calendar=calendar)
    assert end >= start
    longer = calendars.Span(span.days + more.days, span.hours + more.hours)
    assert add(start, longer, zone=where, calendar=calendar) >= end
    if calendar is not None:
        wall = end.astimezone(where)
        days = [wall.date(), wall.date() - dt.timedelta(days=1)]
        assert any(
            hours and hours[0] <= end <= hours[1]
            for day in days
            if (hours := calendars._hours_of(day, where, calendar))
        )


@settings(max_examples=100, deadline=None)
@given(
    start=starts,
    later=some.timedeltas(dt.timedelta(0), dt.timedelta(days=9)),
    span=spans,
    calendar=some.sampled_from(CALENDARS),
)
def test_what_is_asked_later_is_not_due_sooner(start, later, span, calendar):
    """In UTC; where a zone's clock goes back, the hour that is there twice is due at the same wall
    time.
    """
    where = ZoneInfo("UTC")
    assert add(start + later, span, zone=where, calendar=calendar) >= add(
        start, span, zone=where, calendar=calendar
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "P",
        "PT",
        "P0D",
        "PT0S",
        "4h",
        "P1Y",
        "P1M",
        "P1.5D",
        "-P1D",
        "P1DT",
        "PT1H ",
        "P٣D",
        "P3661D",
        "P1D2H",
        "pt1h",
        "P99999999999D",
    ],
)
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(DurationInvalid):
        parse(text)


@pytest.mark.parametrize(
    "given",
    [
        None, [], {"day": []}, {"days": []}, {"days": ["monday"]}, {"days": "mon"}, {"hours": ["9",
        "17"]}, {"hours": ["17:00", "09:00"]},
        {"hours": ["25:00", "26:00"]}, {"holidays": ["Christmas"]}, {"holidays": [20261225]},
        {"country": "Atlantis"},
        {"country": "DE", "subdivision": "XX"},
    ],
)  # fmt: skip
def test_what_is_no_calendar_is_refused(given):
    with pytest.raises(CalendarInvalid):
        read(given)


def test_a_calendar_without_hours_of_work_is_found_out():
    class Always:
        def __contains__(self, day: object) -> bool:
            return True

    with pytest.raises(CalendarInvalid):
        add(
            dt.datetime.now(dt.UTC),
            parse("PT1H"),
            zone=ZoneInfo("UTC"),
            calendar=Calendar(frozenset({0}), holidays=(Always(),)),
        )
    seldom = read({"days": ["mon"], "hours": ["00:00", "00:01"]})
    with pytest.raises(CalendarInvalid):
        add(dt.datetime.now(dt.UTC), parse("PT87840H"), zone=ZoneInfo("UTC"), calendar=seldom)


def test_no_zone_is_made_up():
    with pytest.raises(ValueError, match="no time zone"):
        timing.zone_of("Europe/Atlantis")


@pytest.mark.parametrize(
    "value", ["no JSON", "[]", "3", '{"night": {"hours": ["22:00", "06:00"]}}', '{"night": 3}']
)
def test_a_setting_that_cannot_be_right_stops_the_start_and_is_named(monkeypatch, value):
    monkeypatch.setenv("WAYSTATION_CALENDARS", value)
    with pytest.raises(ImproperlyConfigured, match="WAYSTATION_CALENDARS"):
        env.calendars("WAYSTATION_CALENDARS", {})


def test_calendars_of_the_setting_join_the_shipped_one(monkeypatch):
    monkeypatch.setenv("WAYSTATION_CALENDARS", '{"nights": {"hours": ["00:00", "06:00"]}}')
    assert set(env.calendars("WAYSTATION_CALENDARS", {"business": {}})) == {"business", "nights"}


TIMES = [
    # zone, start, time, end; the first is a Saturday
    ("Europe/Berlin", "2026-03-28T09:00", "until 12:00", "2026-03-28T12:00:00+01:00"),
    ("Europe/Berlin", "2026-03-28T12:00", "until 12:00", "2026-03-29T12:00:00+02:00"),  # 23 hours
    ("Europe/Berlin", "2026-03-28T09:00", "until 24:00", "2026-03-29T00:00:00+01:00"),
    ("Europe/Berlin", "2026-03-28T23:00", "until 02:30", "2026-03-29T03:30:00+02:00"),  # none there
    ("Europe/Berlin", "2026-10-24T23:00", "until 02:30", "2026-10-25T02:30:00+01:00"),  # the second
    ("Europe/Berlin", "2026-10-24T13:00", "until 12:00", "2026-10-25T12:00:00+01:00"),  # 23 hours
    ("Europe/Berlin", "2026-10-24T09:00", "next day 09:00", "2026-10-25T09:00:00+01:00"),
    ("Europe/Berlin", "2026-03-27T08:00", "next working day 17:00", "2026-03-30T17:00:00+02:00"),
    ("Europe/Berlin", "2026-10-22T18:00", "next working day 17:00", "2026-10-23T17:00:00+02:00"),
    ("Europe/Berlin", "2026-10-23T18:00", "next working day 17:00", "2026-10-26T17:00:00+01:00"),
    ("America/New_York", "2026-03-07T12:00", "until 02:30", "2026-03-08T03:30:00-04:00"),
    ("America/Santiago", "2026-09-05T12:00", "until 00:30", "2026-09-06T01:30:00-03:00"),
]  # fmt: skip


@pytest.mark.parametrize(("zone", "start", "time", "end"), TIMES)
def test_a_time_of_the_clock_is_the_next_one_in_its_zone(zone, start, time, end):
    """Also where clocks change; never earlier than the clock says."""
    wall = wall_time(time)
    assert wall is not None
    calendar = WEEK if wall.working else None
    found = next_at(local(start, zone), wall, zone=ZoneInfo(zone), calendar=calendar)
    assert found.astimezone(ZoneInfo(zone)).isoformat() == end


def test_with_a_calendar_a_time_of_the_clock_is_on_a_day_of_work():
    holidays = read({"days": ["mon", "tue", "wed", "thu", "fri"], "holidays": ["2026-06-08"]})
    wall = wall_time("until 12:00")
    assert wall is not None
    found = next_at(local("2026-06-05T13:00", "UTC"), wall, zone=ZoneInfo("UTC"), calendar=holidays)
    assert found.isoformat() == "2026-06-09T12:00:00+00:00"


@pytest.mark.parametrize(
    "text", ["until noon", "until 25:00", "12:00", "next working day", "until 12:60", "PT4H", ""]
)
def test_what_is_no_time_of_the_clock_is_none(text):
    assert wall_time(text) is None


@settings(deadline=None)
@given(
    start=some.datetimes(dt.datetime(2026, 1, 1), dt.datetime(2027, 12, 31)),
    zone=some.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"]),
    hour=some.integers(0, 23),
    minute=some.integers(0, 59),
    which=some.sampled_from(["until", "next day", "next working day"]),
)
def test_a_time_of_the_clock_is_later_than_its_beginning_and_at_most_a_long_weekend_away(
    start, zone, hour, minute, which
):
    begin = start.replace(tzinfo=dt.UTC)
    wall = wall_time(f"{which} {hour:02}:{minute:02}")
    assert wall is not None
    calendar = WEEK if wall.working else None
    found = next_at(begin, wall, zone=ZoneInfo(zone), calendar=calendar)
    assert begin < found <= begin + dt.timedelta(days=4, hours=2)
    shown, day = found.astimezone(ZoneInfo(zone)), begin.astimezone(ZoneInfo(zone)).date()
    assert not wall.working or shown.weekday() < 5
    assert which == "until" or shown.date() > day
