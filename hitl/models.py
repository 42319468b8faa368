"""People's answers, and the keys that let programs speak for people.

The questions (`Pause`) are opened by the engine and live in `runs.models`: who writes a row owns its table.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import secrets

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models
from django.db.models import Q

from checkpoints import codec, ids
from checkpoints.models import JsonTextField
from runs.models import Pause


class Ledger(models.Model):
    """One chain of decisions: a team's, or a person's where no team is named. Its row is the chain's lock and tip."""

    name = models.CharField(max_length=80, primary_key=True)
    length = models.PositiveBigIntegerField(default=0)
    tip = models.CharField(max_length=64, blank=True, help_text="Digest of the newest decision.")

    def __str__(self) -> str:
        return self.name


class Via(models.TextChoices):
    """The door an answer came through."""

    PAGE = "page"
    REST = "rest"
    ADMIN = "admin"
    COMMAND = "command"
    SOCKET = "socket"


class Decision(ids.Shown, models.Model):
    """An answer to a pause: the only one. Append-only, and chained: each row's digest covers the row before it."""

    PREFIX = "dec"

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    pause = models.ForeignKey(Pause, models.PROTECT, related_name="decisions")
    action = models.CharField(max_length=64, help_text="approve, revise, cancel, or an answer of the template's own.")
    feedback = models.TextField(blank=True)
    payload = JsonTextField(default=dict, help_text="What was sent along, where the pause asked for inputs.")
    decided_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="decisions")
    decided_at = models.DateTimeField()
    via = models.CharField(max_length=16, choices=Via)
    revision = models.PositiveIntegerField(help_text="The revision that was answered.")
    content_digest = models.CharField(max_length=64, help_text="What was reviewed, as the pause recorded it.")
    ledger = models.ForeignKey(Ledger, models.PROTECT, related_name="decisions")
    position = models.PositiveBigIntegerField(help_text="From 1, without a gap.")
    previous = models.CharField(max_length=64, blank=True)
    digest = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["pause"], name="decision_one_per_pause"),
            models.UniqueConstraint(fields=["ledger", "position"], name="decision_position_once"),
        ]
        indexes = [models.Index(fields=["decided_by", "-id"], name="decision_by_person")]  # a person's history

    def __str__(self) -> str:
        return f"{self.action} by {self.decided_by}"

    def compute_digest(self) -> str:
        """The digest that this row must carry."""
        sent = {"payload": self.payload} if self.payload else {}
        return codec.digest(
            codec.encode(
                {
                    "pause": self.pause_id.hex,
                    "action": self.action,
                    "feedback": self.feedback,
                    "decided_by": self.decided_by_id,
                    "decided_at": self.decided_at.astimezone(dt.UTC).isoformat(),
                    "via": self.via,
                    "revision": self.revision,
                    "content_digest": self.content_digest,
                    "ledger": self.ledger_id,
                    "position": self.position,
                    "previous": self.previous,
                    **sent,
                }
            )
        )


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    def valid(self, *, now: dt.datetime) -> ApiTokenQuerySet:
        return self.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=now), revoked_at__isnull=True, user__is_active=True)


class ApiToken(models.Model):
    """A key for a program that acts as a person. Only its digest is kept."""

    class Scope(models.TextChoices):
        READ = "read", "Read"
        WRITE = "write", "Read, start and answer"

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=80)
    scope = models.CharField(max_length=8, choices=Scope, default=Scope.WRITE)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, editable=False)

    objects = ApiTokenQuerySet.as_manager()

    def __str__(self) -> str:
        return self.name

    @classmethod
    def make(cls, user: User, *, name: str, scope: str = Scope.WRITE, expires_at: dt.datetime | None = None) -> tuple[ApiToken, str]:
        """A new token and its secret, which is not kept and cannot be shown again."""
        secret = f"wst_{secrets.token_urlsafe(32)}"
        return cls.objects.create(user=user, name=name, scope=scope, expires_at=expires_at, digest=cls.digest_of(secret)), secret

    @staticmethod
    def digest_of(secret: str) -> str:
        return hashlib.sha256(secret.encode()).hexdigest()


def ledger_name(team_id: int | None, owner_id: int) -> str:
    return f"team:{team_id}" if team_id else f"user:{owner_id}"
