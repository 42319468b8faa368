"""The model of people, which AUTH_USER_MODEL names, and queries that find people by name.

The product imports `User` from here and nowhere else. docs/how-to/embedding.md says what a model of
a project's own must have, and `lacking` checks that at every start. For mypy the model is Django's
own, which has all of that.
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
"""The field that people log in with; templates, answers, commands and the log call them by it."""
NAMED_BY: tuple[str, ...] = (
    ("first_name", "last_name", NAME)
    if getattr(getattr(User, "get_full_name", None), "__module__", "")
    == "django.contrib.auth.models"
    else tuple(field.name for field in User._meta.concrete_fields)
)
"""The columns that a person's full name is made of: three where it is made by Django; all of
another model's, since only that model knows.
"""
FIELDS = (NAME, "is_active", "is_staff", "is_superuser", "email", "groups", "user_permissions")
METHODS = ("get_username", "get_full_name", "has_perm")


def called(*names: str) -> Q:
    """Match people who have one of these names."""
    return Q(**{f"{NAME}__in": names})


def active(name: str) -> User | None:
    """Find the person who logs in with that name, if the account is active."""
    return User.objects.filter(called(name), is_active=True).first()


def lacking() -> list[str]:
    """List the fields and methods that the product needs and the model has not."""
    fields = {field.name for field in User._meta.get_fields()}
    return [
        *(name for name in FIELDS if name not in fields),
        *(f"{name}()" for name in METHODS if not hasattr(User, name)),
    ]
