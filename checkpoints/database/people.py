"""The model of the people, which AUTH_USER_MODEL names, and how they are found by name.

The product imports `User` from here and nowhere else. What a model of a project's own must have
stands in docs/how-to/embedding.md, and `lacking` looks for it at every start. To mypy it is
Django's own, which has all of that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model
from django.db.models import Q

if TYPE_CHECKING:
    from django.contrib.auth.models import User as User
else:
    User = get_user_model()

NAME: str = User.USERNAME_FIELD
"""The field that people log in with: they are called by it in templates, answers, commands and the
log.
"""
NAMED_BY: tuple[str, ...] = (
    ("first_name", "last_name", NAME)
    if getattr(getattr(User, "get_full_name", None), "__module__", "")
    == "django.contrib.auth.models"
    else tuple(field.name for field in User._meta.concrete_fields)
)
"""The columns that a person's name is made of: of Django's own names three; of another model all,
since only it knows.
"""
FIELDS = (NAME, "is_active", "is_staff", "is_superuser", "email", "groups", "user_permissions")
METHODS = ("get_username", "get_full_name", "has_perm")


def called(*names: str) -> Q:
    """Of people with one of these names."""
    return Q(**{f"{NAME}__in": names})


def active(name: str) -> User | None:
    """Who logs in with that name, if the account is active."""
    return User.objects.filter(called(name), is_active=True).first()


def lacking() -> list[str]:
    """Fields and methods that the product needs and the model has not."""
    fields = {field.name for field in User._meta.get_fields()}
    return [
        *(name for name in FIELDS if name not in fields),
        *(f"{name}()" for name in METHODS if not hasattr(User, name)),
    ]
