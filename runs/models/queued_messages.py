"""Messages that wait for their turn on a thread."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q

from checkpoints import ids
from checkpoints.models import JsonTextField, SealedJsonField, Thread
from checkpoints.models.fields import MadeAtField, SealedTextField
from runs import states


class QueuedTurnQuerySet(models.QuerySet["QueuedTurn"]):
    def waiting(self) -> QueuedTurnQuerySet:
        """In the order in which they begin."""
        return self.filter(status=QueuedTurn.Status.WAITING).order_by("-interrupts", "pk")

    def due(self) -> QueuedTurnQuerySet:
        """Those that wait on threads where no run is alive."""
        return self.waiting().exclude(thread__runs__status__in=sorted(states.LIVE))


class QueuedTurn(ids.HasShownId, models.Model):
    """A message that came while a run of its thread was alive.

    It begins at most one run, which its row names.
    """

    PREFIX = "trn"

    class Status(models.TextChoices):
        WAITING = "waiting"
        BEGUN = "begun"
        WITHDRAWN = "withdrawn"
        REFUSED = "refused"
        """It could not begin any more; `words` says why."""

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    thread = models.ForeignKey(Thread, models.PROTECT, related_name="queued_turns")
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="+", db_index=False
    )
    template = models.CharField(max_length=80, blank=True)
    input = SealedJsonField(default=dict)
    stops = JsonTextField(
        default=dict,
        help_text="The steps at which its run asks: interrupt_before, interrupt_after.",
    )
    interrupts = models.BooleanField(
        default=False, help_text="Made the run at work end for it, and goes before the others."
    )
    status = models.CharField(max_length=16, choices=Status, default=Status.WAITING)
    run = models.OneToOneField("runs.Run", models.PROTECT, null=True, related_name="queued_turn")
    words = SealedTextField(blank=True)
    created_at = MadeAtField()
    closed_at = models.DateTimeField(null=True)

    objects = QueuedTurnQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(status="begun", run__isnull=False)
                | (~Q(status="begun") & Q(run__isnull=True)),
                name="queued_turn_begun_has_run",
            ),
            models.CheckConstraint(
                condition=Q(status="waiting", closed_at__isnull=True)
                | (~Q(status="waiting") & Q(closed_at__isnull=False)),
                name="queued_turn_waits_or_closed",
            ),
        ]
        indexes = [  # the sweep, and whoever ends a run: nearly always empty
            models.Index(
                fields=["thread", "id"], condition=Q(status="waiting"), name="queued_turn_waiting"
            ),
        ]

    def __str__(self) -> str:
        return self.shown_id

    @property
    def text(self) -> str:
        """What was said, where the input is a person's words."""
        given: Any = self.input
        return str(given.get("input", "")) if isinstance(given, dict) else ""
