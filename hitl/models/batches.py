"""What operators did to many orders at once, and what became of each."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy

from checkpoints import ids
from checkpoints.models import JsonTextField
from checkpoints.models.fields import MadeAtField, SealedTextField


class BatchAction(models.TextChoices):
    RETRY = "retry", gettext_lazy("Retry")
    CANCEL = "cancel", gettext_lazy("Cancel")
    FORK = "fork", gettext_lazy("Fork")


class Batch(ids.HasShownId, models.Model):
    """One act on many orders. It is written before the first of them is touched, so that one that
    was cut short says how far it came.
    """

    PREFIX = "bat"

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    action = models.CharField(max_length=16, choices=BatchAction)
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+", db_index=False
    )
    by_name = models.CharField(max_length=301, help_text="Their name at that time.")
    reason = SealedTextField(blank=True)
    query = models.CharField(
        max_length=2_000,
        blank=True,
        help_text="How they were chosen, as the list's address has it.",
    )
    step = models.CharField(max_length=100, blank=True, help_text="From which a fork goes on.")
    orders = JsonTextField(help_text="The chosen orders' shown ids, in their order.")
    results = JsonTextField(
        default=list,
        help_text=(
            "Of each order that was come to, in the same order: {order, run, code, words}: the run "
            "that goes on, or the refusal; all empty but order where it was cancelled."
        ),
    )
    made_at = MadeAtField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name_plural = "batches"

    def __str__(self) -> str:
        return self.shown_id
