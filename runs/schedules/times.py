"""When a schedule's occurrences are: cron expressions on the clock of a time zone.

An expression whose minute or hour begins with `*` goes by the time that passes: it occurs in the
hour that exists twice both times, and not at all in one that does not exist. All others name times
of the day: such a time that does not exist is the first moment that does, and one that exists
twice is the first of the two. So a day's report comes once on each day (`cronsim`, as Debian's
cron).
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from runs.workflows.refusals import in_json
from runs.workflows.reviews import calendars

DAY = dt.timedelta(days=1)
SECOND = dt.timedelta(seconds=1)
FIELDS = 5
UNTIL = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")
"""A time until which an occurrence may start."""
LONGEST = 100
NEVER = 50 * 366 * DAY
"""After so long without an occurrence there is none, for the library, too: all of them may be in an
hour that the clock leaves out each year.
"""
COUNTED = 2_000
"""Missed occurrences that are counted one by one; of more it is said that there were more."""
MOST = 100
"""Missed occurrences that one schedule may start."""
MISSED = dt.timedelta(minutes=5)
"""An occurrence that is found later than this was missed."""


class CronInvalid(ValueError):
    """No cron expression, or no time zone; the message says what is expected."""


def zone_of(name: str) -> ZoneInfo:
    """The time zone of an IANA name. Raises CronInvalid."""
    if name not in available_timezones():
        raise CronInvalid(
            f"There is no time zone {in_json(name, 60)}. Use an IANA name, such as Europe/Berlin "
            "or UTC."
        )
    return ZoneInfo(name)


def check(cron: str, zone: str, *, now: dt.datetime) -> str:
    """Give the expression as it is kept. Raises CronInvalid where it is none, or never occurs."""
    parts = cron.split()
    if len(parts) != FIELDS or len(cron) > LONGEST:
        raise CronInvalid(
            "Five fields with spaces between: minute, hour, day of the month, month, day of the "
            "week. 0 9 * * MON-FRI is nine o'clock on weekdays."
        )
    zone_of(zone)
    try:
        first = next(after(" ".join(parts), zone, now), None)
    except (CronSimError, ValueError, TypeError, AssertionError, OverflowError) as error:
        raise CronInvalid(
            f"This is no cron expression: {str(error) or 'it cannot be read'}."[:200]
        ) from error
    if first is None:
        raise CronInvalid("This never occurs: there is no such day.")
    return " ".join(parts)


def ends(at: dt.datetime, until: str, zone: str) -> dt.datetime:
    """The moment until which an occurrence may start: the next one after it at which the zone's
    clock shows that time.
    """
    wall = calendars.wall_time(f"until {until}")
    assert wall is not None  # `UNTIL`
    return calendars.next_at(at, wall, zone=ZoneInfo(zone))


def by_day(cron: str) -> bool:
    """Whether it names times of the day, and does not go by the time that passes."""
    minute, hour = cron.split()[:2]
    return not minute.startswith("*") and not hour.startswith("*")


def after(cron: str, zone: str, at: dt.datetime) -> Iterator[dt.datetime]:
    """All occurrences after an instant, in order, in UTC."""
    if not by_day(cron):
        yield from _by_time_that_passes(cron, ZoneInfo(zone), at.astimezone(dt.UTC))
        return
    last = at.astimezone(dt.UTC)
    for found in CronSim(cron, at.astimezone(ZoneInfo(zone))):
        # in the second of two equal hours the library names times of the first one again
        occurs = found.astimezone(dt.UTC)
        if occurs > last:
            last = occurs
            yield occurs


def _by_time_that_passes(cron: str, zone: ZoneInfo, at: dt.datetime) -> Iterator[dt.datetime]:
    """All instants after one at which the wall shows what the expression says.

    The library is asked for walls alone, from each change of the clock anew: over a change it goes
    in whole hours, and leaves out times where that is one of half an hour, or not at a full hour.
    """
    start = last = at
    while True:
        here = offset(zone, at)
        for wall in CronSim(cron, start.replace(tzinfo=None) + here):
            found = wall.replace(tzinfo=dt.UTC) - here
            if found - last > NEVER:
                return
            change = next(changes(zone, at, found), None)
            if change is not None and change <= found:
                at, start = change, change - SECOND
                break
            at = last = found
            yield found
        else:
            return


def changes(zone: ZoneInfo, since: dt.datetime, until: dt.datetime) -> Iterator[dt.datetime]:
    """Instants at which a zone's offset is another one, in order: looked for by days that begin
    before `until`, then by halves.
    """
    day = since.astimezone(dt.UTC).replace(microsecond=0)
    while day < until:
        low, high = day, day + DAY
        if offset(zone, low) != offset(zone, high):
            while high - low > SECOND:
                middle = low + dt.timedelta(seconds=(high - low) // SECOND // 2)
                if offset(zone, middle) == offset(zone, day):
                    low = middle
                else:
                    high = middle
            yield high
        day += DAY


def offset(zone: ZoneInfo, at: dt.datetime) -> dt.timedelta:
    """What the zone's clock shows before UTC at an instant."""
    return at.astimezone(zone).utcoffset() or dt.timedelta()


