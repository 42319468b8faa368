"""Show values that are encrypted at rest to holders of `checkpoints.view_state` alone, in the
admin.

All others see the text as it lies in the database.

Pages and REST need no such right: there a person sees their own threads and those of their teams,
decrypted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar

from django.db.models import Model, TextField
from django.db.models.functions import Cast
from django.http import HttpRequest
from unfold.admin import ModelAdmin

from checkpoints.security.observers import may_see_state

SHOWN = 1000
"""Characters of a stored value on a page."""
HIDDEN = "Encrypted"


def stored(row: Model, column: str) -> str:
    """Read a column's text as it lies in the database."""
    rows = type(row)._default_manager.filter(pk=row.pk)
    return str(
        rows.annotate(as_stored=Cast(column, TextField())).values_list("as_stored", flat=True).get()
    )


@lru_cache
def _as_stored(name: str, column: str) -> Callable[[Model], str]:
    """Make a field of an admin page, in place of the one of that name."""

    def show(row: Model) -> str:
        return stored(row, column)[:SHOWN] if column else HIDDEN

    # where Django looks for it
    show.short_description = name.removesuffix("_json").removesuffix("_text")  # type: ignore[attr-defined]
    return show


def for_eyes_of(user: Any, names: Sequence[Any], sealed: Mapping[str, str]) -> Sequence[Any]:
    """Give the fields of a page, as this person may see them.

    `sealed`: name of a field → the column that it shows, or "" where its text is too long for a
    list.
    """
    if may_see_state(user):
        return names
    return [
        _as_stored(name, sealed[name]) if isinstance(name, str) and name in sealed else name
        for name in names
    ]


class SealedAdmin(ModelAdmin):
    """An admin page with fields that only holders of the right see decrypted."""

    sealed: ClassVar[dict[str, str]] = {}

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return for_eyes_of(request.user, super().get_fields(request, obj), self.sealed)

    def get_list_display(self, request: HttpRequest) -> Any:
        hidden = dict.fromkeys(self.sealed, "")
        return for_eyes_of(request.user, super().get_list_display(request), hidden)
