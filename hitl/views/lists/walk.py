"""From question to question: the one before and the one after another, in the list from which its
page was opened. The page names that list in `?list=`, by the query of the inbox.
"""

from __future__ import annotations

import uuid
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from checkpoints import ids
from checkpoints.database import clock
from hitl.decisions.deadlines.changes import MOST_COUNTED
from hitl.find import asking
from hitl.find.asking import Asked, NotUnderstood
from hitl.find.lists import Asker
from hitl.find.questions import INBOX, inbox_of
from hitl.rendering.paging import ListAddress
from hitl.views.common import find_pause, person, place_of, waiting_of
from runs.models import Pause

LIST, WAS = "list", "was"
"""Of an address: the list from which a question was opened, and the question that was answered."""


def list_of(request: HttpRequest) -> str:
    """The query of the list from which a page was opened; "" of the inbox as it is."""
    return request.POST.get(LIST) or request.GET.get(LIST, "")


def inbox_at(query: str) -> str:
    """The address of the inbox as it was looked at."""
    kept = [parameter.name for parameter in INBOX.parameters]
    here = ListAddress(reverse("hitl:inbox"), QueryDict(query).dict())
    return here.only(*kept, "after", "past", "hidden").to()


def with_list(place: str, query: str, was: Pause | None = None) -> str:
    """The address of a page, with the list from which it was opened."""
    if not query:
        return place
    more = urlencode({LIST: query} | ({WAS: was.shown_id} if was else {}))
    return f"{place}{'&' if '?' in place else '?'}{more}"


def around(
    request: HttpRequest, pause: Pause, query: str
) -> tuple[uuid.UUID | None, uuid.UUID | None]:
    """The questions before and after this one in a list, whether or not it is still among them. A
    list that is not understood is the inbox.
    """
    asker = Asker(person(request), clock.now())
    try:
        asked = asking.read(
            QueryDict(query).lists(), INBOX.parameters, beside=INBOX.beside, now=asker.now
        )
    except NotUnderstood:
        asked = Asked()
    order = INBOX.order_of(asked)
    rows = INBOX.among(inbox_of(asker.user, asked, waiting_of(request)), asked, asker)
    known = list(order(rows).values_list("pk", flat=True)[:MOST_COUNTED])
    behind = order(rows, order.place(pause)).values_list("pk", flat=True)[:1]
    after = next(iter(behind), None)
    end = known.index(after) if after in known else len(known)
    before = [key for key in known[:end] if key != pause.pk]
    return before[-1] if before else None, after


def following(request: HttpRequest, was: str, query: str) -> Pause | None:
    """What comes after a question that was answered: the next of its list, else the last before."""
    try:
        before, after = around(request, find_pause(ids.parse(Pause.PREFIX, was), request), query)
    except ValueError:
        return None
    return _question(after or before)


def _question(key: uuid.UUID | None) -> Pause | None:
    if key is None:
        return None
    return Pause.objects.select_related("run__parent").filter(pk=key).first()


@require_safe
@login_required
def walk(request: HttpRequest, pause_id: uuid.UUID) -> HttpResponse:
    """Lead on from a question to the one after it in its list, with `?back=1` to the one before,
    without an answer; where there is none, to the list.
    """
    query = list_of(request)
    before, after = around(request, find_pause(pause_id, request), query)
    pause = _question(before if "back" in request.GET else after)
    return redirect(with_list(place_of(pause), query) if pause else inbox_at(query))
