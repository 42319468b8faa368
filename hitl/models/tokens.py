"""The keys that let programs act for people."""

from __future__ import annotations

import datetime as dt
import hashlib
import secrets
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from checkpoints import ids
from checkpoints.database.people import User
from checkpoints.models.fields import MadeAtField
from runs.security.scopes import Scope as TokenScope


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    def valid(self, *, now: dt.datetime) -> ApiTokenQuerySet:
        return self.filter(
            Q(expires_at__isnull=True) | Q(expires_at__gt=now),
            revoked_at__isnull=True,
            user__is_active=True,
        )

    def expired(self, *, now: dt.datetime, secret: str) -> bool:
        """Whether this was a token until its time was over; of one that was revoked, or whose
        account is closed, that is not told.
        """
        mine = self.filter(digest=ApiToken.digest_of(secret), expires_at__lte=now)
        return mine.filter(revoked_at__isnull=True, user__is_active=True).exists()


class ApiToken(models.Model):
    """A key for a program that acts as a person. Only its digest is kept."""

    Scope = TokenScope

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=80)
    scope = models.CharField(max_length=8, choices=Scope, default=Scope.WRITE)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    created_at = MadeAtField()
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, editable=False)

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        verbose_name = "API token"
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(scope__in=TokenScope.values), name="token_scope_known"
            )
        ]

    def __str__(self) -> str:
        return self.name

    @classmethod
    def make(
        cls,
        user: User,
        *,
        name: str,
        scope: str = Scope.WRITE,
        expires_at: dt.datetime | None = None,
    ) -> tuple[ApiToken, str]:
        """A new token and its secret, which is not kept and cannot be shown again."""
        secret = f"wst_{secrets.token_urlsafe(32)}"
        return cls.objects.create(
            user=user, name=name, scope=scope, expires_at=expires_at, digest=cls.digest_of(secret)
        ), secret

    @staticmethod
    def digest_of(secret: str) -> str:
        return hashlib.sha256(secret.encode()).hexdigest()
