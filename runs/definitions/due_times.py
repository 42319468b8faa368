"""When a question's rules act, as columns of its row: worked out once, when it opens.

Whoever looks compares times and counts no days.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db.models import Q

from checkpoints.database import clock
from runs.definitions.step_options import calendars
from runs.models import Pause
from runs.workflows.reviews import deadlines
from runs.workflows.reviews import stages as review_stages
from runs.workflows.reviews.calendars import CalendarInvalid
from runs.workflows.reviews.review import Review

logger = logging.getLogger(__name__)

ZONE = "zone"
"""Key of a question's times: the zone that its days were counted in, so that a server that moves
moves no deadline.
"""
TEAM = "team"
"""The same of the team whose working days were counted."""
DUE = "due"
"""Key of the deadlines of a question whose stages have their own: name of a stage, WHOLE for the
question → the deadline, and how far people may move it.

The question's column is the earliest of its own and of those of the stages that are open.
"""
WHOLE = ""
COLUMNS = ("deadline_at", "extendable_until", "times", "reminded", "next_at", "stage")


def columns(
    review: Review, opened_at: dt.datetime, *, until: dt.datetime | None = None, team: str = ""
) -> dict[str, Any]:
    """What a question that opens then begins with.

    `until` is its deadline to the moment, where whoever asks named one; the rules then have it as a
    duration. `team` is whose working days count where they name no calendar.

    A calendar that was there when the template was saved may be gone. Then there is no deadline
    rather than one that is too early; the question says so, and so does `manage.py invariants`.
    """
    by_stage = any("deadline" in stage for stage in review_stages.of(review))
    if not (
        review.get("deadline") or review.get("reminders") or review.get("escalation") or by_stage
    ):
        return {"reminded": 0, "stage": 0}
    try:
        found = deadlines.of(review, opened_at, calendars(), zone=settings.TIME_ZONE, team=team)
    except (deadlines.Unknown, CalendarInvalid) as error:
        logger.error("a question opens without its deadline: %s", error)
        return {"reminded": 0, "stage": 0, "times": {"problem": str(error)}}
    moments = {"reminders": found.reminders, "stages": found.stages}
    times: dict[str, Any] = {
        name: [at.isoformat() for at in each] for name, each in moments.items()
    }
    times[ZONE] = (review.get("deadline") or {}).get("zone") or settings.TIME_ZONE
    if team:
        times[TEAM] = team
    begun: dict[str, Any] = {
        "times": times,
        "reminded": 0,
        "stage": 0,
        **limits(until or found.deadline, opened_at),
    }
    if by_stage:
        turn = review_stages.turn(review)
        begun |= in_turn(begun, review, turn=turn, begun=turn, now=opened_at)
    return {**begun, "next_at": next_at(begun)}


def in_turn(
    columns: Mapping[str, Any], review: Review, *, turn: int, begun: int, now: dt.datetime
) -> dict[str, Any]:
    """The columns of a question that change when stages begin or are complete; none where no stage
    has a deadline.

    Args:
        turn: the stages that are open from now on, as `review_stages.bits`.
        begun: those of them that begin now.
    """
    if not any("deadline" in stage for stage in review_stages.of(review)):
        return {}
    times = dict(columns["times"])
    due = {**times.get(DUE, {})}
    if DUE not in times and columns.get("deadline_at") is not None:
        due[WHOLE] = [columns["deadline_at"].isoformat(), columns["extendable_until"].isoformat()]
    for stage in review_stages.within(review, begun):
        if "deadline" not in stage:
            continue
        rules = deadlines.of_stage(review, stage)
        zone = times.get(ZONE) or settings.TIME_ZONE
        try:
            after, team = rules["deadline"]["after"], times.get(TEAM, "")
            at = deadlines.moment(after, now, rules, calendars(), zone=zone, team=team)
        except (deadlines.Unknown, CalendarInvalid) as error:
            logger.error("a stage begins without its deadline: %s", error)
            times["problem"] = str(error)
            continue
        due[stage["name"]] = [limit.isoformat() for limit in limits(at, now).values() if limit]
    times[DUE] = due
    changed: dict[str, Any] = {"times": times, **_earliest(times, review, turn)}
    return {**changed, "next_at": next_at({**columns, **changed})}


def _earliest(times: Mapping[str, Any], review: Review, turn: int) -> dict[str, Any]:
    """The deadline that comes first, and how far all of them may be moved."""
    alive = _alive(times, review, turn)
    each = [[dt.datetime.fromisoformat(at) for at in limit] for limit in alive.values()]
    return {
        "deadline_at": min((at for at, _ in each), default=None),
        "extendable_until": min((until for _, until in each), default=None),
    }


def _alive(times: Mapping[str, Any], review: Review, turn: int) -> dict[str, list[str]]:
    """The deadlines that hold: the question's own, and those of its open stages."""
    names = {WHOLE, *(stage["name"] for stage in review_stages.within(review, turn))}
    return {name: limit for name, limit in times.get(DUE, {}).items() if name in names}


