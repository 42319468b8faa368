"""What every page needs."""

from __future__ import annotations

from typing import Any, cast

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from checkpoints.database.people import User
from hitl.decisions import deadline_changes
from hitl.rendering.links import home_of as home_of
from hitl.rendering.links import place_of as place_of
from hitl.rendering.links import root_of as root_of


def person(request: HttpRequest) -> User:
    """The logged-in person; use behind `login_required`."""
    return cast(User, request.user)


def navigation(request: HttpRequest) -> dict[str, Any]:
    """Context of every template: how many questions wait for this person.

    The same queryset as the inbox, so badge and list agree (F9).
    """
    if not request.user.is_authenticated:
        return {}
    return {
        "waiting_count": SimpleLazyObject(lambda: deadline_changes.inbox(person(request)).count())
    }
