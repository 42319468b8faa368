"""Accounts that operators switched off, and the names by which somebody would come back to one."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from django.apps import apps

from checkpoints.database.people import NAME, User
from hitl.identity.saml import ATTRIBUTES

SAYS = ("email", "preferred_username", *ATTRIBUTES["email"], *ATTRIBUTES["username"])
"""What a provider calls a name or a mail address of somebody."""


def names(*given: Any) -> frozenset[str]:
    """Give names and addresses as they are compared: whatever their letter case is."""
    texts = (text for text in given if isinstance(text, str))
    return frozenset(unicodedata.normalize("NFKC", text).casefold() for text in texts if text)


def names_at(uid: str, said: Mapping[str, Any]) -> frozenset[str]:
    """What a provider calls somebody, by its subject and what it said of them."""
    found: list[Any] = [uid]
    for key in SAYS:
        value = said.get(key)
        found += value if isinstance(value, list) else [value]
    return names(*found)


def people(*, active: bool) -> Iterator[tuple[User, frozenset[str]]]:
    """Give all people whose accounts are active, or are not, with all their names: here, and at
    each provider by which they logged in.
    """
    elsewhere: dict[Any, set[str]] = defaultdict(set)
    if apps.is_installed("allauth.socialaccount"):
        from allauth.socialaccount.models import SocialAccount

        rows = SocialAccount.objects.filter(user__is_active=active)
        for key, uid, said in rows.values_list("user", "uid", "extra_data").iterator():
            elsewhere[key] |= names_at(uid, said)
    found = User.objects.filter(is_active=active, service_account=None).only(NAME, "email")
    for user in found.order_by("pk").iterator():
        yield user, names(user.get_username(), user.email) | elsewhere[user.pk]


def named(wanted: Collection[str]) -> list[User]:
    """The switched-off accounts that have one of these names."""
    return [user for user, has in people(active=False) if has & set(wanted)]
