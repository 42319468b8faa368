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
from hitl.models.people.service_accounts import is_service
from runs.security.scopes import Scope as TokenScope

SERVICE_SCOPES = (TokenScope.READ, TokenScope.ASK)
"""What a token of an account without a person may have: it never answers and never steers."""


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
    """A key for a program that acts as a person, or as a service account. Only its digest is
    kept.
    """

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
    of_service = models.BooleanField(
        default=False,
        db_default=False,
        editable=False,
        help_text="Of an account without a person.",
    )
    made_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,
        null=True,
        editable=False,
        related_name="+",
        help_text="Nobody where the shell made it.",
    )
    replaces = models.OneToOneField(
        "self",
        models.SET_NULL,
        null=True,
        editable=False,
        related_name="replaced_by",
        help_text="The token in whose place it came.",
    )

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        verbose_name = "API token"
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(scope__in=TokenScope.values), name="token_scope_known"
            ),
            models.CheckConstraint(
                condition=Q(of_service=False)
                | Q(scope__in=SERVICE_SCOPES, expires_at__isnull=False),
                name="token_of_service_asks_and_ends",
            ),
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
        made_by: User | None = None,
        replaces: ApiToken | None = None,
    ) -> tuple[ApiToken, str]:
        """A new token and its secret, which is not kept and cannot be shown again."""
        secret = f"wst_{secrets.token_urlsafe(32)}"
        return cls.objects.create(
            user=user,
            name=name,
            scope=scope,
            expires_at=expires_at,
            digest=cls.digest_of(secret),
            of_service=is_service(user),
            made_by=made_by,
            replaces=replaces,
        ), secret

    @staticmethod
    def digest_of(secret: str) -> str:
        return hashlib.sha256(secret.encode()).hexdigest()
