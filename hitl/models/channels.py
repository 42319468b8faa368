"""Who somebody is elsewhere: accounts of chat services, and the codes that connect them."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from checkpoints.models.fields import MadeAtField


class ChatService(models.TextChoices):
    SLACK = "slack", "Slack"
    TEAMS = "teams", "Teams"


class ChatAccount(models.Model):
    """An account of a chat service, which answers as a person of ours."""

    service = models.CharField(max_length=16, choices=ChatService)
    team = models.CharField(
        max_length=100, help_text="Slack's id of the workspace (T…), or Teams' of the tenant."
    )
    account = models.CharField(
        max_length=200, help_text="The service's id of the user, such as U… of Slack; not a name."
    )
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="chat_accounts")
    made_at = MadeAtField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["service", "team", "account"], name="chat_account_is_one_persons"
            )
        ]

    def __str__(self) -> str:
        return f"{self.get_service_display()} {self.account}"


class ChatCode(models.Model):
    """A code that connects whichever account of a chat service it is told by, once."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, models.CASCADE, primary_key=True, related_name="+"
    )
    digest = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"code of {self.user_id}"
