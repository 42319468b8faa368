"""Translate the names, help texts and choices of our models into the reader's language.

No model marks its texts for translation: Django makes most of them from the names of the fields.
The catalogues' extraction (`tests.languages`) reads the texts from the models.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Model
from django.db.models.signals import class_prepared
from django.utils.functional import Promise
from django.utils.text import capfirst
from django.utils.translation import pgettext_lazy

OURS = ("checkpoints", "runs", "hitl")
CONTEXT = "model"
"""Gettext's context: a model's text may need another translation than the same words on a page."""


def translate() -> None:
    """Translate the texts of every model class that is made from now on."""
    class_prepared.connect(_translate, dispatch_uid="labels")


def _translate(sender: type[Model], **_: Any) -> None:
    if sender.__module__.partition(".")[0] not in OURS:
        return
    options = sender._meta
    # the plural may be made of the singular
    options.verbose_name_plural = pgettext_lazy(CONTEXT, str(options.verbose_name_plural))
    options.verbose_name = pgettext_lazy(CONTEXT, str(options.verbose_name))
    translate_fields(sender)


def translate_fields(model: type[Model]) -> None:
    options = model._meta
    for field in (*options.local_fields, *options.local_many_to_many):
        for name in ("verbose_name", "help_text"):
            wording = getattr(field, name)
            if wording and not isinstance(wording, Promise):
                setattr(field, name, pgettext_lazy(CONTEXT, wording))
        choices = getattr(field, "choices", None)
        if isinstance(choices, list):  # what a function gives is not known here, nor in migrations
            field.choices = in_words(choices)


def words_of(model: type[Model], name: str) -> dict[str, Any]:
    """What a form's own field says that takes the place of a model's."""
    field: Any = model._meta.get_field(name)
    return {"label": capfirst(field.verbose_name), "help_text": field.help_text}


def in_words(choices: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """The choices of a field, for forms of the reader's language."""
    return [
        (value, pgettext_lazy(CONTEXT, label) if type(label) is str else label)
        for value, label in choices
    ]
