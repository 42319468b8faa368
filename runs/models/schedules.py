"""Work that begins by the clock: schedules, and each of their occurrences."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.db.models import Q

from checkpoints import ids
from checkpoints.database import clock
from checkpoints.models import SealedJsonField
from checkpoints.models.fields import MadeAtField, SealedTextField
from checkpoints.text import invisible
from runs.models.priority import bounded, priority_field
from runs.models.runs import WorkOrder
from runs.states import LIVE


class Overlap(models.TextChoices):
    """What an occurrence does while work of an earlier one has not ended."""

    SKIP = "skip", "Skip it"
    QUEUE = "queue", "Let it wait"
    ALLOW = "allow", "Start it as well"


class CatchUp(models.TextChoices):
    """What happens to occurrences that nobody could start in time."""

    LATEST = "latest", "Start the latest"
    ALL = "all", "Start all, up to the bound"
    NONE = "none", "Start none"


class ScheduleQuerySet(models.QuerySet["Schedule"]):
    def due(self, *, now: dt.datetime | clock.FromNow) -> ScheduleQuerySet:
        """Those that are to be looked at."""
        return self.filter(enabled=True, next_at__lte=now)


class Schedule(ids.HasShownId, models.Model):
    """What is ordered by the clock, in whose name, and when."""

    PREFIX = "sch"

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    name = models.CharField(max_length=120)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        related_name="schedules",
        help_text="In whose name it orders; their rights are asked at each start.",
    )
    template = models.SlugField(
        max_length=80, help_text="Slug; each start takes the version that is current then."
    )
    title = models.CharField(max_length=200, blank=True)
    request = SealedTextField(blank=True)
    input = SealedJsonField(default=dict)
    repository_url = models.CharField(max_length=500, blank=True)
    team = models.ForeignKey(Group, models.SET_NULL, null=True, blank=True, related_name="+")
    for_team = models.BooleanField(
        default=False,
        editable=False,
        help_text="Whether a team was chosen; it stays so when that team is deleted.",
    )
    priority = priority_field()
    cron = models.CharField(
        max_length=100, help_text="Minute, hour, day of the month, month, day of the week."
    )
    zone = models.CharField(max_length=64, default="UTC", help_text="IANA name, Europe/Berlin.")
    until = models.CharField(
        max_length=5,
        blank=True,
        default="",
        db_default="",
        help_text="The time in its zone, 12:00, after which an occurrence starts no more.",
    )
    overlap = models.CharField(max_length=8, choices=Overlap, default=Overlap.SKIP)
    catch_up = models.CharField(max_length=8, choices=CatchUp, default=CatchUp.LATEST)
    catch_up_most = models.PositiveSmallIntegerField(
        default=10, help_text="How many missed occurrences “all” starts; the latest ones."
    )
    enabled = models.BooleanField(default=True)
    stopped_because = models.TextField(
        blank=True, default="", help_text="Why the product stopped it; empty where nobody did."
    )
    cursor = models.DateTimeField(
        editable=False, help_text="Occurrences up to then have their rows; it never goes back."
    )
    next_at = models.DateTimeField(
        null=True, editable=False, help_text="When the sweep looks at it."
    )
    declared = SealedJsonField(
        null=True,
        default=None,
        editable=False,
        help_text="Where the code declares it: what it says there, and the place.",
    )
    metadata = SealedJsonField(
        null=True,
        default=None,
        editable=False,
        help_text="What a program said of it, and of what it begins.",
    )
    version = models.PositiveIntegerField(
        default=1, editable=False, help_text="Counts changes by people."
    )
    made_at = MadeAtField()

    objects = ScheduleQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(overlap__in=Overlap.values, catch_up__in=CatchUp.values),
                name="schedule_rules_known",
            ),
            models.CheckConstraint(
                condition=Q(catch_up_most__gte=1, catch_up_most__lte=100),
                name="schedule_catch_up_bounded",
            ),
            models.CheckConstraint(
                condition=Q(enabled=False) | Q(stopped_because=""),
                name="schedule_stopped_is_off",
            ),
            bounded("schedule_priority_bounded"),
        ]
        indexes = [
            # the sweep
            models.Index(
                fields=["next_at"], condition=Q(enabled=True), name="schedule_enabled_by_next"
            ),
        ]

    def __str__(self) -> str:
        return invisible.plain(self.name)


class OccurrenceStatus(models.TextChoices):
    DUE = "due", "Waits to be started"
    STARTED = "started"
    SKIPPED = "skipped"
    REFUSED = "refused"


class OccurrenceQuerySet(models.QuerySet["Occurrence"]):
    def open(self) -> OccurrenceQuerySet:
        return self.filter(status=OccurrenceStatus.DUE)

    def at_work(self) -> OccurrenceQuerySet:
        """Those whose orders have not ended."""
        return self.filter(
            status=OccurrenceStatus.STARTED, order__latest_run__status__in=sorted(LIVE)
        )


class Occurrence(ids.HasShownId, models.Model):
    """One time of a schedule, or several on end that were skipped for one reason.

    Its order is written in the transaction that makes it started, so there is at most one.
    """

    PREFIX = "occ"

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    # the constraint below has an index
    schedule = models.ForeignKey(
        Schedule, models.CASCADE, related_name="occurrences", db_index=False
    )
    at = models.DateTimeField(help_text="The instant; of several the first.")
    local = models.CharField(
        max_length=40, help_text="The same on a clock of the schedule's zone, with its offset."
    )
    until = models.DateTimeField(null=True, help_text="Of several the last.")
    count = models.PositiveIntegerField(default=1, help_text="How many were skipped.")
    status = models.CharField(max_length=8, choices=OccurrenceStatus, default=OccurrenceStatus.DUE)
    why = models.TextField(blank=True, default="", help_text="Why it was not started, or waits.")
    order = models.OneToOneField(WorkOrder, models.SET_NULL, null=True, related_name="occurrence")
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        null=True,
        related_name="+",
        db_index=False,
        help_text="Who started it by hand; nobody where the clock did.",
    )
    made_at = MadeAtField()
    settled_at = models.DateTimeField(null=True)

    objects = OccurrenceQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["schedule", "at"], name="occurrence_once"),
            models.CheckConstraint(
                condition=Q(order__isnull=True) | Q(status="started"),
                name="occurrence_order_only_if_started",
            ),
            models.CheckConstraint(
                condition=Q(status="due", settled_at__isnull=True)
                | (~Q(status="due") & Q(settled_at__isnull=False)),
                name="occurrence_settled_at_if_settled",
            ),
            models.CheckConstraint(
                condition=Q(count=1, until__isnull=True)
                | Q(count__gt=1, until__isnull=False, status="skipped"),
                name="occurrence_several_were_skipped",
            ),
        ]
        indexes = [
            models.Index(
                fields=["schedule", "at"], condition=Q(status="due"), name="occurrence_open"
            ),
        ]

    def __str__(self) -> str:
        return self.local

    def settle(self, status: OccurrenceStatus, why: str, *, at: dt.datetime) -> bool:
        """Say what became of it, where it is still open; whether it was."""
        values: dict[str, Any] = {"status": status, "why": why[:1000], "settled_at": at}
        return bool(Occurrence.objects.open().filter(pk=self.pk).update(**values))
