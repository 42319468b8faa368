"""What is known of the clocks of hosts that work."""

from __future__ import annotations

import datetime as dt
from typing import ClassVar

from django.db import models

LASTS = dt.timedelta(minutes=10)
"""A host that works says it again long before."""


class HostClockQuerySet(models.QuerySet["HostClock"]):
    def now(self, *, now: dt.datetime) -> HostClockQuerySet:
        return self.filter(seen_at__gt=now - LASTS)


class HostClock(models.Model):
    """A host whose clock is off, as its worker found lately.

    Nothing is decided by it: people are to set the clock.
    """

    host = models.CharField(primary_key=True, max_length=120)
    ahead = models.FloatField(
        help_text="Seconds ahead of the database's clock; below 0 it is behind."
    )
    seen_at = models.DateTimeField()

    # the manager that Django makes of it
    objects: ClassVar[HostClockQuerySet] = HostClockQuerySet.as_manager()  # type: ignore[assignment]

    def __str__(self) -> str:
        return self.host

    @property
    def off_by(self) -> str:
        return f"{abs(self.ahead):.1f} s {'ahead' if self.ahead > 0 else 'behind'}"
