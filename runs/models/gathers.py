"""What a run's row says of the child runs of its last `Gather`: how many there are, how many of
them are still to be started, and when.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import models


class GathersChildren(models.Model):
    """Columns of a run."""

    awaited = models.PositiveIntegerField(
        default=0,
        help_text="Child runs that it waits for; 0 where it waits for a person or not at all.",
    )
    gather_size = models.PositiveIntegerField(
        default=0, db_default=0, help_text="Child runs of its last gather, started or not."
    )
    gather_queued = models.PositiveIntegerField(
        default=0, db_default=0, help_text="Of those that it waits for: not started yet."
    )
    gather_failed = models.PositiveIntegerField(
        default=0, db_default=0, help_text="Of those that ended: did not complete."
    )
    gather_due_at = models.DateTimeField(
        null=True, help_text="When more of them may be started; null while no place is free."
    )

    class Meta:
        abstract = True

    @property
    def gathering_now(self) -> Mapping[str, Any] | None:
        """How many of the child runs that it waits for have ended, as a step says how far it is."""
        if not self.awaited or not self.gather_size:
            return None
        return {"done": self.gather_ended, "of": self.gather_size, "unit": ""}

    @property
    def gather_live(self) -> int:
        """Child runs that were started and have not ended."""
        return max(0, self.awaited - self.gather_queued)

    @property
    def gather_ended(self) -> int:
        return max(0, self.gather_size - self.gather_queued - self.gather_live)

    @property
    def gather_counts(self) -> Mapping[str, int] | None:
        """How its child runs stand; None where it never had any."""
        if not self.gather_size:
            return None
        return {
            "total": self.gather_size,
            "queued": self.gather_queued,
            "live": self.gather_live,
            "ended": self.gather_ended,
            "failed": self.gather_failed,
        }
