"""Accounts without a person: they ask, order and read by tokens, and never decide."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from checkpoints.models.fields import MadeAtField


class ServiceAccount(models.Model):
    """Says of an account that no person stands behind it.

    It logs in nowhere, has no inbox, and answers nothing: `hitl.decisions.reviewers.policy` refuses
    it, and the ledger's tables do (`hitl.ledger.triggers`).
    """

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, models.CASCADE, primary_key=True, related_name="service_account"
    )
    purpose = models.CharField(_("purpose"), max_length=200)
    made_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, editable=False, related_name="+"
    )
    created_at = MadeAtField()

    class Meta:
        verbose_name = _("service account")
        verbose_name_plural = _("service accounts")

    def __str__(self) -> str:
        return self.user.get_username()


def is_service(user: Any) -> bool:
    """Whether no person stands behind an account; looked up once for each object, and not at all
    where it came with the account (`hitl.http.logins.Backend`, the tokens).
    """
    return getattr(user, "service_account", None) is not None
