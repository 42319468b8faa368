"""The rows of idempotency keys: found while they hold, forgotten by their age, erased with what
their answers speak of.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection

from django.conf import settings
from django.db import models
from django.db.models import Q

from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.models.fields import SecretBinaryField


class IdempotencyKey(models.Model):
    """A key that a program named a request by, what that made, and what it was answered with; see
    `hitl.http.idempotency`.

    The row is written in the transaction that makes something, or with the answer of a request that
    made nothing.
    """

    class Kept(models.TextChoices):
        """What of the answer is kept."""

        NOTHING_YET = "", "Not answered yet"
        WHOLE = "whole", "All of it"
        SECRET = "secret", "Nothing: it held a secret"
        LARGE = "large", "Nothing: it was too large"
        ERASED = "erased", "Nothing: what it spoke of was erased"

    id = models.BigAutoField(primary_key=True)
    # the constraint below has one
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", db_index=False
    )
    key = models.CharField(max_length=255)
    request_digest = models.CharField(max_length=64, help_text="Of method, address and body.")
    status = models.PositiveSmallIntegerField(
        null=True, help_text="Of the answer; null while the request is worked on."
    )
    body = SecretBinaryField(
        default=bytes,
        help_text="Of the answer, sealed: with the server's own key where none is configured.",
    )
    content_type = models.CharField(max_length=100, blank=True)
    kept = models.CharField(max_length=8, choices=Kept, default=Kept.NOTHING_YET, blank=True)
    token = models.UUIDField(
        default=uuid.uuid4,
        help_text="Of the one request whose key this is; of two at once the other does nothing.",
    )
    made = models.TextField(
        blank=True, help_text="Ids of what was made or changed, with spaces between."
    )
    about = models.TextField(
        blank=True,
        help_text=(
            "Ids that address and answer name: with what they stand for, the answer is erased."
        ),
    )
    made_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "key"], name="idempotency_key_once"),
            models.CheckConstraint(
                condition=Q(status=None, kept="") | (Q(status__isnull=False) & ~Q(kept="")),
                name="idempotency_answered_once",
            ),
        ]
        # for what forgets them
        indexes = [models.Index(fields=["made_at"], name="idempotency_by_age")]

    def __str__(self) -> str:
        return self.key


BATCH = 1000
"""Keys that are forgotten in one statement."""


def find(person: User, key: str) -> IdempotencyKey | None:
    """The row of a key that is used up."""
    row = IdempotencyKey.objects.filter(user=person, key=key).first()
    if row is not None and row.made_at < clock.now() - _age():
        IdempotencyKey.objects.filter(pk=row.pk).delete()
        return None
    return row


def _age() -> dt.timedelta:
    return dt.timedelta(hours=settings.WAYSTATION_IDEMPOTENCY_HOURS)


def old() -> models.QuerySet[IdempotencyKey]:
    """Keys whose time is over."""
    return IdempotencyKey.objects.filter(made_at__lt=clock.FromNow(-_age().total_seconds()))


def drop_old() -> None:
    """Forget keys after their time, with the answers under them."""
    pks_by_age = old().order_by("made_at").values_list("pk", flat=True)
    while pks := list(pks_by_age[:BATCH]):
        IdempotencyKey.objects.filter(pk__in=pks).delete()


def erase(shown_ids: Collection[str]) -> None:
    """Erase the answers that speak of any of these; their keys stay used up.

    Call inside a transaction.
    """
    wanted = set(shown_ids)
    named = IdempotencyKey.objects.values_list("pk", "made", "about").iterator()
    going = [pk for pk, made, about in named if wanted & {*made.split(), *about.split()}]
    gone = {
        "kept": IdempotencyKey.Kept.ERASED,
        "status": 410,
        "body": b"",
        "content_type": "",
        "made": "",
        "about": "",
    }
    for first in range(0, len(going), BATCH):
        IdempotencyKey.objects.filter(pk__in=going[first : first + BATCH]).update(**gone)
