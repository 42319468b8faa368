"""What every page needs."""

from __future__ import annotations

import uuid
from typing import Any, cast

from django.http import HttpRequest, QueryDict
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext

from checkpoints.database.people import User
from hitl.decisions import visibility
from hitl.decisions.deadlines import changes
from hitl.decisions.deadlines.changes import SOONEST
from hitl.identity import keys
from hitl.rendering.links import home_of as home_of
from hitl.rendering.links import place_of as place_of
from hitl.rendering.links import root_of as root_of
from runs.models import Pause, PauseQuerySet, installation


def person(request: HttpRequest) -> User:
    """The logged-in person; use behind `login_required`."""
    return cast(User, request.user)


def posted(request: HttpRequest) -> QueryDict | None:
    """What a form was sent with; None where none was sent. One without a field was sent, too."""
    return request.POST if request.method == "POST" else None


def waiting_of(request: HttpRequest) -> PauseQuerySet:
    """What waits for this person; the rights behind it are looked up once for each request."""
    if not hasattr(request, "_waiting"):
        request._waiting = changes.inbox(person(request))  # type: ignore[attr-defined]
    waiting: PauseQuerySet = request._waiting  # type: ignore[attr-defined]
    return waiting


def waiting_count(request: HttpRequest) -> int:
    """How many that are, as `changes.count_inbox`; counted once for each request."""
    if not hasattr(request, "_waiting_count"):
        request._waiting_count = changes.count_inbox(person(request))  # type: ignore[attr-defined]
    return int(request._waiting_count)  # type: ignore[attr-defined]


def keep_waiting_count(request: HttpRequest, count: int) -> None:
    """Spare counting for the badge what a page has counted."""
    request._waiting_count = count  # type: ignore[attr-defined]  # as for `waiting_count`


def next_question(request: HttpRequest) -> Pause | None:
    """What this person is to answer next: the first question of their inbox."""
    first = SOONEST(waiting_of(request)).values_list("pk", flat=True)[:1]
    return Pause.objects.select_related("run__parent").filter(pk__in=list(first)).first()


def navigation(request: HttpRequest) -> dict[str, Any]:
    """Context of every template: how many questions wait for this person, whether single keys act
    for them, and which version of the product they see.

    The same queryset as the inbox, so badge and list agree.
    """
    if not request.user.is_authenticated:
        return {}
    return {
        "waiting_count": SimpleLazyObject(lambda: waiting_count(request)),
        "single_keys": keys.are_on(person(request)),
        "installed": installation.shown,
    }


def find_pause(pause_id: uuid.UUID, request: HttpRequest) -> Pause:
    """Give a question that this person may see; raises NotFound."""
    return visibility.find_shown(pause_id, by=person(request))


def risk_words(risk: str) -> str:
    """`high risk`; what an imported document says else stays as it is."""
    known = {
        "low": gettext("low risk"),
        "normal": gettext("normal risk"),
        "high": gettext("high risk"),
    }
    return known.get(risk, f"{risk} risk")
