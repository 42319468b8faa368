"""Who answers for whom for a time, and what people want out of their inbox for a while."""

from __future__ import annotations

import datetime as dt

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from checkpoints.models.fields import MadeAtField
from runs.models import Pause


class DelegationQuerySet(models.QuerySet["Delegation"]):
    def active(self, *, now: dt.datetime) -> DelegationQuerySet:
        """Those that hold at that time; of somebody whose account is closed none does."""
        return self.filter(starts_at__lte=now, ends_at__gt=now, from_user__is_active=True)

    def general(self) -> DelegationQuerySet:
        """Those of all questions."""
        return self.filter(pause=None)


class Delegation(models.Model):
    """That somebody answers for somebody else for a time.

    Looked up when a question is answered, so no job has to begin or end it.

    One level: what was delegated to a person is not delegated on.
    """

    pause = models.ForeignKey(
        Pause,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="delegations",
        help_text="The one question that was handed over; null where it is of all.",
    )

    from_user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="delegations_given"
    )
    to_user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="delegations_taken", db_index=False
    )  # the index below
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField(help_text="Ended earlier, it ends then.")
    reason = models.CharField(max_length=200, blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    created_at = MadeAtField()

    objects = DelegationQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=~Q(from_user=F("to_user")), name="delegation_to_another"
            ),
            models.CheckConstraint(
                condition=Q(ends_at__gte=F("starts_at")), name="delegation_ends_after_start"
            ),
        ]
        # who somebody stands in for, on every page
        indexes = [models.Index(fields=["to_user", "ends_at"], name="delegation_by_delegate")]

    def __str__(self) -> str:
        return f"{self.from_user} → {self.to_user}"


class Snooze(models.Model):
    """A person wants a question out of the own inbox until then. It moves no deadline."""

    # the constraint below has one
    pause = models.ForeignKey(Pause, models.CASCADE, related_name="snoozes", db_index=False)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    until = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["pause", "person"], name="snooze_one_per_person")
        ]

    def __str__(self) -> str:
        return f"→ {self.until:%Y-%m-%d %H:%M}"
