"""What was decided, and what nobody answered in time: the history."""

from __future__ import annotations

import datetime as dt
import uuid

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from checkpoints.models import Thread
from hitl.decisions.reviewers import policy
from hitl.find import answers
from hitl.find.asking import Asked
from hitl.find.lists import Asker, List
from hitl.models import Decision
from hitl.rendering import paging
from hitl.rendering.paging import ListAddress, ListPage, RowPosition
from hitl.views.cards import lines
from hitl.views.lists import reading
from hitl.views.lists.bar import Listing
from hitl.views.lists.reading import Past

HISTORY = 30


@require_safe
@login_required
def history(request: HttpRequest) -> HttpResponse:
    """Answers and expired questions; `?past=` gives the next page."""
    listing = Listing(request, answers.ANSWERS)
    page = history_of(
        listing.asker, listing.asked, listing.here, refused=listing.refused is not None
    )
    user = listing.asker.user
    bar = listing.bar(
        answers.answered(user),
        (answers.LAPSES, answers.lapsed(user)),
        shows=page.rows or page.first,
    )
    found = lines.find(page.rows, listing.asked.words, user)
    context = {"history": page, "lines": lines.history(page.rows, found), "bar": bar}
    return render(request, "hitl/lists/history.html", context, status=listing.status)


def history_of(
    asker: Asker,
    asked: Asked,
    here: ListAddress,
    *,
    given: List = answers.ANSWERS,
    over: List | None = answers.LAPSES,
    refused: bool = False,
    anchor: str = "",
) -> ListPage[Past]:
    """Answers on a person's threads, and the own ones where they were only asked; and what nobody
    answered in time. The two are read apart and told as one list, so a place in it is one in both.

    Args:
        given, over: how each is asked; without `over` there is nothing that nobody answered.
    """
    user = asker.user
    mine = Thread.objects.visible_to(user)
    order = given.order_of(asked)

    def lapsed(over: List, place: RowPosition | None, limit: int) -> dict[uuid.UUID, dt.datetime]:
        rows = over.among(answers.lapsed(user), asked, asker)
        ended = over.order_of(asked)(rows, place).values_list("pk", "closed_at")[:limit]
        # the constraint says that an expired question has this time
        return {key: closed for key, closed in ended if closed is not None}

    def read(after: str, limit: int) -> list[Past]:
        # found first, then read with what belongs to them, as the questions are
        place = order.read(after) if after else None
        if refused:
            return []
        decided = (
            Decision.objects.filter(pause__run__thread__in=mine),
            Decision.objects.filter(decided_by=user.pk, pause__in=policy.asked_of(user)),
        )
        at: dict[uuid.UUID, dt.datetime] = {}
        for rows in decided:
            found = order(given.among(rows, asked, asker), place)
            at |= dict(found.values_list("pk", "decided_at")[:limit])
        moments = at | (lapsed(over, place, limit) if over is not None else {})
        first = sorted(moments, key=lambda key: (moments[key], key), reverse=order.newest)[:limit]
        entries = [
            *reading.answers([key for key in first if key in at]),
            *reading.lapses([key for key in first if key not in at]),
        ]
        return sorted(entries, key=lambda entry: entry.place, reverse=order.newest)

    return paging.paged(
        here, "past", read, lambda entry: order.write(entry.place), size=HISTORY, anchor=anchor
    )
