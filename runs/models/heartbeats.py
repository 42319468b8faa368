"""What workers, beats and web servers say of themselves, as long as they live, and what is known
of the clocks of their hosts.
"""

from __future__ import annotations

import datetime as dt
from typing import ClassVar

from django.conf import settings
from django.db import models

from checkpoints.database import clock
from checkpoints.models import JsonTextField

EVERY = 30.0
"""Seconds between two signs of life."""
NOTED = 10.0
"""Seconds between two notes of one process that it carries out beat's look."""
LASTS = 100.0
"""Seconds after the last sign for which somebody counts as there: three may be late."""
LOOKS = 4
"""Looks of beat's that may be missing before it counts as silent."""
AT_LEAST, TIMES = 60.0, 12
SET_RIGHT = dt.timedelta(minutes=10)
"""How long a host's clock counts as it was found: one that works says it again long before."""


def silence() -> float:
    """Seconds after which a look of beat's that was carried out counts as too long ago."""
    return NOTED + LOOKS * float(settings.WAYSTATION_SWEEP_SECONDS)


def bound() -> float:
    """Seconds for which a due run may wait while its queue has workers."""
    return max(AT_LEAST, TIMES * float(settings.WAYSTATION_PATIENCE_SECONDS))


class HeartbeatKind(models.TextChoices):
    WORKER = "worker", "Worker"
    BEAT = "beat", "Beat"
    WEB = "web", "Web server"
    LOOK = "look", "Beat's look, carried out by a worker"


class HeartbeatQuerySet(models.QuerySet["Heartbeat"]):
    def lately(self) -> HeartbeatQuerySet:
        """Those who gave a sign of life, by the database's clock."""
        return self.filter(seen_at__gt=clock.FromNow(-LASTS))

    def with_now(self) -> HeartbeatQuerySet:
        """With `now`, the database's time in the same statement."""
        return self.annotate(now=clock.FromNow())


class Heartbeat(models.Model):
    """A worker, a beat or a process of a web server, and when it was last seen; or when a worker
    last did what beat asks for.

    Nothing is decided by it: leases say who works. People and load balancers read it.
    """

    name = models.CharField(primary_key=True, max_length=150)
    kind = models.CharField(max_length=8, choices=HeartbeatKind)
    queues = JsonTextField(default=list, help_text="Queues that this worker takes messages from.")
    version = models.CharField(max_length=40, blank=True)
    commit = models.CharField(max_length=40, blank=True)
    facts = JsonTextField(
        default=dict, help_text="How it is set up, as `manage.py doctor` compares it; no secrets."
    )
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField()

    # the manager that Django makes of it
    objects: ClassVar[HeartbeatQuerySet] = HeartbeatQuerySet.as_manager()  # type: ignore[assignment]

    def __str__(self) -> str:
        return self.name


class HostClockQuerySet(models.QuerySet["HostClock"]):
    def now(self, *, now: dt.datetime) -> HostClockQuerySet:
        return self.filter(seen_at__gt=now - SET_RIGHT)


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
