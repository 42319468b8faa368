"""Signed messages from outside that start a work order each, and what became of them."""

from __future__ import annotations

from django.contrib.auth.models import Group
from django.db import models
from django.db.models import Q

from checkpoints import ids
from checkpoints.models import SealedJsonField
from checkpoints.models.fields import MadeAtField, SealedTextField
from hitl.models.wait_gate import InboundSource
from runs.models import WorkOrder
from runs.models.priority import bounded, priority_field


class InboundStart(ids.HasShownId, models.Model):
    """What a signed message orders, in the name of its source's user.

    Its source is its own, and signs nothing else: it answers no question.
    """

    PREFIX = "ist"

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    source = models.OneToOneField(InboundSource, models.CASCADE, related_name="start")
    template = models.SlugField(
        max_length=80, help_text="Slug; each start takes the version that is current then."
    )
    title = models.CharField(max_length=200, blank=True)
    request = SealedTextField(blank=True)
    request_pointer = models.CharField(
        max_length=200, blank=True, help_text="Where in the message the request's words stand."
    )
    input = SealedJsonField(default=dict, help_text="Fields that are the same for each order.")
    mapping = models.JSONField(
        default=dict, blank=True, help_text='Field of the input → JSON pointer: {"id": "/data/id"}'
    )
    repository_url = models.CharField(max_length=500, blank=True)
    team = models.ForeignKey(Group, models.SET_NULL, null=True, blank=True, related_name="+")
    for_team = models.BooleanField(default=False, editable=False)
    priority = priority_field()
    made_at = MadeAtField()

    class Meta:
        constraints = [bounded("inbound_start_priority_bounded")]

    def __str__(self) -> str:
        return self.source_id


class StartDelivery(ids.HasShownId, models.Model):
    """One signed message: the order that it started, or why it started none.

    The row of one that started is written in the transaction that makes its order.
    """

    PREFIX = "sdl"

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    start = models.ForeignKey(InboundStart, models.CASCADE, related_name="deliveries")
    delivery_id = models.CharField(max_length=200, help_text="Its webhook-id.")
    started = models.BooleanField(default=False)
    code = models.CharField(max_length=64, blank=True, help_text="Why it started none.")
    why = models.CharField(max_length=500, blank=True)
    order = models.OneToOneField(
        WorkOrder, models.SET_NULL, null=True, related_name="start_delivery"
    )
    at = MadeAtField()

    class Meta:
        verbose_name_plural = "start deliveries"
        constraints = [
            models.UniqueConstraint(
                fields=["start", "delivery_id"],
                condition=Q(started=True),
                name="start_delivery_once",
            ),
            models.CheckConstraint(
                condition=Q(started=True, code="") | (Q(started=False, order=None) & ~Q(code="")),
                name="start_delivery_started_or_refused",
            ),
        ]

    def __str__(self) -> str:
        return self.delivery_id
