"""How one occurrence becomes a work order: in the owner's name, and once.

The order and the occurrence's row are written in one transaction, under the schedule's row: of two
sweeps at once, and of a sweep that died and the next one, one order comes.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from checkpoints import ids
from checkpoints.database import clock
from checkpoints.database.people import User
from runs import keyed, services
from runs.definitions import TemplateInvalid, TemplateNotFound, TemplateNotNamed, rights
from runs.definitions.readiness import CannotRun
from runs.git.sources import BadSource
from runs.models import Occurrence, Schedule, WorkOrder
from runs.models.schedules import OccurrenceStatus, Overlap
from runs.schedules import times
from runs.services import InputInvalid, OrdersStopped
from runs.workflows.registry import NotReady

ADD = "runs.add_schedule"
REFUSALS = (
    rights.SwitchedOff,
    TemplateNotFound,
    TemplateNotNamed,
    TemplateInvalid,
    InputInvalid,
    BadSource,
    OrdersStopped,
    CannotRun,
    NotReady,
)
"""What an order may be refused with now, and not tomorrow; the schedule goes on."""


class OwnerLostRight(Exception):
    """The owner may not order this any more; the schedule is stopped."""


class StillAtWork(Exception):
    """Work of an earlier occurrence has not ended."""


class NotOpen(Exception):
    """Another sweep started it, or the schedule was switched off meanwhile; nothing was made."""


@dataclass(frozen=True)
class OccurrenceClaim:
    """Makes an order an occurrence's own, in the transaction that makes the order."""

    schedule: Schedule
    occurrence: Occurrence

    def make(self, shown_id: str) -> None:
        """Raises NotOpen and StillAtWork; then no order is made."""
        held = Schedule.objects.select_for_update(no_key=True).filter(
            pk=self.schedule.pk, enabled=True
        )
        if not held.values_list("pk", flat=True):
            raise NotOpen("the schedule was switched off or removed meanwhile")
        check_overlap(self.schedule)
        started: dict[str, Any] = {
            "status": OccurrenceStatus.STARTED,
            "order": ids.parse(WorkOrder.PREFIX, shown_id),
            "why": "",
            "settled_at": clock.now(),
        }
        if not Occurrence.objects.open().filter(pk=self.occurrence.pk).update(**started):
            raise NotOpen("another sweep started it")


@dataclass(frozen=True)
class HandClaim:
    """Writes the row of an occurrence that a person starts, with its order."""

    schedule: Schedule
    by: User

    def make(self, shown_id: str) -> None:
        now = clock.now()
        Occurrence.objects.create(
            schedule=self.schedule,
            at=now,
            local=times.local(now, self.schedule.zone),
            status=OccurrenceStatus.STARTED,
            order_id=ids.parse(WorkOrder.PREFIX, shown_id),
            by=self.by,
            settled_at=now,
        )


def check_overlap(schedule: Schedule) -> None:
    """Raise StillAtWork where an occurrence that is at work keeps others from starting."""
    if schedule.overlap == Overlap.ALLOW:
        return
    before = Occurrence.objects.at_work().filter(schedule=schedule).select_related("order").first()
    if before is not None and before.order is not None:
        raise StillAtWork(f"{before.order.shown_id}, started at {before.local}, has not ended")


def check_owner(schedule: Schedule) -> None:
    """Raise OwnerLostRight where the owner may have nothing begun by the clock, or not for the
    team.
    """
    owner = schedule.owner
    if not owner.is_active:
        raise OwnerLostRight(f"The account {owner.get_username()} is not active any more.")
    if not owner.has_perm(ADD):
        raise OwnerLostRight(f"{owner.get_username()} may not make schedules any more.")
    if schedule.for_team and schedule.team is None:
        raise OwnerLostRight("The team that the orders were for is gone.")
    if schedule.team_id is not None and not owner.groups.filter(pk=schedule.team_id).exists():
        raise OwnerLostRight(f"{owner.get_username()} is not in the team {schedule.team} any more.")


def order(schedule: Schedule, claim: keyed.RequestKey) -> WorkOrder:
    """Make the order that a schedule describes, in its owner's name, under a claim.

    Raises OwnerLostRight, REFUSALS, and what the claim raises; then nothing was made.
    """
    check_owner(schedule)
    try:
        with keyed.alongside(claim):
            return services.submit(
                schedule.template,
                by=schedule.owner,
                title=schedule.title,
                request=schedule.request,
                input=schedule.input,
                repository_url=schedule.repository_url,
                team=schedule.team,
                priority=schedule.priority,
            )
    except rights.Forbidden as error:
        raise OwnerLostRight(str(error)) from error


def describe(at: dt.datetime, schedule: Schedule) -> str:
    """An occurrence's time, as its row keeps it."""
    return times.local(at, schedule.zone)
