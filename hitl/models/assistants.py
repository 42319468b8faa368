"""Saved configurations of templates: assistants that clients of the LangGraph door make."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from checkpoints import ids
from checkpoints.models import SealedJsonField
from checkpoints.models.fields import MadeAtField


class LangGraphAssistant(models.Model):
    """A saved configuration of a template. It is one account's and goes with the account."""

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    version = models.PositiveIntegerField(default=1, help_text="The one that counts.")
    made_at = MadeAtField()
    changed_at = models.DateTimeField()

    def __str__(self) -> str:
        return str(self.pk)


class LangGraphAssistantVersion(models.Model):
    """What a saved configuration says, once; a change is another one."""

    # the constraint below has one
    assistant = models.ForeignKey(
        LangGraphAssistant, models.CASCADE, related_name="versions", db_index=False
    )
    number = models.PositiveIntegerField()
    template = models.SlugField(
        max_length=80,
        db_index=False,
        help_text="Slug; each run takes the version that is current then.",
    )
    name = models.CharField(max_length=120)
    description = models.CharField(max_length=1_000, blank=True)
    metadata = SealedJsonField(default=dict)
    made_at = MadeAtField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["assistant", "number"], name="langgraph_assistant_version_once"
            ),
        ]

    def __str__(self) -> str:
        return self.name
