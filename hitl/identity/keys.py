"""Whether single keys act on a person's pages, which goes with them into each browser."""

from __future__ import annotations

from django.core.exceptions import ObjectDoesNotExist

from checkpoints.database.people import User
from hitl.models.people.preferences import Preference


def are_on(person: User) -> bool:
    """Whoever chose nothing has them; read with the account where `hitl.http.logins` found it."""
    try:
        return bool(person.preference.single_keys)
    except ObjectDoesNotExist:
        return True


def switch(person: User, *, on: bool) -> None:
    Preference.objects.update_or_create(person=person, defaults={"single_keys": on})
