"""Schedules as people make, change, pause and remove them.

A schedule orders in its owner's name, so its owner alone sees it and says what it orders; operators
switch it off and on in the admin. Making one takes `runs.add_schedule`: from then on work begins
without anybody asking.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext

from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.state import codec, redaction
from runs import definitions, keyed, limits, services
from runs.definitions import rights
from runs.git import repositories
from runs.models import Occurrence, Schedule, WorkOrder
from runs.models.schedules import CatchUp, OccurrenceStatus, Overlap
from runs.schedules import preview as looking
from runs.schedules import starting, times
from runs.schedules.preview import Preview
from runs.workflows.refusals import FieldRefused

MAY_NOT = (
    "You may not make schedules, so none was made. An operator can give you the right “Can add "
    "schedule”."
)
WHAT = ("template", "title", "request", "input", "repository_url", "team", "priority")
"""Fields that say what is ordered."""
WHEN = ("cron", "zone", "until", "overlap", "catch_up", "catch_up_most")
"""Fields that say when."""
NEXT = 5
"""Occurrences that a schedule's page names in advance."""
PREVIEWED = 10
"""Occurrences that a preview names."""


class ScheduleInvalid(FieldRefused):
    """The schedule cannot be kept as it is given."""

    code = "schedule_invalid"


class MayNotSchedule(Exception):
    """This person may not make schedules. Nothing was made."""

    code = "may_not_schedule"


class CannotStart(Exception):
    """The schedule's order is refused now. Nothing was made."""

    code = "schedule_cannot_start"


def make(by: User, **values: Any) -> Schedule:
    """Keep a new schedule in this person's name.

    Args:
        values: `name`, `metadata`, those of WHAT and WHEN, and whether it is `enabled`.

    Raises:
        MayNotSchedule, ScheduleInvalid, and what an order by the template would be refused with.
    """
    if not by.has_perm(starting.ADD):
        raise MayNotSchedule(MAY_NOT)
    now = clock.now()
    schedule = Schedule(owner=by, cursor=now)
    _fill(schedule, values, now)
    if not schedule.enabled:
        schedule.next_at = None
    most = settings.WAYSTATION_SCHEDULES
    with transaction.atomic(durable=True):
        User.objects.select_for_update(no_key=True).get(pk=by.pk)  # counts one after the other
        if Schedule.objects.filter(owner=by).count() >= most:
            raise ScheduleInvalid(
                "name",
                gettext("You have %(most)s schedules, and may have no more. Remove one first.")
                % {"most": most},
            )
        keyed.made(schedule.shown_id)
        schedule.save(force_insert=True)
    return schedule


def change(schedule: Schedule, **values: Any) -> Schedule:
    """Change what is named; the other fields stay. `enabled` switches it on or off.

    From then on it occurs by its new times; what occurred before stays as it was. `as_declared`
    takes over what the code says. Raises what `make` raises.
    """
    now = clock.now()
    if values.pop("as_declared", False):
        values = {**_as_declared(schedule), **values}
    _fill(schedule, {name: value for name, value in values.items() if name != "enabled"}, now)
    with transaction.atomic(durable=True):
        keyed.made(schedule.shown_id)
        row = Schedule.objects.select_for_update(no_key=True).filter(pk=schedule.pk)
        if "enabled" in values:
            schedule.enabled, schedule.stopped_because = bool(values["enabled"]), ""
        # whoever switched it off since it was read is not undone by another title
        elif (standing := row.values_list("enabled", "stopped_because").first()) is not None:
            schedule.enabled, schedule.stopped_because = standing
        _replan(schedule, now)
    schedule.refresh_from_db()
    return schedule


def _replan(schedule: Schedule, now: dt.datetime) -> None:
    """Write the schedule, to go on from now; nothing before is caught up."""
    changed = {
        name: getattr(schedule, name)
        for name in ("name", *WHAT, *WHEN, "metadata", "for_team", "enabled", "stopped_because")
    }
    following = next(times.after(schedule.cron, schedule.zone, now), None)
    changed |= {"cursor": now, "next_at": following if schedule.enabled else None}
    Schedule.objects.filter(pk=schedule.pk).update(**changed, version=F("version") + 1)
    why = "the schedule was changed" if schedule.enabled else "the schedule was switched off"
    Occurrence.objects.open().filter(schedule=schedule).update(
        status=OccurrenceStatus.SKIPPED, why=why, settled_at=now
    )


def remove(schedule: Schedule) -> None:
    """Remove a schedule and its history; its orders stay. One that the code declares is switched
    off instead, so that the code does not bring it back.
    """
    if schedule.declared is not None:
        change(schedule, enabled=False)
        return
    with transaction.atomic(durable=True):
        keyed.made(schedule.shown_id)
        schedule.delete()


def values_of(schedule: Schedule) -> dict[str, Any]:
    """What of a schedule the code says, where it declares it."""
    plain = ("name", "cron", "zone", "until", "overlap", "title", "request", "input",
             "repository_url")  # fmt: skip
    team = schedule.team.name if schedule.team is not None else ""
    return {**{name: getattr(schedule, name) for name in plain}, "team": team}


def stands_over_code(schedule: Schedule) -> bool:
    """Whether a person changed a schedule that the code declares, or switched it off."""
    if not isinstance(schedule.declared, dict):
        return False
    off = not schedule.enabled and not schedule.stopped_because
    return off or schedule.declared["values"] != values_of(schedule)


