"""Limits and schedules that workflows declare in their code, settled when the code is loaded.

A row of the code's follows the code. What a person changes on pages or over REST stands over the
code's until somebody goes back to it; the row says both. What the code declares no more is gone: a
schedule is switched off, with its history.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext

from checkpoints.database import clock
from checkpoints.database.people import NAME, User
from runs.definitions import rights
from runs.models import Schedule
from runs.models.schedules import Overlap
from runs.schedules import keeping, starting
from runs.services import limits
from runs.workflows import ScheduleUse, Workflow

NO_MORE = "The code declares it no more."


def _shown(place: str) -> str:
    """File and line as people read it, who need not learn where the server keeps its files."""
    return place.rpartition("/")[2]


def settle(workflows: Sequence[Workflow]) -> list[str]:
    """Let limits and schedules be what these workflows declare; give what cannot be kept, each with
    its file and line.
    """
    said: list[str] = []
    for workflow in workflows:
        declared = {
            (one.name, one.pointer): {
                "most": one.most,
                "rate": one.rate,
                "priority": one.priority,
                "place": _shown(one.place),
            }
            for one in workflow.limits
        }
        said += limits.settle(workflow.slug, declared)
        said += _settle_schedules(workflow)
    return said


def _settle_schedules(workflow: Workflow) -> Iterator[str]:
    rows = {
        row.declared["key"]: row
        for row in Schedule.objects.filter(template=workflow.slug, declared__isnull=False)
        .select_related("owner", "team")
        .order_by("pk")
        if isinstance(row.declared, dict) and "key" in row.declared
    }
    for number, one in enumerate(workflow.schedules):
        key = one.name or str(number)
        try:
            _settle(workflow, one, key, rows.pop(key, None))
        except keeping.ScheduleInvalid as error:
            yield f"{one.place}: schedule, {error.field}: {error}"
        except (*starting.REFUSALS, rights.Forbidden, keeping.MayNotSchedule) as error:
            yield f"{one.place}: schedule: {error}"
    for row in rows.values():
        with transaction.atomic():
            if not keeping.stands_over_code(row):
                keeping.stop_for_good(row, NO_MORE)
            Schedule.objects.filter(pk=row.pk).update(declared=None)


def _settle(workflow: Workflow, one: ScheduleUse, key: str, row: Schedule | None) -> None:
    owner = _account(one)
    values = {
        "name": one.name or f"{workflow.title}: {one.cron}"[:120],
        "cron": one.cron,
        "zone": one.zone,
        "until": one.until,
        "overlap": str(Overlap.SKIP if one.skip_if_open else Overlap.ALLOW),
        "title": "",
        "request": "",
        "input": {},
        "repository_url": "",
        "team": "",
        **one.order,
    }
    told = {"key": key, "place": _shown(one.place), "values": values}
    with transaction.atomic():
        if row is None:
            User.objects.select_for_update(no_key=True).get(pk=owner.pk)  # hosts one by one
            known = Schedule.objects.filter(template=workflow.slug, declared__isnull=False)
            if any(other.declared["key"] == key for other in known):
                return
            new = Schedule(owner=owner, template=workflow.slug, cursor=clock.now(), declared=told)
            keeping.fill(new, _with_team(values, owner))
            new.save(force_insert=True)
        elif row.declared != told or row.owner_id != owner.pk:
            follows = not keeping.stands_over_code(row)
            row.owner = owner
            if follows and values != keeping.values_of(row):
                keeping.follow(row, _with_team(values, owner))
            Schedule.objects.filter(pk=row.pk).update(declared=told, owner=owner)


def _account(one: ScheduleUse) -> User:
    """In whose name it orders; raises keeping.ScheduleInvalid."""
    name = one.by or settings.WAYSTATION_SCHEDULES_BY
    owner = User.objects.filter(**{NAME: name}, is_active=True).first() if name else None
    if owner is None:
        raise keeping.ScheduleInvalid(
            "by",
            gettext(
                'There is no account "%(name)s". Name one with `by=…`, or in '
                "WAYSTATION_SCHEDULES_BY."
            )
            % {"name": name}
            if name
            else gettext(
                "It says nobody in whose name it orders. Name one with `by=…`, or in "
                "WAYSTATION_SCHEDULES_BY."
            ),
        )
    if not owner.has_perm(starting.ADD):
        raise keeping.MayNotSchedule(
            gettext("%(name)s may not make schedules: it takes the right “Can add schedule”.")
            % {"name": owner.get_username()}
        )
    return owner


def _with_team(values: dict[str, Any], owner: User) -> dict[str, Any]:
    """The values as columns; raises keeping.ScheduleInvalid for a team of others."""
    team = owner.groups.filter(name=values["team"]).first() if values["team"] else None
    if values["team"] and team is None:
        raise keeping.ScheduleInvalid(
            "team",
            gettext('%(name)s is in no team "%(team)s".')
            % {"name": owner.get_username(), "team": values["team"]},
        )
    return {**values, "team": team}
