"""People and groups of the tests: made where they are not there yet, so that a template may name
them before a test asks for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib.auth.models import Group, Permission, User

from checkpoints.store.prepared_queries import Prepared

_named = Prepared(lambda name: User.objects.filter(username=name), str)
_groups = Prepared(lambda name: Group.objects.filter(name=name), str)


def person(name: str, **fields: Any) -> User:
    """Somebody with an account, and a password such as `ana's long password`."""
    user = next(iter(_named.get(name)), None) or User(username=name)
    for field, value in fields.items():
        setattr(user, field, value)
    user.set_password(f"{name}'s long password")
    user.save()
    return user


def give(user: User, *rights: str) -> None:
    """Let somebody do what Django's permissions of these names allow."""
    for right in rights:
        user.user_permissions.add(Permission.objects.get(codename=right))


def group(name: str) -> Group:
    return next(iter(_groups.get(name)), None) or Group.objects.get_or_create(name=name)[0]


def hire(review: Mapping[str, Any]) -> None:
    """Whoever these rules name."""
    stages: Iterable[Mapping[str, Any]] = [
        review.get("reviewers", {}),
        *review.get("escalation", []),
        *(stage.get("reviewers", {}) for stage in review.get("stages", [])),
    ]
    for actors in stages:
        for name in actors.get("users", []):
            User.objects.get_or_create(username=name)
        for name in actors.get("groups", []):
            group(name)
