"""The language that a person chose, which goes with them: into mails, chats, and new browsers."""

from __future__ import annotations

from contextlib import AbstractContextManager

from django.conf import settings
from django.utils import translation

from checkpoints.database.people import User
from hitl.models.people.preferences import Preference


def chosen_by(person: int | None) -> str:
    """The code of a language of ours; "" where this person chose none."""
    if person is None:
        return ""
    kept = Preference.objects.filter(person=person).values_list("language", flat=True).first()
    return kept if kept in dict(settings.LANGUAGES) else ""


def choose(person: User, language: str) -> None:
    """Keep a choice; one that is no language of ours changes nothing."""
    if language in dict(settings.LANGUAGES):
        Preference.objects.update_or_create(person=person, defaults={"language": language})


def spoken_to(person: int | None) -> AbstractContextManager[None]:
    """Within it, texts are made for this person; for nobody known, in WAYSTATION_LANGUAGE."""
    return translation.override(chosen_by(person) or settings.WAYSTATION_LANGUAGE)
