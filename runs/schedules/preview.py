"""What a schedule's next times are, and what the changes of its zone's clock do to them.

It is computed from the expression and the zone alone, and writes nothing: a person sees before they
save that 2:30 does not exist on one day of the year, or comes twice.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from zoneinfo import ZoneInfo

from cronsim import CronSim

from runs.schedules import times

AHEAD = dt.timedelta(days=366)
"""So far ahead changes of the clock are looked for."""
CHANGES = 4
"""Changes of the clock that are named; the zone with the most has four a year."""
NAMED = 3
"""Times of the day that a sentence names one by one."""
COUNTED = 100
"""Times of the day that are counted for a sentence."""


@dataclass(frozen=True)
class ComingTime:
    """One occurrence that is to come."""

    at: dt.datetime
    local: str
    """On the zone's clock, with its offset."""
    note: str
    """What a change of the clock does to it; mostly empty."""


@dataclass(frozen=True)
class ClockChange:
    """A change of the zone's clock, and what becomes of the times that it leaves out or repeats."""

    at: dt.datetime
    words: str
    touches: bool
    """Whether it touches one of the schedule's times."""


@dataclass(frozen=True)
class Preview:
    coming: tuple[ComingTime, ...]
    changes: tuple[ClockChange, ...]


@dataclass(frozen=True)
class _Shift:
    """An instant at which a zone's clock is set.

    Attributes:
        before, after: what the clock shows at that instant by the old and by the new offset.
    """

    at: dt.datetime
    before: dt.datetime
    after: dt.datetime

    @property
    def forward(self) -> bool:
        return self.after > self.before

    def times(self, cron: str) -> list[dt.datetime]:
        """Times on the wall that it leaves out, or repeats; up to COUNTED."""
        begin, end = sorted((self.before, self.after))
        found: list[dt.datetime] = []
        for wall in CronSim(cron, begin - times.SECOND):
            if wall >= end or len(found) == COUNTED:
                break
            found.append(wall)
        return found

    def shown(self, wall: dt.datetime) -> str:
        """A time of the wall; with its day where the change goes over midnight."""
        pattern = "%H:%M" if self.before.date() == self.after.date() else "%Y-%m-%d %H:%M"
        return wall.strftime(pattern)

    def named(self, walls: list[dt.datetime]) -> str:
        """`02:00, 02:20, 02:40 and 3 more`."""
        first = [self.shown(wall) for wall in walls[:NAMED]]
        more = f"{len(walls) - NAMED}{' or' if len(walls) == COUNTED else ''} more"
        if len(walls) > NAMED:
            return f"{', '.join(first)} and {more}"
        return " and ".join(filter(None, [", ".join(first[:-1]), first[-1]]))


def preview(cron: str, zone: str, *, now: dt.datetime, most: int) -> Preview:
    """The next occurrences of a checked expression, and what the next changes of the clock do.

    Args:
        most: how many occurrences are named.
    """
    coming = islice(times.after(cron, zone, now), most)
    changes = islice(_shifts(ZoneInfo(zone), now, AHEAD), CHANGES)
    return Preview(
        tuple(ComingTime(at, times.local(at, zone), _note(cron, zone, at)) for at in coming),
        tuple(_change(cron, shift) for shift in changes),
    )


def _shifts(zone: ZoneInfo, since: dt.datetime, ahead: dt.timedelta) -> Iterator[_Shift]:
    """Changes of a zone's offset after an instant, in order."""
    for at in times.changes(zone, since, since + ahead):
        naive, before = at.replace(tzinfo=None), times.offset(zone, at - times.SECOND)
        yield _Shift(at, naive + before, naive + times.offset(zone, at))


def _change(cron: str, shift: _Shift) -> ClockChange:
    way = "forward" if shift.forward else "back"
    day = f"{min(shift.before, shift.after):%Y-%m-%d}"
    words = f"On {day} the clock goes {way} from {shift.shown(shift.before)} to "
    words += f"{shift.shown(shift.after)}."
    walls = shift.times(cron)
    if not walls:
        return ClockChange(shift.at, f"{words} No time of this schedule is touched.", False)
    many = len(walls) > 1
    if shift.forward:
        verb, then = ("do", "they are") if many else ("does", "it is")
        words += f" {shift.named(walls)} {verb} not exist on that day: "
        moved = f"it starts once at {shift.shown(shift.after)}"
        words += f"{moved}." if times.by_day(cron) else f"{then} left out."
    else:
        verb = "come" if many else "comes"
        words += f" {shift.named(walls)} {verb} twice on that day: it starts "
        words += "the first time alone." if times.by_day(cron) else "both times."
    return ClockChange(shift.at, words, True)


def _note(cron: str, zone: str, at: dt.datetime) -> str:
    local = at.astimezone(ZoneInfo(zone))
    if local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset():
        which = "second" if local.fold else "first"
        return f"This time comes twice on that day; this is the {which}."
    shift = next(_shifts(ZoneInfo(zone), at - times.SECOND, times.SECOND), None)
    if shift is None or shift.at != at or not shift.forward or not times.by_day(cron):
        return ""
    walls = shift.times(cron)
    if not walls:
        return ""
    verb = "do" if len(walls) > 1 else "does"
    return f"In place of {shift.named(walls)}, which {verb} not exist on that day."
