"""Who somebody is elsewhere: accounts of chat services, and the codes that connect them."""

from __future__ import annotations

from typing import Protocol

from django.conf import settings
from django.db import models
from django.utils.functional import Promise

from checkpoints.models.fields import MadeAtField


class Service(Protocol):
    """What tables have to know of a channel that is switched on."""

    name: str
    """As rows and addresses have it."""
    label: str
    """As pages have it."""
    connect: str | Promise
    """How people tell it their code; "" where nobody connects an account."""
    place: str | Promise
    """How pages call a place that it posts to; "" where it posts nowhere."""


services: dict[str, Service] = {}
"""The channels that are switched on, by their names; `hitl.channels.registry` fills it."""


def service_choices() -> list[tuple[str, str]]:
    """The services in which people connect accounts."""
    return [(name, service.label) for name, service in sorted(services.items()) if service.connect]


def posts(channel: str) -> bool:
    """Whether messages that went out by this channel are changed once a question is settled."""
    return channel in services and bool(services[channel].place)


class ChatAccount(models.Model):
    """An account of a chat service, which answers as a person of ours."""

    service = models.CharField(max_length=16, choices=service_choices)
    team = models.CharField(
        max_length=100, help_text="The service's id of the workspace or tenant, such as T…."
    )
    account = models.CharField(
        max_length=200, help_text="The service's id of the user, such as U…; not a name."
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
        return f"{dict(service_choices()).get(self.service, self.service)} {self.account}"


class ChatCode(models.Model):
    """A code that connects whichever account of a chat service it is told by, once."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, models.CASCADE, primary_key=True, related_name="+"
    )
    digest = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"# {self.user_id}"
