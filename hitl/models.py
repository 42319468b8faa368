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
from checkpoints.fields import SealedTextField
from checkpoints.models import JsonTextField, SealedJsonField, Thread
from hitl.inbound_models import EarlyAnswer as EarlyAnswer
from hitl.inbound_models import InboundSource as InboundSource
from hitl.inbound_models import OuterRun as OuterRun
from hitl.inbound_models import Wait as Wait
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
    LINK = "link"
    WEBHOOK = "webhook"
    POLICY = "policy"
    """Nobody: the template's rules, at the deadline."""


class Erasure(ids.Shown, models.Model):
    """That a thread was erased: when, by whom and why; and the decisions that lost what they said with it. Append-only."""

    PREFIX = "era"

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    thread_id = models.UUIDField(help_text="Of a thread that is not there any more.")
    erased_by = models.CharField(max_length=150)
    reason = models.TextField()
    erased_at = models.DateTimeField()
    counts = JsonTextField(help_text="Kind → rows that went.")
    decisions = JsonTextField(help_text="Digests of the decisions whose words went: they vouch for the chain from now on.")
    digest = models.CharField(max_length=64)

    def __str__(self) -> str:
        return self.shown_id

    def compute_digest(self) -> str:
        """The digest that this row must carry."""
        told = {name: getattr(self, name) for name in ("erased_by", "reason", "counts", "decisions")}
        at = self.erased_at.astimezone(dt.UTC).isoformat()
        return codec.digest(codec.encode({**told, "thread": self.thread_id.hex, "erased_at": at}))


class Decision(ids.Shown, models.Model):
    """An answer to a pause: the only one. Append-only, and chained: each row's digest covers the row before it.

    Where its thread was erased, its words and its pause are gone; place, person and digests stay, so that the chain holds.
    """

    PREFIX = "dec"

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    pause = models.ForeignKey(Pause, models.PROTECT, null=True, related_name="decisions")
    erasure = models.ForeignKey(Erasure, models.PROTECT, null=True, editable=False, related_name="+")
    action = models.CharField(max_length=64, help_text="approve, revise, cancel, or an answer of the template's own.")
    feedback = SealedTextField(blank=True)
    payload = SealedJsonField(null=True, help_text="The data that came along; null where none did.")
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
            models.CheckConstraint(
                condition=Q(pause__isnull=False, erasure__isnull=True)
                | Q(pause__isnull=True, erasure__isnull=False, feedback="", payload__isnull=True),
                name="decision_says_nothing_if_erased",
            ),
            models.UniqueConstraint(fields=["ledger", "position"], name="decision_position_once"),
        ]
        indexes = [models.Index(fields=["decided_by", "-id"], name="decision_by_person")]  # a person's history

    def __str__(self) -> str:
        return f"{self.action} by {self.decided_by}"

    def compute_digest(self) -> str:
        """The digest that this row must carry; one of an erased thread cannot be computed any more (see `intact`)."""
        sent = {} if self.payload is None else {"payload": self.payload}
        return codec.digest(
            codec.encode(
                {
                    "pause": self.pause_id.hex if self.pause_id else None,
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

    @property
    def intact(self) -> bool:
        """Whether the row is as it was written; of an erased one, whether its erasure vouches for its digest."""
        if self.erasure is None:
            return self.digest == self.compute_digest()
        return self.digest in self.erasure.decisions and self.erasure.digest == self.erasure.compute_digest()


class Import(models.Model):
    """That a thread came from elsewhere, by whom, and what its document says of the people there.

    Their answers are history: no rows of Pause and Decision, since the chain that they are part of is another server's.
    """

    thread = models.OneToOneField(Thread, models.PROTECT, primary_key=True, related_name="imported")
    imported_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    at = models.DateTimeField(help_text="Checkpoints and events of the thread that are not younger came with the document.")
    source = SealedJsonField(help_text="thread, exported_at and digest as the document has them; runs, pauses and decisions with new ids.")

    def __str__(self) -> str:
        return self.thread.shown_id


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


class IdempotencyKey(models.Model):
    """A key that a program named a request by, and what that was answered with; see `hitl.idempotency`."""

    id = models.BigAutoField(primary_key=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", db_index=False)  # the constraint below has one
    key = models.CharField(max_length=255)
    request_digest = models.CharField(max_length=64, help_text="Of method, address and body.")
    status = models.PositiveSmallIntegerField(null=True, help_text="Of the answer; null while the request is worked on.")
    body = models.BinaryField(default=bytes)
    content_type = models.CharField(max_length=100, blank=True)
    made_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "key"], name="idempotency_key_once")]

    def __str__(self) -> str:
        return self.key


def ledger_name(team_id: int | None, owner_id: int) -> str:
    return f"team:{team_id}" if team_id else f"user:{owner_id}"
