"""How many runs may be at work at once: limits, and the places that runs hold or wait for."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from checkpoints.database import clock
from checkpoints.models import JsonTextField
from runs.models.runs import Run
from runs.states import RunStatus


class WorkLimitQuerySet(models.QuerySet["WorkLimit"]):
    def acting(self) -> WorkLimitQuerySet:
        return self.filter(off=False)


class WorkLimit(models.Model):
    """How many runs of a template may be at work at once.

    Where a pointer is named, each value that it finds in the input has places of its own; a run in
    whose input it finds none is not limited. Limits of one name share their places, whichever
    template they are of.
    """

    template = models.SlugField(max_length=80, help_text="The template's slug, all its versions.")
    name = models.SlugField(
        max_length=80,
        blank=True,
        help_text="Templates whose limits have the same name share the places. Empty: its own.",
    )
    pointer = models.CharField(
        max_length=200,
        blank=True,
        help_text="JSON pointer into the input, /customer: so many per value. Empty: altogether.",
    )
    most = models.PositiveSmallIntegerField(
        default=1, help_text="How many may be at work at once; whoever waits for a person is not."
    )
    priority = models.SmallIntegerField(
        default=0, help_text="Of runs that wait for the same places higher ones go first."
    )

    rate = models.CharField(
        max_length=20,
        blank=True,
        db_default="",
        help_text="How many may begin in a time, 60/min; empty: any number.",
    )
    declared = JsonTextField(
        null=True,
        default=None,
        editable=False,
        help_text="Where the code declares it: what it says there, and the place.",
    )
    off = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Somebody took it away, though the code declares it.",
    )

    objects = WorkLimitQuerySet.as_manager()

    class Meta:
        verbose_name = "limit of work at once"
        verbose_name_plural = "limits of work at once"
        constraints = [
            models.UniqueConstraint(fields=["template", "name", "pointer"], name="work_limit_once"),
            models.CheckConstraint(condition=Q(most__gte=1), name="work_limit_from_one"),
        ]
        indexes = [models.Index(fields=["name"], name="work_limit_by_name")]

    def __str__(self) -> str:
        return " ".join(filter(None, [self.name or self.template, self.pointer]))


class Beginning(models.Model):
    """A run that began under a limit with a rate. Older ones than the rate's time are dropped."""

    key = models.CharField(max_length=100, help_text="As of places.")
    at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["key", "-at"], name="beginning_by_key")]

    def __str__(self) -> str:
        return self.key


class PlaceQuerySet(models.QuerySet["Place"]):
    def waiting(self) -> PlaceQuerySet:
        return self.filter(epoch=None, run__status=RunStatus.PENDING)

    def at_work(self) -> PlaceQuerySet:
        """Places of claims whose leases hold: a worker that was killed frees its own with its
        lease.
        """
        return self.filter(
            epoch=F("run__epoch"),
            run__status=RunStatus.RUNNING,
            run__lease_until__gt=clock.FromNow(),
        )


class Place(models.Model):
    """What a run holds under a limit while a worker has it, or waits for."""

    # the constraint below has an index
    run = models.ForeignKey(Run, models.CASCADE, related_name="places", db_index=False)
    limit = models.ForeignKey(WorkLimit, models.CASCADE, related_name="places")
    key = models.CharField(max_length=100, help_text="Places of one key are counted together.")
    epoch = models.PositiveIntegerField(
        null=True, help_text="Of the claim that took it; null while the run waits."
    )
    since = models.DateTimeField(help_text="Since when the run waits, or has it.")
    offered_at = models.DateTimeField(
        null=True, help_text="When a worker was told that the run may have it."
    )
    words = models.CharField(max_length=200, blank=True, help_text="What people are told.")

    objects = PlaceQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "limit"], name="place_once")]
        indexes = [models.Index(fields=["key"], name="place_by_key")]

    def __str__(self) -> str:
        return self.key
