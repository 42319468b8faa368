"""What an identity provider says of people: which groups of its are which of ours."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.utils.translation import gettext_lazy

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


class Connection(models.TextChoices):
    """How somebody's login at a provider became one to their account, or ceased to be."""

    LINKED = "linked", gettext_lazy("Linked by the mail address")
    CONNECTED = "connected", gettext_lazy("Connected by the person")
    DISCONNECTED = "disconnected", gettext_lazy("Taken away by the person")


class MembershipChange(models.Model):
    """What an identity provider changed: somebody's groups, whether they may log in, or the account
    that their login there opens.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    at = MadeAtField()
    added = JsonTextField(default=list)
    removed = JsonTextField(default=list)
    claims = JsonTextField(default=list, help_text="The values that the provider sent.")
    refused = models.BooleanField(
        default=False, help_text="They may not log in any more; their tokens were revoked."
    )

    provider = models.CharField(
        max_length=16, blank=True, default="", db_default="", help_text="Its kind: oidc or saml."
    )
    connection = models.CharField(
        max_length=16, blank=True, default="", db_default="", choices=Connection
    )

    class Meta:
        verbose_name = "change by the identity provider"
        verbose_name_plural = "changes by the identity provider"

    def __str__(self) -> str:
        return f"{self.user} {self.at:%Y-%m-%d %H:%M}"
