"""Moments in the future, as people count them: ISO 8601 durations in a time zone, by the clock or
by hours of work. Pure.

Days keep the wall time: `P1D` after 9:30 is 9:30 on the next day, or on the next day of work. Hours
are hours that really pass, of work where there is a calendar. Where clocks change, a wall time that
there is twice, or not at all, is read as the later of its two meanings: nothing is early. Of one
and the same beginning, a longer duration never ends sooner.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import holidays

from runs.workflows.refusals import in_json

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
LONGEST = dt.timedelta(days=3660)
FARTHEST = 40 * 366
"""Days that are looked through for hours of work: beyond them a calendar has too few."""
MIDNIGHT = dt.timedelta(0)
_DURATION = re.compile(
    r"P(?=.)(?:([0-9]{1,4})W)?(?:([0-9]{1,5})D)?(?:T(?=.)(?:([0-9]{1,6})H)?(?:([0-9]{1,7})M)?(?:([0-9]{1,9})S)?)?"
)
_WALL = re.compile(r"(until|next day|next working day) (?:([01][0-9]|2[0-3]):([0-5][0-9])|24:00)")
_HOUR = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])|24:00")


class DurationInvalid(ValueError):
    """A text that is no duration that can be counted."""


class CalendarInvalid(ValueError):
    """A calendar that cannot be read, or has too few hours of work."""


@dataclass(frozen=True)
class Span:
    """A duration: whole days, and what is counted in hours."""

    days: int
    hours: dt.timedelta

    @property
    def length(self) -> dt.timedelta:
        """By the clock."""
        return dt.timedelta(days=self.days) + self.hours


@dataclass(frozen=True)
class WallTime:
    """A time on a clock: the next one, or that of a later day."""

    at: dt.timedelta
    """Since midnight."""
    later: bool
    """Not on the day on which it is counted from."""
    working: bool
    """On a day of work."""


@dataclass(frozen=True)
class Calendar:
    """Hours of work."""

    days: frozenset[int]
    """0 for Monday."""
    opens: dt.timedelta = MIDNIGHT
    """Since midnight, by the wall clock."""
    closes: dt.timedelta = dt.timedelta(hours=24)
    holidays: tuple[Container[dt.date], ...] = field(default=(), compare=False)

    def works(self, day: dt.date) -> bool:
        return day.weekday() in self.days and not any(day in some for some in self.holidays)


def parse(text: str) -> Span:
    """Read an ISO 8601 duration of whole weeks, days, hours, minutes and seconds: `P2D`, `PT4H30M`.

    Raises DurationInvalid.
    """
    match = _DURATION.fullmatch(text)
    weeks, days, hours, minutes, seconds = (
        (int(part or 0) for part in match.groups()) if match else (0, 0, 0, 0, 0)
    )
    span = Span(weeks * 7 + days, dt.timedelta(hours=hours, minutes=minutes, seconds=seconds))
    if not dt.timedelta(0) < span.length <= LONGEST:
        raise DurationInvalid(
            f"{in_json(text)} is no duration: write PT4H for four hours or P2D for two days, up to "
            "ten years; or a time as “until 12:00” or “next working day 17:00”."
        )
    return span


def wall_time(text: str) -> WallTime | None:
    """Read `until 12:00`, `next day 09:00` or `next working day 17:00`; None of all else."""
    match = _WALL.fullmatch(text)
    if match is None:
        return None
    which, hour, minute = match.groups()
    at = dt.timedelta(hours=int(hour), minutes=int(minute)) if hour else dt.timedelta(hours=24)
    return WallTime(at, later=which != "until", working=which == "next working day")


def next_at(
    start: dt.datetime, wall: WallTime, *, zone: ZoneInfo, calendar: Calendar | None = None
) -> dt.datetime:
    """The first moment after `start` at which a clock shows that time, in UTC; with a calendar, on
    a day of work. Raises CalendarInvalid where there is none.
    """
    first = start.astimezone(zone).date()
    for ahead in range(1 if wall.later else 0, FARTHEST):
        day = first + dt.timedelta(days=ahead)
        at = _moment(dt.datetime.combine(day, dt.time()) + wall.at, zone)
        if at > start and (calendar is None or _hours_of(day, zone, calendar)):
            return at
    raise CalendarInvalid("The calendar has no days of work.")


def add(
    start: dt.datetime, span: Span, *, zone: ZoneInfo, calendar: Calendar | None = None
) -> dt.datetime:
    """The moment so long after `start`, in UTC.

    With a calendar, what begins outside the hours of work begins with the next of them, and the end
    lies within them: at the latest at the moment they close. Raises CalendarInvalid where it has
    too few hours.
    """
    if calendar is None:
        return _at_wall(start, span.days, zone) + span.hours
    begin = _next_open(start, zone, calendar)
    return _work(_days_later(begin, span.days, zone, calendar), span.hours, zone, calendar)


def _at_wall(start: dt.datetime, days: int, zone: ZoneInfo) -> dt.datetime:
    if not days:
        return start.astimezone(dt.UTC)
    wall = start.astimezone(zone).replace(tzinfo=None)
    return _moment(wall + dt.timedelta(days=days), zone)


def _moment(wall: dt.datetime, zone: ZoneInfo) -> dt.datetime:
    """The later of what a wall time may mean: in a gap that moves it on by the gap, in an overlap
    it is the second of the two.
    """
    return max(wall.replace(tzinfo=zone, fold=fold).astimezone(dt.UTC) for fold in (0, 1))


def _hours_of(
    day: dt.date, zone: ZoneInfo, calendar: Calendar
) -> tuple[dt.datetime, dt.datetime] | None:
    """When work begins and ends on a day; None where nobody works, or where there is no such day in
    the zone.
    """
    if not calendar.works(day):
        return None
    midnight = dt.datetime.combine(day, dt.time())
    opens, closes = (_moment(midnight + at, zone) for at in (calendar.opens, calendar.closes))
    return (opens, closes) if opens.astimezone(zone).date() == day and opens < closes else None


def _next_open(at: dt.datetime, zone: ZoneInfo, calendar: Calendar) -> dt.datetime:
    """`at` where somebody works then, else the next beginning of work."""
    day = at.astimezone(zone).date()
    for ahead in range(FARTHEST):
        hours = _hours_of(day + dt.timedelta(days=ahead), zone, calendar)
        if hours and at < hours[1]:
            return max(at, hours[0]).astimezone(dt.UTC)
    raise CalendarInvalid("The calendar has no hours of work.")


def _days_later(begin: dt.datetime, days: int, zone: ZoneInfo, calendar: Calendar) -> dt.datetime:
    """The same wall time so many days of work later; where clocks jump over it, within that day's
    hours.
    """
    wall = begin.astimezone(zone).replace(tzinfo=None)
    day, left = wall.date(), days
    for _ in range(FARTHEST):
        if not left:
            break
        day += dt.timedelta(days=1)
        left -= _hours_of(day, zone, calendar) is not None
    else:
        raise CalendarInvalid("The calendar has too few days of work.")
    hours = _hours_of(day, zone, calendar)
    if not days or hours is None:
        return begin
    return min(max(_moment(dt.datetime.combine(day, wall.time()), zone), hours[0]), hours[1])


def _work(
    begin: dt.datetime, left: dt.timedelta, zone: ZoneInfo, calendar: Calendar
) -> dt.datetime:
    """`begin`, which is within hours of work, and so much work later."""
    day = begin.astimezone(zone).date()
    for ahead in range(-1, FARTHEST):  # a day that closes at 24:00 closes on the date after
        hours = _hours_of(day + dt.timedelta(days=ahead), zone, calendar)
        if hours is None or hours[1] < begin:
            continue
        here = max(begin, hours[0])
        if here + left <= hours[1]:
            return here + left
        left -= hours[1] - here
    raise CalendarInvalid("The calendar has too few hours of work.")


def read(given: Any) -> Calendar:
    """A calendar as a setting has it: `{"days": ["mon", …], "hours": ["09:00", "17:00"],
    "holidays": ["2026-12-25"], "country": "DE"}`.

    `country` (ISO 3166-1, with a `subdivision` where wanted) adds its public holidays. Raises
    CalendarInvalid.
    """
    if not isinstance(given, Mapping) or not set(given) <= {
        "days",
        "hours",
        "holidays",
        "country",
        "subdivision",
    }:
        raise CalendarInvalid(
            "a calendar is an object of days, hours, holidays, country and subdivision, "
            f"not {in_json(given)}"
        )
    days = given.get("days", DAYS[:5])
    if not isinstance(days, list | tuple) or not days or not all(day in DAYS for day in days):
        raise CalendarInvalid(f"days are some of {', '.join(DAYS)}, not {in_json(days)}")
    opens, closes = _opening(given.get("hours", ["00:00", "24:00"]))
    free: list[Container[dt.date]] = [frozenset(_dates(given.get("holidays", [])))]
    country, subdivision = given.get("country") or "", given.get("subdivision") or ""
    if not isinstance(country, str) or not isinstance(subdivision, str):
        raise CalendarInvalid('country and subdivision are texts, such as "DE" and "BY"')
    if country:
        free.append(_public(country, subdivision))
    return Calendar(frozenset(DAYS.index(day) for day in days), opens, closes, tuple(free))


def _opening(given: Any) -> tuple[dt.timedelta, dt.timedelta]:
    if (
        not isinstance(given, list | tuple)
        or len(given) != 2
        or not all(_HOUR.fullmatch(str(hour)) for hour in given)
    ):
        raise CalendarInvalid(f'hours are two times as ["09:00", "17:00"], not {in_json(given)}')
    opens, closes = (dt.timedelta(hours=int(hour[:2]), minutes=int(hour[3:])) for hour in given)
    if opens >= closes:
        raise CalendarInvalid(f"hours end before they begin: {in_json(given)}")
    return opens, closes


def _dates(given: Any) -> list[dt.date]:
    try:
        return [dt.date.fromisoformat(day) for day in given]
    except (TypeError, ValueError) as error:
        raise CalendarInvalid(f"holidays are dates as 2026-12-25, not {in_json(given)}") from error


@lru_cache(maxsize=64)
def _public(country: str, subdivision: str) -> Container[dt.date]:
    """Public holidays, worked out for each year when it is first asked about."""
    try:
        days: Container[dt.date] = holidays.country_holidays(country, subdiv=subdivision or None)
    except NotImplementedError as error:
        place = " ".join(filter(None, [country, subdivision]))
        raise CalendarInvalid(f"no public holidays are known of {in_json(place)}") from error
    return days
