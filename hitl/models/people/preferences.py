"""What people chose for themselves."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class Preference(models.Model):
    """A person's own choices; whoever chose nothing has no row."""

    person = models.OneToOneField(
        settings.AUTH_USER_MODEL, models.CASCADE, primary_key=True, related_name="+"
    )
    language = models.CharField(
        max_length=8, blank=True, default="", db_default="",
        help_text="The language of their mails, and of pages where a browser has chosen none.",
    )  # fmt: skip
    single_keys = models.BooleanField(
        default=True, db_default=True, help_text="Whether single keys answer and move on pages."
    )

    def __str__(self) -> str:
        return f"{self.person}"
