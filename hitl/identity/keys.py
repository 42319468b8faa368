"""Whether single keys act on a person's pages, which goes with them into each browser."""

from __future__ import annotations

from typing import Any, cast

from django.db.models import F, OuterRef, Subquery

from checkpoints.database.people import User
from hitl.models.people.preferences import Preference

READ: dict[str, Any] = {
    "single_keys": Subquery(
        Preference.objects.filter(person=OuterRef("pk")).order_by().values(kept=F("single_keys"))
    )
}
"""An annotation, by which the choice is read with an account: None where nothing was chosen."""


def are_on(person: User) -> bool:
    """Whoever chose nothing has them."""
    if not hasattr(person, "single_keys"):
        person = User.objects.annotate(**READ).get(pk=person.pk)
    return cast(Any, person).single_keys is not False


def switch(person: User, *, on: bool) -> None:
    Preference.objects.update_or_create(person=person, defaults={"single_keys": on})
