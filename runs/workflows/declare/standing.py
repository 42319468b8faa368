"""What stands beside a workflow: how many of its runs are at work at once, and when it begins by
the clock. It is kept with the code, and settled when the workflow is loaded.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Never

from cronsim import CronSim, CronSimError

from runs.workflows.base import pointers, rates
from runs.workflows.declare import places
from runs.workflows.declare.places import WorkflowInvalid
from runs.workflows.timing import zone_of

MANY = 10_000
"""The highest number of places, which a limit has that is one of a rate alone."""
TEMPLATE = "template"
"""What `per` says of a limit on all runs of the workflow together."""
UNTIL = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")


@dataclass(frozen=True, kw_only=True)
class LimitUse:
    """A limit of a workflow; `limit` makes it."""

    most: int
    pointer: str
    rate: str
    name: str
    priority: int
    place: str
    """`file, line n` of the declaration."""


@dataclass(frozen=True, kw_only=True)
class ScheduleUse:
    """A schedule of a workflow; `schedule` makes it."""

    cron: str
    zone: str
    until: str
    skip_if_open: bool
    by: str
    name: str
    place: str
    """`file, line n` of the declaration."""
    order: Mapping[str, Any] = field(default_factory=dict)
    """What it orders: `title`, `request`, `input`, `team`, `repository_url`, as far as it says."""


def limit(
    *,
    at_once: int | None = None,
    per: str = TEMPLATE,
    rate: str = "",
    name: str = "",
    priority: int = 0,
    **unknown: Never,
) -> LimitUse:
    """Say how many runs of a workflow are at work at once, or begin in a time: for
    `workflow(…, limits=[…])` (docs/how-to/rate-and-concurrency.md).

    Args:
        at_once: how many workers have at the same time; one that waits for people is not counted.
        per: `template` for all of them together, or a JSON pointer into the input, such as
            `/customer`: so many for each value.
        rate: how many begin in a time, `60/min`.
        name: limits of one name share their places, whichever workflow they are of.
        priority: of runs that wait for the same places higher ones go first.

    Raises:
        WorkflowInvalid: with the file and the line.
    """
    place = places.place()
    places.check_keywords(place, limit, unknown)
    if at_once is None and not rate:
        raise WorkflowInvalid(place, "limit(…): say `at_once`, `rate`, or both.")
    most = MANY if at_once is None else at_once
    if type(most) is not int or not 1 <= most <= MANY:
        raise WorkflowInvalid(place, f"limit(…): `at_once` is a number from 1 to {MANY:,}.")
    if per != TEMPLATE and not (per and pointers.is_pointer(per)):
        raise WorkflowInvalid(
            place,
            f"limit(…): `per` is {TEMPLATE!r} or a JSON pointer such as /customer, not {per!r}.",
        )
    if rate:
        try:
            rates.parse(rate)
        except ValueError as error:
            raise WorkflowInvalid(place, f"limit(…): {error}") from error
    pointer = "" if per == TEMPLATE else per
    return LimitUse(
        most=most, pointer=pointer, rate=rate, name=name, priority=priority, place=place
    )


def schedule(
    cron: str,
    *,
    tz: str = "UTC",
    until: str = "",
    skip_if_open: bool = True,
    by: str = "",
    name: str = "",
    title: str = "",
    request: str = "",
    input: Mapping[str, Any] | None = None,
    team: str = "",
    repository_url: str = "",
    **unknown: Never,
) -> ScheduleUse:
    """Say when work by a workflow begins by the clock: for `workflow(…, schedules=[…])`
    (docs/how-to/schedules.md#in-the-code).

    Args:
        cron: five fields, such as "0 7 * * 1-5": minute, hour, day of the month, month, day of the
            week.
        tz: an IANA time zone.
        until: the time of the day, such as "12:00", after which a missed or waiting start is left
            out.
        skip_if_open: leave a start out while work of an earlier one has not ended.
        by: whose account orders; WAYSTATION_SCHEDULES_BY where it says nothing.
        name: how it is called; unique among the workflow's schedules.
        title, request, input, team, repository_url: what is ordered.

    Raises:
        WorkflowInvalid: with the file and the line.
    """
    place = places.place()
    places.check_keywords(place, schedule, unknown)
    try:
        zone_of(tz)
        if len(cron.split()) != 5:
            raise ValueError("five fields with spaces between, such as 0 7 * * 1-5")
        CronSim(cron, dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    except (CronSimError, ValueError, TypeError) as error:
        raise WorkflowInvalid(place, f"schedule({cron!r:.60}, tz={tz!r:.60}): {error}") from error
    if until and not UNTIL.fullmatch(until):
        raise WorkflowInvalid(
            place, f"schedule(…): `until` is a time such as 12:00, not {until!r}."
        )
    order = {
        "title": title,
        "request": request,
        "input": dict(input or {}),
        "team": team,
        "repository_url": repository_url,
    }
    return ScheduleUse(
        cron=" ".join(cron.split()),
        zone=tz,
        until=until,
        skip_if_open=bool(skip_if_open),
        by=by,
        name=name,
        place=place,
        order={key: value for key, value in order.items() if value},
    )
