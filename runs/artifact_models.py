"""Texts that steps keep for people: what an agent was told, and all that it wrote."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from checkpoints import ids
from checkpoints.models import Thread


class Artifact(ids.Shown, models.Model):
    """One text of one execution of a step. Another try of it takes its place. The text is a blob; whoever sees the thread may read it."""

    PREFIX = "art"

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    thread = models.ForeignKey(Thread, models.PROTECT, related_name="artifacts")
    run = models.ForeignKey("runs.Run", models.PROTECT, related_name="artifacts", db_index=False)
    step = models.CharField(max_length=100)
    loop_num = models.PositiveIntegerField()
    name = models.CharField(max_length=100)
    digest = models.CharField(max_length=64, help_text="Of the blob that holds it.")
    size = models.PositiveBigIntegerField(help_text="Bytes as the step gave it.")
    cut = models.BooleanField(default=False, help_text="Its middle is left out.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "step", "loop_num", "name"], name="artifact_once_per_execution"),  # also: by run
            models.CheckConstraint(condition=~Q(digest=""), name="artifact_has_a_text"),
        ]

    def __str__(self) -> str:
        return f"{self.step} {self.loop_num}: {self.name}"
