"""What an identity provider says of people: which groups of its are which of ours."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models

from checkpoints.models import JsonTextField
from checkpoints.models.fields import MadeAtField


class ClaimedGroup(models.Model):
    """Whoever has this value in the claim is in this group, from each login on, and nobody else."""

    claim = models.CharField(
        max_length=200, help_text="A value of the groups claim, just as the provider sends it."
    )
    group = models.ForeignKey(Group, models.CASCADE, related_name="+", help_text="Our team.")

    class Meta:
        verbose_name = "group of the identity provider"
        verbose_name_plural = "groups of the identity provider"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["claim", "group"], name="claimed_group_once")
        ]

    def __str__(self) -> str:
        return f"{self.claim} → {self.group}"


class MembershipChange(models.Model):
    """A login by the identity provider that changed somebody's groups, or was refused."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    at = MadeAtField()
    added = JsonTextField(default=list)
    removed = JsonTextField(default=list)
    claims = JsonTextField(default=list, help_text="The values that the provider sent.")
    refused = models.BooleanField(
        default=False, help_text="They may not log in any more; their tokens were revoked."
    )

    class Meta:
        verbose_name = "change by the identity provider"
        verbose_name_plural = "changes by the identity provider"

    def __str__(self) -> str:
        return f"{self.user} {self.at:%Y-%m-%d %H:%M}"
