"""Names and help texts of our models, in the language of whoever reads them.

Nothing marks them one by one: Django makes most names from those of the fields. The catalogues'
extraction (`tests.languages`) reads them from the models.
"""

from __future__ import annotations

from typing import Any

from django.db.models import Model
from django.db.models.signals import class_prepared
from django.utils.functional import Promise
from django.utils.translation import pgettext_lazy

OURS = ("checkpoints", "runs", "hitl")
CONTEXT = "model"
"""Tells them from the same words on pages."""


def translate() -> None:
    """Have the models that are made from now on speak the reader's language."""
    class_prepared.connect(_translate, dispatch_uid="labels")


def _translate(sender: type[Model], **_: Any) -> None:
    if sender.__module__.partition(".")[0] not in OURS:
        return
    options = sender._meta
    # the plural may be made of the singular
    options.verbose_name_plural = pgettext_lazy(CONTEXT, str(options.verbose_name_plural))
    options.verbose_name = pgettext_lazy(CONTEXT, str(options.verbose_name))
    for field in (*options.local_fields, *options.local_many_to_many):
        for name in ("verbose_name", "help_text"):
            words = getattr(field, name)
            if words and not isinstance(words, Promise):
                setattr(field, name, pgettext_lazy(CONTEXT, words))
