"""What people say to each other at a question."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from checkpoints import ids
from checkpoints.models.fields import MadeAtField, SealedTextField
from hitl.models.decisions import LONGEST_NAME
from runs.models import Pause


class CommentQuerySet(models.QuerySet["Comment"]):
    def standing(self) -> CommentQuerySet:
        """Those that their author has not taken back."""
        return self.filter(withdrawn_at=None)


class Comment(ids.HasShownId, models.Model):
    """Something that a person says at a question. It decides nothing, and no step reads it but by
    a revision that takes it along.
    """

    PREFIX = "cmt"

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    # the index below
    pause = models.ForeignKey(Pause, models.PROTECT, related_name="comments", db_index=False)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    by_name = models.CharField(
        max_length=LONGEST_NAME, help_text="What the author was called at that time."
    )
    text = SealedTextField(blank=True, help_text='Plain text; "" once it was taken back.')
    path = SealedTextField(
        blank=True, default="", help_text="The file of the patch that it is about; with `line`."
    )
    line = models.PositiveIntegerField(null=True, help_text="The line of that file.")
    side = models.CharField(
        max_length=3,
        blank=True,
        default="",
        help_text="Whether the line is counted before the change, `old`, or after it, `new`.",
    )
    made_at = MadeAtField()
    withdrawn_at = models.DateTimeField(null=True)

    objects = CommentQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(withdrawn_at=None) | Q(text=""), name="comment_withdrawn_says_nothing"
            ),
            models.CheckConstraint(
                condition=Q(line=None, side="") | Q(line__gte=1, side__in=["old", "new"]),
                name="comment_line_has_a_side",
            ),
        ]
        indexes = [models.Index(fields=["pause", "id"], name="comment_by_pause")]

    def __str__(self) -> str:
        return f"{self.shown_id}: {self.by_name}"

    @property
    def place(self) -> str:
        """`src/app.py, line 12`; "" where it is about the whole."""
        if self.line is None:
            return ""
        return f"{self.path}, line {self.line}{' before the change' if self.side == 'old' else ''}"


class Mention(models.Model):
    """That a comment is meant for a person."""

    # the constraint below has one
    comment = models.ForeignKey(Comment, models.CASCADE, related_name="mentions", db_index=False)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="mentions")
    asked = models.BooleanField(
        default=False,
        help_text="Their opinion is asked: they see the question, and cannot answer it by this.",
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["comment", "person"], name="mention_once")]

    def __str__(self) -> str:
        return f"{self.person}: {self.comment_id}"
