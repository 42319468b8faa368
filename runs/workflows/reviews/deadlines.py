"""When the rules of a question act: its reminders, the stages of its escalation, and its deadline,
as moments. Pure.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from runs.workflows import timing
from runs.workflows.refusals import FieldRefused, in_json
from runs.workflows.reviews import calendars
from runs.workflows.reviews.calendars import Calendar

if TYPE_CHECKING:
    from runs.workflows.reviews.review import Review, ReviewStage

SOME_MONDAY = dt.datetime(2026, 6, 8, 12, tzinfo=dt.UTC)
"""Durations are compared from here; a week without holidays nearly everywhere."""


WORKING = "business"
"""The calendar whose days are days of work where neither the rules nor the team have one."""
WEEKDAYS = Calendar(days=frozenset(range(5)))


class Unknown(FieldRefused):
    """The rules name a calendar or a zone that there is not.

    `field` is which, within the deadline.
    """


@dataclass(frozen=True, kw_only=True)
class Timetable:
    """Each list in the order of the rules; all in UTC."""

    reminders: tuple[dt.datetime, ...] = ()
    stages: tuple[dt.datetime, ...] = ()
    deadline: dt.datetime | None = None


def of(
    review: Review,
    opened_at: dt.datetime,
    known: Mapping[str, Calendar],
    *,
    zone: str = "UTC",
    team: str = "",
) -> Timetable:
    """The moments of a question that is opened then.

    `zone` is where the rules name none, `team` whose calendar says what a working day is where they
    name no calendar. Raises Unknown, calendars.CalendarInvalid.
    """
    deadline = review.get("deadline")
    return Timetable(
        reminders=tuple(
            sorted(
                moment(after, opened_at, review, known, zone=zone, team=team)
                for after in review.get("reminders", [])
            )
        ),
        stages=tuple(
            moment(stage["after"], opened_at, review, known, zone=zone, team=team)
            for stage in review.get("escalation", [])
        ),
        deadline=moment(deadline["after"], opened_at, review, known, zone=zone, team=team)
        if deadline
        else None,
    )


def moment(
    after: str,
    start: dt.datetime,
    review: Review,
    known: Mapping[str, Calendar],
    *,
    zone: str = "UTC",
    team: str = "",
) -> dt.datetime:
    """So long after `start`, as the deadline of these rules counts, or the next such time of a
    clock. Raises as `of`.
    """
    where, calendar = _counted(review, known, zone)
    wall = calendars.wall_time(after)
    if wall is not None:
        days = known.get(team) or known.get(WORKING) or WEEKDAYS if wall.working else None
        return calendars.next_at(start, wall, zone=where, calendar=calendar or days)
    return calendars.add(start, calendars.parse(after), zone=where, calendar=calendar)


def _counted(
    review: Review, known: Mapping[str, Calendar], zone: str
) -> tuple[ZoneInfo, Calendar | None]:
    rules = review.get("deadline") or {}
    name = rules.get("calendar") or ""
    if name and name not in known:
        raise Unknown(
            "calendar",
            f"There is no calendar {in_json(name)}; there are "
            f"{', '.join(sorted(known)) or 'none'}.",
        )
    try:
        return timing.zone_of(rules.get("zone") or zone), known.get(name)
    except ValueError as error:
        raise Unknown("zone", str(error)) from error


def of_stage(review: Review, stage: ReviewStage) -> Review:
    """Rules by which the deadline of a stage is counted: its own, in the question's calendar and
    zone where it names none.
    """
    return {"deadline": {**(review.get("deadline") or {}), **stage["deadline"]}}


def by_team(review: Review) -> bool:
    """Whether these rules hang on what is a working day of the team."""
    each = [review, *(of_stage(review, one) for one in review.get("stages", [])
                      if "deadline" in one)]  # fmt: skip
    return any(
        (wall := calendars.wall_time(text)) is not None and wall.working
        for rules in each
        if not (rules.get("deadline") or {}).get("calendar")
        for text in named(rules).values()
    )


def named(review: Review) -> dict[str, str]:
    """Field → duration, of all that the rules name."""
    deadline = review.get("deadline")
    return {
        **({"deadline.after": deadline["after"]} if deadline else {}),
        **{f"reminders.{at}": after for at, after in enumerate(review.get("reminders", []))},
        **{
            f"escalation.{at}.after": stage["after"]
            for at, stage in enumerate(review.get("escalation", []))
        },
    }


def check(after: str, review: Review, known: Mapping[str, Calendar]) -> None:
    """Raise what `moment` raises, and calendars.DurationInvalid."""
    moment(after, SOME_MONDAY, review, known)


def out_of_order(review: Review, known: Mapping[str, Calendar]) -> str:
    """The field of a stage that comes before the one above it; "" where there is none."""
    times = of({**review, "reminders": []}, SOME_MONDAY, known).stages
    return next(
        (f"escalation.{at}.after" for at in range(1, len(times)) if times[at] < times[at - 1]), ""
    )


def too_late(review: Review, known: Mapping[str, Calendar]) -> str:
    """The field of a reminder or a stage that comes when the deadline has passed; "" where there is
    none.

    Where the deadline escalates, it brings the stages forward and moves on with each.
    """
    times = {
        field: moment(after, SOME_MONDAY, review, known) for field, after in named(review).items()
    }
    deadline = times.pop("deadline.after", None)
    if deadline is None:
        return ""
    escalates = review.get("deadline", {}).get("outcome") == "escalate"
    return next(
        (
            field
            for field, at in times.items()
            if at >= deadline and not (escalates and field.startswith("escalation"))
        ),
        "",
    )