def _as_declared(schedule: Schedule) -> dict[str, Any]:
    if not isinstance(schedule.declared, dict):
        raise ScheduleInvalid("as_declared", gettext("The code declares no such schedule."))
    values = schedule.declared["values"]
    team = schedule.owner.groups.filter(name=values["team"]).first() if values["team"] else None
    return {**values, "team": team, "enabled": True}


def fill(schedule: Schedule, values: Mapping[str, Any]) -> None:
    """Set what the code declares, checked as what people say. Raises what `make` raises."""
    _fill(schedule, values, clock.now())


def follow(schedule: Schedule, values: Mapping[str, Any]) -> None:
    """Let a schedule be what the code declares now. Call inside a transaction; raises as `fill`."""
    now = clock.now()
    _fill(schedule, values, now)
    _replan(schedule, now)


def stop_for_good(schedule: Schedule, why: str) -> None:
    """Switch a schedule off for a reason that its page shows. Call inside a transaction."""
    schedule.enabled, schedule.stopped_because = False, why
    _replan(schedule, clock.now())


def start_now(schedule: Schedule, by: User) -> WorkOrder:
    """Start its order at once, beside its times, in its owner's name.

    Raises CannotStart, and what the order is refused with.
    """
    try:
        return starting.order(schedule, starting.HandClaim(schedule, by))
    except starting.OwnerLostRight as error:
        raise CannotStart(gettext("%(error)s Nothing was made.") % {"error": error}) from error


def coming(schedule: Schedule, most: int = NEXT) -> list[dt.datetime]:
    """When it occurs next; empty where it is off."""
    if not schedule.enabled:
        return []
    since = max(schedule.cursor, clock.now())
    found = times.after(schedule.cron, schedule.zone, since)
    return [at for at, _ in zip(found, range(most), strict=False)]


def preview(cron: str, zone: str) -> Preview:
    """What would be the next times of a schedule, and what changes of the clock do to them.

    Raises ScheduleInvalid. Writes nothing.
    """
    now = clock.now()
    return looking.preview(_checked(cron, zone, now), zone, now=now, most=PREVIEWED)


def preview_of(schedule: Schedule) -> Preview | None:
    """The same of a schedule as it is kept; None where it is off."""
    if not schedule.enabled:
        return None
    since = max(schedule.cursor, clock.now())
    return looking.preview(schedule.cron, schedule.zone, now=since, most=NEXT)


def _fill(schedule: Schedule, values: Mapping[str, Any], now: dt.datetime) -> None:
    """Set what is named, checked as the order will be. Writes nothing."""
    for name, value in values.items():
        setattr(schedule, name, value.strip() if isinstance(value, str) else value)
    schedule.for_team = schedule.team_id is not None if "team" in values else schedule.for_team
    if (
        not schedule.name
        or len(schedule.name) > 120
        or schedule.name != codec.readable(schedule.name)
    ):
        raise ScheduleInvalid("name", gettext("A name of 1 to 120 characters."))
    if schedule.overlap not in Overlap.values:
        raise ScheduleInvalid(
            "overlap", gettext("One of %(values)s.") % {"values": ", ".join(Overlap.values)}
        )
    if schedule.catch_up not in CatchUp.values:
        raise ScheduleInvalid(
            "catch_up", gettext("One of %(values)s.") % {"values": ", ".join(CatchUp.values)}
        )
    if schedule.until and not times.UNTIL.fullmatch(schedule.until):
        raise ScheduleInvalid("until", gettext("A time of the day, such as 12:00; or nothing."))
    if not 1 <= schedule.catch_up_most <= times.MOST:
        raise ScheduleInvalid(
            "catch_up_most", gettext("A number from 1 to %(most)s.") % {"most": times.MOST}
        )
    schedule.cron = _checked(schedule.cron, schedule.zone, now)
    if set(values) & set(WHAT) or schedule._state.adding:
        _check_order(schedule)
    schedule.next_at = next(times.after(schedule.cron, schedule.zone, now), None)


def _checked(cron: str, zone: str, now: dt.datetime) -> str:
    """The expression as it is kept. Raises ScheduleInvalid."""
    try:
        times.zone_of(zone)
    except times.CronInvalid as error:
        raise ScheduleInvalid("zone", str(error)) from error
    try:
        return times.check(cron, zone, now=now)
    except times.CronInvalid as error:
        raise ScheduleInvalid("cron", str(error)) from error


def _check_order(schedule: Schedule) -> None:
    """As `services.submit` will look at it; what may change until then is asked again there."""
    template = definitions.current(schedule.template)
    rights.check_order(template.slug, schedule.owner)
    services.check_words(schedule.title, schedule.request)
    services.check_priority(schedule.priority, schedule.owner)
    services.check_input(template, schedule.input)
    if redaction.redact(schedule.input) != schedule.input:
        raise ScheduleInvalid(
            "input",
            gettext(
                "A field is named like a secret, and secrets are kept in no input. Let the "
                "step use a credential by its name."
            ),
        )
    if len(codec.encode(schedule.input)) > limits.START_BYTES:
        raise ScheduleInvalid(
            "input",
            gettext("Up to %(bytes)s bytes; name a large file by its path.")
            % {"bytes": f"{limits.START_BYTES:,}"},
        )
    if schedule.team_id is not None:
        try:
            starting.check_owner(schedule)
        except starting.OwnerLostRight as error:
            raise ScheduleInvalid("team", str(error)) from error
    if template.needs_repository:
        if not schedule.repository_url:
            raise ScheduleInvalid(
                "repository_url",
                gettext("This template works on a repository: name a path or a URL."),
            )
        repositories.checked_source(schedule.repository_url)