def moved(
    pause: Pause, at: dt.datetime, *, extendable_until: dt.datetime | None = None
) -> dict[str, Any]:
    """The columns of a question whose deadline is moved to a later time: what is due before that is
    due then.

    Args:
        extendable_until: how far people may move it from then on, where that changes.
    """
    changed: dict[str, Any] = {"deadline_at": at}
    if extendable_until is not None:
        changed["extendable_until"] = extendable_until
    if DUE not in pause.times:
        return changed
    due = dict(pause.times[DUE])
    for name, (before, until) in _alive(pause.times, pause.review, pause.turn).items():
        reach = dt.datetime.fromisoformat(until)
        later = max(dt.datetime.fromisoformat(before), at)
        due[name] = [later.isoformat(), max(reach, extendable_until or reach).isoformat()]
    times = {**pause.times, DUE: due}
    return {**changed, "times": times, **_earliest(times, pause.review, pause.turn)}


def of_stages(pause: Pause) -> dict[str, dt.datetime]:
    """When each stage that has begun is due, by its name."""
    due = pause.times.get(DUE, {})
    return {name: dt.datetime.fromisoformat(limit[0]) for name, limit in due.items() if name}


def earliest(pause: Pause) -> dt.datetime | None:
    """What the deadline of a question whose stages have deadlines has to be."""
    at: dt.datetime | None = _earliest(pause.times, pause.review, pause.turn)["deadline_at"]
    return at


def limits(deadline: dt.datetime | None, since: dt.datetime) -> dict[str, dt.datetime | None]:
    """A deadline, and how far it may be moved: `WAYSTATION_EXTEND` times as long again."""
    return {
        "deadline_at": deadline,
        "extendable_until": deadline + (deadline - since) * settings.WAYSTATION_EXTEND
        if deadline
        else None,
    }


def longer(pause: Pause, now: dt.datetime) -> dt.datetime:
    """The deadline of those who are asked now: as long from here as the first ones had, in the same
    zone. Raises as `timetable.of`.
    """
    after, times = pause.review["deadline"]["after"], pause.times
    zone, team = times.get(ZONE) or settings.TIME_ZONE, times.get(TEAM, "")
    return deadlines.moment(after, now, pause.review, calendars(), zone=zone, team=team)


def in_time() -> Q:
    """Of questions whose deadline has not passed, by the database's clock: part of every statement
    that takes what people do about one.
    """
    return Q(deadline_at=None) | Q(deadline_at__gt=clock.FromNow())


def reminders(pause: Pause) -> list[dt.datetime]:
    """When those who may answer are reminded, the past ones too."""
    return [dt.datetime.fromisoformat(at) for at in pause.times.get("reminders", [])]


def stages(pause: Pause) -> list[dt.datetime]:
    """When further people are asked, at the latest."""
    return [dt.datetime.fromisoformat(at) for at in pause.times.get("stages", [])]


def passed(pause: Pause, now: dt.datetime) -> tuple[int, int]:
    """How many of its reminders, and of its stages, the clock has passed; never fewer than were
    told.
    """
    reminded = sum(at <= now for at in reminders(pause))
    stage = sum(at <= now for at in stages(pause))
    return max(reminded, pause.reminded), max(stage, pause.stage)


def next_at(columns: Mapping[str, Any]) -> dt.datetime | None:
    """When something happens next to a question with these columns."""
    times = columns["times"]
    later = [
        *times.get("reminders", [])[columns["reminded"] :],
        *times.get("stages", [])[columns["stage"] :],
    ]
    moments = [dt.datetime.fromisoformat(at) for at in later]
    if columns["deadline_at"] is not None:
        moments.append(columns["deadline_at"])
    return min(moments, default=None)


NO_ACTION = {"expire", "cancel", "escalate"}
"""Outcomes of a deadline that are none of the question's answers."""


def outcome_of(pause: Pause) -> str:
    """What the deadline will do, as things stand: `expire`, `cancel`, `escalate`, or take one of
    the question's own answers, such as `approve`; "" where there is no deadline.

    What cannot be done expires: an action that needs data or that the question does not have, an
    escalation after its last stage.
    """
    if pause.deadline_at is None:
        return ""
    wanted: str = pause.review.get("deadline", {}).get("outcome", "expire")
    if wanted not in NO_ACTION and (wanted not in pause.answers or pause.wants_data(wanted)):
        return "expire"
    if wanted == "escalate" and pause.stage >= len(pause.review.get("escalation", [])):
        return "expire"
    return wanted