def local(at: dt.datetime, zone: str) -> str:
    """An instant on the zone's clock, with the offset that tells two equal times apart."""
    return at.astimezone(ZoneInfo(zone)).isoformat(timespec="minutes")


@dataclass(frozen=True)
class Skipped:
    """Occurrences on end that are not started."""

    first: dt.datetime
    last: dt.datetime
    count: int
    more: bool = False
    """There were more than were counted."""


@dataclass(frozen=True)
class Plan:
    """What has become due: the occurrences to start, in order, and those to skip before them."""

    starts: tuple[dt.datetime, ...]
    skipped: Skipped | None
    why: str

    @property
    def last(self) -> dt.datetime | None:
        """The latest occurrence that it speaks of."""
        return self.starts[-1] if self.starts else self.skipped.last if self.skipped else None


def plan(
    cron: str, zone: str, *, since: dt.datetime, now: dt.datetime, catch_up: str, most: int
) -> Plan:
    """Share out the occurrences after `since`, up to now, by a rule of catching up."""
    due, counted = _due(cron, zone, since, now)
    if catch_up == "none":
        kept = [at for at in due if now - at <= MISSED]
        why = "missed: found more than 5 minutes late, and this schedule catches up on none"
    elif catch_up == "all":
        kept = due[-most:]
        why = f"missed: this schedule catches up on up to {most}, and these are older"
    else:
        kept = due[-1:]
        why = "missed: this schedule catches up on the latest alone"
    left = len(due) - len(kept)
    if not left:
        return Plan(tuple(kept), None, "")
    skipped = Skipped(due[0], due[left - 1], left, more=not counted)
    return Plan(tuple(kept), skipped, why)


def _due(
    cron: str, zone: str, since: dt.datetime, now: dt.datetime
) -> tuple[list[dt.datetime], bool]:
    """The occurrences after `since`, up to now; where there are more than COUNTED the first and the
    latest ones, and False.
    """
    first: list[dt.datetime] = []
    for at in after(cron, zone, since):
        if at > now:
            return first, True
        first.append(at)
        if len(first) == COUNTED:
            break
    if not first or first[-1] >= now:
        return first, True
    # so many are close together: the latest are in a window that is found by doubling it
    window = dt.timedelta(hours=2)
    while True:
        begin = max(now - window, first[-1])
        latest = list(after_until(cron, zone, begin, now))
        if len(latest) >= MOST or begin == first[-1]:
            return [*first, *latest], begin == first[-1]
        window *= 2


def after_until(
    cron: str, zone: str, since: dt.datetime, now: dt.datetime
) -> Iterator[dt.datetime]:
    """All occurrences after one instant and not after another."""
    for at in after(cron, zone, since):
        if at > now:
            return
        yield at
