"""Secrets that steps and tools use by name: keys of models, tokens of forges."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext

from checkpoints.models.fields import MadeAtField, SealedTextField

NAME = RegexValidator(
    r"^[A-Za-z][A-Za-z0-9_.-]*\Z", "Letters, digits, dots, - and _, beginning with a letter."
)


class Credential(models.Model):
    """A secret by name, sealed at rest.

    Its value is written and used, and shown to nobody: no page, answer, log or export holds it.
    """

    name = models.CharField(
        max_length=80,
        validators=[NAME],
        help_text="How steps call it, e.g. OPENAI_API_KEY or forge.",
    )
    team = models.ForeignKey(
        Group,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="credentials",
        db_index=False,
        help_text="Whose runs may use it, and get it before one of all teams; empty for every run.",
    )
    value = SealedTextField()
    hosts = models.JSONField(
        default=list, blank=True, help_text="The hosts that it may be sent to; empty for any."
    )
    note = models.CharField(
        max_length=200,
        blank=True,
        help_text="What it is for, and where it was issued. No part of the secret.",
    )
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        null=True,
        related_name="+",
        db_index=False,
        help_text="Empty where it came by command.",
    )
    created_at = MadeAtField()
    rotated_at = models.DateTimeField(null=True, help_text="When its value was last replaced.")
    used_at = models.DateTimeField(
        null=True, help_text="When a run last asked for it, to the minute."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["name", "team"],
                condition=Q(team__isnull=False),
                name="credential_once_per_team",
            ),
            models.UniqueConstraint(
                fields=["name"], condition=Q(team__isnull=True), name="credential_once_for_all"
            ),
            models.CheckConstraint(condition=~Q(value=""), name="credential_has_value"),
        ]
        indexes = [models.Index(fields=["name"], name="credential_by_name")]

    def __str__(self) -> str:
        return self.name

    def __getstate__(self) -> dict[str, Any]:
        """A pickled row would carry its value into a cache or a queue."""
        raise TypeError("a credential is not pickled")

    @property
    def bound_to(self) -> str:
        """Where it may be sent, in words."""
        return ", ".join(self.hosts) or gettext("any host")
