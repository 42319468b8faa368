"""Who may see in the admin what is encrypted at rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from checkpoints.state import encryption

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

RIGHT = "checkpoints.view_state"


def may_see_state(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Whether the admin shows this person states and what else is encrypted.

    Where nothing is, its other rights are all it takes.
    """
    return not encryption.in_use() or bool(getattr(user, "has_perm", lambda right: False)(RIGHT))
