"""Files that were uploaded on a page, and wait for the form around them to be sent whole."""

from __future__ import annotations

import datetime as dt

from django.conf import settings
from django.db import models
from django.db.models import Q

from checkpoints import ids
from checkpoints.database import clock
from checkpoints.models.fields import MadeAtField

KEPT = dt.timedelta(hours=24)


class Upload(ids.HasShownId, models.Model):
    """A file of somebody's own: nobody else sees it, and no run has it before an answer or an order
    names it. The bytes are a blob.
    """

    PREFIX = "upl"

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, null=True, related_name="+")
    address = models.CharField(
        max_length=254, blank=True, help_text="Of somebody without an account."
    )
    name = models.CharField(max_length=200)
    digest = models.CharField(max_length=64, help_text="sha256 of the bytes, which a blob holds.")
    size = models.PositiveIntegerField(help_text="Bytes.")
    media = models.CharField(max_length=100, help_text="What the bytes are.")
    made_at = MadeAtField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(owner=None) ^ Q(address=""), name="upload_of_somebody"
            )
        ]
        indexes = [models.Index(fields=["made_at"], name="upload_by_age")]

    def __str__(self) -> str:
        return self.name


def drop_old() -> None:
    """Forget them; their bytes go with the next round of keeping."""
    old().delete()


def old() -> models.QuerySet[Upload]:
    """Those whose time is over."""
    return Upload.objects.filter(made_at__lt=clock.FromNow(-KEPT.total_seconds()))
