"""Who looks at a question at the moment, in rows that say nothing any more once their time is over;
and who has seen which file of a patch.
"""

from __future__ import annotations

import datetime as dt

from django.conf import settings
from django.db import models

from checkpoints.models import Thread
from runs.models import Pause


class PresenceQuerySet(models.QuerySet["Presence"]):
    def now(self, *, now: dt.datetime) -> PresenceQuerySet:
        return self.filter(until__gt=now)


class Presence(models.Model):
    """That a person has a question before their eyes, or is answering it.

    No fact of the question: no log, no ledger, no export has it.
    """

    # the constraint below has one
    pause = models.ForeignKey(Pause, models.CASCADE, related_name="presences", db_index=False)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    writing = models.BooleanField(default=False)
    until = models.DateTimeField(
        db_index=True, help_text="Past this time it says nothing; the next sweep drops it."
    )

    objects = PresenceQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["pause", "person"], name="presence_one_per_person")
        ]

    def __str__(self) -> str:
        return f"{self.person}: {self.pause}"


class SeenFile(models.Model):
    """That a person has ticked a file of a patch as seen. A later revision in which the file's part
    reads the same finds it again.

    For that person's eyes alone: no log, no ledger, no export has it.
    """

    # the constraint below has one
    thread = models.ForeignKey(Thread, models.CASCADE, related_name="+", db_index=False)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    digest = models.CharField(max_length=64, help_text="sha256 of the file's part of the patch.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["thread", "person", "digest"], name="seen_file_once")
        ]

    def __str__(self) -> str:
        return f"{self.person}: {self.digest[:12]}"
