"""The language that a person chose, which goes with them: into mails, chats, and new browsers."""

from __future__ import annotations

from contextlib import AbstractContextManager

from django.conf import settings
from django.utils import translation

from checkpoints.database.people import User
from hitl.models.people.preferences import Preference


def chosen_by(person: int | None) -> str:
    """Return the code of the language that this person chose; "" where they chose none of ours."""
    if person is None:
        return ""
    language = Preference.objects.filter(person=person).values_list("language", flat=True).first()
    return language if language in dict(settings.LANGUAGES) else ""


def choose(person: User, language: str) -> None:
    """Keep a person's choice; a language that is not ours changes nothing."""
    if language in dict(settings.LANGUAGES):
        Preference.objects.update_or_create(person=person, defaults={"language": language})


def spoken_to(person: int | None) -> AbstractContextManager[None]:
    """Make texts in this person's language while the context lasts; else in WAYSTATION_LANGUAGE."""
    return translation.override(chosen_by(person) or settings.WAYSTATION_LANGUAGE)
