"""What clients of the LangGraph door said themselves: their own ids, their metadata, and what they
keep in its store.

All else that such a client sees is derived from threads, runs, questions and answers.
"""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models

from checkpoints.models import SealedJsonField, Thread


class LangGraphThread(models.Model):
    """A thread's id and metadata as its client knows them; without a row it has its own id."""

    thread = models.OneToOneField(
        Thread, models.PROTECT, primary_key=True, related_name="langgraph"
    )
    wire_id = models.UUIDField(unique=True, default=uuid.uuid4)
    metadata = SealedJsonField(default=dict)
    hidden_at = models.DateTimeField(
        null=True, help_text="When a client deleted it: this door shows it no more."
    )

    def __str__(self) -> str:
        return str(self.wire_id)


class LangGraphTag(models.Model):
    """A key of a thread's metadata with the digest of its value, by which threads are found."""

    # the constraint below has one
    thread = models.ForeignKey(LangGraphThread, models.PROTECT, related_name="tags", db_index=False)
    key = models.CharField(max_length=100)
    digest = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["thread", "key"], name="langgraph_tag_once"),
        ]
        indexes = [models.Index(fields=["key", "digest"], name="langgraph_tag_by_value")]

    def __str__(self) -> str:
        return self.key


class LangGraphRun(models.Model):
    """What a client said of a run of its protocol: metadata, in which words it is to be told, or
    that it is to be shown no more.
    """

    wire_id = models.UUIDField(primary_key=True)
    thread = models.ForeignKey(Thread, models.PROTECT, related_name="+")
    metadata = SealedJsonField(default=dict)
    modes = models.JSONField(
        default=list,
        db_default=[],
        help_text="Of its stream, for whoever joins it and names none; empty: values.",
    )
    assistant = models.UUIDField(
        null=True, help_text="The saved configuration that it was begun with."
    )
    hidden_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return str(self.wire_id)


class LangGraphItem(models.Model):
    """A value of the store. It belongs to an account and to no thread, and goes with the
    account.
    """

    # the constraint below has one
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", db_index=False
    )
    namespace = models.CharField(max_length=400, help_text="A full stop behind each label.")
    key = models.CharField(max_length=200)
    value = SealedJsonField(default=dict)
    size = models.PositiveIntegerField(help_text="Bytes of the value's JSON.")
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "namespace", "key"], name="langgraph_item_once"
            ),
        ]

    def __str__(self) -> str:
        return f"#{self.pk}"  # names are its owner's, and who removes an account reads these
