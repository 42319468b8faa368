"""Texts that steps keep for people: what an agent was told, and all that it wrote; and files that
people handed in.
"""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import Q
from django.utils import timezone

from checkpoints import ids
from checkpoints.models import Thread
from checkpoints.text import media


class ArtifactDropped(Exception):
    """An artifact's text is not kept any more; its line in the list says what it was."""

    code = "artifact_dropped"


MADE = "→ "
"""How the name of a file begins that a step made: no field's path does."""


class Artifact(ids.HasShownId, models.Model):
    """One text or file of one execution of a step, or one file that came with an order or an
    answer.

    Another try of it takes its place. The text is a blob; whoever sees the thread may read it.

    What was kept longer than the thread's policy has it loses its text and stays as a line that
    says so.
    """

    PREFIX = "art"

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    thread = models.ForeignKey(Thread, models.PROTECT, related_name="artifacts")
    run = models.ForeignKey(
        "runs.Run", models.PROTECT, null=True, related_name="artifacts", db_index=False
    )
    imported_run = models.UUIDField(
        null=True,
        help_text=(
            "The run's key, where the run came with an import as history and has no row here."
        ),
    )
    step = models.CharField(max_length=100)
    loop_num = models.PositiveIntegerField()
    name = models.CharField(max_length=100)
    media = models.CharField(
        max_length=100,
        blank=True,
        default="",
        db_default="",
        help_text="Of a file: what its bytes are. Empty of a text.",
    )
    filename = models.CharField(
        max_length=200, blank=True, default="", db_default="", help_text="Of a file."
    )
    digest = models.CharField(
        max_length=64,
        blank=True,
        help_text="Of the blob that holds it; empty where it was dropped.",
    )
    size = models.PositiveBigIntegerField(help_text="Bytes as the step gave it.")
    cut = models.BooleanField(default=False, help_text="Its middle is left out.")
    created_at = models.DateTimeField(
        default=timezone.now, help_text="When the text that it has now was kept."
    )
    dropped_at = models.DateTimeField(null=True, help_text="When retention dropped its text.")

    class Meta:
        constraints = [
            # also: by run
            models.UniqueConstraint(
                fields=["run", "step", "loop_num", "name", "media"],
                name="artifact_once_per_execution",
            ),
            models.UniqueConstraint(
                fields=["imported_run", "step", "loop_num", "name", "media"],
                condition=Q(imported_run__isnull=False),
                name="artifact_once_per_imported_execution",
            ),
            models.CheckConstraint(
                condition=Q(digest="") ^ Q(dropped_at=None), name="artifact_has_a_text_or_lost_it"
            ),
            models.CheckConstraint(
                condition=Q(run=None) ^ Q(imported_run=None), name="artifact_of_one_run"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.step} {self.loop_num}: {self.name}"

    @property
    def is_made(self) -> bool:
        """Whether a step made this file: then its name says what it is called."""
        return self.name.startswith(MADE)

    @property
    def run_key(self) -> uuid.UUID:
        """Of its run, whether that has a row here or not."""
        key = self.run_id or self.imported_run
        assert key is not None  # artifact_of_one_run
        return key

    @property
    def is_picture(self) -> bool:
        """Whether its page gives a picture to look at, with `?preview`."""
        return self.dropped_at is None and self.media in media.PICTURES

    @property
    def has_text(self) -> bool:
        """Whether it is a file whose page gives its text, with `?text`."""
        return self.dropped_at is None and self.media in media.TEXTS
